package cuda

import (
	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/memory"
)

// device is one open GPU.
type device struct {
	*memory.Device         // its memory
	d              *Driver // immutable
	gpu            *engine // immutable
}

var _ driver.Device = (*device)(nil)

func (v *device) NewQueue(o driver.QueueOptions) driver.Queue {
	return newQueue(v, o)
}

func (v *device) Healthy() error { return v.gpu.Healthy() }

// Close waits for the runners of the device, unloads its modules and frees its memory.
func (v *device) Close() error {
	v.gpu.runners.Wait()
	return v.Device.Close(v.gpu.unloadAll)
}
