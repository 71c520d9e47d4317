package cuda

import (
	"bytes"
	"errors"
	"testing"

	"ropeway/internal/driver"
)

// listened returns when somebody listens for the bell of q.
func (q *queue) listened() {
	for rings := false; !rings; {
		q.mu.Lock()
		rings = q.rings == q.taken
		q.mu.Unlock()
	}
}

// TestBell proves that who waits is told by the bell of the stream, that streams keep theirs, and that a number that was rung before
// is not taken for a later one.
func TestBell(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	for i := range 50 {
		release := b.hold(q)
		want := noise(uint64(i), bellFrom)
		put(b.pinned, want)
		q.Copy(b.dev[0], b.pinned, bellFrom, driver.Tag{})
		over := make(chan bool)
		go func() { over <- q.Wait(0, nil) }()
		q.listened()
		select {
		case <-over:
			t.Fatal("it is over before the stream has come to it")
		default:
		}
		release()
		if !<-over || !bytes.Equal(b.read(b.dev[0], bellFrom), want) {
			t.Fatal("what was waited for is not there")
		}
	}
	c := b.d.cards[0]
	if c.bellOf(q.stream) != q.bell || q.bell.number < 50 || !q.bell.hears(q.bell.number) {
		t.Errorf("rang %d times", q.bell.number)
	}
	if q.bell.hears(q.bell.number + 1) {
		t.Error("it rings before it was rung")
	}
}

// TestBellMissing proves that an old libcuda, without cuStreamWriteValue32, is asked instead.
func TestBellMissing(t *testing.T) {
	b := newBed(t, 1)
	b.f.mute.Store(true)
	q := b.queue(0)
	release := b.hold(q)
	q.Copy(b.dev[0], b.pinned, bellFrom, driver.Tag{})
	over := make(chan bool)
	go func() { over <- q.Wait(0, nil) }()
	for dead := false; !dead; {
		q.mu.Lock()
		dead = q.bell != nil && q.bell.dead
		q.mu.Unlock()
	}
	release()
	if !<-over {
		t.Error("not over")
	}
	b.works(0, b.pinned)
}

// TestBellOnLostGPU proves that nobody waits for a bell that cannot ring any more.
func TestBellOnLostGPU(t *testing.T) {
	b := newBed(t, 1)
	b.d.cores = 8 // who waits listens for a while
	q := b.queue(0)
	release := b.hold(q)
	q.Copy(b.dev[0], b.pinned, bellFrom, driver.Tag{Task: 7})
	over := make(chan bool)
	go func() { over <- q.Wait(0, nil) }()
	q.listened()
	b.f.breakGPU(0, illegalAddress)
	if !<-over {
		t.Error("not over")
	}
	if got := b.sink.next(t); !errors.Is(got.err, driver.ErrFault) {
		t.Errorf("failed with %v", got.err)
	}
	release()
}

// TestBellIsNotForSmallCopies proves that nobody lets the bell ring for a small copy, and that what was copied long ago does not count.
func TestBellIsNotForSmallCopies(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	for range 3 {
		q.Copy(b.dev[0], b.pinned, bellFrom-1, driver.Tag{})
		b.sync(q)
		q.mu.Lock()
		if q.load != 0 || q.bell != nil {
			t.Errorf("%d bytes, bell %v", q.load, q.bell)
		}
		q.mu.Unlock()
	}
}
