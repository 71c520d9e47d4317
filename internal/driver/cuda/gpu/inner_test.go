package gpu

import (
	"testing"

	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/memcopy"
)

// TestInner proves that memory that the driver needs itself is taken from addresses of its own, and from CUDA where
// they do not do.
func TestInner(t *testing.T) {
	c := newGPU(t)
	c.Enter()
	defer c.Leave()
	for _, tt := range []struct {
		bytes uint64
		own   bool
	}{{1, true}, {HostPage + 1, true}, {HugePage, true}, {100, true}, {innerBytes, false}, {1, true}} {
		addr, r := c.AllocInner(tt.bytes)
		if r != libcuda.Success || c.inner.has(addr) != tt.own {
			t.Fatalf("%d bytes: %#x, %d", tt.bytes, addr, r)
		}
		memcopy.Fill8(addr, 1, 1)
		memcopy.Fill8(addr+uintptr(tt.bytes)-1, 2, 1)
		if r := c.FreeInner(addr); r != libcuda.Success {
			t.Errorf("%d bytes: %d", tt.bytes, r)
		}
	}
	c.inner.used = innerBytes - HostPage
	if addr, r := c.AllocInner(2 * HostPage); r != libcuda.Success || c.inner.has(addr) ||
		c.FreeInner(addr) != libcuda.Success {
		t.Errorf("with one page left: %#x, %d", addr, r)
	}
}
