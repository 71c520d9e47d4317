package cuda

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/testenv"
)

// TestGPUIndirect proves on a GPU that descriptor copies go to the stream, are checked and made there, and break
// nothing.
func TestGPUIndirect(t *testing.T) {
	b := newBedOf(t, openGPU(t), nil)
	if !b.d.gpus[0].HasClock() {
		t.Error("the GPU does not tell the time")
	}
	q := b.queue(0)
	meta := b.alloc(0, 128)
	b.write(meta, descriptor(b.dev[0]+bedBytes/2, b.dev[0], 1000))
	b.write(meta+64, descriptor(b.dev[0], 12345, 1000))
	b.write(b.dev[0], noise(4, 1000))
	for i := range uint32(1000) {
		q.Submit(descCopy(meta, 2*i))
		q.Submit(descCopy(meta+64, 2*i+1))
		if _, list := q.handed(); list != 0 {
			t.Fatal("the host does it")
		}
		if i%100 == 99 {
			b.sync(q)
		}
	}
	b.sync(q)
	for i := range uint32(1000) {
		if got := b.sink.next(t); got.tag.Task != 2*i+1 || !errors.Is(got.err, driver.ErrFault) {
			t.Fatalf("task %d failed with %v", got.tag.Task, got.err)
		}
	}
	b.quiet()
	if string(b.read(b.dev[0]+bedBytes/2, 1000)) != string(noise(4, 1000)) {
		t.Error("what was copied differs")
	}
	for i := range b.devs {
		b.works(i, b.pinned)
	}
}

// TestGPUEventTimes proves on a GPU that the times of flags differ by the time that CUDA measures between the events.
func TestGPUEventTimes(t *testing.T) {
	b := newBedOf(t, openGPU(t), nil)
	const n = 512 << 20
	src, dst := b.alloc(0, n), b.alloc(0, n)
	q := b.queue(0)
	for range 5 {
		first, second := b.d.NewFlag(), b.d.NewFlag()
		// so that all later work is on the stream at once
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: first, Timeout: time.Millisecond})
		b.sync(q)
		b.sink.next(t)
		q.Copy(dst, src, n, driver.Tag{})
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: first})
		q.Copy(src, dst, n, driver.Tag{})
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: second})
		var events [2]uintptr
		for i, f := range []*flag{first.(*flag), second.(*flag)} {
			f.mu.Lock()
			if len(f.promises) > 0 {
				events[i] = f.promises[0].event
			}
			f.mu.Unlock()
		}
		b.sync(q)
		if events[0] == 0 || events[1] == 0 {
			continue // over before they were checked
		}
		c := b.d.gpus[0]
		c.Enter()
		ms, r := b.d.lib.EventElapsedTime(events[0], events[1])
		c.Leave()
		got := float64(second.SetAt()-first.SetAt()) / 1e6
		if off := got - float64(ms); r != libcuda.Success || off > 0.01*float64(ms) || off < -0.01*float64(ms) {
			t.Errorf("%g ms apart, CUDA says %g (%d)", got, ms, r)
		}
		t.Logf("a copy of %d MiB: %.3f ms, CUDA says %.3f", n>>20, got, ms)
	}
}

// TestGPUBreak breaks GPU 0. It needs a process of its own, with ROPEWAY_TEST_BREAK=1.
func TestGPUBreak(t *testing.T) {
	if os.Getenv("ROPEWAY_TEST_BREAK") == "" {
		t.Skip("ROPEWAY_TEST_BREAK is not set")
	}
	newBedOf(t, openGPU(t), nil).breakAndOpen()
}

// TestBreakFake is TestGPUBreak on the fake.
func TestBreakFake(t *testing.T) { newBed(t, 2).breakAndOpen() }

// breakAndOpen lets a kernel access unmapped memory, and proves the state of the devices and that the first one stays
// lost.
func (b *bed) breakAndOpen() {
	q := b.queue(0)
	q.Copy(b.dev[0], b.pinned, 10, driver.Tag{})
	b.sync(q)
	c := b.d.gpus[0]
	found := b.alloc(0, 32) // as if the device had accepted wild addresses
	wild := make([]byte, 32)
	for i, v := range []uint64{1 << 20, 1 << 21, 4096} {
		binary.LittleEndian.PutUint64(wild[8*i:], v)
	}
	b.write(found, wild)
	c.Enter()
	k := c.readers()
	params := binary.LittleEndian.AppendUint64(nil, uint64(found))
	r := b.d.lib.LaunchKernel(k.move, 1, kernels.Threads, params, q.stream)
	c.Leave()
	if r != libcuda.Success {
		b.Fatalf("the launch answers %d", r)
	}
	q.Copy(b.dev[0], b.pinned, 10, driver.Tag{Task: 2})
	b.sync(q)
	if got := b.sink.next(b.T); !errors.Is(got.err, driver.ErrFault) {
		b.Errorf("failed with %v", got.err)
	} else {
		b.Log(got.err)
	}
	if err := b.devs[0].Healthy(); !errors.Is(err, driver.ErrLost) {
		b.Errorf("healthy: %v", err)
	}
	for i := 1; i < len(b.devs); i++ {
		b.works(i, b.pinned)
	}
	if err := b.devs[0].Close(); err != nil {
		b.Errorf("close: %v", err)
	}
	if _, err := b.d.Open(0); !errors.Is(err, driver.ErrLost) {
		b.Errorf("open of a lost device: %v", err)
	}
}

// BenchmarkDescriptor measures descriptor copies of 4 KiB, 100 in flight.
func BenchmarkDescriptor(b *testing.B) {
	d := openGPU(b)
	defer d.Close()
	v, err := d.Open(0)
	testenv.OK(b, err)
	mem, err := v.Alloc(16<<10, driver.PageNormal)
	testenv.OK(b, err)
	text := descriptor(mem+8192, mem+4096, 4096)
	testenv.OK(b, d.Run(driver.Op{Kind: driver.OpCopy, Dst: mem, Src: startOf(text), N: 64}))
	q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: make(failures, 1).TaskFailed}})
	for i := 0; b.Loop(); i++ {
		q.Submit(descCopy(mem, 1))
		if i%100 == 99 {
			q.Wait(0, nil)
		}
	}
	q.Wait(0, nil)
	v.Close()
}
