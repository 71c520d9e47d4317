package memory

import (
	"fmt"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// Managed memory comes from CUDA. Copies treat it as host memory that GPUs can access. If a context is lost, so is the
// managed memory allocated in it.

var _ driver.ManagedAllocator = (*Space)(nil)

// AllocManaged implements driver.ManagedAllocator. CUDA allocates more than a GPU has; AllocManaged allocates at most
// the free memory. It returns ErrUnsupported if the host may not touch managed memory while a GPU works.
func (d *Space) AllocManaged(n uint64, device int) (uintptr, error) {
	if n == 0 || n%extent != 0 || device < 0 || device >= len(d.gpus) {
		return 0, fmt.Errorf("%w: %d bytes of managed memory on device %d", driver.ErrUnsupported, n, device)
	}
	c := d.gpus[device]
	if err := c.Start(); err != nil {
		return 0, err
	}
	for _, o := range d.gpus {
		if shared, r := d.lib.ConcurrentManaged(o.Ordinal); r != libcuda.Success || !shared {
			return 0, fmt.Errorf("%w: GPU %d does not let the host use managed memory at any time",
				driver.ErrUnsupported, o.Ordinal)
		}
	}
	var base, addr uintptr
	err := c.Within("cuMemAllocManaged", func(lib libcuda.API) (r libcuda.Result) {
		if free, _, r := lib.MemInfo(); r == libcuda.Success && n > free {
			return libcuda.OutOfMemory
		}
		if base, r = lib.MemAllocManaged(n); r == libcuda.Success && base%extent != 0 {
			// allocate more, so that it contains an aligned range
			lib.MemFree(base)
			base, r = lib.MemAllocManaged(n + extent)
		}
		addr = (base + extent - 1) &^ (extent - 1)
		return r
	})
	if err != nil {
		return 0, err
	}
	d.insert(addr, 0, &block{kind: managedBlock, size: n, device: int32(device), huge: true, base: base})
	return addr, nil
}

// FreeManaged implements driver.ManagedAllocator.
func (d *Space) FreeManaged(addr uintptr) error {
	s, err := d.remove(addr, managedBlock, 0)
	if err != nil {
		return err
	}
	return d.release(s)
}
