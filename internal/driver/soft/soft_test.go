package soft

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/testenv"
)

// open returns a small software machine.
func open(t testing.TB, o Options) *Driver {
	t.Helper()
	o.Warn = func(text string) { t.Log(text) }
	d, err := New(o)
	testenv.OK(t, err)
	return d
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return open(t, Options{Devices: 2}) })
}

func TestConformanceOwnPages(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		return open(t, Options{Devices: 1, Memory: 1 << 30, OwnPages: true})
	})
}

func TestConformanceGuard(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		return open(t, Options{Devices: 2, Memory: 1 << 30, Guard: true})
	})
}

func TestConformanceFaulty(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver {
		return faulty.Wrap(open(t, Options{Devices: 2, Memory: 1 << 30}))
	})
}

// In RC form host and device memory are the same: the host may touch device memory, and queues can use all host memory.
func TestOpenWindow(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 256 << 20, Open: true})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	const n = 1 << 20
	addr, err := dev.Alloc(n, driver.PageNormal)
	testenv.OK(t, err)
	sink := &log{make(chan error, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
	heap := bytes.Repeat([]byte{7}, n)
	for _, n := range []uint64{100, 5000, n} {
		clear(bytesAt(addr, n))
		q.Copy(addr, addressOf(heap), n, driver.Tag{})
		q.Wait(0, nil)
		if got := bytesAt(addr, n); bytes.Count(got, []byte{7}) != int(n) {
			t.Fatalf("%d bytes of ordinary memory: not all there", n)
		}
	}
	// Ordinary memory may turn out to be unmapped during a copy: in the submitter, in a worker, in a helper.
	b, err := unix.Mmap(-1, 0, 2*n, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(t, err)
	defer unix.Munmap(b)
	for i, bad := range []uintptr{addressOf(b), 8, 1 << 63} {
		for _, n := range []uint64{100, 5000, n} {
			q.Copy(addr, bad, n, driver.Tag{})
			q.Wait(time.Minute, nil)
			q.Copy(bad, addr, n, driver.Tag{})
			q.Wait(time.Minute, nil)
			for range 2 {
				if err := <-sink.failed; !errors.Is(err, driver.ErrFault) {
					t.Fatalf("bad address %d: %v", i, err)
				}
			}
		}
	}
}

// Neighbours in a batch may belong to different devices whose windows are adjacent.
func TestLens(t *testing.T) {
	d := open(t, Options{Devices: 2, Memory: leastMemory})
	defer d.Close()
	var addr [2]uintptr
	for i := range addr {
		dev, err := d.Open(i)
		testenv.OK(t, err)
		defer dev.Close()
		if i == 0 {
			if addr[0], err = dev.Alloc(leastMemory, driver.PageNormal); err != nil {
				t.Skip(err)
			}
		}
		addr[1] = addr[0] + leastMemory
	}
	if a := d.arenaOf(addr[1]); a == nil || a == d.arenaOf(addr[0]) {
		t.Skip("the windows do not touch")
	}
	l := resolver{d: d}
	for _, s := range []struct {
		addr uintptr
		n    uint64
	}{{addr[1], 0}, {addr[0], 16}, {addr[1], 0}, {addr[1] - 16, 16}, {addr[0] + 5, 0}} {
		got, err := l.resolve(s.addr, s.n)
		if err != nil || got != s.addr+d.arenaOf(s.addr).Delta() {
			t.Errorf("%d bytes at %#x: %#x, %v, want %#x", s.n, s.addr, got, err, s.addr+d.arenaOf(s.addr).Delta())
		}
		if f := l.frame; f.Size > 0 {
			if a := d.arenaOf(f.Lo); a.Room(f.Lo) != uint64(f.Size) || f.Delta != a.Delta() {
				t.Errorf("after %d bytes at %#x the frame %+v is no rest of an allocation", s.n, s.addr, f)
			}
		}
	}
	if l.frame.Lo != addr[0] {
		t.Errorf("the frame %+v does not begin at the lowest address seen, %#x", l.frame, addr[0])
	}
	if _, err := l.resolve(addr[1]-16, 17); !errors.Is(err, driver.ErrFault) {
		t.Errorf("past the end: %v", err)
	}
}
