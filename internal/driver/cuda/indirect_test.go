package cuda

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/testenv"
)

// put writes b to pinned memory. Inlined it would break the compiler of Go 1.26.
//
//go:noinline
func put(at uintptr, b []byte) { copy(bytesAt(at, uint64(len(b))), b) }

// descriptor returns a copy descriptor of the long layout.
func descriptor(dst, src uintptr, n uint32) []byte {
	b, l := make([]byte, 64), driver.Desc64
	binary.LittleEndian.PutUint32(b[l.Length:], n)
	binary.LittleEndian.PutUint64(b[l.Src:], uint64(src))
	binary.LittleEndian.PutUint64(b[l.Dst:], uint64(dst))
	return b
}

func descCopy(at uintptr, task uint32) driver.Op {
	return driver.Op{Kind: driver.OpDesc, Src: at, N: 64, Layout: driver.Desc64, Tag: driver.Tag{Task: task}}
}

// noise returns n pseudorandom bytes.
func noise(seed uint64, n int) []byte {
	b, r := make([]byte, n), rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestIndirectIsHandedOver proves that descriptor and offset copies go to the stream together with other tasks, that no
// goroutine waits, and that the stream reads the addresses when it reaches the copies.
func TestIndirectIsHandedOver(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	meta, from, to := b.alloc(0, 128), b.alloc(0, 1000), b.alloc(0, 1000)
	data := noise(1, 1000)
	b.write(from, data)
	b.write(meta, make([]byte, 128))
	put(b.pinned, descriptor(to, from, 500))
	cells := bytesAt(b.pinned+64, 16)
	binary.LittleEndian.PutUint64(cells, uint64(to))
	binary.LittleEndian.PutUint64(cells[8:], uint64(from))
	q.Copy(b.dev[0], b.pinned, 1, driver.Tag{})
	b.sync(q)

	release := b.f.hold(q)
	q.Copy(meta, b.pinned, 80, driver.Tag{})
	q.Submit(descCopy(meta, 1))
	q.Submit(driver.Op{Kind: driver.OpOffset, Dst: meta + 64, Src: meta + 72, N: 400, DstPitch: 500, SrcPitch: 600})
	q.Copy(b.pinned+1000, to, 1000, driver.Tag{})
	if marks, list := q.handed(); marks != 2 || list != 0 {
		t.Errorf("%d copies are on the stream, and %d tasks wait", marks, list)
	}
	release()
	b.sync(q)
	b.quiet()
	if got := bytesAt(b.pinned+1000, 900); !bytes.Equal(got, append(data[:500:500], data[600:]...)) {
		t.Error("what was copied differs")
	}
}

// TestIndirectFault proves that the device checks addresses: a bad one only fails its task, later tasks run, and
// nothing is broken.
func TestIndirectFault(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	meta, good, freed := b.alloc(0, 64), b.alloc(0, 100), b.alloc(0, 100)
	testenv.OK(t, b.devs[0].Free(freed))
	for i, pair := range [][2]uintptr{{freed, good}, {good, freed}, {b.pinned, good}, {good, b.pinned},
		{good + 1, good}, {good, ^uintptr(0)}} {
		b.write(meta, descriptor(pair[0], pair[1], 100))
		b.write(good, noise(1, 100))
		over := make(chan struct{})
		op := descCopy(meta, uint32(i))
		op.Done = func() { close(over) }
		q.Submit(op)
		q.Copy(b.dev[0], good, 100, driver.Tag{Task: 99})
		if _, list := q.handed(); list != 0 {
			t.Error("the host does it")
		}
		b.sync(q)
		<-over
		if got := b.sink.next(t); got.tag.Task != uint32(i) || !errors.Is(got.err, driver.ErrFault) {
			t.Errorf("%d: task %d failed with %v", i, got.tag.Task, got.err)
		}
		b.quiet()
		if !bytes.Equal(b.read(good, 100), noise(1, 100)) || !bytes.Equal(b.read(b.dev[0], 100), noise(1, 100)) {
			t.Errorf("%d: something was written, or what is behind did not run", i)
		}
	}
	if err := b.devs[0].Healthy(); err != nil {
		t.Error(err)
	}
}

// TestLiveTables proves that each copy is checked against the memory at its submission, and that tables are reused.
func TestLiveTables(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	c := b.d.gpus[0]
	meta := b.alloc(0, 64*32)
	q.Copy(meta, b.pinned, 1, driver.Tag{})
	for round := range 5 {
		release := b.f.hold(q)
		for i := range 30 {
			a, at := b.alloc(0, 100), meta+uintptr(64*i)
			put(b.pinned+uintptr(64*i), descriptor(a, a, 100))
			q.Copy(at, b.pinned+uintptr(64*i), 64, driver.Tag{})
			q.Submit(descCopy(at, uint32(i)))
		}
		if _, list := q.handed(); list != 0 {
			t.Fatal("the host does it")
		}
		release()
		b.sync(q)
		b.quiet()
		c.mu.Lock()
		if n := len(c.spareLives); n > 31 || c.live.users != 0 {
			t.Errorf("round %d: %d tables that nobody reads, %d read the latest", round, n, c.live.users)
		}
		if n := len(c.words); n != wordBlock/4 {
			t.Errorf("round %d: %d words are back", round, n)
		}
		c.mu.Unlock()
	}
	for range 600 { // more than fit in a table
		b.alloc(0, 8)
	}
	last := b.alloc(0, 8)
	b.write(meta, descriptor(last, b.dev[0], 8))
	q.Submit(descCopy(meta, 1))
	b.sync(q)
	b.quiet()
}

// strictSink stops on failures.
type strictSink struct {
	failures
	q driver.Queue
}

func (s *strictSink) TaskFailed(tag driver.Tag, err error) {
	s.failures.TaskFailed(tag, err)
	s.q.Shut()
}

// TestIndirectStrict proves that nothing runs after a failure if the queue stops on failures.
func TestIndirectStrict(t *testing.T) {
	b := newBed(t, 1)
	s := &strictSink{failures: b.sink}
	events := driver.Events{Failed: s.TaskFailed, Stops: func() bool { return true }}
	s.q = b.devs[0].NewQueue(driver.QueueOptions{Events: events})
	meta := b.alloc(0, 64)
	b.write(meta, descriptor(12345, b.dev[0], 8))
	b.write(b.dev[0], []byte{1})
	s.q.Submit(descCopy(meta, 1))
	s.q.Submit(driver.Op{Kind: driver.OpFill, Dst: b.dev[0], N: 1, Width: 1, Value: 2})
	if !s.q.Wait(time.Minute, nil) {
		t.Fatal("does not end")
	}
	if got := b.sink.next(t); !errors.Is(got.err, driver.ErrFault) {
		t.Error(got.err)
	}
	if b.read(b.dev[0], 1)[0] != 1 {
		t.Error("what is behind the failure has run")
	}
}

// TestIndirectAlias proves that a descriptor may contain the device address of registered memory.
func TestIndirectAlias(t *testing.T) {
	b := newBed(t, 1)
	q := b.queue(0)
	alias, err := b.d.Register(b.pinned, 4096, true, 0)
	testenv.OK(t, err)
	meta := b.alloc(0, 64)
	b.write(b.dev[0], noise(3, 100))
	for _, registered := range []bool{true, false} {
		b.write(meta, descriptor(alias+5, b.dev[0], 100))
		q.Submit(descCopy(meta, 1))
		b.sync(q)
		if registered {
			b.quiet()
			if !bytes.Equal(bytesAt(b.pinned+5, 100), noise(3, 100)) {
				t.Error("differs")
			}
			testenv.OK(t, b.d.Unregister(b.pinned))
		} else if got := b.sink.next(t); !errors.Is(got.err, driver.ErrFault) {
			t.Errorf("unregistered: %v", got.err)
		}
	}
}

// TestIndirectRandom compares random descriptor copies, good and bad, on several queues with a model, while memory is
// allocated and freed.
func TestIndirectRandom(t *testing.T) {
	b := newBed(t, 2)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			addr, err := b.devs[i%2].Alloc(uint64(1+i%5000), driver.PageNormal)
			if err == nil {
				err = b.devs[i%2].Free(addr)
			}
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			sink := make(failures, 100)
			v := b.devs[w%2]
			q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
			const size = 10_000
			mem, err1 := v.Alloc(size, driver.PageNormal)
			meta, err2 := v.Alloc(64, driver.PageNormal)
			host, err3 := b.d.AllocHost(64*50 + size)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Error(err)
				return
			}
			r, model := rand.New(rand.NewPCG(uint64(w), 2)), noise(uint64(w), size)
			out := bytesAt(host+64*50, size)
			copy(out, model)
			q.Copy(mem, host+64*50, size, driver.Tag{})
			for round := range 20 {
				bad := 0
				for i := range 50 {
					n := r.IntN(size / 2)
					dst, src := r.IntN(size-n+1), r.IntN(size-n+1)
					at := host + uintptr(64*i)
					if r.IntN(5) == 0 {
						put(at, descriptor(mem+uintptr(dst), mem+size-uintptr(n)+1, uint32(n)))
						bad++
					} else {
						put(at, descriptor(mem+uintptr(dst), mem+uintptr(src), uint32(n)))
						copy(model[dst:dst+n], model[src:])
					}
					q.Copy(meta, at, 64, driver.Tag{})
					op := descCopy(meta, uint32(i))
					op.Device = int32(w % 2)
					q.Submit(op)
				}
				q.Copy(host+64*50, mem, size, driver.Tag{})
				if !q.Wait(time.Minute, nil) || len(sink) != bad || !bytes.Equal(out, model) {
					t.Errorf("queue %d, round %d: %d of %d failed, equal %v", w, round, len(sink), bad,
						bytes.Equal(out, model))
					return
				}
				for range bad {
					<-sink
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	wg.Wait()
}

// TestMultiprocessors proves the number of blocks of kernels: few over the link unless more are allowed, and never more
// than allowed.
func TestMultiprocessors(t *testing.T) {
	for _, tt := range []struct{ percent, up, down, on, move int }{
		{0, 4, 4, 8, 8}, {100, 4, 4, 8, 8}, {50, 2, 2, 2, 2}, {25, 1, 1, 1, 1}, {1, 1, 1, 1, 1},
	} {
		b := newBedOn(t, newFake(1), Options{Multiprocessors: tt.percent})
		q := b.queue(0)
		other := b.alloc(0, bedBytes)
		for name, want := range map[string]struct {
			dst, src uintptr
			blocks   int
		}{"up": {b.dev[0], b.pinned, tt.up}, "down": {b.pinned, b.dev[0], tt.down},
			"on the device": {b.dev[0], other, tt.on}} {
			b.f.mu.Lock()
			delete(b.f.blocks, kernels.Gather)
			b.f.mu.Unlock()
			segs := driver.NewSegments()
			for i := range uintptr(4000) {
				segs.Add(want.dst+16*i, want.src+16*i, 16)
			}
			q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
			b.sync(q)
			if got := b.f.blocks[kernels.Gather]; got != want.blocks {
				t.Errorf("%d%%, %s: %d blocks, want %d", tt.percent, name, got, want.blocks)
			}
		}
		meta := b.alloc(0, 64)
		b.write(meta, descriptor(b.dev[0], other, 1000))
		q.Submit(descCopy(meta, 1))
		b.sync(q)
		if got := b.f.blocks[kernels.Move]; got != tt.move {
			t.Errorf("%d%%: %d blocks move, want %d", tt.percent, got, tt.move)
		}
		b.quiet()
	}
}

// TestNoReaders proves that descriptor copies work without the kernels, and that the user is warned.
func TestNoReaders(t *testing.T) {
	f, said := newFake(1), ""
	f.noKernel = kernels.Move
	b := newBedOn(t, f, Options{Warn: func(text string) { said += fmt.Sprintln(text) }})
	q := b.queue(0)
	meta := b.alloc(0, 64)
	b.write(b.dev[0], noise(9, 500))
	b.write(meta, descriptor(b.dev[0]+1000, b.dev[0], 500))
	for range 2 {
		q.Submit(descCopy(meta, 1))
		b.sync(q)
	}
	b.quiet()
	if !bytes.Equal(b.read(b.dev[0]+1000, 500), noise(9, 500)) {
		t.Error("differs")
	}
	if said == "" || bytes.Count([]byte(said), []byte("\n")) != 1 {
		t.Errorf("the warning is %q", said)
	}
}
