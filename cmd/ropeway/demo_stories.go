package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ropeway"
	"ropeway/internal/ui"
)

// slow is how long the producer takes before it begins: a consumer that does not wait is long over.
const slow = 20 * time.Millisecond

// orderBytes is what one stream hands to the other.
const orderBytes = 16 << 20

// handover is one product handed from a stream to another.
type handover struct {
	produced, consumed time.Duration // since the start
	stale              bool          // the consumer did not see the product
}

// showOrder lets one stream produce what another consumes, with an event between them and without.
func (d *demo) showOrder() error {
	d.progress.Step("two streams and an event", 0)
	second, err := d.dev0.NewStream()
	if err != nil {
		return err
	}
	event, err := d.dev0.NewEvent()
	if err != nil {
		return errors.Join(err, second.Close())
	}
	n := min(d.size, orderBytes)
	with, err := d.handOver(n, second, event)
	var without handover
	if err == nil {
		without, err = d.handOver(n, second, nil)
	}
	if d.ctx.Err() != nil {
		return d.ctx.Err() // the streams are still busy
	}
	if err = errors.Join(err, event.Close(), second.Close()); err != nil {
		return err
	}
	if with.consumed < with.produced {
		return fmt.Errorf("stream 2 began at %v, before the event that it waits for, at %v", with.consumed, with.produced)
	}
	d.report.Order = orderResult{
		Bytes: n, ProducedSeconds: with.produced.Seconds(), ConsumedSeconds: with.consumed.Seconds(),
		Verified: !with.stale, StaleWithoutEvent: without.stale,
	}
	d.progress.Step("two streams and an event", 1)
	d.writeOrder()
	return nil
}

// handOver copies n bytes into a slowly on the stream, and from a to b on the second. With an event the bytes must be
// there; without one they need not, and stale says so.
func (d *demo) handOver(n int, second *ropeway.Stream, event *ropeway.Event) (h handover, err error) {
	if err := d.pattern(d.pinned, n); err != nil {
		return h, err
	}
	for _, p := range []place{d.a, d.b} {
		if err := d.wipe(p, n); err != nil {
			return h, err
		}
	}
	var produced, consumed atomic.Int64
	start := time.Now()
	mark := func(t *atomic.Int64) func() { return func() { t.Store(int64(time.Since(start))) } }
	steps := []func() error{
		func() error { return d.stream.Call(func() { time.Sleep(slow) }) },
		func() error { return d.stream.Copy(d.a.at(n), d.pinned.at(n)) },
		func() error { return d.stream.Call(mark(&produced)) },
	}
	if event != nil {
		steps = append(steps,
			func() error { return d.stream.Record(event) },
			func() error { return second.Wait(event) })
	}
	steps = append(steps,
		func() error { return second.Call(mark(&consumed)) },
		func() error { return second.Copy(d.b.at(n), d.a.at(n)) },
		func() error { return second.Synchronize(d.ctx) },
		func() error { return d.stream.Synchronize(d.ctx) })
	for _, step := range steps {
		if err := step(); err != nil {
			return h, err
		}
	}
	h.produced, h.consumed = time.Duration(produced.Load()), time.Duration(consumed.Load())
	op := &operation{name: "two streams", dst: d.b, dstLen: n, segs: []segment{{0, 0, n}}}
	err = d.compare(op)
	var m *mismatch
	if event == nil && errors.As(err, &m) {
		h.stale = true
		err = nil
	}
	return h, err
}

// showMistake copies more than fits, which must be refused.
func (d *demo) showMistake() error {
	n := d.size
	err := d.dev0.Copy(d.a.at(n/2), d.pinned.at(n))
	var e *ropeway.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("copying %d bytes into %d should have been refused, but the answer was: %v", n, n/2, err)
	}
	d.report.Mistake = mistakeResult{
		What: fmt.Sprintf("%s into %s", ui.Bytes(uint64(n)), ui.Bytes(uint64(n/2))),
		Code: int(e.Code), Name: e.Code.Name(), API: e.API, Argument: e.Arg, Text: e.Text,
	}
	d.writeMistake()
	return nil
}
