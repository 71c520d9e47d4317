package main

import (
	"errors"
	"math/rand/v2"

	"ropeway"
)

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
	return &operation{name: name, segs: []segment{{0, 0, n}}, moved: n, src: src, dst: dst, srcLen: n, dstLen: n, run: run}
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
	op := &operation{name: name, src: d.pinned, dst: d.a, moved: rows * rowWidth, srcLen: rows * pitch, dstLen: rows * pitch}
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
