package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"ropeway"
	"ropeway/internal/arena"
	"ropeway/internal/ui"
)

// demo is a demo under way.
type demo struct {
	demoConfig
	ctx      context.Context
	out      *ui.Output
	log      io.Writer
	progress *ui.Progress
	report   demoReport
	seed     uint64 // of the latest pattern

	rt           *ropeway.Runtime
	dev0, dev1   *ropeway.Device // dev1 is nil if there is one device only
	stream       *ropeway.Stream // of device 0
	pinned       place
	a, b         place // on device 0
	far          place // on device 1
	page, staged []byte
}

// place is memory that a copy reads or writes: of a device, pinned or pageable.
type place struct {
	dev  *ropeway.Device
	buf  *ropeway.Buffer // nil for pageable memory
	host []byte          // nil for device memory
}

// at is the first n bytes.
func (p place) at(n int) ropeway.Span {
	if p.buf == nil {
		return ropeway.Pageable(p.host[:n])
	}
	return p.buf.Range(0, n)
}

// span is n bytes from off on.
func (p place) span(off, n int) ropeway.Span {
	if p.buf == nil {
		return ropeway.Pageable(p.host[off:][:n])
	}
	return p.buf.Range(off, n)
}

// open starts the devices and allocates as much as fits.
func (d *demo) open() (err error) {
	d.progress = d.out.Progress(1)
	d.progress.Step("allocating memory", 0)
	defer func() { d.progress.Close() }()
	options := []ropeway.Option{ropeway.WithProduct(ropeway.Product(d.product.Name), ropeway.EP), ropeway.WithDevices(d.devices),
		ropeway.WithLogger(warnings(func(line string) { d.out.To(d.log, "%s", line) }))} // apart from the progress bar
	if d.memory != 0 {
		options = append(options, ropeway.WithDeviceMemory(int(d.memory)))
	}
	if d.rt, err = ropeway.Open(options...); err != nil {
		return err
	}
	if d.dev0, err = d.rt.Device(0); err != nil {
		return err
	}
	if d.rt.DeviceCount() > 1 {
		if d.dev1, err = d.rt.Device(1); err != nil {
			return err
		}
	}
	if d.stream, err = d.dev0.NewStream(); err != nil {
		return err
	}
	return d.allocateWhatFits()
}

// allocateWhatFits makes all buffers, of half the size as often as needed.
func (d *demo) allocateWhatFits() error {
	asked := d.size
	err := d.allocate()
	for errors.Is(err, ropeway.ErrRTMemoryAllocation) && d.size > scatterBytes {
		d.size = d.size / 2 &^ 7
		err = d.allocate()
	}
	if err != nil {
		return fmt.Errorf("no room for copies of %s: %w", ui.Bytes(uint64(d.size)), err)
	}
	if d.size != asked {
		text := fmt.Sprintf("no room for copies of %s (%d), %s instead", ui.Bytes(uint64(asked)), ropeway.ErrRTMemoryAllocation, ui.Bytes(uint64(d.size)))
		d.out.Line("%s", text)
		d.report.Notes = append(d.report.Notes, text)
	}
	return nil
}

// allocate makes all buffers, or none.
func (d *demo) allocate() (err error) {
	// Leave some to others. Go's own memory, a third of all, is never refused, the kernel kills instead: ask first.
	n := max(d.size, scatterBytes)
	if left := arena.NewBudget().Available() / 4 * 3; uint64(n) > left/6 {
		return fmt.Errorf("six times %s wanted, %s left: %w", ui.Bytes(uint64(n)), ui.Bytes(left), ropeway.ErrRTMemoryAllocation)
	}
	var made []*ropeway.Buffer
	defer func() {
		if err != nil {
			for _, b := range made {
				err = errors.Join(err, b.Close())
			}
		}
	}()
	one := func(p *place, dev *ropeway.Device, alloc func(int) (*ropeway.Buffer, error)) {
		if err != nil {
			return
		}
		var b *ropeway.Buffer
		if b, err = alloc(n); err == nil {
			made = append(made, b)
			*p = place{dev: dev, buf: b, host: b.Bytes()}
		}
	}
	one(&d.pinned, d.dev0, d.dev0.AllocPinned)
	one(&d.a, d.dev0, d.dev0.Alloc)
	one(&d.b, d.dev0, d.dev0.Alloc)
	if d.dev1 != nil {
		one(&d.far, d.dev1, d.dev1.Alloc)
	}
	if err != nil {
		return err
	}
	d.page, d.staged = make([]byte, n), make([]byte, n)
	return nil
}

// close ends all work and gives all memory back.
func (d *demo) close() error {
	if d.rt == nil {
		return nil
	}
	return d.rt.Close()
}

// pattern puts a new pattern into the first n bytes of p.
func (d *demo) pattern(p place, n int) error {
	d.seed++
	if p.host != nil {
		return fillPattern(d.ctx, p.host[:n], d.seed)
	}
	if err := fillPattern(d.ctx, d.staged[:n], d.seed); err != nil {
		return err
	}
	return p.dev.Copy(p.at(n), ropeway.Pageable(d.staged[:n]))
}

// wipe makes the first n bytes of p poison.
func (d *demo) wipe(p place, n int) error {
	if p.host == nil {
		return p.dev.Fill(p.at(n), poison)
	}
	b := p.host[:n]
	list := pieces([]segment{{0, 0, n}})
	return parallel(d.ctx, len(list), func(i int) {
		part := b[list[i].dst:][:list[i].n]
		for j := range part {
			part[j] = poison
		}
	})
}

// bytesOf gives the first n bytes of p to look at.
func (d *demo) bytesOf(p place, n int) ([]byte, error) {
	if p.host != nil {
		return p.host[:n], nil
	}
	return d.staged[:n], p.dev.Copy(ropeway.Pageable(d.staged[:n]), p.at(n))
}

// compare looks at every byte of what op wrote.
func (d *demo) compare(op *operation) error {
	b, err := d.bytesOf(op.dst, op.dstLen)
	if err != nil {
		return err
	}
	if d.read != nil {
		d.read(op.name, b)
	}
	if err := verify(d.ctx, b, d.seed, op.segs); err != nil {
		return err
	}
	d.report.Verified += int64(len(b))
	return nil
}

// perform prepares an operation, times it, runs it once more into a wiped destination and compares every byte.
func (d *demo) perform(op *operation) (*copyResult, error) {
	r := &copyResult{Name: op.name, Bytes: op.moved}
	reps := d.repetitions(op)
	if op.lacks != "" {
		d.progress.Step(op.name, reps+otherSteps)
		r.Skipped = op.lacks
		return r, nil
	}
	d.progress.Step(op.name, 0)
	if err := d.pattern(op.src, op.srcLen); err != nil {
		return nil, err
	}
	d.progress.Step(op.name, 1)
	if err := op.run(); errors.Is(err, ropeway.ErrRTFeatureNotSupport) { // the warm-up
		d.progress.Step(op.name, reps+otherSteps-1)
		r.Skipped = d.notHere()
		return r, nil
	} else if err != nil {
		return nil, err
	}
	took, err := d.median(reps, op.run, func() { d.progress.Step(op.name, 1) })
	if err != nil {
		return nil, err
	}
	d.progress.Step(op.name, 1)
	if err := d.wipe(op.dst, op.dstLen); err != nil {
		return nil, err
	}
	if err := op.run(); err != nil {
		return nil, err
	}
	if err := d.compare(op); err != nil {
		return nil, err
	}
	d.progress.Step(op.name, 1)
	plain, err := d.plain(op)
	if err != nil {
		return nil, err
	}
	r.Verified = true
	r.Seconds = took.Seconds()
	r.GBPerSecond = float64(op.moved) / 1e9 / took.Seconds()
	r.VsCopy = plain.Seconds() / took.Seconds()
	return r, nil
}

// otherSteps are those of perform besides the timed runs: pattern, warm-up, comparison.
const otherSteps = 3

// notHere is why an operation is left out on this product.
func (d *demo) notHere() string {
	return fmt.Sprintf("not on the %s (%d)", d.product.Name, ropeway.ErrRTFeatureNotSupport)
}

// repetitions is more for what is short.
func (d *demo) repetitions(op *operation) int {
	if op.moved <= quickSize {
		return 5 * d.reps
	}
	return d.reps
}

// median times f n times and calls done, which is not timed, after each.
func (d *demo) median(n int, f func() error, done func()) (time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		if err := d.ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		times[i] = max(time.Since(start), 1)
		done()
	}
	slices.Sort(times)
	return times[n/2], nil
}

// plain is how long Go's copy() takes for the same segments on this thread. It is measured beside each operation, so that
// what else the machine does slows both.
func (d *demo) plain(op *operation) (time.Duration, error) {
	run := func() error {
		for _, s := range op.segs {
			copy(d.staged[s.dst:][:s.n], d.page[s.src:][:s.n])
		}
		return nil
	}
	_ = run() // the warm-up
	return d.median(d.repetitions(op), run, func() {})
}
