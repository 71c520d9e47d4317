package apitest

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"ropeway"
)

// TestNotify: a wait holds its stream until another stream records, and clears what it found.
func TestNotify(t *testing.T) {
	d := device(t)
	n := get(d.NewNotify())(t)
	waits, records := get(d.NewStream())(t), get(d.NewStream())(t)
	host, mem := get(d.AllocPinned(8))(t), get(d.Alloc(8))(t)
	for round := range 3 {
		ok(t, waits.WaitNotify(n, 0)) // before the record it waits for
		ok(t, waits.Copy(host.All(), mem.All()))
		if idle := get(waits.Idle())(t); idle {
			t.Fatal("the stream did not wait")
		}
		ok(t, records.Fill(mem.All(), byte(round+1)))
		ok(t, records.RecordNotify(n))
		ok(t, waits.Synchronize(ctx))
		if host.Bytes()[7] != byte(round+1) {
			t.Errorf("round %d: the copy found %d", round, host.Bytes()[7])
		}
	}
	ok(t, records.RecordNotify(n))
	ok(t, records.RecordNotify(n)) // counts once
	ok(t, waits.WaitNotify(n, 0))
	ok(t, waits.Synchronize(ctx))
	ok(t, waits.WaitNotify(n, time.Millisecond)) // rounded up to a second
	var e *ropeway.Error
	if err := waits.Synchronize(ctx); !errors.As(err, &e) {
		t.Errorf("a wait whose time is up: %v", err)
	}
	want(t, waits.WaitNotify(n, -1), ropeway.ErrRTParamInvalid, "aclrtWaitAndResetNotify", "timeout")
	ok(t, n.Close())
	want(t, waits.WaitNotify(n, 0), ropeway.ErrRTInvalidHandle, "aclrtWaitAndResetNotify", "notify")
	want(t, waits.RecordNotify(n), ropeway.ErrRTInvalidHandle, "aclrtRecordNotify", "notify")
}

// TestSignalsOfOthers: things of another runtime are refused before their numbers mean something here.
func TestSignalsOfOthers(t *testing.T) {
	d, other := device(t), device(t)
	s := get(d.NewStream())(t)
	n, e, mem := get(other.NewNotify())(t), get(other.NewEvent())(t), get(other.Alloc(8))(t)
	want(t, s.RecordNotify(n), ropeway.ErrRTParamInvalid, "aclrtRecordNotify", "notify")
	want(t, s.WaitNotify(n, 0), ropeway.ErrRTParamInvalid, "aclrtWaitAndResetNotify", "notify")
	want(t, s.Record(e), ropeway.ErrRTParamInvalid, "aclrtRecordEvent", "event")
	want(t, s.Wait(e), ropeway.ErrRTParamInvalid, "aclrtStreamWaitEvent", "event")
	want(t, s.WriteValue(mem.All(), 1), ropeway.ErrRTParamInvalid, "aclrtValueWrite", "devAddr")
	want(t, s.WaitValue(mem.All(), ropeway.Equal, 1), ropeway.ErrRTParamInvalid, "aclrtValueWait", "devAddr")
}

// TestValues: every condition, with a word that fulfils it and, before, one that does not.
func TestValues(t *testing.T) {
	d := device(t)
	waits, writes := get(d.NewStream())(t), get(d.NewStream())(t)
	mem, host := get(d.Alloc(16))(t), get(d.AllocPinned(8))(t)
	const most = ^uint64(0)
	for _, c := range []struct {
		is       ropeway.Condition
		v        uint64
		not, yes uint64
	}{
		{ropeway.AtLeast, 5, 4, 5},
		{ropeway.AtLeast, 3, most, 7}, // numbers go round: most is before 3
		{ropeway.Equal, 9, 10, 9},
		{ropeway.AnySet, 0b1100, 0b0011, 0b0100},
		{ropeway.AnyOff, 1, most - 1, most - 3},
	} {
		ok(t, d.Fill(mem.All(), 0))
		ok(t, writes.WriteValue(mem.Range(8, 8), c.not))
		ok(t, writes.Synchronize(ctx))
		ok(t, waits.WaitValue(mem.Range(8, 8), c.is, c.v))
		ok(t, waits.Copy(host.All(), mem.Range(8, 8)))
		if get(waits.Idle())(t) {
			t.Errorf("%v %d does not wait at %d", c.is, c.v, c.not)
		}
		ok(t, writes.WriteValue(mem.Range(8, 8), c.yes))
		ok(t, waits.Synchronize(ctx))
		if got := binary.LittleEndian.Uint64(host.Bytes()); got != c.yes {
			t.Errorf("%v %d let %d pass, want %d", c.is, c.v, got, c.yes)
		}
	}
	// A copy writes the word, too.
	binary.LittleEndian.PutUint64(host.Bytes(), 77)
	ok(t, waits.WaitValue(mem.Range(0, 8), ropeway.Equal, 77))
	ok(t, writes.Copy(mem.Range(0, 8), host.All()))
	ok(t, waits.Synchronize(ctx))

	want(t, waits.WriteValue(mem.Range(0, 7), 1), ropeway.ErrRTParamInvalid, "aclrtValueWrite", "devAddr")
	want(t, waits.WaitValue(mem.Range(16, 8), ropeway.Equal, 1), ropeway.ErrRTParamInvalid, "aclrtValueWait", "devAddr")
	want(t, waits.WriteValue(host.All(), 1), ropeway.ErrRTParamInvalid, "aclrtValueWrite", "devAddr")
}
