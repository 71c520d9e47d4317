package core

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Device is one device of the process.
type Device struct {
	rt   *Runtime // immutable
	user int32    // immutable; as the program counts
	phys int32    // immutable; as the driver counts

	peers     atomic.Uint64                // physical numbers of devices whose memory this one may reach
	aborting  atomic.Bool                  // a device task abort is under way
	abortions atomic.Uint32                // how many there were, wrapping; counted once aborting is set
	streams   atomic.Int32                 // streams in use
	events    atomic.Pointer[atomic.Int32] // event ids in use; another counter each time the device is closed
	notifies  atomic.Pointer[atomic.Int32] // ids of notifies and count notifies in use; as events
	overflow  atomic.Int32                 // floating-point overflow mode + 1; 0: never set

	dev atomic.Pointer[openDevice] // set while the device is open

	mu      sync.Mutex
	opens   int      // guarded by mu; contexts on the device
	primary *Context // guarded by mu
	retains int      // guarded by mu; aclrtSetDevice minus aclrtResetDevice
	limits  [2]coreLimit
}

// openDevice is a driver's device; a struct, so that a pointer to it can be swapped.
type openDevice struct{ driver.Device }

// coreLimit is a limit of cores for the process; guarded by Device.mu.
type coreLimit struct {
	set   bool
	value uint32
}

// noDevice is the answer to a number that is no usable device.
func (t *Thread) noDevice(api, arg string, id int64) *Error {
	return fail(api, abi.ErrRTInvalidDeviceid, arg, "%d is no usable device; %s", id, t.rt.deviceRange())
}

// deviceRange says which device numbers there are.
func (rt *Runtime) deviceRange() string {
	switch n := len(rt.devices); {
	case n == 0 && rt.visible:
		return "there is none (see ASCEND_RT_VISIBLE_DEVICES)"
	case n == 0:
		return "there is none"
	case rt.visible:
		return fmt.Sprintf("ASCEND_RT_VISIBLE_DEVICES leaves 0 to %d", n-1)
	default:
		return fmt.Sprintf("there are 0 to %d", n-1)
	}
}

// isSet tells whether the process has the device open.
func (d *Device) isSet() bool { return d.dev.Load() != nil }

// hold opens the device if it is not, for one more context. d.mu is held.
func (d *Device) hold() error {
	if d.opens == 0 {
		dev, err := d.rt.drv.Open(int(d.phys))
		if err != nil {
			return err
		}
		d.dev.Store(&openDevice{dev})
		if o := d.rt.observer; o != nil {
			o.Device(d.user, d.rt.prod.Chip)
		}
	}
	d.opens++
	return nil
}

// release undoes hold; with the last context the device's memory goes. d.mu is held.
func (d *Device) release() {
	d.opens--
	if d.opens == 0 {
		dev := d.dev.Swap(nil)
		d.rt.pools.closed(d)
		d.rt.vmm.closed(d)
		d.events.Store(new(atomic.Int32)) // ids taken so far are gone with the device
		d.notifies.Store(new(atomic.Int32))
		dev.Close() //nolint:errcheck // nothing a program could do about it
		d.rt.ipc.closed(d.rt, d)
		d.limits = [2]coreLimit{}
		d.peers.Store(0)
	}
}

// retain is the device's primary context with one more reference, made if need be.
func (d *Device) retain() (*Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.primary == nil {
		c, err := d.newContext(true)
		if err != nil {
			return nil, err
		}
		d.primary = c
	}
	d.retains++
	return d.primary, nil
}

// drop takes one reference (or, forced, all) from the primary context and destroys it with the last one. False if
// there was none. t is who does it, nil if the process ends.
func (d *Device) drop(t *Thread, all bool) bool {
	d.mu.Lock()
	if d.retains == 0 {
		d.mu.Unlock()
		return false
	}
	d.retains--
	if all {
		d.retains = 0
	}
	var c *Context
	if d.retains == 0 {
		c, d.primary = d.primary, nil
	}
	d.mu.Unlock()
	if c != nil {
		c.destroy(t)
	}
	return true
}

// destroyAll ends every context on the device.
func (d *Device) destroyAll() {
	d.drop(nil, true)
	for _, c := range d.contexts() {
		c.destroy(nil)
	}
}

// contexts lists the live contexts on the device.
func (d *Device) contexts() []*Context {
	var list []*Context
	d.rt.contexts.each(func(c *Context) {
		if c.dev == d && !c.dead.Load() {
			list = append(list, c)
		}
	})
	return list
}

// SetDevice is aclrtSetDevice.
func (t *Thread) SetDevice(deviceID int32) *Error {
	const api = "aclrtSetDevice"
	d, refusal := t.checkSetDevice(deviceID)
	if refusal != nil {
		return refusal
	}
	t.rt.deviceState(d.user, abi.DeviceStateSetPre)
	c, err := d.retain()
	if err != nil {
		return notSetUp(api, deviceID, err)
	}
	if !t.shared {
		t.use(nil, c)
	}
	t.rt.deviceState(d.user, abi.DeviceStateSetPost)
	t.logInfo(api, "device is set", slog.Int("device", int(deviceID)))
	return nil
}

func notSetUp(api string, id int32, err error) *Error {
	e := fail(api, abi.ErrRTDevSetupError, "deviceId", "device %d cannot be opened", id)
	e.Err = err
	return e
}

// ResetDevice is aclrtResetDevice.
func (t *Thread) ResetDevice(deviceID int32) *Error {
	return t.reset("aclrtResetDevice", deviceID, false)
}

// ResetDeviceForce is aclrtResetDeviceForce.
func (t *Thread) ResetDeviceForce(deviceID int32) *Error {
	return t.reset("aclrtResetDeviceForce", deviceID, true).quietIf(abi.ErrRTContextReleaseError)
}

func (t *Thread) reset(api string, deviceID int32, all bool) *Error {
	d := t.rt.device(deviceID)
	if d == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	t.rt.deviceState(d.user, abi.DeviceStateResetPre)
	if !d.drop(t, all) {
		return fail(api, abi.ErrRTContextReleaseError, "deviceId", "device %d is not set: aclrtSetDevice was not called as often as aclrtResetDevice", deviceID)
	}
	if c := t.primary; c != nil && c.dead.Load() && !t.shared {
		t.use(t.explicit, nil) // nothing is left of it here; a default device may step in
	}
	t.rt.deviceState(d.user, abi.DeviceStateResetPost)
	t.logInfo(api, "device is reset", slog.Int("device", int(deviceID)))
	return nil
}

// quietIf marks e as not recorded when it has the code.
func (e *Error) quietIf(code abi.Code) *Error {
	if e != nil && e.Code == code {
		e.Quiet = true
	}
	return e
}

// GetDevice is aclrtGetDevice.
func (t *Thread) GetDevice(deviceID *int32) *Error {
	c, err := t.checkGetDevice(deviceID)
	if err != nil {
		return err
	}
	*deviceID = c.dev.user
	return nil
}
