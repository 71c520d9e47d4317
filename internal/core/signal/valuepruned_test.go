package signal

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/testenv"
)

// watchful is a checker that nothing is asked of.
type watchful struct{ core.CheckHooks }

// TestOrdersPruned proves that the orders of words go with the memory, and that memory which comes to the same address
// has its own.
func TestOrdersPruned(t *testing.T) {
	rt, th := coretest.NewProcess(t, 64<<20)
	var live core.Addr
	if err := memory.Malloc(th, &live, 4096, abi.MemMallocHugeFirst); err != nil {
		t.Fatal(err)
	}
	rt.Probe = &core.Probe{Check: watchful{}}
	defer func() { rt.Probe = nil }()
	kept := valueOrder(rt, live)
	dev := *rt.Device(0).Opened.Load()
	reused := 0
	for round := range core.Addr(100) {
		p, err := dev.Alloc(64<<10, 0)
		testenv.OK(t, err)
		first := valueOrder(rt, p)
		for i := range core.Addr(64) {
			valueOrder(rt, p+8*(64*round+i))
		}
		if valueOrder(rt, p) != first || valueOrder(rt, live) != kept {
			t.Fatal("the order of a word that is there has changed")
		}
		testenv.OK(t, dev.Free(p))
		again, err := dev.Alloc(64<<10, 0)
		testenv.OK(t, err)
		if again == p {
			reused++
			if valueOrder(rt, p) == first {
				t.Fatal("a word has the order of one that was there before")
			}
		}
		testenv.OK(t, dev.Free(again))
	}
	if reused == 0 {
		t.Error("no address was used again: this proves nothing")
	}
	if n := len(signalsOf(rt).values.orders); n > 200 {
		t.Errorf("%d orders are kept, of which one is of memory that is there", n)
	}
}
