package core

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/share"
)

// watchful is a Watcher that nothing is asked of.
type watchful struct{ Watcher }

// TestOrdersPruned proves that the orders of words go with the memory, and that memory which comes to the same address
// has its own.
func TestOrdersPruned(t *testing.T) {
	rt, th := process(t, 64<<20)
	var live Addr
	if err := th.Malloc(&live, 4096, abi.MemMallocHugeFirst); err != nil {
		t.Fatal(err)
	}
	rt.watch = watchful{}
	defer func() { rt.watch = nil }()
	kept := rt.valueOrder(live)
	dev := *rt.device(0).dev.Load()
	reused := 0
	for round := range Addr(100) {
		p, err := dev.Alloc(64<<10, 0)
		if err != nil {
			t.Fatal(err)
		}
		first := rt.valueOrder(p)
		for i := range Addr(64) {
			rt.valueOrder(p + 8*(64*round+i))
		}
		if rt.valueOrder(p) != first || rt.valueOrder(live) != kept {
			t.Fatal("the order of a word that is there has changed")
		}
		if err := dev.Free(p); err != nil {
			t.Fatal(err)
		}
		again, err := dev.Alloc(64<<10, 0)
		if err != nil {
			t.Fatal(err)
		}
		if again == p {
			reused++
			if rt.valueOrder(p) == first {
				t.Fatal("a word has the order of one that was there before")
			}
		}
		if err := dev.Free(again); err != nil {
			t.Fatal(err)
		}
	}
	if reused == 0 {
		t.Error("no address was used again: this proves nothing")
	}
	if n := len(signalsOf(rt).values.orders); n > 200 {
		t.Errorf("%d orders are kept, of which one is of memory that is there", n)
	}
}

// TestLinksPruned proves that the attribute of a key goes with its export, and that keys that nobody imports do not
// pile up.
func TestLinksPruned(t *testing.T) {
	rt, th := process(t, 64<<20)
	ipc := &memoryOf(rt).ipc
	p, text := exportAll(t, th, 2<<20)
	own, err := readKey("", "", text)
	if err != nil {
		t.Fatal(err)
	}
	locked(&ipc.mu, func() { ipc.choose(own, 2) })
	if err := th.Free(p); err != nil {
		t.Fatal(err)
	}
	if n := len(ipc.links); n != 0 {
		t.Errorf("%d attributes are kept of a key that is no longer exported", n)
	}
	_, text = exportAll(t, th, 2<<20)
	if own, err = readKey("", "", text); err != nil {
		t.Fatal(err)
	}
	ipc.mu.Lock()
	defer ipc.mu.Unlock()
	ipc.choose(own, 2)
	for i := range 2 * mostLinks {
		k := share.FromNumber(uint64(i) + 1)
		ipc.choose(k, 3)
		if ipc.choose(k, 2); ipc.links[k] != 2 {
			t.Fatal("an attribute was not kept")
		}
	}
	if n := len(ipc.links); n > mostLinks || ipc.links[own] != 2 {
		t.Errorf("%d attributes are kept; that of a key that is exported is %d", n, ipc.links[own])
	}
}
