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
func notify(e *env) core.Handle {
	e.Helper()
	var n core.Handle
	e.ok(signal.CreateNotify(e.th, &n, abi.NotifyDefault))
	return n
}

// goneNotify is the handle of a notify that was destroyed.
func goneNotify(e *env) core.Handle {
	e.Helper()
	n := notify(e)
	e.ok(signal.DestroyNotify(e.th, n))
	return n
}

// noNotify calls f with handles that name no notify.
func noNotify(e *env, f func(n core.Handle) *core.Error) (err *core.Error) {
	e.Helper()
	return e.each(abi.ErrRTInvalidHandle, []core.Handle{garbage, goneNotify(e), e.stream(), e.timedEvent()}, f)
}

// set and wait record a notify and wait for it, for ever.
func set(e *env, n, s core.Handle)     { e.Helper(); e.ok(signal.RecordNotify(e.th, n, s)) }
func waitFor(e *env, n, s core.Handle) { e.Helper(); e.ok(signal.WaitAndResetNotify(e.th, n, s, 0)) }

// isSet reports whether a notify is set, and leaves it so.
func isSet(e *env, n core.Handle) bool {
	e.Helper()
	s := e.stream()
	waitFor(e, n, s)
	err := e.th.SynchronizeStreamWithTimeout(s, 20)
	e.ok(e.th.DestroyStreamForce(s))
	if err == nil {
		set(e, n, 0)
		e.ok(e.th.SynchronizeStream(0))
	}
	return err == nil
}

// threadOn is a thread with another device current, and a stream there.
func threadOn(e *env, d int32) (*core.Thread, core.Handle) {
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
			last = notify(o)
		}
		n := garbage
		err := signal.CreateNotify(o.th, &n, abi.NotifyDefault)
		if n != garbage {
			e.Errorf("the handle was written: %#x", n)
		}
		th, _ := threadOn(o, 1)
		o.ok(signal.CreateNotify(th, &n, abi.NotifyDefault)) // each device has its own
		o.ok(signal.DestroyNotify(o.th, last))               // and then there is room
		notify(o)
		return err
	})
	behaves("aclrtCreateNotify", func(e *env) {
		n, s := notify(e), e.stream()
		waitFor(e, n, s) // it is not set
		e.held(s)
		set(e, n, 0)
		e.passes(s)
	})

	behaves("aclrtDestroyNotify", func(e *env) {
		// What is queued goes on: the wait is let go by a record that was queued before the end, too.
		n := notify(e)
		a, open := e.gated()
		b := e.stream()
		waitFor(e, n, b)
		set(e, n, a)
		e.ok(signal.DestroyNotify(e.th, n))
		e.want(signal.RecordNotify(e.th, n, a), abi.ErrRTInvalidHandle)
		e.held(b)
		open()
		e.passes(b)
		n = notify(e) // a wait that nobody can let go any more goes with its stream
		waitFor(e, n, b)
		e.ok(signal.DestroyNotify(e.th, n))
		e.held(b)
		e.ok(e.th.DestroyStreamForce(b))
	})

	behaves("aclrtGetNotifyId", func(e *env) {
		seen := map[uint32]bool{}
		th, _ := threadOn(e, 1)
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
		n := notify(e)
		a, open := e.gated()
		b := e.stream()
		set(e, n, a)
		waitFor(e, n, b)
		e.held(b) // the record is queued, not done
		open()
		e.passes(b)
		set(e, n, 0) // twice counts once
		set(e, n, 0)
		e.ok(e.th.SynchronizeStream(0))
		waitFor(e, n, b)
		e.passes(b)
		waitFor(e, n, b)
		e.held(b)
		th, s := threadOn(e, 1) // another device may record
		e.ok(signal.RecordNotify(th, n, s))
		e.passes(b)
	})

	prove("aclrtWaitAndResetNotify", "shared-elsewhere", func(e *env) *core.Error {
		n := notify(e)
		th, s := threadOn(e, 1)
		e.ok(signal.WaitAndResetNotify(th, n, s, 0)) // not looked at as long as it is not shared
		set(e, n, 0)
		e.ok(th.SynchronizeStream(s))
		key := export(e, n, abi.NotifyExportFlagDisablePidValidation)
		imported := imports(e, key)
		e.want(signal.WaitAndResetNotify(th, imported, s, 0), abi.ErrRTParamInvalid)
		return signal.WaitAndResetNotify(th, n, s, 0)
	})
	behaves("aclrtWaitAndResetNotify", waitsInTurn)
}

// waitsInTurn is what a wait does: it holds its stream up, clears the notify, and comes before waits that came to
// their turn later.
func waitsInTurn(e *env) {
	n := notify(e)
	var streams []core.Handle
	for range 5 {
		s := e.stream()
		waitFor(e, n, s)
		e.held(s)
		streams = append(streams, s)
	}
	for len(streams) > 0 {
		set(e, n, 0)
		e.passes(streams[0])
		streams = streams[1:]
		for _, s := range streams {
			e.held(s)
		}
	}
	if isSet(e, n) {
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
	set(e, n, 0)
	e.ok(e.th.SynchronizeStream(0))
	if !isSet(e, n) {
		e.Error("a dropped wait took the notify")
	}
	waitFor(e, n, s)
	e.passes(s)
	waitFor(e, n, s)
	e.held(s) // so does one whose stream is destroyed
	e.ok(e.th.DestroyStreamForce(s))
	set(e, n, 0)
	e.ok(e.th.SynchronizeStream(0))
	if !isSet(e, n) {
		e.Error("a wait of a stream that is gone took the notify")
	}
}

func proveNotifyReset() {
	reset := func(th *core.Thread, list ...core.Handle) *core.Error {
		return signal.NotifyBatchReset(th, &list[0], uint64(len(list)))
	}
	prove("aclrtNotifyBatchReset", "entry-not-live", func(e *env) *core.Error {
		n := notify(e)
		set(e, n, 0)
		e.ok(e.th.SynchronizeStream(0))
		err := noNotify(e, func(h core.Handle) *core.Error { return reset(e.th, n, h, 0) })
		if err.Index != 1 {
			e.Errorf("element %d is blamed", err.Index)
		}
		if isSet(e, n) {
			e.Error("the one before was not cleared")
		}
		return noNotify(e, func(h core.Handle) *core.Error { return reset(e.stranger(), h, 0) })
	})
	prove("aclrtNotifyBatchReset", "entry-null", func(e *env) *core.Error {
		e.want(reset(e.th, notify(e), 0, garbage), abi.ErrRTParamInvalid)
		return reset(e.stranger(), 0, garbage)
	})
	prove("aclrtNotifyBatchReset", "entry-shared", func(e *env) *core.Error {
		n := notify(e) // other products do it
		export(e, n, abi.NotifyExportFlagDisablePidValidation)
		e.ok(reset(e.th, n))
		o := e.on(machine{product: "950"})
		n = notify(o)
		export(o, n, abi.NotifyExportFlagDisablePidValidation)
		return reset(o.th, notify(o), n)
	})
	behaves("aclrtNotifyBatchReset", func(e *env) {
		var list []core.Handle
		for i := range 20 {
			n := notify(e)
			if i%3 > 0 {
				set(e, n, 0)
			}
			list = append(list, n)
		}
		e.ok(e.th.SynchronizeStream(0))
		e.ok(reset(e.th, list...))
		for i, n := range list {
			if isSet(e, n) {
				e.Errorf("%d is set", i)
			}
		}
		s := e.stream() // a waiting stream goes on waiting
		waitFor(e, list[0], s)
		e.ok(reset(e.th, list[0], list[0]))
		e.held(s)
		set(e, list[0], 0)
		e.passes(s)
	})
}

// key is a key of a notify.
type key [65]byte

// export makes a key.
func export(e *env, n core.Handle, flags uint64) (k key) {
	e.Helper()
	e.ok(signal.NotifyGetExportKey(e.th, n, &k[0], uint64(len(k)), flags))
	if i := slices.Index(k[:], 0); i < 16 {
		e.Fatalf("the key is %q", k)
	}
	return k
}

// imports opens a notify by key.
func imports(e *env, k key) (n core.Handle) {
	e.Helper()
	e.ok(signal.NotifyImportByKey(e.th, &n, &k[0], abi.NotifyImportFlagDefault))
	return n
}

var self = int32(os.Getpid())
