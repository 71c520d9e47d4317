package pod

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

const near = "transport: auto\n" // processes of a test map each other's memory

// TestNear proves that memory of a process on the same machine is mapped, that copies of all sizes work in both
// directions, in one and in several parts, and that ranges outside are refused.
func TestNear(t *testing.T) {
	file := podFile(t, 2, near)
	a, b := node(t, file, 0), node(t, file, 1)
	const size = 3*nearInline + 8192
	x, there := export(t, a, size, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	if r.near == nil {
		t.Fatal("the memory is not mapped")
	}
	here, back := heap(t, size), heap(t, size)
	pattern(here, 3)
	for _, segs := range [][]int{{size}, {1, 4095, size - 4096}, {nearInline, 64, 2*nearInline + 8128}} {
		clear(there)
		clear(back)
		var to, from []Segment
		at := 0
		for _, n := range segs {
			to = append(to, Segment{addressOf(here[at:]), uint64(at), uint64(n)})
			from = append(from, Segment{addressOf(back[at:]), uint64(at), uint64(n)})
			at += n
		}
		testenv.OK(t, wait(t, r.Write, to...))
		if at, n := differ(there, here); n > 0 {
			t.Fatalf("%v: %d other bytes, the first at %d", segs, n, at)
		}
		testenv.OK(t, wait(t, r.Read, from...))
		if at, n := differ(back, here); n > 0 {
			t.Fatalf("%v: %d other bytes read, the first at %d", segs, n, at)
		}
	}
	if err := wait(t, r.Write, Segment{addressOf(here), size - 8, 16}); !errors.Is(err, ErrRange) {
		t.Errorf("past the end: %v", err)
	}
	if err := wait(t, r.Write, Segment{1 << 20, 0, 64}); !errors.Is(err, ErrFault) {
		t.Errorf("from memory that is not there: %v", err)
	}
	v := r.near
	x.Withdraw()
	if err := wait(t, r.Read, Segment{addressOf(back), 0, 64}); err != nil {
		t.Errorf("after its owner withdrew it: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := v.users.Load(); n != 0 {
		t.Errorf("%d users of memory that was given up", n)
	}
	if err := wait(t, r.Read, Segment{addressOf(back), 0, 64}); !errors.Is(err, ErrClosed) {
		t.Errorf("after it was given up: %v", err)
	}
}

// TestNearPartOfFile proves that a file is not passed on if only a part of it is exported.
func TestNearPartOfFile(t *testing.T) {
	file := podFile(t, 2, near)
	a, b := node(t, file, 0), node(t, file, 1)
	x, err := a.Export(memfd(t, 16384), 4096, About{Size: 4096}, true)
	testenv.OK(t, err)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	if r.near != nil {
		t.Error("a file with other memory was passed on")
	}
	one := heap(t, 4096)
	pattern(one, 5)
	if err := wait(t, r.Write, Segment{addressOf(one), 0, 4096}); err != nil {
		t.Error(err)
	}
	if _, n := differ(x.bytes, one); n > 0 {
		t.Error("the copy did not arrive")
	}
}

// TestNearKilled proves that copies with mapped memory of a killed process fail, that those with a stopped process
// work, and that neither leaves anything behind.
func TestNearKilled(t *testing.T) {
	file := podFile(t, 2, near+quick)
	owner, user := launch(t, file, 0), launch(t, file, 1)
	before := user.Does("files")
	h := owner.Does("export %d", 16<<20)
	owner.Does("fill 4")
	user.Does("import %s", h)
	user.Does("read 4")
	user.Does("write 7")
	owner.Does("has 7")
	owner.Signal(syscall.SIGSTOP)
	user.Does("write 8")
	owner.Signal(syscall.SIGCONT)
	owner.Does("has 8")
	user.Send("loop")
	if user.Line() != "looping" {
		t.Fatal("no loop")
	}
	owner.Kill()
	ended(t, user)
	user.Ask("close")
	user.soon(before, "files")
}

// TestNearNotified proves that memory whose owner is notified of writes is not mapped, and that the owner is notified.
func TestNearNotified(t *testing.T) {
	file := podFile(t, 2, near)
	a, b := node(t, file, 0), node(t, file, 1)
	wrote := make(chan struct{}, 8)
	x, err := a.Offer(memfd(t, 4096), 0, About{Size: 4096}, [24]byte{1}, func() { wrote <- struct{}{} })
	testenv.OK(t, err)
	x.AllowAt(b.config.Me().ID, []int32{b.pid})
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	if r.near != nil {
		t.Error("the memory is mapped")
	}
	one := heap(t, 8)
	testenv.OK(t, wait(t, r.Write, Segment{addressOf(one), 0, 8}))
	select {
	case <-wrote:
	case <-time.After(time.Minute):
		t.Error("the owner was not called")
	}
}
