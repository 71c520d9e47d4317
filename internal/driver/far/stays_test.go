package far

import (
	"runtime"
	"testing"
	"time"

	"ropeway/internal/driver"
)

// until waits until so is true for the importer's driver, whose mu it holds during the call.
func (b *bench) until(so func() bool) {
	b.Helper()
	for begin := time.Now(); ; runtime.Gosched() {
		b.b.mu.Lock()
		yes := so()
		b.b.mu.Unlock()
		if yes {
			return
		}
		if time.Since(begin) > time.Minute {
			b.Fatal("waited in vain")
		}
	}
}

// TestStays proves that only memory of the driver below is sent without a copy, not the program's own; that closing a
// device waits for departed copies; and that later ones do not rely on its memory.
func TestStays(t *testing.T) {
	b := setUp(t)
	own := newBuffer(4096)
	must[uintptr](t)(b.b.Register(addressOf(own), 4096, false, 1))
	for name, tt := range map[string]struct {
		at   uintptr
		want bool
	}{
		"device": {b.local, true}, "pinned": {b.pin, true}, "registered": {addressOf(own), false},
		"pageable": {addressOf(newBuffer(64)), false}, "of another server": {b.at, false},
	} {
		if got := b.b.stays(tt.at); got != tt.want {
			t.Errorf("%s: stays is %v", name, got)
		}
	}
	b.ok(b.b.Unregister(addressOf(own)))
	runtime.KeepAlive(own)

	if !b.b.depart(&flight{}) {
		t.Fatal("a copy has to wait, for nobody")
	}
	b.q.Close()
	closed := make(chan error, 1)
	go func() { closed <- b.dev.Close() }()
	b.until(func() bool { return b.b.holders > 0 })
	if b.b.stays(b.local) || b.b.stays(b.pin) {
		t.Error("memory stays although its device is being closed")
	}
	if _, err := b.b.viewer.View(b.local, size); err != nil {
		t.Errorf("the device was closed under a copy: %v", err)
	}
	b.b.arrive()
	b.ok(<-closed)
	b.dev = must[driver.Device](t)(b.b.Open(1))
	b.q = b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.sink.TaskFailed}})
	b.local = must[uintptr](t)(b.dev.Alloc(size, driver.PageHugeFirst))
	if !b.b.stays(b.local) {
		t.Error("memory of a device that was opened again does not stay")
	}
}

// TestHeldUpAndDropped drops batches that are held by still, at the moment they are released: their segments are not
// read after the queue has continued.
func TestHeldUpAndDropped(t *testing.T) {
	b := setUp(t)
	const n = 64
	batch := func(at uintptr) *driver.Segments {
		segs := driver.NewSegments()
		for i := range uintptr(n) {
			segs.Add(at+64*i, b.local+64*i, 64)
		}
		return segs
	}
	for round := range 400 {
		hold, held := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- b.b.still(func() error {
				close(held)
				<-hold
				return nil
			})
		}()
		<-held
		b.q.Submit(driver.Op{Kind: driver.OpBatch, Segs: batch(b.at)})
		b.until(func() bool { return len(b.b.held) > 0 })
		go close(hold)
		for range round % 20 {
			runtime.Gosched()
		}
		b.q.Drop()
		b.q.Submit(driver.Op{Kind: driver.OpBatch, Segs: batch(b.local + size/2)})
		b.q.Wait(0, nil)
		b.ok(<-done)
	}
}
