package far

import (
	"runtime"
	"testing"
	"time"

	"ropeway/internal/driver"
)

// TestStays proves which memory is read where it is while it is sent: that of the driver below, and none of the
// program's own; and that a device is closed when copies that have departed are over, and that later ones do not rely
// on its memory.
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
	for begin := time.Now(); ; runtime.Gosched() {
		b.b.mu.Lock()
		waits := b.b.holders > 0
		b.b.mu.Unlock()
		if waits {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("closing does not wait for a copy")
		}
	}
	if b.b.stays(b.local) || b.b.stays(b.pin) {
		t.Error("memory stays although its device is being closed")
	}
	if _, err := b.b.viewer.View(b.local, size); err != nil {
		t.Errorf("the device was closed under a copy: %v", err)
	}
	b.b.arrive()
	b.ok(<-closed)
	b.dev = must[driver.Device](t)(b.b.Open(1))
	b.q = b.dev.NewQueue(driver.QueueOptions{Sink: b.sink})
	b.local = must[uintptr](t)(b.dev.Alloc(size, driver.PageHugeFirst))
	if !b.b.stays(b.local) {
		t.Error("memory of a device that was opened again does not stay")
	}
}
