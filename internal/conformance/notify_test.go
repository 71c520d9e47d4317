package conformance

import (
	"math"
	"os"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/signal"
)

// Proofs of notifies within a process.

// notify makes a notify on device 0.
func (e *env) notify() core.Handle {
	e.Helper()
	var n core.Handle
	e.ok(signal.CreateNotify(e.th, &n, abi.NotifyDefault))
	return n
}

// goneNotify is the handle of a notify that was destroyed.
func (e *env) goneNotify() core.Handle {
	e.Helper()
	n := e.notify()
	e.ok(signal.DestroyNotify(e.th, n))
	return n
}

// noNotify calls f with handles that name no notify.
func (e *env) noNotify(f func(n core.Handle) *core.Error) (err *core.Error) {
	e.Helper()
	return e.each(abi.ErrRTInvalidHandle, []core.Handle{garbage, e.goneNotify(), e.stream(), e.timedEvent()}, f)
}

// set and wait record a notify and wait for it, for ever.
func (e *env) set(n, s core.Handle)     { e.Helper(); e.ok(signal.RecordNotify(e.th, n, s)) }
func (e *env) waitFor(n, s core.Handle) { e.Helper(); e.ok(signal.WaitAndResetNotify(e.th, n, s, 0)) }

// isSet reports whether a notify is set, and leaves it so.
func (e *env) isSet(n core.Handle) bool {
	e.Helper()
	s := e.stream()
	e.waitFor(n, s)
	err := e.th.SynchronizeStreamWithTimeout(s, 20)
	e.ok(e.th.DestroyStreamForce(s))
	if err == nil {
		e.set(n, 0)
		e.ok(e.th.SynchronizeStream(0))
	}
	return err == nil
}

// onDevice is a thread with another device current, and a stream there.
func (e *env) onDevice(d int32) (*core.Thread, core.Handle) {
	e.Helper()
	th := e.rt.NewThread(uint32(20 + d))
	e.ok(th.SetDevice(d))
	var s core.Handle
	e.ok(th.CreateStream(&s))
	return th, s
}

func init() {
	proveNotifyLife()
	proveNotifySignals()
	proveNotifyReset()
}

func proveNotifyLife() {
	prove("aclrtCreateNotify", "none-left", func(e *env) *core.Error {
		o := e.on(machine{product: "310P"})
		var last core.Handle
		for range o.rt.Product.Notifies {
			last = o.notify()
		}
		n := garbage
		err := signal.CreateNotify(o.th, &n, abi.NotifyDefault)
		if n != garbage {
			e.Errorf("the handle was written: %#x", n)
		}
		th, _ := o.onDevice(1)
		o.ok(signal.CreateNotify(th, &n, abi.NotifyDefault)) // each device has its own
		o.ok(signal.DestroyNotify(o.th, last))               // and then there is room
		o.notify()
		return err
	})
	behaves("aclrtCreateNotify", func(e *env) {
		n, s := e.notify(), e.stream()
		e.waitFor(n, s) // it is not set
		e.held(s)
		e.set(n, 0)
		e.passes(s)
	})

	behaves("aclrtDestroyNotify", func(e *env) {
		// What is queued goes on: the wait is let go by a record that was queued before the end, too.
		n := e.notify()
		a, open := e.gated()
		b := e.stream()
		e.waitFor(n, b)
		e.set(n, a)
		e.ok(signal.DestroyNotify(e.th, n))
		e.want(signal.RecordNotify(e.th, n, a), abi.ErrRTInvalidHandle)
		e.held(b)
		open()
		e.passes(b)
		n = e.notify() // a wait that nobody can let go any more goes with its stream
		e.waitFor(n, b)
		e.ok(signal.DestroyNotify(e.th, n))
		e.held(b)
		e.ok(e.th.DestroyStreamForce(b))
	})

	behaves("aclrtGetNotifyId", func(e *env) {
		seen := map[uint32]bool{}
		th, _ := e.onDevice(1)
		for i := range 100 {
			var n core.Handle
			var id, again uint32
			who := e.th
			if i%2 == 1 {
				who = th
			}
			e.ok(signal.CreateNotify(who, &n, abi.NotifyDefault))
			e.ok(signal.GetNotifyId(e.th, n, &id))
			e.ok(signal.GetNotifyId(th, n, &again))
			if id != again || seen[id] {
				e.Fatalf("id %d, then %d, known: %v", id, again, seen[id])
			}
			seen[id] = true
		}
	})
}

func proveNotifySignals() {
	behaves("aclrtRecordNotify", func(e *env) {
		n := e.notify()
		a, open := e.gated()
		b := e.stream()
		e.set(n, a)
		e.waitFor(n, b)
		e.held(b) // the record is queued, not done
		open()
		e.passes(b)
		e.set(n, 0) // twice counts once
		e.set(n, 0)
		e.ok(e.th.SynchronizeStream(0))
		e.waitFor(n, b)
		e.passes(b)
		e.waitFor(n, b)
		e.held(b)
		th, s := e.onDevice(1) // another device may record
		e.ok(signal.RecordNotify(th, n, s))
		e.passes(b)
	})

	prove("aclrtWaitAndResetNotify", "shared-elsewhere", func(e *env) *core.Error {
		n := e.notify()
		th, s := e.onDevice(1)
		e.ok(signal.WaitAndResetNotify(th, n, s, 0)) // not looked at as long as it is not shared
		e.set(n, 0)
		e.ok(th.SynchronizeStream(s))
		key := e.export(n, abi.NotifyExportFlagDisablePidValidation)
		imported := e.imports(key)
		e.want(signal.WaitAndResetNotify(th, imported, s, 0), abi.ErrRTParamInvalid)
		return signal.WaitAndResetNotify(th, n, s, 0)
	})
	behaves("aclrtWaitAndResetNotify", waitsInTurn)
}

// waitsInTurn is what a wait does: it holds its stream up, clears the notify, and comes before waits that came to
// their turn later.
func waitsInTurn(e *env) {
	n := e.notify()
	var streams []core.Handle
	for range 5 {
		s := e.stream()
		e.waitFor(n, s)
		e.held(s)
		streams = append(streams, s)
	}
	for len(streams) > 0 {
		e.set(n, 0)
		e.passes(streams[0])
		streams = streams[1:]
		for _, s := range streams {
			e.held(s)
		}
	}
	if e.isSet(n) {
		e.Error("the last wait did not clear the notify")
	}
	const seconds, never = 1, math.MaxUint32
	s := e.stream() // the time limit counts from the turn, and a synchronisation reports it
	e.ok(signal.WaitAndResetNotify(e.th, n, s, seconds))
	e.want(e.th.SynchronizeStream(s), abi.ErrRTTaskTimeout)
	e.ok(e.th.SynchronizeStream(s))
	e.ok(signal.WaitAndResetNotify(e.th, n, s, never))
	e.held(s)
	e.ok(e.th.StreamAbort(s)) // a wait that is dropped takes nothing
	e.ok(e.th.SynchronizeStream(s))
	e.set(n, 0)
	e.ok(e.th.SynchronizeStream(0))
	if !e.isSet(n) {
		e.Error("a dropped wait took the notify")
	}
	e.waitFor(n, s)
	e.passes(s)
	e.waitFor(n, s)
	e.held(s) // so does one whose stream is destroyed
	e.ok(e.th.DestroyStreamForce(s))
	e.set(n, 0)
	e.ok(e.th.SynchronizeStream(0))
	if !e.isSet(n) {
		e.Error("a wait of a stream that is gone took the notify")
	}
}

func proveNotifyReset() {
	reset := func(th *core.Thread, list ...core.Handle) *core.Error {
		return signal.NotifyBatchReset(th, &list[0], uint64(len(list)))
	}
	prove("aclrtNotifyBatchReset", "entry-not-live", func(e *env) *core.Error {
		n := e.notify()
		e.set(n, 0)
		e.ok(e.th.SynchronizeStream(0))
		err := e.noNotify(func(h core.Handle) *core.Error { return reset(e.th, n, h, 0) })
		if err.Index != 1 {
			e.Errorf("element %d is blamed", err.Index)
		}
		if e.isSet(n) {
			e.Error("the one before was not cleared")
		}
		return e.noNotify(func(h core.Handle) *core.Error { return reset(e.stranger(), h, 0) })
	})
	prove("aclrtNotifyBatchReset", "entry-null", func(e *env) *core.Error {
		e.want(reset(e.th, e.notify(), 0, garbage), abi.ErrRTParamInvalid)
		return reset(e.stranger(), 0, garbage)
	})
	prove("aclrtNotifyBatchReset", "entry-shared", func(e *env) *core.Error {
		n := e.notify() // other products do it
		e.export(n, abi.NotifyExportFlagDisablePidValidation)
		e.ok(reset(e.th, n))
		o := e.on(machine{product: "950"})
		n = o.notify()
		o.export(n, abi.NotifyExportFlagDisablePidValidation)
		return reset(o.th, o.notify(), n)
	})
	behaves("aclrtNotifyBatchReset", func(e *env) {
		var list []core.Handle
		for i := range 20 {
			n := e.notify()
			if i%3 > 0 {
				e.set(n, 0)
			}
			list = append(list, n)
		}
		e.ok(e.th.SynchronizeStream(0))
		e.ok(reset(e.th, list...))
		for i, n := range list {
			if e.isSet(n) {
				e.Errorf("%d is set", i)
			}
		}
		s := e.stream() // a waiting stream goes on waiting
		e.waitFor(list[0], s)
		e.ok(reset(e.th, list[0], list[0]))
		e.held(s)
		e.set(list[0], 0)
		e.passes(s)
	})
}

// key is a key of a notify.
type key [65]byte

// export makes a key.
func (e *env) export(n core.Handle, flags uint64) (k key) {
	e.Helper()
	e.ok(signal.NotifyGetExportKey(e.th, n, &k[0], uint64(len(k)), flags))
	if i := slices.Index(k[:], 0); i < 16 {
		e.Fatalf("the key is %q", k)
	}
	return k
}

// imports opens a notify by key.
func (e *env) imports(k key) (n core.Handle) {
	e.Helper()
	e.ok(signal.NotifyImportByKey(e.th, &n, &k[0], abi.NotifyImportFlagDefault))
	return n
}

var self = int32(os.Getpid())
