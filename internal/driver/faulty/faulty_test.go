package faulty

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/soft"
	"ropeway/internal/testenv"
)

var errInjected = errors.New("injected")

// sink records the failures of a queue.
type sink struct{ failed chan failure }

type failure struct {
	tag driver.Tag
	err error
}

func (s sink) TaskFailed(tag driver.Tag, err error) { s.failed <- failure{tag, err} }

func open(t *testing.T) (*Driver, driver.Device) {
	t.Helper()
	drivertest.Watch(t, 10*time.Minute)
	inner, err := soft.New(soft.Options{Devices: 2, Memory: 256 << 20})
	testenv.OK(t, err)
	d := Wrap(inner)
	dev, err := d.Open(0)
	testenv.OK(t, err)
	t.Cleanup(func() {
		dev.Close()
		d.Close()
	})
	return d, dev
}

// The n-th call fails, once; later every call fails, until Heal.
func TestFail(t *testing.T) {
	d, dev := open(t)
	pinned, err := d.AllocHost(4096)
	testenv.OK(t, err)
	for _, tt := range []struct {
		name string
		at   Point
		call func() error
	}{
		{"Open", Open, func() error {
			o, err := d.Open(1)
			if err == nil {
				o.Close()
			}
			return err
		}},
		{"Alloc", Alloc, func() error {
			a, err := dev.Alloc(100, driver.PageNormal)
			if err == nil {
				return dev.Free(a)
			}
			return err
		}},
		{"AllocHost", AllocHost, func() error {
			a, err := d.AllocHost(100)
			if err == nil {
				return d.FreeHost(a)
			}
			return err
		}},
		{"Register", Register, func() error {
			if _, err := d.Register(pinned, 100, false, 0); err != nil {
				return err
			}
			return d.Unregister(pinned)
		}},
		{"Run", Run, func() error {
			return d.Run(driver.Op{Kind: driver.OpFill, Dst: pinned, N: 1, Width: 1})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.call(); err != nil {
				t.Fatalf("without a plan: %v", err)
			}
			d.Fail(tt.at, 3, errInjected)
			for i := 1; i <= 5; i++ {
				if err := tt.call(); errors.Is(err, errInjected) != (i == 3) || i != 3 && err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			}
			d.FailAll(tt.at, errInjected)
			for range 3 {
				if err := tt.call(); !errors.Is(err, errInjected) {
					t.Errorf("all fail: %v", err)
				}
			}
			d.Heal()
			if err := tt.call(); err != nil {
				t.Errorf("healed: %v", err)
			}
		})
	}
}

// A task fails in its turn, with its tag; only tasks that use memory fail, and their lists are released.
func TestFailTask(t *testing.T) {
	d, dev := open(t)
	pinned, err := d.AllocHost(4096)
	testenv.OK(t, err)
	s := sink{make(chan failure, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: s.TaskFailed}})
	f := d.NewFlag()
	d.Fail(Task, 2, errInjected)
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
	q.Copy(pinned, pinned+100, 10, driver.Tag{Task: 1})
	q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {}}) // does not count
	var done atomic.Int32
	segs := driver.NewSegments()
	segs.Add(pinned, pinned+100, 10)
	q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs, Tag: driver.Tag{Task: 2}, Done: func() { done.Add(1) }})
	q.Copy(pinned, pinned+100, 10, driver.Tag{Task: 3})
	if len(s.failed) != 0 {
		t.Fatal("failed before its turn")
	}
	f.Set()
	q.Wait(0, nil)
	if len(s.failed) != 1 || done.Load() != 1 {
		t.Fatalf("%d failed, Done called %d times", len(s.failed), done.Load())
	}
	if got := <-s.failed; got.tag.Task != 2 || !errors.Is(got.err, errInjected) {
		t.Fatalf("failed: %v", got)
	}
	d.FailAll(Task, errInjected)
	q.Copy(pinned, pinned+100, 10, driver.Tag{Task: 4})
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: pinned, N: 1, Width: 1, Tag: driver.Tag{Task: 5}})
	q.Wait(0, nil)
	for want := uint32(4); want <= 5; want++ {
		if got := <-s.failed; got.tag.Task != want {
			t.Fatalf("failed: %v, want task %d", got, want)
		}
	}
}

// A lost device refuses everything; other devices are not affected.
func TestLose(t *testing.T) {
	d, dev := open(t)
	other, err := d.Open(1)
	testenv.OK(t, err)
	defer other.Close()
	addr, err := dev.Alloc(100, driver.PageNormal)
	testenv.OK(t, err)
	s := sink{make(chan failure, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: s.TaskFailed}})
	d.Lose(0)
	if err := dev.Healthy(); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Healthy: %v", err)
	}
	if _, err := dev.Alloc(100, driver.PageNormal); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Alloc: %v", err)
	}
	q.Copy(addr, addr+50, 10, driver.Tag{Task: 1})
	q.Wait(0, nil)
	if got := <-s.failed; !errors.Is(got.err, driver.ErrLost) {
		t.Errorf("task: %v", got.err)
	}
	if err := other.Healthy(); err != nil {
		t.Error(err)
	}
	if _, err := other.Alloc(100, driver.PageNormal); err != nil {
		t.Error(err)
	}
	d.Heal()
	if err := dev.Healthy(); err != nil {
		t.Error(err)
	}
}
