package apitest

import (
	"errors"
	"testing"
	"time"

	"ropeway"
	"ropeway/ascend"
)

// TestCountNotify: every change, every condition, with a number that fulfils it and, before, one that does not.
func TestCountNotify(t *testing.T) {
	d := device(t, ropeway.WithProduct(ropeway.Product950, ropeway.EP))
	n := get(ascend.NewCountNotify(d))(t)
	waits, records := get(d.NewStream())(t), get(d.NewStream())(t)
	for _, c := range []struct {
		is    ascend.CountCondition
		v     uint32
		from  uint32 // does not fulfil it
		how   ascend.Change
		given uint32
		then  uint32 // what it is now
	}{
		{ascend.CountAtLeast, 5, 4, ascend.AddCount, 1, 5},
		{ascend.CountAbove, 5, 5, ascend.SetCount, 6, 6},
		{ascend.CountEqual, 9, 10, ascend.SetCount, 9, 9},
		{ascend.CountBelow, 1, 1 << 31, ascend.AddCount, 1 << 31, 0}, // it goes round
		{ascend.CountHasBits, 0b1100, 0b0100, ascend.SetBits, 0b1001, 0b1101},
		{ascend.CountEqual, 0b0100, 0b0110, ascend.KeepBits, 0b1101, 0b0100},
	} {
		ok(t, ascend.RecordCount(records, n, ascend.SetCount, c.from))
		ok(t, records.Synchronize(ctx))
		ok(t, ascend.WaitCount(waits, n, ascend.CountWait{Is: c.is, Value: c.v}))
		if get(waits.Idle())(t) {
			t.Errorf("%v %d does not wait at %d", c.is, c.v, c.from)
		}
		ok(t, ascend.RecordCount(records, n, c.how, c.given))
		ok(t, waits.Synchronize(ctx))
		ok(t, ascend.WaitCount(waits, n, ascend.CountWait{Is: ascend.CountEqual, Value: c.then, Clear: true,
			Timeout: time.Minute}))
		// the wait before cleared it
		ok(t, ascend.WaitCount(waits, n, ascend.CountWait{Is: ascend.CountEqual, Timeout: time.Minute}))
		ok(t, waits.Synchronize(ctx))
	}

	// rounded up to a second
	ok(t, ascend.WaitCount(waits, n, ascend.CountWait{Is: ascend.CountAbove, Timeout: time.Millisecond}))
	var e *ropeway.Error
	if err := waits.Synchronize(ctx); !errors.As(err, &e) {
		t.Errorf("a wait whose time is up: %v", err)
	}
}

// TestCountNotifyRefusals: what is no change, no condition, of another runtime, gone, or not of this product.
func TestCountNotifyRefusals(t *testing.T) {
	const record, wait = "aclrtCntNotifyRecord", "aclrtCntNotifyWaitWithTimeout"
	d := device(t, ropeway.WithProduct(ropeway.Product950, ropeway.EP))
	s, n := get(d.NewStream())(t), get(ascend.NewCountNotify(d))(t)
	want(t, ascend.RecordCount(s, n, 3, 1), ropeway.ErrRTParamInvalid, record, "info")
	want(t, ascend.WaitCount(s, n, ascend.CountWait{Is: 5}), ropeway.ErrRTParamInvalid, wait, "info")
	want(t, ascend.WaitCount(s, n, ascend.CountWait{Timeout: -1}), ropeway.ErrRTParamInvalid, wait, "timeout")
	others := get(ascend.NewCountNotify(device(t, ropeway.WithProduct(ropeway.Product950, ropeway.EP))))(t)
	want(t, ascend.RecordCount(s, others, ascend.SetCount, 1), ropeway.ErrRTParamInvalid, record, "cntNotify")
	want(t, ascend.WaitCount(s, others, ascend.CountWait{}), ropeway.ErrRTParamInvalid, wait, "cntNotify")
	ok(t, n.Close())
	want(t, n.Close(), ropeway.ErrRTInvalidHandle, "aclrtCntNotifyDestroy", "cntNotify")
	want(t, ascend.RecordCount(s, n, ascend.SetCount, 1), ropeway.ErrRTInvalidHandle, record, "cntNotify")
	_, err := ascend.NewCountNotify(device(t))
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtCntNotifyCreate", "*")
}
