// Package faulty wraps a driver and makes it fail on demand: the n-th allocation, a copy when it runs, a device.
//
// The core above cannot distinguish such a failure from a real one, which is the point: every error path of the core
// can be walked without broken hardware.
package faulty

import (
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Point is a place where a driver can fail.
type Point uint8

const (
	Open      Point = iota // opening a device
	Alloc                  // device memory
	AllocHost              // pinned host memory
	Register               // host registration
	Run                    // a synchronous copy or fill
	Task                   // a queued copy, fill or computation, when it runs
	points
)

// Driver is a driver.Driver with failures injected by tests. Methods may be called concurrently.
type Driver struct {
	driver.Driver

	mu   sync.Mutex
	plan [points]plan  // guarded by mu
	lost map[int]error // guarded by mu; by physical device
}

// plan determines which of the next calls fail.
type plan struct {
	after int // calls that still succeed
	times int // calls that fail after those; negative: all
	err   error
}

// Wrap returns a driver in front of d that fails on demand.
func Wrap(d driver.Driver) *Driver { return &Driver{Driver: d, lost: map[int]error{}} }

// Fail makes the n-th next call at a point (1 is the next one) fail with err, once.
func (d *Driver) Fail(at Point, n int, err error) { d.set(at, plan{n - 1, 1, err}) }

// FailAll makes every call at a point fail with err until Heal.
func (d *Driver) FailAll(at Point, err error) { d.set(at, plan{0, -1, err}) }

// Heal cancels all failures and lost devices.
func (d *Driver) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan = [points]plan{}
	clear(d.lost)
}

// Lose makes a physical device lost: allocations and tasks on it fail, and Healthy returns ErrLost.
func (d *Driver) Lose(device int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost[device] = driver.ErrLost
}

func (d *Driver) set(at Point, p plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan[at] = p
}

// fault returns the error that a call at a point must return, or nil.
func (d *Driver) fault(at Point) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &d.plan[at]
	if p.times == 0 {
		return nil
	}
	if p.after > 0 {
		p.after--
		return nil
	}
	if p.times > 0 {
		p.times--
	}
	return p.err
}

func (d *Driver) health(device int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost[device]
}

// Open implements driver.Driver.
func (d *Driver) Open(i int) (driver.Device, error) {
	if err := d.fault(Open); err != nil {
		return nil, err
	}
	if err := d.health(i); err != nil {
		return nil, err
	}
	dev, err := d.Driver.Open(i)
	if err != nil {
		return nil, err
	}
	return &device{dev, d, i}, nil
}

// AllocHost implements driver.Driver.
func (d *Driver) AllocHost(n uint64) (uintptr, error) {
	if err := d.fault(AllocHost); err != nil {
		return 0, err
	}
	return d.Driver.AllocHost(n)
}

// Register implements driver.Driver.
func (d *Driver) Register(addr uintptr, n uint64, mapped bool, device int) (uintptr, error) {
	if err := d.fault(Register); err != nil {
		return 0, err
	}
	return d.Driver.Register(addr, n, mapped, device)
}

// Run implements driver.Driver.
func (d *Driver) Run(op driver.Op) error {
	if err := d.fault(Run); err != nil {
		return err
	}
	return d.Driver.Run(op)
}

type device struct {
	driver.Device
	d *Driver
	i int
}

func (v *device) Alloc(n uint64, page driver.Page) (uintptr, error) {
	if err := v.d.fault(Alloc); err != nil {
		return 0, err
	}
	if err := v.Healthy(); err != nil {
		return 0, err
	}
	return v.Device.Alloc(n, page)
}

func (v *device) Healthy() error {
	if err := v.d.health(v.i); err != nil {
		return err
	}
	return v.Device.Healthy()
}

func (v *device) NewQueue(o driver.QueueOptions) driver.Queue {
	return &queue{v.Device.NewQueue(o), v}
}

type queue struct {
	driver.Queue
	v *device
}

func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if err := q.fault(); err != nil {
		q.Queue.Submit(driver.Op{Kind: driver.OpFail, Err: err, Tag: tag})
		return
	}
	q.Queue.Copy(dst, src, n, tag)
}

// CopyNow implements driver.Queue: it returns false so that Copy counts every copy.
func (q *queue) CopyNow(uintptr, uintptr, uint64) bool { return false }

// Launch implements driver.Queue.
func (q *queue) Launch(l *driver.Launch, tag driver.Tag) {
	q.Submit(driver.Op{Kind: driver.OpLaunch, Launch: l, Tag: tag})
}

func (q *queue) Submit(op driver.Op) {
	if op.Kind.TouchesMemory() || op.Kind == driver.OpProgram {
		if err := q.fault(); err != nil {
			if op.Segs != nil {
				op.Segs.Release()
			}
			if op.Launch != nil {
				op.Launch.Return()
			}
			op = driver.Op{Kind: driver.OpFail, Err: err, Tag: op.Tag, Done: op.Done}
		}
	}
	q.Queue.Submit(op)
}

// fault decides at submission; the task fails when its turn comes.
func (q *queue) fault() error {
	if err := q.v.d.health(q.v.i); err != nil {
		return err
	}
	return q.v.d.fault(Task)
}

// Code returns an error that makes the core return c.
func Code(c abi.Code) error { return codeError{c} }

type codeError struct{ code abi.Code }

func (e codeError) Error() string  { return "injected: " + e.code.Name() }
func (e codeError) Code() abi.Code { return e.code }
