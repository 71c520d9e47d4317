package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	pattern  []byte // what copies move, again and again; its length is no multiple of any size

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
	options := []ropeway.Option{ropeway.WithProduct(ropeway.Product(d.product.Name), ropeway.EP),
		ropeway.WithDevices(d.devices),
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
		text := fmt.Sprintf("no room for copies of %s (%d), %s instead", ui.Bytes(uint64(asked)),
			ropeway.ErrRTMemoryAllocation, ui.Bytes(uint64(d.size)))
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
		return fmt.Errorf("six times %s wanted, %s left: %w", ui.Bytes(uint64(n)), ui.Bytes(left),
			ropeway.ErrRTMemoryAllocation)
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
	d.pattern = newPattern()
	return nil
}

// close ends all work and frees all memory.
func (d *demo) close() error {
	if d.rt == nil {
		return nil
	}
	return d.rt.Close()
}

// fill puts the pattern into the first n bytes of p.
func (d *demo) fill(p place, n int) error {
	b := p.host
	if b == nil {
		b = d.staged
	}
	b = b[:n]
	for off := 0; off < n && d.ctx.Err() == nil; {
		off += copy(b[off:], d.pattern[off%len(d.pattern):])
	}
	if p.host != nil || d.ctx.Err() != nil {
		return d.ctx.Err()
	}
	return p.dev.Copy(p.at(n), ropeway.Pageable(b))
}

// poison is in every byte of a destination that no copy has written.
const poison = 0xA5

// wipe sets the first n bytes of p to poison.
func (d *demo) wipe(p place, n int) error {
	if p.host == nil {
		return p.dev.Fill(p.at(n), poison)
	}
	for i := range p.host[:n] {
		p.host[i] = poison
	}
	return nil
}

// bytesOf returns the first n bytes of p.
func (d *demo) bytesOf(p place, n int) ([]byte, error) {
	if p.host != nil {
		return p.host[:n], nil
	}
	return d.staged[:n], p.dev.Copy(ropeway.Pageable(d.staged[:n]), p.at(n))
}

// compare checks every byte of what op wrote.
func (d *demo) compare(op *operation) error {
	b, err := d.bytesOf(op.dst, op.dstLen)
	if err != nil {
		return err
	}
	if d.read != nil {
		d.read(op.name, b)
	}
	if err := d.verify(b, op.segs); err != nil {
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
	if err := d.fill(op.src, op.srcLen); err != nil {
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

// plain is how long Go's copy() takes for the same segments on this thread. It is measured beside each operation, so
// that what else the machine does slows both.
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

const (
	batchCopies  = 4096
	largeBlock   = 4 << 10
	smallBlock   = 256
	scatterBytes = 2 * batchCopies * largeBlock // over which the blocks of a batch lie
	pitch        = 4 << 10                      // of a 2-D copy
	rowWidth     = 3 << 10
)

// operation is a kind of copy that the demo measures and verifies.
type operation struct {
	name     string
	segs     []segment // in order of their destinations
	moved    int       // bytes of all segments
	src, dst place
	srcLen   int // bytes that get a pattern
	dstLen   int // bytes that are compared
	run      func() error
	lacks    string // why it is left out; "" if it is not
}

// whole is an operation of one segment.
func (d *demo) whole(name string, dst, src place, run func() error) *operation {
	n := d.size
	return &operation{name: name, segs: []segment{{0, 0, n}}, moved: n, src: src, dst: dst, srcLen: n,
		dstLen: n, run: run}
}

// operations lists what the demo does.
func (d *demo) operations() []*operation {
	pageable := place{dev: d.dev0, host: d.page}
	return []*operation{
		d.plainCopy("host to device, pageable", d.a, pageable),
		d.plainCopy("host to device, pinned", d.a, d.pinned),
		d.plainCopy("device to host, pageable", pageable, d.a),
		d.plainCopy("device to host, pinned", d.pinned, d.a),
		d.plainCopy("within a device", d.b, d.a),
		d.peerCopy("device 0 to device 1"),
		d.batchCopy("batch of 4096 x 4 KiB, scattered", largeBlock),
		d.batchCopy("batch of 4096 x 256 B, scattered", smallBlock),
		d.planeCopy("2-D, 3 KiB of every 4 KiB"),
		d.descriptorCopy("by descriptor, within a device"),
	}
}

// plainCopy is a copy on the stream, waited for; pageable memory is copied without one.
func (d *demo) plainCopy(name string, dst, src place) *operation {
	n := d.size
	run := func() error { return d.wait(d.stream.Copy(dst.at(n), src.at(n))) }
	if dst.buf == nil || src.buf == nil {
		run = func() error { return d.dev0.Copy(dst.at(n), src.at(n)) }
	}
	return d.whole(name, dst, src, run)
}

// wait waits for the stream, if what was queued was accepted.
func (d *demo) wait(queued error) error {
	if queued != nil {
		return queued
	}
	return d.stream.Synchronize(d.ctx)
}

// peerCopy goes from one device to the other.
func (d *demo) peerCopy(name string) *operation {
	if d.dev1 == nil {
		return &operation{name: name, moved: d.size, lacks: "needs two devices"}
	}
	enabled := false
	return d.whole(name, d.far, d.a, func() error {
		if !enabled {
			if err := d.dev0.EnablePeer(d.dev1); err != nil {
				return err
			}
			enabled = true
		}
		return d.wait(d.stream.Copy(d.far.at(d.size), d.a.at(d.size)))
	})
}

// batchCopy takes blocks from random places of pinned memory to every second place of the device, in random order.
func (d *demo) batchCopy(name string, block int) *operation {
	op := &operation{name: name, src: d.pinned, dst: d.a, moved: batchCopies * block}
	op.srcLen, op.dstLen = 2*op.moved, 2*op.moved
	rng := rand.New(rand.NewPCG(uint64(block), 1))
	for i, from := range rng.Perm(batchCopies) {
		op.segs = append(op.segs, segment{2 * block * i, 2 * block * from, block})
	}
	var batch ropeway.Batch
	for _, i := range rng.Perm(batchCopies) {
		s := op.segs[i]
		batch.Add(op.dst.span(s.dst, s.n), op.src.span(s.src, s.n))
	}
	op.run = func() error { return d.wait(d.stream.CopyBatch(&batch)) }
	return op
}

// planeCopy copies the left of every row.
func (d *demo) planeCopy(name string) *operation {
	rows := max(1, d.size/pitch)
	op := &operation{name: name, src: d.pinned, dst: d.a, moved: rows * rowWidth, srcLen: rows * pitch,
		dstLen: rows * pitch}
	for i := range rows {
		op.segs = append(op.segs, segment{pitch * i, pitch * i, rowWidth})
	}
	op.run = func() error {
		return d.wait(d.stream.Copy2D(op.dst.at(op.dstLen), pitch, op.src.at(op.srcLen), pitch, rowWidth, rows))
	}
	return op
}

// descriptorCopy is described in device memory; the descriptor is read when the copy runs.
func (d *demo) descriptorCopy(name string) *operation {
	var desc *ropeway.Descriptor
	return d.whole(name, d.b, d.a, func() (err error) {
		if desc == nil {
			if desc, err = d.dev0.NewDescriptor(); err != nil {
				return err
			}
			if err = desc.Set(d.b.at(d.size), d.a.at(d.size)); err != nil {
				return errors.Join(err, desc.Close())
			}
		}
		return d.wait(d.stream.CopyDescriptor(desc))
	})
}

// newPattern makes random bytes. A byte that was not copied, or copied from elsewhere, is seen.
func newPattern() []byte {
	b := make([]byte, 1<<20+61)
	random := rand.NewChaCha8([32]byte{})
	random.Read(b) //nolint:errcheck // it never fails
	return b
}

// segment is a range of bytes that a copy moves.
type segment struct{ dst, src, n int }

// mismatch is a byte that is not what it should be.
type mismatch struct {
	off       int
	got, want byte
}

func (m *mismatch) Error() string {
	return fmt.Sprintf("byte %d of the destination is %#02x, not %#02x", m.off, m.got, m.want)
}

// verify compares all of b with the result of copying segs, which are in order of their destinations, from the pattern
// into poison: every byte of the segments, and every byte between them. It returns the first *mismatch.
func (d *demo) verify(b []byte, segs []segment) error {
	at := 0
	for _, s := range append(segs[:len(segs):len(segs)], segment{dst: len(b)}) {
		for ; at < s.dst; at++ {
			if b[at] != poison {
				return &mismatch{at, b[at], poison}
			}
		}
		for s.n > 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
			want := d.pattern[s.src%len(d.pattern):]
			want = want[:min(s.n, len(want))]
			got := b[at:][:len(want)]
			if !bytes.Equal(got, want) {
				i := 0
				for got[i] == want[i] {
					i++
				}
				return &mismatch{at + i, got[i], want[i]}
			}
			at, s.src, s.n = at+len(want), s.src+len(want), s.n-len(want)
		}
	}
	return nil
}
