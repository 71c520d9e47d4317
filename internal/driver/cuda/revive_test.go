package cuda

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
)

// batchOf is a batch of small segments from one place to another.
func batchOf(dst, src uintptr) driver.Op {
	segs := driver.NewSegments()
	for i := range uintptr(100) {
		segs.Add(dst+10*i, src+10*i, 10)
	}
	return driver.Op{Kind: driver.OpBatch, Segs: segs, Tag: driver.Tag{Task: 7}}
}

// lose breaks the GPU of device 0, and closes it as a program would that resets it.
func (b *bed) lose() {
	b.Helper()
	q := b.queue(0)
	q.Copy(b.dev[0], b.pinned, 100, driver.Tag{})
	b.sync(q)
	b.f.breakGPU(0, illegalAddress)
	q.Copy(b.dev[0], b.pinned, 100, driver.Tag{Task: 1})
	b.sync(q)
	if got := b.sink.next(b.T); !errors.Is(got.err, driver.ErrFault) && !errors.Is(got.err, driver.ErrLost) {
		b.Errorf("failed with %v", got.err)
	}
	if err := b.devs[0].Healthy(); !errors.Is(err, driver.ErrLost) {
		b.Errorf("healthy: %v", err)
	}
}

// works fails the test unless a device copies both ways, by every means, with pinned and registered memory.
func (b *bed) works(device int, host ...uintptr) {
	b.Helper()
	q := b.queue(device)
	meta := b.alloc(device, 64)
	for i, h := range host {
		want := noise(uint64(device*10+i), 1000)
		put(h, want)
		q.Submit(batchOf(b.dev[device], h))
		other := b.alloc(device, 1000)
		b.write(meta, descriptor(other, b.dev[device], 1000))
		op := descCopy(meta, 8)
		op.Device = int32(device)
		q.Submit(op)
		flag := b.d.NewFlag()
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: flag})
		b.sync(q)
		b.quiet()
		if !flag.IsSet() || flag.SetAt() == 0 {
			b.Error("the flag is not set")
		}
		if got := b.read(other, 1000); !bytes.Equal(got, want) {
			b.Errorf("device %d, memory %d: what came up differs", device, i)
		}
		put(h, make([]byte, 1000))
		q.Submit(batchOf(h, other))
		b.sync(q)
		if !bytes.Equal(bytesAt(h, 1000), want) {
			b.Errorf("device %d, memory %d: what came down differs", device, i)
		}
	}
	b.quiet()
	if err := b.devs[device].Healthy(); err != nil {
		b.Errorf("device %d: %v", device, err)
	}
}

// TestRevive proves that a GPU that was lost works again once its device was closed and opened, with the host memory there was
// before, and that other GPUs go on all the time.
func TestRevive(t *testing.T) {
	b := newBed(t, 2)
	mapped, err := unix.Mmap(-1, 0, 2*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	registered := startOf(mapped)
	alias, err := b.d.Register(registered, 4096, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		b.works(0, b.pinned, registered)
		b.lose()
		b.works(1, b.pinned, registered)
		if _, err := b.devs[0].Alloc(10, driver.PageNormal); !errors.Is(err, driver.ErrLost) {
			t.Errorf("memory of a lost GPU: %v", err)
		}
		if err := b.devs[0].Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		old := b.dev[0]
		b.open(0)
		if l := b.d.Locate(old); old != b.dev[0] && l.Place == driver.OnDevice {
			t.Errorf("what was there before is %v", l)
		}
		b.works(0, b.pinned, registered)
		b.works(1, b.pinned, registered)
		if b.f.resets != round+1 {
			t.Errorf("%d resets", b.f.resets)
		}
	}
	// A registration whose memory is gone does not stand in the way; the host finds out when it is used.
	b.f.refuse = registered
	b.lose()
	b.devs[0].Close()
	b.open(0)
	put(registered, noise(5, 100))
	if err := b.d.Run(driver.Op{Kind: driver.OpCopy, Dst: b.dev[0], Src: alias, N: 100}); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(b.read(b.dev[0], 100), noise(5, 100)) {
		t.Error("memory that is not pinned any more was not copied")
	}
	b.works(0, b.pinned)
	if err := b.d.Unregister(registered); err != nil {
		t.Error(err)
	}
}

// TestReviveInVain proves that a GPU that CUDA cannot bring back stays lost, with a reason, that others go on, and that everything can
// be given back.
func TestReviveInVain(t *testing.T) {
	for _, gpus := range []int{1, 2} {
		for _, step := range []string{"retain", "reset", "use"} {
			b := newBed(t, gpus)
			second, err := b.d.AllocHost(100)
			if err != nil {
				t.Fatal(err)
			}
			b.f.gpu[0].hopeless = step
			b.lose()
			b.devs[0].Close()
			for range 2 {
				if _, err := b.d.Open(0); !errors.Is(err, driver.ErrLost) {
					t.Errorf("%s: open: %v", step, err)
				}
			}
			if gpus > 1 {
				b.works(1, b.pinned)
			} else if _, err := b.d.AllocHost(100); !errors.Is(err, driver.ErrLost) {
				t.Errorf("%s: pinned memory without a GPU: %v", step, err)
			}
			if err := b.d.FreeHost(second); err != nil {
				t.Errorf("%s: %v", step, err)
			}
		}
	}
}

// TestReviveShared proves that of two devices on one GPU both are lost, and that both have to be closed before one comes back.
func TestReviveShared(t *testing.T) {
	b := newBedOn(t, newFake(1), Options{Devices: 2, Share: true})
	b.works(1, b.pinned)
	b.lose()
	b.devs[0].Close()
	if _, err := b.d.Open(0); !errors.Is(err, driver.ErrLost) {
		t.Errorf("opened while the other is open: %v", err)
	}
	q := b.queue(1)
	q.Copy(b.dev[1], b.pinned, 10, driver.Tag{Task: 4})
	b.sync(q)
	if got := b.sink.next(t); got.tag.Task != 4 {
		t.Errorf("task %d failed", got.tag.Task)
	}
	b.devs[1].Close()
	b.open(1)
	b.open(0)
	b.works(0, b.pinned)
	b.works(1, b.pinned)
}

// TestReviveWhileUsed proves that a GPU is not replaced under who copies without a device: such a copy succeeds or finds it lost.
func TestReviveWhileUsed(t *testing.T) {
	b := newBed(t, 2)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			data := make([]byte, 3000)
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := b.d.Run(driver.Op{Kind: driver.OpCopy, Dst: b.dev[1], Src: startOf(data), N: 3000})
				if err != nil {
					t.Errorf("the other device: %v", err)
					return
				}
				addr, err := b.d.AllocHost(100)
				if err != nil && !errors.Is(err, driver.ErrLost) {
					t.Errorf("pinned memory: %v", err)
					return
				}
				if err == nil {
					if err := b.d.FreeHost(addr); err != nil {
						t.Errorf("pinned memory is given back: %v", err)
						return
					}
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	for range 10 {
		b.lose()
		b.devs[0].Close()
		b.open(0)
		b.works(0, b.pinned)
	}
	close(stop)
	wg.Wait()
}

// TestGate proves that who shuts a gate waits for those inside, who may enter again, and that others wait until it is open.
func TestGate(t *testing.T) {
	var g gate
	g.enter()
	shut := make(chan struct{})
	go func() {
		g.shut()
		close(shut)
	}()
	g.enter()
	g.leave()
	select {
	case <-shut:
		t.Error("shut while somebody is inside")
	default:
	}
	g.leave()
	<-shut
	in := make(chan struct{})
	go func() {
		g.enter()
		close(in)
	}()
	g.open()
	<-in
}
