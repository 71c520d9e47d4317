package far

import "ropeway/internal/driver"

// device is a device whose queues can use memory of other servers.
type device struct {
	driver.Device
	d      *Driver
	number int
}

// Open implements driver.Driver.
func (d *Driver) Open(i int) (driver.Device, error) {
	v, err := d.Driver.Open(i)
	if err != nil {
		return nil, err
	}
	return &device{v, d, i}, nil
}

// Close implements driver.Device.
func (v *device) Close() error {
	v.d.lose(v.number)
	v.d.closing.Add(1)
	defer v.d.closing.Add(-1)
	v.d.still(func() error { return nil }) //nolint:errcheck // departed copies may use its memory; see stays
	return v.Device.Close()
}

// NewQueue implements driver.Device.
func (v *device) NewQueue(o driver.QueueOptions) driver.Queue {
	return &queue{v.Device.NewQueue(o), v.d}
}

// queue is a queue of the driver below.
type queue struct {
	driver.Queue
	d *Driver
}

// Copy implements driver.Queue.
func (q *queue) Copy(dst, src uintptr, n uint64, tag driver.Tag) {
	if q.d.mounts.Load() == 0 || !q.d.meets(dst, n) && !q.d.meets(src, n) {
		q.Queue.Copy(dst, src, n, tag)
		return
	}
	x := &flight{d: q.d}
	q.gate(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n}, x, x, tag, nil)
}

// Submit implements driver.Queue.
func (q *queue) Submit(op driver.Op) {
	switch {
	case q.d.mounts.Load() == 0:
		q.Queue.Submit(op)
	case op.Kind == driver.OpProgram && q.d.reaches(&op):
		q.submitProgram(op)
	case q.d.touches(&op):
		x := &flight{d: q.d}
		q.gate(op, x, x, op.Tag, op.Done)
	default:
		q.Queue.Submit(op)
	}
}

// gate submits op as a wait for g; x makes the copy.
func (q *queue) gate(op driver.Op, x *flight, g driver.Gate, tag driver.Tag, done func()) {
	end := done
	if op.Segs != nil { // the queue does not get them
		end = func() {
			x.release(true)
			if done != nil {
				done()
			}
		}
	}
	op.Done = nil
	x.op = op
	q.Queue.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Tag: tag, Done: end})
}

// CopyNow implements driver.Queue.
func (q *queue) CopyNow(dst, src uintptr, n uint64) bool {
	if q.d.mounts.Load() != 0 && (q.d.meets(dst, n) || q.d.meets(src, n)) {
		return false
	}
	return q.Queue.CopyNow(dst, src, n)
}
