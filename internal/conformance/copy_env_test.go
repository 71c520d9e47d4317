package conformance

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/testenv"
)

// The kinds of copies, in the letters of spec/semantics.md.
const (
	h2h   = abi.MemcpyHostToHost
	h2d   = abi.MemcpyHostToDevice
	d2h   = abi.MemcpyDeviceToHost
	d2d   = abi.MemcpyDeviceToDevice
	dflt  = abi.MemcpyDefault
	buf   = abi.MemcpyHostToBufToDevice
	inner = abi.MemcpyInnerDeviceToDevice
)

// where is a kind of memory.
type where string

const (
	dev   where = "DEV"
	host  where = "HOST"
	unreg where = "UNREG"
)

// memory allocates n bytes somewhere.
func (e *env) memory(w where, n uint64) core.Addr {
	e.Helper()
	switch w {
	case dev:
		return e.device(n)
	case host:
		return e.pinned(n)
	}
	return e.pageable(n)
}

// noise is n bytes that look like no others.
func noise(n, seed uint64) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}).Read(b)
	return b
}

// write and read move bytes of any memory with the synchronous copy.
func (e *env) write(p core.Addr, b []byte) {
	e.Helper()
	e.ok(transfer.Memcpy(e.th, p, uint64(len(b)), core.AddrOf(b), uint64(len(b)), dflt))
	runtime.KeepAlive(b)
}

func (e *env) read(p core.Addr, n uint64) []byte {
	e.Helper()
	b := make([]byte, n)
	e.ok(transfer.Memcpy(e.th, core.AddrOf(b), n, p, n, dflt))
	return b
}

// holds checks that memory holds exactly want.
func (e *env) holds(p core.Addr, want []byte) {
	e.Helper()
	got := e.read(p, uint64(len(want)))
	for i := range want {
		if got[i] != want[i] {
			e.Fatalf("byte %d of %d at %#x is %#x, want %#x", i, len(want), p, got[i], want[i])
		}
	}
}

// waitIn are the functions in which calls wait for work, or for something to report.
var waitIn = []string{"(*queue).Wait(", "(*flag).Wait(", "callback.(*Reports).Serve("}

// waits runs call, which has to wait until release is called, and returns how it ended.
func (e *env) waits(release func(), call func() *core.Error) *core.Error {
	e.Helper()
	done := make(chan *core.Error, 1)
	go func() { done <- call() }()
	parked := func(function string) bool { return testenv.Parked("conformance.(*env).waits.func", function) > 0 }
	testenv.Eventually(e, "the call waits", func() bool {
		if len(done) > 0 {
			e.Fatal("the call did not wait")
		}
		return slices.ContainsFunc(waitIn, parked)
	})
	release()
	return <-done
}

// whileAborting runs call, which must wait for nothing, while device 0 aborts its tasks, and returns its first error.
func (e *env) whileAborting(call func() *core.Error) *core.Error {
	e.Helper()
	running, gate, done := make(chan bool), make(chan bool), make(chan *core.Error, 1)
	e.ok(e.th.LaunchHostFunc(e.stream(), func(core.Addr) { close(running); <-gate }, 0))
	<-running // the abort cannot end before the host function does
	go func() { done <- e.rt.NewThread(8).DeviceTaskAbort(0, 0) }()
	defer func() {
		close(gate)
		e.ok(<-done)
	}()
	var err *core.Error
	testenv.Eventually(e, "the call fails", func() bool {
		err = call()
		return err != nil
	})
	return err
}

// freed is memory that was allocated and is not any more.
func (e *env) freed(w where, n uint64) core.Addr {
	e.Helper()
	p := e.memory(w, n)
	if w == dev {
		e.ok(memory.Free(e.th, p))
	} else {
		e.ok(memory.FreeHost(e.th, p))
	}
	return p
}

// hole is three pages of the program of which the second cannot be touched.
func (e *env) hole() core.Addr {
	e.Helper()
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(e, err)
	e.Cleanup(func() { unix.Munmap(b) })
	for i := range b {
		b[i] = 0x5A
	}
	testenv.OK(e, unix.Mprotect(b[page:2*page], unix.PROT_NONE))
	return core.AddrOf(b)
}

// aroundHole checks that what can be touched around a hole is as hole made it.
func aroundHole(e *env, p core.Addr) {
	e.Helper()
	page := uint64(os.Getpagesize())
	want := slices.Repeat([]byte{0x5A}, int(page))
	e.holds(p, want)
	e.holds(p+core.Addr(2*page), want)
}

// unmapped is a page that was the program's and is gone.
func unmapped(e *env) core.Addr {
	e.Helper()
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(e, err)
	p := core.AddrOf(b)
	testenv.OK(e, unix.Munmap(b))
	return p
}

// breakers spoil the arguments of a call, one for each rule, so that the rule applies. They are in the order of the
// table and do not undo each other.
type breakers[A any] []breaker[A]

type breaker[A any] struct {
	rule  string
	spoil func(e *env, a *A)
}

// at is the place of a rule.
func (b breakers[A]) at(rule string) int {
	i := slices.IndexFunc(b, func(b breaker[A]) bool { return b.rule == rule })
	if i < 0 {
		panic("nothing breaks the rule " + rule)
	}
	return i
}

// from is the proof of rule k: the arguments that good makes, with rule k and all later ones broken. The answer must be
// k's: the same, down to the argument it blames, as with nothing else broken.
func (b breakers[A]) from(k string, good func(e *env) *A, call func(e *env, a *A) *core.Error) proof {
	return func(e *env) *core.Error {
		alone := b.only(k, good, call)(e)
		a := good(e)
		b.spoil(e, a, k)
		err := call(e, a)
		e.sameAnswer(alone, err)
		return err
	}
}

// sameAnswer checks that two calls ended alike.
func (e *env) sameAnswer(alone, err *core.Error) {
	e.Helper()
	if codeOf(alone) != codeOf(err) || alone != nil && alone.Arg != err.Arg {
		e.Errorf("alone: %v\nwith later rules broken: %v", alone, err)
	}
}

// spoil breaks rule k and all later ones, the last first.
func (b breakers[A]) spoil(e *env, a *A, k string) {
	for _, later := range slices.Backward(b[b.at(k):]) {
		later.spoil(e, a)
	}
}

// only is the proof of rule k with nothing else broken.
func (b breakers[A]) only(k string, good func(e *env) *A, call func(e *env, a *A) *core.Error) proof {
	return func(e *env) *core.Error {
		a := good(e)
		b[b.at(k)].spoil(e, a)
		return call(e, a)
	}
}

// caseOf is a rule of the table.
func caseOf(t *testing.T, function, rule string) Case {
	t.Helper()
	for _, c := range Cases {
		if c.Func == function && c.Rule == rule {
			return c
		}
	}
	t.Fatalf("the table has no rule %s of %s", rule, function)
	return Case{}
}

// sameAs proves that a call answers like function, whose rules it shares: each proof makes the call and has to end
// like the function's rule.
func sameAs(e *env, function string, rules map[string]proof) {
	for rule, p := range rules {
		c := caseOf(e.T, function, rule)
		e.Run(ruleID(function, rule), func(t *testing.T) {
			sub := newEnv(t, machine{})
			err := p(sub)
			sub.want(err, c.Code)
			if err != nil && err.Quiet != c.Quiet {
				t.Errorf("quiet is %v, want %v", err.Quiet, c.Quiet)
			}
		})
	}
}
