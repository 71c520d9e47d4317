package conformance

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/signal"
)

// Proofs of count notifies. Only the 950 has them.

// counting is an env of a 950.
func counting(e *env) *env { e.Helper(); return e.on(machine{product: "950"}) }

func count(e *env) core.Handle {
	e.Helper()
	var n core.Handle
	e.ok(signal.CntNotifyCreate(e.th, &n, 0))
	return n
}

// recordCount records a count notify on the default stream, and await makes s wait for it.
func recordCount(e *env, n core.Handle, mode abi.CntNotifyRecordMode, value uint32) {
	e.Helper()
	e.ok(signal.CntNotifyRecord(e.th, n, 0, &abi.CntNotifyRecordInfo{Mode: mode, Value: value}))
}

func await(e *env, n, s core.Handle, mode abi.CntNotifyWaitMode, value uint32, clears bool) {
	e.Helper()
	info := abi.CntNotifyWaitInfo{Mode: mode, Value: value}
	if clears {
		info.IsClear = 1
	}
	e.ok(signal.CntNotifyWaitWithTimeout(e.th, n, s, &info))
}

// counts fails the test unless a count notify has a value.
func counts(e *env, n core.Handle, value uint32) {
	e.Helper()
	s := e.stream()
	await(e, n, s, abi.CntNotifyWaitEqualMode, value, false)
	e.passes(s)
	e.ok(e.th.DestroyStream(s))
}

func init() {
	proveCountLife()
	proveCountRecord()
	proveCountWait()
}

func proveCountLife() {
	prove("aclrtCntNotifyCreate", "none-left", func(e *env) *core.Error {
		o := counting(e)
		last := count(o)
		for range o.rt.Product.Notifies - 1 {
			last = count(o)
		}
		var n core.Handle
		err := signal.CntNotifyCreate(o.th, &n, 0)
		o.ok(signal.CntNotifyDestroy(o.th, last))
		count(o)
		return err
	})
	behaves("aclrtCntNotifyCreate", func(e *env) { o := counting(e); counts(o, count(o), 0) })

	behaves("aclrtCntNotifyDestroy", func(e *env) {
		o := counting(e)
		n, s := count(o), o.stream()
		a, open := o.gated()
		await(o, n, s, abi.CntNotifyWaitEqualMode, 3, false)
		o.ok(signal.CntNotifyRecord(o.th, n, a, &abi.CntNotifyRecordInfo{Mode: abi.CntNotifyRecordSetValueMode,
			Value: 3}))
		o.ok(signal.CntNotifyDestroy(o.stranger(), n)) // without a context; what is queued goes on
		o.held(s)
		open()
		o.passes(s)
	})

	var id uint32
	behaves("aclrtCntNotifyGetId", func(e *env) {
		o := counting(e)
		seen := map[uint32]bool{}
		for range 50 {
			o.ok(signal.CntNotifyGetId(o.stranger(), count(o), &id))
			if seen[id] {
				e.Fatalf("id %d twice", id)
			}
			seen[id] = true
		}
	})
}

func proveCountRecord() {
	behaves("aclrtCntNotifyRecord", func(e *env) {
		o := counting(e)
		n := count(o)
		const set, add, or, and = abi.CntNotifyRecordSetValueMode, abi.CntNotifyRecordAddMode,
			abi.CntNotifyRecordBitOrMode, abi.CntNotifyRecordBitAndMode
		for _, step := range []struct {
			mode        abi.CntNotifyRecordMode
			value, then uint32
		}{
			{set, 7, 7}, {add, 5, 12}, {add, math.MaxUint32, 11}, {or, 0xF0, 0xFB}, {and, 0x3C, 0x38}, {or, 0,
				0x38}, {and, 0, 0}, {set, math.MaxUint32, math.MaxUint32}, {add, 1, 0},
		} {
			recordCount(o, n, step.mode, step.value)
			counts(o, n, step.then)
		}
		a, open := o.gated() // in the order of its stream
		o.ok(signal.CntNotifyRecord(o.th, n, a, &abi.CntNotifyRecordInfo{Value: 9}))
		counts(o, n, 0)
		open()
		counts(o, n, 9)
	})

	behaves("aclrtCntNotifyReset", func(e *env) {
		o := counting(e)
		n := count(o)
		recordCount(o, n, abi.CntNotifyRecordSetValueMode, 77)
		counts(o, n, 77)
		s := o.stream()
		await(o, n, s, abi.CntNotifyWaitLessMode, 1, false)
		o.held(s)
		o.ok(signal.CntNotifyReset(o.th, n, 0))
		o.passes(s)
		counts(o, n, 0)
	})
}

func proveCountWait() {
	behaves("aclrtCntNotifyWaitWithTimeout", func(e *env) {
		o := counting(e)
		const less, equal, more, atLeast, bits = abi.CntNotifyWaitLessMode, abi.CntNotifyWaitEqualMode,
			abi.CntNotifyWaitBiggerMode, abi.CntNotifyWaitBiggerOrEqualMode, abi.CntNotifyWaitEqualWithBitmaskMode
		for _, c := range []struct {
			mode           abi.CntNotifyWaitMode
			given, no, yes uint32
		}{
			{less, 5, 5, 4}, {less, 1 << 31, 1<<31 + 1, 0}, {equal, 9, 8, 9}, {more, 5, 5, 6}, {more, 1<<31 - 1, 3,
				1 << 31},
			{atLeast, 5, 4, 5}, {bits, 0b101, 0b1001, 0b1101}, {bits, 0, 1, 1},
		} {
			for _, clears := range []bool{false, true} {
				n, s := count(o), o.stream()
				recordCount(o, n, abi.CntNotifyRecordSetValueMode, c.no)
				counts(o, n, c.no)
				await(o, n, s, c.mode, c.given, clears)
				if c.no != c.yes {
					o.held(s)
				}
				recordCount(o, n, abi.CntNotifyRecordSetValueMode, c.yes)
				o.passes(s)
				then := c.yes
				if clears && c.no != c.yes {
					then = 0
				}
				if clears && c.no == c.yes {
					then = c.yes // it was met, and cleared, before the second record
				}
				counts(o, n, then)
				o.ok(o.th.DestroyStream(s))
			}
		}
		// A value that was there for a moment is not missed.
		n, s := count(o), o.stream()
		await(o, n, s, equal, 2, false)
		for v := range uint32(4) {
			recordCount(o, n, abi.CntNotifyRecordSetValueMode, v+1)
		}
		o.passes(s)
		o.ok(signal.CntNotifyWaitWithTimeout(o.th, n, s, &abi.CntNotifyWaitInfo{Mode: equal, Value: 99, Timeout: 1}))
		o.want(o.th.SynchronizeStream(s), abi.ErrRTTaskTimeout)
	})
}
