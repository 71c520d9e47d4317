package callback

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ropeway/internal/testenv"
)

// TestRegistry: a name has one callback, which keeps its place, and a list that was read does not change.
func TestRegistry(t *testing.T) {
	names := func(r Registry[int]) (list []string) {
		for _, f := range r {
			list = append(list, f.Name+string(rune('0'+f.Call)))
		}
		return list
	}
	one := Registry[int](nil).With(Named[int]{Name: "a", Call: 1}).With(Named[int]{Name: "b", Call: 2})
	other := one.With(Named[int]{Name: "a", Call: 3})
	rest := other.Without("b")
	for _, tt := range []struct {
		list Registry[int]
		want []string
	}{{one, []string{"a1", "b2"}}, {other, []string{"a3", "b2"}}, {rest, []string{"a3"}}} {
		if got := names(tt.list); !slices.Equal(got, tt.want) {
			t.Errorf("%v, want %v", got, tt.want)
		}
	}
	if !one.Has("b") || rest.Has("b") {
		t.Error("Has is wrong")
	}
}

// TestExceptions: failures are reported in order, each to every function once; Settle waits for them, and does not
// wait for itself inside a function.
func TestExceptions(t *testing.T) {
	var x Exceptions
	var tasks []uint32
	record := func(info uintptr) {
		x.Settle() // inside a function it returns at once
		tasks = append(tasks, x.Find(info).Task)
	}
	x.Raise(Exception{Task: 1}) // nothing is to be called
	x.Settle()
	f := Func[ExceptionFunc]{Key: 1, Call: record}
	x.Add(f)
	x.Add(f) // the same counts once
	x.Set(f)
	for i := range uint32(3) {
		x.Raise(Exception{Task: 10 + i})
	}
	x.Settle()
	x.Remove(1)
	x.Set(Func[ExceptionFunc]{})
	x.Raise(Exception{Task: 20, Callback: record}) // of the kernel's binary
	x.Raise(Exception{Task: 21})
	x.Settle()
	if want := []uint32{10, 11, 12, 20}; !slices.Equal(tasks, want) {
		t.Errorf("%v, want %v", tasks, want)
	}
}

// TestReports: a thread runs the functions of its streams in order; what was dropped is not run, and the end of the
// last subscription ends the wait.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Reports
		var drops atomic.Uint32
		by, err := s.Join(7, 0)
		testenv.OK(t, err)
		if _, err := s.Join(7, 1); err != ErrDevice {
			t.Errorf("another device: %v", err)
		}
		sub := &Subscription{By: by}
		var ran []uintptr
		report := func(n uintptr) *Report {
			note := func(n uintptr) { ran = append(ran, n) }
			return &Report{Sub: sub, Drops: &drops, Since: drops.Load(), Fn: note, Data: n}
		}
		serve := func(limit time.Duration) Outcome {
			return s.Serve(by, time.After(limit), func() func() { return func() {} }, s.Run)
		}
		if got := serve(time.Second); got != Late {
			t.Errorf("without reports: %d", got)
		}
		s.Post(report(1))
		drops.Add(1) // report 1 has been dropped
		blocked := report(2)
		blocked.Done = make(chan struct{})
		s.Post(blocked)
		s.Post(report(3))
		if got := serve(time.Second); got != Ran || !slices.Equal(ran, []uintptr{2, 3}) {
			t.Errorf("%d, ran %v", got, ran)
		}
		<-blocked.Done
		ended := make(chan Outcome)
		go func() { ended <- serve(time.Hour) }()
		synctest.Wait()
		s.End(sub)
		if got := <-ended; got != Ended || s.Find(7) != nil || s.Served(sub) || s.Post(report(4)) {
			t.Errorf("after the end: %d", got)
		}
	})
}

// TestReportsFull: there is room for 1024 threads, and for others once some have gone.
func TestReportsFull(t *testing.T) {
	var s Reports
	first, err := s.Join(1, 0)
	for id := uint64(2); err == nil && id <= maxSubscribers; id++ {
		_, err = s.Join(id, 0)
	}
	testenv.OK(t, err)
	if _, err := s.Join(maxSubscribers+1, 0); err != ErrTooMany {
		t.Errorf("one more: %v", err)
	}
	s.End(&Subscription{By: first})
	if _, err := s.Join(maxSubscribers+1, 0); err != nil {
		t.Error(err)
	}
}
