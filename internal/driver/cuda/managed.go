package cuda

import (
	"fmt"

	"ropeway/internal/driver"
)

// Managed memory is CUDA's. To copies it is host memory that GPUs reach. A context that is lost takes with it what was
// allocated there.

var _ driver.ManagedAllocator = (*Driver)(nil)

// AllocManaged implements driver.ManagedAllocator. CUDA would promise more than a GPU has; here there is no more than
// is free. Where the host may not touch managed memory while a GPU works, there is none.
func (d *Driver) AllocManaged(n uint64, device int) (uintptr, error) {
	if n == 0 || n%extent != 0 || device < 0 || device >= len(d.gpus) {
		return 0, fmt.Errorf("%w: %d bytes of managed memory on device %d", driver.ErrUnsupported, n, device)
	}
	c := d.gpus[device]
	if err := c.start(); err != nil {
		return 0, err
	}
	for _, o := range d.gpus {
		if shared, r := d.lib.hostToo(o.ordinal); r != success || !shared {
			return 0, fmt.Errorf("%w: GPU %d does not let the host use managed memory at any time",
				driver.ErrUnsupported, o.ordinal)
		}
	}
	var base, addr uintptr
	err := c.within("cuMemAllocManaged", func(lib api) (r result) {
		if free, _, r := lib.memInfo(); r == success && n > free {
			return outOfMemory
		}
		if base, r = lib.allocManaged(n); r == success && base%extent != 0 { // then there has to be room to choose from
			lib.free(base)
			base, r = lib.allocManaged(n + extent)
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
func (d *Driver) FreeManaged(addr uintptr) error {
	s, err := d.remove(addr, managedBlock, 0)
	if err != nil {
		return err
	}
	return d.release(s)
}
