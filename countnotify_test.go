package ropeway_test

import (
	"errors"
	"testing"
	"time"

	"ropeway"
)

// TestCountNotify: every change, every condition, with a number that fulfils it and, before, one that does not.
func TestCountNotify(t *testing.T) {
	d := device(t, ropeway.WithProduct("950", "EP"))
	n := get(d.NewCountNotify())(t)
	waits, records := get(d.NewStream())(t), get(d.NewStream())(t)
	for _, c := range []struct {
		is    ropeway.CountCondition
		v     uint32
		from  uint32 // does not fulfil it
		how   ropeway.Change
		given uint32
		then  uint32 // what it is now
	}{
		{ropeway.CountAtLeast, 5, 4, ropeway.AddCount, 1, 5},
		{ropeway.CountAbove, 5, 5, ropeway.SetCount, 6, 6},
		{ropeway.CountEqual, 9, 10, ropeway.SetCount, 9, 9},
		{ropeway.CountBelow, 1, 1 << 31, ropeway.AddCount, 1 << 31, 0}, // it goes round
		{ropeway.CountHasBits, 0b1100, 0b0100, ropeway.SetBits, 0b1001, 0b1101},
		{ropeway.CountEqual, 0b0100, 0b0110, ropeway.KeepBits, 0b1101, 0b0100},
	} {
		ok(t, records.RecordCount(n, ropeway.SetCount, c.from))
		ok(t, records.Synchronize(ctx))
		ok(t, waits.WaitCount(n, ropeway.CountWait{Is: c.is, Value: c.v}))
		if get(waits.Idle())(t) {
			t.Errorf("%v %d does not wait at %d", c.is, c.v, c.from)
		}
		ok(t, records.RecordCount(n, c.how, c.given))
		ok(t, waits.Synchronize(ctx))
		ok(t, waits.WaitCount(n, ropeway.CountWait{Is: ropeway.CountEqual, Value: c.then, Clear: true, Timeout: time.Minute}))
		ok(t, waits.WaitCount(n, ropeway.CountWait{Is: ropeway.CountEqual, Timeout: time.Minute})) // the wait before cleared it
		ok(t, waits.Synchronize(ctx))
	}

	ok(t, waits.WaitCount(n, ropeway.CountWait{Is: ropeway.CountAbove, Timeout: time.Millisecond})) // rounded up to a second
	var e *ropeway.Error
	if err := waits.Synchronize(ctx); !errors.As(err, &e) {
		t.Errorf("a wait whose time is up: %v", err)
	}
}

// TestCountNotifyRefusals: what is no change, no condition, of another runtime, gone, or not of this product.
func TestCountNotifyRefusals(t *testing.T) {
	const record, wait = "aclrtCntNotifyRecord", "aclrtCntNotifyWaitWithTimeout"
	d := device(t, ropeway.WithProduct("950", "EP"))
	s, n := get(d.NewStream())(t), get(d.NewCountNotify())(t)
	want(t, s.RecordCount(n, 3, 1), ropeway.ErrRTParamInvalid, record, "info")
	want(t, s.WaitCount(n, ropeway.CountWait{Is: 5}), ropeway.ErrRTParamInvalid, wait, "info")
	want(t, s.WaitCount(n, ropeway.CountWait{Timeout: -1}), ropeway.ErrRTParamInvalid, wait, "timeout")
	others := get(device(t, ropeway.WithProduct("950", "EP")).NewCountNotify())(t)
	want(t, s.RecordCount(others, ropeway.SetCount, 1), ropeway.ErrRTParamInvalid, record, "cntNotify")
	want(t, s.WaitCount(others, ropeway.CountWait{}), ropeway.ErrRTParamInvalid, wait, "cntNotify")
	ok(t, n.Close())
	want(t, n.Close(), ropeway.ErrRTInvalidHandle, "aclrtCntNotifyDestroy", "cntNotify")
	want(t, s.RecordCount(n, ropeway.SetCount, 1), ropeway.ErrRTInvalidHandle, record, "cntNotify")
	_, err := device(t).NewCountNotify()
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtCntNotifyCreate", "*")
}
