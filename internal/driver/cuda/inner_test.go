package cuda

import (
	"testing"

	"ropeway/internal/driver"
)

// TestInner proves that memory that the driver needs itself is taken from addresses of its own, and from CUDA where
// they do not do.
func TestInner(t *testing.T) {
	b := newBed(t, 1)
	c := b.d.gpus[0]
	c.enter()
	defer c.leave()
	for _, tt := range []struct {
		bytes uint64
		own   bool
	}{{1, true}, {hostPage + 1, true}, {hugePage, true}, {100, true}, {innerBytes, false}, {1, true}} {
		addr, r := c.allocInner(tt.bytes)
		if r != success || c.inner.has(addr) != tt.own {
			t.Fatalf("%d bytes: %#x, %d", tt.bytes, addr, r)
		}
		put(addr, []byte{1})
		put(addr+uintptr(tt.bytes)-1, []byte{2})
		if r := c.freeInner(addr); r != success {
			t.Errorf("%d bytes: %d", tt.bytes, r)
		}
	}
	c.inner.used = innerBytes - hostPage
	if addr, r := c.allocInner(2 * hostPage); r != success || c.inner.has(addr) || c.freeInner(addr) != success {
		t.Errorf("with one page left: %#x, %d", addr, r)
	}
}

// TestInnerIsApart proves that memory that a program has freed does not become the driver's.
func TestInnerIsApart(t *testing.T) {
	b := newBed(t, 1)
	var gone []uintptr
	for _, n := range []uint64{1, 2 << 20, 8 << 20} {
		addr, err := b.d.AllocHost(n)
		if err != nil {
			t.Fatal(err)
		}
		gone = append(gone, addr)
	}
	for _, addr := range gone {
		if err := b.d.FreeHost(addr); err != nil {
			t.Fatal(err)
		}
	}
	q := b.queue(0) // all that needs memory
	b.write(b.dev[0], make([]byte, bedBytes))
	b.works(0, b.pinned)
	q.Copy(b.dev[0], b.pinned, bedBytes, driver.Tag{})
	b.sync(q)
	for _, block := range b.d.gpus[0].hostBlocks {
		if !b.d.gpus[0].inner.has(block) {
			t.Errorf("memory of the driver at %#x", block)
		}
	}
	for _, addr := range gone {
		if b.d.gpus[0].inner.has(addr) {
			t.Errorf("%#x is the driver's now", addr)
		}
	}
}
