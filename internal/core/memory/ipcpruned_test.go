//go:build linux

package memory

import (
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/share"
)

// TestLinksPruned proves that the attribute of a key goes with its export, and that keys that are not imported do not
// pile up.
func TestLinksPruned(t *testing.T) {
	rt, th := coretest.NewProcess(t, 64<<20)
	ipc := &memoryOf(rt).ipc
	p, text := exportAll(t, th, 2<<20)
	own, err := readKey("", "", text)
	if err != nil {
		t.Fatal(err)
	}
	core.Locked(&ipc.mu, func() { ipc.choose(own, 2) })
	if err := Free(th, p); err != nil {
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
