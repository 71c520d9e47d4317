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
	Runtime *Runtime // immutable
	User    int32    // immutable; the program's number
	Phys    int32    // immutable; the driver's number

	Peers     atomic.Uint64                // physical numbers of devices whose memory this one may reach
	aborting  atomic.Bool                  // a device task abort is under way
	abortions atomic.Uint32                // number of aborts, wrapping; counted after aborting is set
	streams   atomic.Int32                 // streams in use
	events    atomic.Pointer[atomic.Int32] // event ids in use; closing the device replaces the counter
	Notifies  atomic.Pointer[atomic.Int32] // ids of notifies and count notifies in use; as events
	Overflow  atomic.Int32                 // floating-point overflow mode + 1; 0 if never set

	Opened atomic.Pointer[OpenDevice] // set while the device is open
	Limits coreLimits

	EverOpened atomic.Bool

	mu      sync.Mutex
	opens   int      // guarded by mu; contexts on the device
	primary *Context // guarded by mu
	retains int      // guarded by mu; aclrtSetDevice minus aclrtResetDevice
}

// OpenDevice is a driver's device, in a struct so that a pointer to it can be swapped. A nil *OpenDevice is a closed
// device: another thread may reset a device at any moment.
type OpenDevice struct{ driver.Device }

// Alloc allocates memory of the driver. A closed device has none.
func (d *OpenDevice) Alloc(n uint64, page driver.Page) (Addr, error) {
	if d == nil {
		return 0, driver.ErrLost
	}
	return d.Device.Alloc(n, page)
}

// Free frees memory of the driver. Closing a device has freed all of its memory.
func (d *OpenDevice) Free(addr Addr) error {
	if d == nil {
		return driver.ErrNotAllocated
	}
	return d.Device.Free(addr)
}

// coreLimits limits the cube and vector cores that kernels of the process may use, indexed as in checkCoreType.
type coreLimits [2]atomic.Int64 // limit + 1; 0 for no limit

// Get returns the limit for one kind of cores; false if there is no limit.
func (l *coreLimits) Get(kind abi.DevResLimitType) (uint32, bool) {
	n := l[kind].Load()
	return uint32(n - 1), n != 0
}

func (l *coreLimits) Set(kind abi.DevResLimitType, value uint32) { l[kind].Store(int64(value) + 1) }

func (l *coreLimits) Clear() {
	for i := range l {
		l[i].Store(0)
	}
}

// NoDevice returns the error for a number that names no usable device.
func (t *Thread) NoDevice(api, arg string, id int64) *Error {
	return Fail(api, abi.ErrRTInvalidDeviceid, arg, "%d is no usable device; %s", id, t.Runtime.DeviceRange())
}

// DeviceRange describes the valid device numbers, for messages.
func (rt *Runtime) DeviceRange() string {
	switch n := len(rt.Devices); {
	case n == 0 && rt.Visible:
		return "there is none (see ASCEND_RT_VISIBLE_DEVICES)"
	case n == 0:
		return "there is none"
	case rt.Visible:
		return fmt.Sprintf("ASCEND_RT_VISIBLE_DEVICES leaves 0 to %d", n-1)
	default:
		return fmt.Sprintf("there are 0 to %d", n-1)
	}
}

// IsSet reports whether the process has the device open.
func (d *Device) IsSet() bool { return d.Opened.Load() != nil }

// StayOpen calls f while the device cannot be closed. It returns false if the device is not open, or is no longer
// open as dev, unless dev is nil.
func (d *Device) StayOpen(dev *OpenDevice, f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.Opened.Load(); now == nil || dev != nil && now != dev {
		return false
	}
	f()
	return true
}

// WhileOpened calls f with the device open, and opens it if need be.
func (d *Device) WhileOpened(f func(driver.Device)) error {
	var err error
	Locked(&d.mu, func() { err = d.hold() })
	if err != nil {
		return err
	}
	f(d.Opened.Load())
	Locked(&d.mu, d.release)
	return nil
}

// hold adds a context to the device, and opens it for the first. d.mu is held.
func (d *Device) hold() error {
	if d.opens == 0 {
		dev, err := d.Runtime.Driver.Open(int(d.Phys))
		if err != nil {
			return err
		}
		d.Opened.Store(&OpenDevice{dev})
		d.EverOpened.Store(true)
		d.observeDevice()
	}
	d.opens++
	return nil
}

// release undoes hold; the last one closes the device, which frees its memory. d.mu is held.
func (d *Device) release() {
	d.opens--
	if d.opens == 0 {
		dev := d.Opened.Swap(nil)
		eachPart(d.Runtime, func(p DeviceEnder) { p.DeviceClosing(d) })
		d.events.Store(new(atomic.Int32)) // the device's ids are free again
		d.Notifies.Store(new(atomic.Int32))
		dev.Close() //nolint:errcheck // a program could do nothing about it
		eachPart(d.Runtime, func(p DeviceCloser) { p.DeviceClosed(d, dev) })
		d.Limits.Clear()
		d.Peers.Store(0)
	}
}

// retain returns the device's primary context with one more reference, and creates it if need be.
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

// drop drops one reference to the primary context, or all of them, and destroys it with the last one. It returns
// false if there was none. t is the calling thread, nil if the process ends.
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
	d.Runtime.contexts.Each(func(c *Context) {
		if c.Device == d && !c.dead.Load() {
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
	t.Runtime.deviceState(d.User, abi.DeviceStateSetPre)
	c, err := d.retain()
	if err != nil {
		return notSetUp(api, deviceID, err)
	}
	if !t.Shared {
		t.use(nil, c)
	}
	t.Runtime.deviceState(d.User, abi.DeviceStateSetPost)
	t.LogInfo(api, "device is set", slog.Int("device", int(deviceID)))
	return nil
}

func notSetUp(api string, id int32, err error) *Error {
	e := Fail(api, abi.ErrRTDevSetupError, "deviceId", "device %d cannot be opened", id)
	e.Err = err
	return e
}

// ResetDevice is aclrtResetDevice.
func (t *Thread) ResetDevice(deviceID int32) *Error {
	d, err := t.checkResetDevice(deviceID)
	if err != nil {
		return err
	}
	return t.reset("aclrtResetDevice", d, false)
}

// ResetDeviceForce is aclrtResetDeviceForce.
func (t *Thread) ResetDeviceForce(deviceID int32) *Error {
	d, err := t.checkResetDeviceForce(deviceID)
	if err != nil {
		return err
	}
	return t.reset("aclrtResetDeviceForce", d, true).quietIf(abi.ErrRTContextReleaseError)
}

func (t *Thread) reset(api string, d *Device, all bool) *Error {
	t.Runtime.deviceState(d.User, abi.DeviceStateResetPre)
	if !d.drop(t, all) {
		return Fail(api, abi.ErrRTContextReleaseError, "deviceId",
			"device %d is not set: aclrtSetDevice was not called as often as aclrtResetDevice", d.User)
	}
	if c := t.Primary; c != nil && c.dead.Load() && !t.Shared {
		t.use(t.Explicit, nil) // the default device may take its place
	}
	t.Runtime.deviceState(d.User, abi.DeviceStateResetPost)
	t.LogInfo(api, "device is reset", slog.Int("device", int(d.User)))
	return nil
}

// quietIf marks e as not recorded if it has the code.
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
	*deviceID = c.Device.User
	return nil
}

// Reaches reports whether d may read and write the memory of o.
func (d *Device) Reaches(o *Device) bool {
	p := d.Runtime.Product
	return d == o || d.Runtime.OneMemory || p.Peer && !p.PeerEnable || d.Peers.Load()&(1<<o.Phys) != 0
}

// RelyOnDefault is for calls about device d that use the configured default device's primary context if the thread has
// no context: it retains that context, and refuses a call about another device.
func (t *Thread) RelyOnDefault(api string, d *Device) *Error {
	if t.Explicit != nil || t.Primary != nil || t.Runtime.DefaultDevice.Load() == 0 {
		return nil
	}
	if c := t.Current(); c != nil && c.Device == d {
		return nil
	}
	return Fail(api, abi.ErrRTContextNull, "",
		"this thread has no context of its own and the default device is not %d; call aclrtSetDevice first", d.User)
}

// Usable returns the device with a user id.
func (t *Thread) Usable(api, arg string, id int32) (*Device, *Error) {
	if d := t.Runtime.Device(id); d != nil {
		return d, nil
	}
	return nil, t.NoDevice(api, arg, int64(id))
}

// Physical returns the device with a physical id.
func (t *Thread) Physical(api, arg string, id int32) (*Device, *Error) {
	if d := t.Runtime.ByPhys(id); d != nil {
		return d, nil
	}
	return nil, Fail(api, abi.ErrRTInvalidDeviceid, arg, "no device this process can see has the number %d", id)
}

// NotSet returns the error of a call that needs the device to be set.
func (d *Device) NotSet(api, arg string) *Error {
	return Fail(api, abi.ErrRTDevSetupError, arg, "device %d is not set in this process; call aclrtSetDevice first",
		d.User)
}

// ByNumber returns the device with an unsigned user id, or nil. Huge numbers turn negative, which no device has.
func (rt *Runtime) ByNumber(id uint32) *Device { return rt.Device(int32(id)) }
