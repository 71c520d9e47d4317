package core

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// TestTaskNumbersWrap proves that what compares tasks of a stream goes on when 1<<32 of them were submitted, of which
// programs see 32 bits.
func TestTaskNumbersWrap(t *testing.T) {
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	p, err := product.Find("", "")
	testenv.OK(t, err)
	rt := New(Options{Driver: d, Product: p})
	defer rt.Close() //nolint:errcheck // the streams have failed tasks
	th := rt.NewThread(1)
	if err := th.SetDevice(0); err != nil {
		t.Fatal(err)
	}
	for _, failing := range []uint64{1<<32 - 1, 1 << 32, 1<<32 + 1, 5<<32 - 1, 5 << 32} {
		var h, before, after Handle
		for _, p := range []*Handle{&before, &after} {
			if err := th.CreateEvent(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := th.CreateStream(&h); err != nil {
			t.Fatal(err)
		}
		s, _ := th.Stream("", "", h)
		s.Tasks.Store(failing - 3)
		if err := th.RecordEvent(before, h); err != nil {
			t.Fatal(err)
		}
		s.Tasks.Store(failing - 1)
		tag := s.NextTag(th, nil)
		var last uint32
		if err := th.GetThreadLastTaskId(&last); err != nil || last == 0 || last != tag.Task {
			t.Errorf("task %#x: the thread's last is %d, of the tag %d", failing, last, tag.Task)
		}
		s.taskFailed(tag, driver.ErrFault)
		if f := s.failure.Load(); f.task != failing && f.task != failing+1 {
			t.Errorf("task %#x failed as %#x", failing, f.task)
		}
		if err := th.RecordEvent(after, h); err != nil {
			t.Fatal(err)
		}
		if err := th.SynchronizeEvent(before); err != nil {
			t.Errorf("task %#x: an event before it reports %v", failing, err)
		}
		if err := th.SynchronizeEvent(after); err == nil || err.Code != abi.ErrRTSysDma {
			t.Errorf("task %#x: an event after it reports %v", failing, err)
		}
		if err := th.SynchronizeStream(h); err == nil {
			t.Error("the stream does not report the failure")
		}
		// A failure that was not asked for stays one of before, however many tasks come after it.
		s.taskFailed(s.NextTag(th, nil), driver.ErrFault)
		s.Tasks.Add(3 << 31)
		if err := th.RecordEvent(after, h); err != nil {
			t.Fatal(err)
		}
		if err := th.SynchronizeEvent(after); err == nil {
			t.Errorf("task %#x: an event long after it reports nothing", failing)
		}
		if err := th.DestroyStream(h); err != nil {
			t.Fatal(err)
		}
	}
}
