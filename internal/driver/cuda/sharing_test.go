package cuda

import (
	"errors"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// newShared returns a bed with more devices than fake GPUs.
func newShared(t *testing.T, gpus int, o Options) *bed {
	t.Helper()
	o.Share = true
	return newBedOn(t, newFake(gpus), o)
}

// gpuFree is the free memory of a fake GPU.
const gpuFree = 8<<30 - fakeInUse

// TestSharedNumber proves the number of devices and their GPUs: by default there is a device for each GPU.
func TestSharedNumber(t *testing.T) {
	for _, tt := range []struct {
		gpus    int
		o       Options
		want    []int // GPU of each device
		sharers []int
	}{
		{1, Options{}, []int{0}, []int{1}},
		{2, Options{Devices: 8}, []int{0, 1}, []int{1, 1}},
		{1, Options{Devices: 3, Share: true}, []int{0, 0, 0}, []int{3, 3, 3}},
		{2, Options{Devices: 5, Share: true}, []int{0, 1, 0, 1, 0}, []int{3, 2, 3, 2, 3}},
		{3, Options{Devices: 2, Share: true}, []int{0, 1}, []int{1, 1}},
	} {
		d, err := start(newFake(tt.gpus), tt.o)
		testenv.OK(t, err)
		if d.Devices() != len(tt.want) {
			t.Fatalf("%d GPUs, %+v: %d devices", tt.gpus, tt.o, d.Devices())
		}
		for i, gpu := range tt.want {
			if d.GPU(i) != gpu || d.gpus[i].Sharers != tt.sharers[i] {
				t.Errorf("%d GPUs, %+v: device %d is on GPU %d with %d", tt.gpus, tt.o, i, d.GPU(i), d.gpus[i].Sharers)
			}
		}
	}
}

// TestSharedMemory proves that devices on one GPU have exactly equal shares of its memory, which no other device can
// use.
func TestSharedMemory(t *testing.T) {
	b := newShared(t, 1, Options{Devices: 2})
	mem := func(i int) (free, total uint64) { return b.devs[i].Memory() }
	var sum uint64
	for i := range b.devs {
		free, total := mem(i)
		if total > gpuFree/2 || total < gpuFree/2-1<<20 || free != total-bedBytes {
			t.Errorf("device %d has %d of %d free, the GPU %d", i, free, total, uint64(gpuFree))
		}
		sum += total
	}
	if sum > gpuFree {
		t.Errorf("the devices have %d together, the GPU %d", sum, uint64(gpuFree))
	}
	freeBefore, totalBefore := mem(1)
	own, _ := mem(0)
	if _, err := b.devs[0].Alloc(own+1, driver.PageNormal); !errors.Is(err, driver.ErrNoMemory) {
		t.Errorf("a byte more than its part: %v", err)
	}
	if free, _ := mem(0); free != own {
		t.Errorf("a refusal takes %d bytes", own-free)
	}
	all := b.alloc(0, own)
	if free, total := mem(1); free != freeBefore || total != totalBefore {
		t.Errorf("the other device has %d of %d free, before %d of %d", free, total, freeBefore, totalBefore)
	}
	if _, err := b.devs[0].Alloc(1, driver.PageNormal); !errors.Is(err, driver.ErrNoMemory) {
		t.Errorf("a byte of a device that is full: %v", err)
	}
	testenv.OK(t, b.devs[0].Free(all))
	for i, want := range []uint64{own, freeBefore} {
		if free, _ := mem(i); free != want {
			t.Errorf("device %d has %d free in the end, before %d", i, free, want)
		}
	}
	if peak := b.devs[0].Peak(); peak != own+bedBytes {
		t.Errorf("the most was %d, want %d", peak, own+bedBytes)
	}
}

// TestSharedOpenedLater proves that a device that is opened after another one on the GPU has allocated memory has the
// same share.
func TestSharedOpenedLater(t *testing.T) {
	b := newShared(t, 1, Options{Devices: 2})
	testenv.OK(t, b.devs[1].Close())
	b.alloc(0, 3<<30)
	b.open(1)
	_, first := b.devs[0].Memory()
	_, second := b.devs[1].Memory()
	if first != second {
		t.Errorf("%d and %d", first, second)
	}
}

// TestMemoryLimit proves that devices have at most Options.Memory, on separate GPUs and on one.
func TestMemoryLimit(t *testing.T) {
	const limit = 100 << 20
	for _, gpus := range []int{1, 2} {
		b := newShared(t, gpus, Options{Devices: 2, Memory: limit})
		for i, v := range b.devs {
			if free, total := v.Memory(); total != limit || free != limit-bedBytes {
				t.Errorf("%d GPUs, device %d: %d of %d free", gpus, i, free, total)
			}
			if _, err := v.Alloc(limit, driver.PageNormal); !errors.Is(err, driver.ErrNoMemory) {
				t.Errorf("%d GPUs, device %d: %v", gpus, i, err)
			}
			b.alloc(i, limit-bedBytes)
		}
	}
	b := newBed(t, 1)
	if _, total := b.devs[0].Memory(); total != gpuFree {
		t.Errorf("without a limit it is %d, want %d", total, uint64(gpuFree))
	}
}

// TestSharedApart proves that closing a device does not affect another one on its GPU: the work of that one completes,
// its memory stays, and promised flags are set.
func TestSharedApart(t *testing.T) {
	b := newShared(t, 1, Options{Devices: 2})
	b.write(b.dev[0], noise(1, bedBytes))
	q, other := b.queue(1), b.queue(0)
	copied, hold := b.d.NewFlag(), make(chan struct{})
	other.Copy(b.dev[1], b.dev[0], bedBytes, driver.Tag{}) // from device to device
	other.Submit(driver.Op{Kind: driver.OpSet, Flag: copied})
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: copied})
	s, _ := b.f.stream(q.stream)
	s.put(fakeOrder{kind: 'k', kernel: func() { <-hold }})
	q.Copy(b.pinned, b.dev[1], bedBytes, driver.Tag{})
	b.sync(other)
	free, total := b.devs[1].Memory()
	closed := make(chan error)
	go func() { closed <- b.devs[0].Close() }() // CUDA frees when everything on the GPU is over
	if q.Idle() {
		t.Fatal("the copy is over")
	}
	close(hold)
	testenv.OK(t, <-closed)
	b.sync(q)
	b.quiet()
	if string(bytesAt(b.pinned, bedBytes)) != string(noise(1, bedBytes)) {
		t.Error("what was copied differs")
	}
	if f, n := b.devs[1].Memory(); f != free || n != total {
		t.Errorf("%d of %d free, before %d of %d", f, n, free, total)
	}
	b.works(1, b.pinned)
	b.open(0)
	b.works(0, b.pinned)
}

// TestSharedBatch proves that a kernel makes copies between two devices on one GPU, as inside a device, and that the
// copy engines make those between two GPUs.
func TestSharedBatch(t *testing.T) {
	const segments = 20
	for gpus, want := range map[int][2]int32{1: {1, 0}, 2: {0, segments}} { // numbers of launches and single copies
		f := &counting{fake: newFake(gpus)}
		f.careful = true
		d, err := start(f, Options{Devices: 2, Share: true})
		testenv.OK(t, err)
		b := newBedOf(t, d, f.fake)
		b.write(b.dev[0], noise(5, bedBytes))
		segs := driver.NewSegments()
		for i := range uintptr(segments) {
			segs.Add(b.dev[1]+1000*i, b.dev[0]+1000*i, 1000)
		}
		q := b.queue(0)
		q.Copy(b.dev[0], b.dev[0]+bedBytes/2, 16, driver.Tag{}) // makes the stream
		b.sync(q)
		launches, loops := f.launches.Load(), f.loops.Load()
		q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
		b.sync(q)
		if got := [2]int32{f.launches.Load() - launches, f.loops.Load() - loops}; got != want {
			t.Errorf("%d GPUs: %d launches and %d copies, want %v", gpus, got[0], got[1], want)
		}
		if got := b.read(b.dev[1], segments*1000); string(got[16:]) != string(noise(5, bedBytes)[16:segments*1000]) {
			t.Errorf("%d GPUs: what was copied differs", gpus)
		}
		b.quiet()
	}
}
