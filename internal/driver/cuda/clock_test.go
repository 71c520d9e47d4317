package cuda

import (
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/hostqueue"
)

// hold keeps the stream of q, which must exist, busy until the result is called.
func (f *fake) hold(q *queue) (release func()) {
	q.Mu.Lock()
	stream := q.stream
	q.Mu.Unlock()
	s, _ := f.stream(stream)
	ch := make(chan struct{})
	s.put(fakeOrder{kind: 'k', kernel: func() { <-ch }})
	return func() { close(ch) }
}

// handed returns the number of tasks of q on the stream and in the list.
func (q *queue) handed() (marks, list int) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	return q.marks.Len(), q.Tasks()
}

// TestEventTimes proves that the times of flags differ by the time that the GPU measured, not by the time at which the
// host saw the events.
func TestEventTimes(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	b.f.gpu[0].ahead = 1e-4
	q.Copy(b.dev[0], b.pinned, 10, driver.Tag{})
	release := b.f.hold(q)
	first, second := b.d.NewFlag(), b.d.NewFlag()
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: first})
	s, _ := b.f.stream(q.stream)
	s.put(fakeOrder{kind: 'k', kernel: func() { time.Sleep(3 * time.Millisecond) }})
	q.Submit(driver.Op{Kind: driver.OpSet, Flag: second})
	var events []*fakeEvent
	q.Mu.Lock()
	for _, p := range []*flag{first.(*flag), second.(*flag)} {
		e, _ := b.f.event(p.promises[0].event)
		events = append(events, e)
	}
	q.Mu.Unlock()
	asked := hostqueue.Now()
	release()
	if !second.Wait(time.Minute, nil) || !first.IsSet() {
		t.Fatal("the flags are not set")
	}
	want := events[1].at.Sub(events[0].at)
	got := time.Duration(second.SetAt() - first.SetAt())
	if off := (got - want).Abs(); off > want/100 {
		t.Errorf("%v apart, want %v", got, want)
	}
	if at := first.SetAt(); at < asked-gpu.ClockSlack || at > hostqueue.Now()+gpu.ClockSlack {
		t.Errorf("set at %d, between %d and now", at, asked)
	}
}

// TestNoEventTimes proves that without the GPU's clock flags have times of the host's clock.
func TestNoEventTimes(t *testing.T) {
	f := newFake(1)
	f.noClock = true
	b := newBedOn(t, f, Options{})
	q := b.queue(0)
	for range 2 {
		flag, asked := b.d.NewFlag(), hostqueue.Now()
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: flag})
		if !flag.Wait(time.Minute, nil) || flag.SetAt() < asked || flag.SetAt() > hostqueue.Now() {
			t.Errorf("set at %d, asked for at %d", flag.SetAt(), asked)
		}
		q.Copy(b.dev[0], b.pinned, 10, driver.Tag{})
	}
}
