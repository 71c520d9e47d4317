package soft

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// noSink ignores failures.
type noSink struct{ t *testing.T }

func (s noSink) TaskFailed(_ driver.Tag, err error) { s.t.Error(err) }

// cpuTime returns the CPU time that the process has used.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	testenv.OK(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestIdleUsesNoCPU: once the work is done, workers and waiters sleep. A goroutine that kept polling would use all of
// the time that passes; the limit is a third of it.
func TestIdleUsesNoCPU(t *testing.T) {
	d, err := New(Options{Devices: 1, Memory: leastMemory})
	testenv.OK(t, err)
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	const n = 8 << 20
	var p [2]uintptr
	for i := range p {
		if p[i], err = dev.Alloc(n, driver.PageHugeFirst); err != nil {
			t.Fatal(err)
		}
	}
	busy, blocked := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: noSink{t}.TaskFailed}}),
		dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: noSink{t}.TaskFailed}})
	for range 20 {
		busy.Copy(p[0], p[1], n, driver.Tag{})
	}
	busy.Wait(0, nil)
	f := d.NewFlag()
	blocked.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
	waited := make(chan struct{})
	go func() { blocked.Wait(0, nil); close(waited) }()
	time.Sleep(50 * time.Millisecond)

	const pause = 600 * time.Millisecond
	before := cpuTime(t)
	time.Sleep(pause)
	if used := cpuTime(t) - before; used > pause/3 {
		t.Errorf("%v of CPU used in %v with nothing to do", used, pause)
	}
	f.Set()
	<-waited
}
