package native_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/kernel/native"
	"ropeway/internal/testenv"
)

// TestStubborn: a kernel that does not leave when it is stopped ends with its process, and the next one runs.
func TestStubborn(t *testing.T) {
	kerneltest.Support(t)
	defer native.SetGrace(10 * time.Millisecond)()
	p, err := kernel.StartProcess(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o, err := p.Load("test.so", kerneltest.Compile(t, `
#include <signal.h>
#include <stddef.h>
volatile unsigned begun;
void stubborn(void) { sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, NULL); begun = 1; for (;;) ; }
void nothing(void) {}`))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	begun, err := p.Variable(o, "begun")
	if err != nil {
		t.Fatal(err)
	}
	for _, late := range []bool{true, false} {
		r := p.NewRun()
		wordAt(begun).Store(0)
		turn := begin(t, r, o, "stubborn")
		go func() {
			for wordAt(begun).Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			r.Stop(turn, late)
		}()
		r.Work(nil)
		if f := r.End(); f == nil || f.Late != late || f.Signal != 0 || f.Lost {
			t.Errorf("late %v: %v", late, f)
		}
		begin(t, r, o, "nothing")
		r.Work(nil)
		if f := r.End(); f != nil {
			t.Errorf("the next launch: %v", f)
		}
	}
}

func begin(t *testing.T, r kernel.Run, o kernel.SharedObject, name string) (turn uint64) {
	t.Helper()
	code, err := o.Symbol(name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Begin(o, &kernel.Call{Blocks: 1, Code: [2]uintptr{code}, Per: [2]uint32{1}})
}

// TestStopBeforeWork: a launch that is stopped before it runs does not run.
func TestStopBeforeWork(t *testing.T) {
	kerneltest.Support(t)
	p, err := kernel.StartProcess(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o, err := p.Load("test.so", kerneltest.Compile(t, `unsigned n; void counts(void) { n++; }`))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	n, err := p.Variable(o, "n")
	if err != nil {
		t.Fatal(err)
	}
	r := p.NewRun()
	r.Stop(begin(t, r, o, "counts"), true)
	r.Work(nil)
	if f := r.End(); f == nil || !f.Late || wordAt(n).Load() != 0 {
		t.Errorf("%v, and the kernel ran %d times", f, wordAt(n).Load())
	}
}

// TestTakenAddresses: memory at addresses that the process has itself is refused.
func TestTakenAddresses(t *testing.T) {
	kerneltest.Support(t)
	p, err := kernel.StartProcess(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o, err := p.Load("test.so", kerneltest.Compile(t, `void f(void) {}`))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	code, _ := o.Symbol("f")
	if err := p.Show([]kernel.View{{Addr: code &^ 4095, Size: 4096}}); err == nil {
		t.Error("memory in place of the kernel's code")
	}
	r := p.NewRun()
	begin(t, r, o, "f")
	r.Work(nil)
	if f := r.End(); f != nil {
		t.Error(f)
	}
}

// file is memory that is never mapped.
type file int

func (file) Duplicate() (int, error) { return -1, unix.EBADF }

// TestChanges: the steps from one list of views to another lead there, touch nothing that is in both, and say truly
// whether something was there.
func TestChanges(t *testing.T) {
	rnd := testenv.Rand(t)(0)
	now := []kernel.View{}
	for range 2000 {
		next := randomViews(rnd)
		was := pages(now)
		got := native.EachChange(now, next, func(v kernel.View, remove, replace bool) {
			for at := v.Addr; at < v.Addr+uintptr(v.Size); at++ {
				_, there := was[at]
				if there != (remove || replace) {
					t.Fatalf("%#x: there %v, removed %v, replaced %v", at, there, remove, replace)
				}
				if !remove && was[at] == place(&v, at) && there {
					t.Fatalf("%#x is touched, and does not change", at)
				}
			}
		})
		if g, w := pages(got), pages(next); !equal(g, w) {
			t.Fatalf("from %v\nto   %v\ngot  %v", now, next, got)
		}
		now = got
	}
}

type at struct {
	of  kernel.Source
	off uint64
}

func place(v *kernel.View, addr uintptr) at {
	if v.Of == nil {
		return at{}
	}
	return at{v.Of, v.Off + uint64(addr-v.Addr)}
}

func pages(list []kernel.View) map[uintptr]at {
	m := map[uintptr]at{}
	for _, v := range list {
		for a := v.Addr; a < v.Addr+uintptr(v.Size); a++ {
			m[a] = place(&v, a)
		}
	}
	return m
}

func equal(a, b map[uintptr]at) bool {
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return len(a) == len(b)
}

// randomViews are some views of a few small files, with a byte for a page.
func randomViews(rnd *rand.Rand) (list []kernel.View) {
	for addr := uintptr(rnd.IntN(4)); addr < 40; {
		v := kernel.View{Addr: addr, Size: uint64(1 + rnd.IntN(6))}
		if f := rnd.IntN(4); f > 0 {
			v.Of, v.Off = file(f), uint64(addr)*uint64(rnd.IntN(2))
		}
		list = append(list, v)
		addr += uintptr(v.Size) + uintptr(rnd.IntN(3))
	}
	return list
}
