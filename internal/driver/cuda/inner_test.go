package cuda

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// TestInnerIsApart proves that the driver does not get memory that a program has freed.
func TestInnerIsApart(t *testing.T) {
	b := newBed(t, 1)
	var gone []uintptr
	for _, n := range []uint64{1, 2 << 20, 8 << 20} {
		addr, err := b.d.AllocHost(n)
		testenv.OK(t, err)
		gone = append(gone, addr)
	}
	for _, addr := range gone {
		testenv.OK(t, b.d.FreeHost(addr))
	}
	q := b.queue(0) // uses everything that needs memory
	b.write(b.dev[0], make([]byte, bedBytes))
	b.works(0, b.pinned)
	q.Copy(b.dev[0], b.pinned, bedBytes, driver.Tag{})
	b.sync(q)
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	for addr, m := range b.f.memory {
		if m.host {
			t.Errorf("CUDA has chosen where memory of the driver is: %#x", addr)
		}
	}
	for at, r := range b.f.ranges {
		for _, addr := range gone {
			if addr-at < uintptr(r.n) {
				t.Errorf("%#x is the driver's now", addr)
			}
		}
	}
}
