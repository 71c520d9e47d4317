package modeltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

const (
	soakDevices    = 4
	soakStreams    = 16
	soakGoroutines = 64
	soakBytes      = 192 << 10 // each goroutine's share of a buffer, at most
)

// TestSoakCopies has 64 goroutines share 16 streams on 4 devices. Each sends bytes of its own on random ways and looks
// at every one that comes back. At the end nothing is lost and nothing is left.
func TestSoakCopies(t *testing.T) {
	soak(t, testenv.Soak(t))
}

// TestShortSoak is the soak test for every day.
func TestShortSoak(t *testing.T) {
	soak(t, 500*time.Millisecond)
}

func soak(t *testing.T, d time.Duration) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	maps, fds := mappings(t), files(t)
	s := newSoak(t)
	total := s.free(t)
	up := time.After(d)
	var wg sync.WaitGroup
	for g := range soakGoroutines {
		wg.Go(func() {
			r := &runner{soaking: s, rand: rand.New(rand.NewPCG(uint64(g), 7)), dev: g % soakDevices}
			if err := r.run(); err != nil {
				s.fail(fmt.Errorf("goroutine %d: %w", g, err))
			}
		})
	}
	select {
	case <-up:
	case <-s.failed:
	}
	s.stop.Store(true)
	wg.Wait()
	if s.err != nil {
		t.Error(s.err)
	}
	if a, b := s.submitted.Load(), s.verified.Load(); a != b || a == 0 {
		t.Errorf("%d round trips submitted, %d verified", a, b)
	}
	t.Logf("%d round trips, %d MiB, in %v", s.verified.Load(), s.bytes.Load()>>20, d)
	for i, h := range s.streams {
		if err := s.ctxs[i%soakDevices].DestroyStream(h); err != nil {
			t.Error(err)
		}
	}
	if left := s.free(t); left != total {
		t.Errorf("%d bytes of device memory were not freed", int64(total-left))
	}
	if l := s.rt.Live(); l != (core.Live{Contexts: soakDevices, Streams: soakDevices}) {
		// primary contexts and default streams
		t.Errorf("left: %+v", l)
	}
	th := s.rt.NewThread(0)
	for dev := range soakDevices {
		if err := th.ResetDevice(int32(dev)); err != nil {
			t.Error(err)
		}
	}
	if l := s.rt.Live(); l != (core.Live{}) {
		t.Errorf("left after the devices were reset: %+v", l)
	}
	if err := s.rt.Close(); err != nil {
		t.Error(err)
	}
	if n := mappings(t); n != maps {
		t.Errorf("%d mappings, %d before", n, maps)
	}
	if n := files(t); n != fds {
		t.Errorf("%d file descriptors, %d before", n, fds)
	}
}

// soaking is what the goroutines share.
type soaking struct {
	rt      *core.Runtime
	ctxs    []*core.Thread
	streams []core.Handle // stream i is of device i modulo soakDevices

	stop                       atomic.Bool
	submitted, verified, bytes atomic.Int64

	once   sync.Once
	failed chan struct{}
	err    error // valid when failed is closed
}

func newSoak(t *testing.T) *soaking {
	p, err := product.Find("A2", "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: soakDevices, Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	s := &soaking{rt: core.New(core.Options{Driver: d, Product: p}), failed: make(chan struct{})}
	th := s.rt.NewThread(0)
	defer th.Close()
	done := func(err *core.Error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for dev := range soakDevices {
		done(th.SetDevice(int32(dev)))
		var c core.Handle
		done(th.GetCurrentContext(&c))
		ctx := s.rt.ThreadIn(c)
		s.ctxs = append(s.ctxs, ctx)
		for peer := range soakDevices {
			if peer != dev {
				done(corememory.DeviceEnablePeerAccess(ctx, int32(peer), 0))
			}
		}
	}
	for i := range soakStreams {
		var h core.Handle
		done(s.ctxs[i%soakDevices].CreateStream(&h))
		s.streams = append(s.streams, h)
	}
	return s
}

// free is how many bytes of device memory are free.
func (s *soaking) free(t *testing.T) (sum uint64) {
	for _, ctx := range s.ctxs {
		var free, total uint64
		if err := corememory.GetMemInfo(ctx, abi.MemAttrHBMMem, &free, &total); err != nil {
			t.Fatal(err)
		}
		sum += free
	}
	return sum
}

func (s *soaking) fail(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.failed)
	})
}

// runner is one goroutine.
type runner struct {
	*soaking
	rand *rand.Rand
	dev  int
	err  error // first thing that went wrong; nothing is done after it

	up, down    core.Addr // pinned
	upB, downB  []byte
	mem         [2]core.Addr // on dev
	far         core.Addr    // on another device
	desc        core.Addr
	event       core.Handle
	n           int
	trace       []byte // what the round trip did, in letters
	round       uint64
	batchArrays struct {
		dsts, srcs []core.Addr
		sizes      []uint64
		attr       abi.MemcpyBatchAttr
		first, at  uint64
	}
}

// do notes an error.
func (r *runner) do(err *core.Error) {
	if err != nil && r.err == nil {
		r.err = err
	}
}

func (r *runner) note(b byte) { r.trace = append(r.trace, b) }

func (r *runner) run() error {
	for !r.stop.Load() && r.err == nil {
		r.alloc()
		for range 1 + r.rand.IntN(40) {
			if r.stop.Load() || r.err != nil {
				break
			}
			r.roundTrip()
		}
		r.release()
	}
	return r.err
}

func (r *runner) ctx() *core.Thread { return r.ctxs[r.dev] }

// stream is one of the device's streams, which others use too.
func (r *runner) stream() core.Handle {
	return r.streams[r.dev+soakDevices*r.rand.IntN(soakStreams/soakDevices)]
}

func (r *runner) alloc() {
	r.n = 64 + r.rand.IntN(4000)
	if r.rand.IntN(8) == 0 {
		r.n = 64 + r.rand.IntN(soakBytes)
	}
	n, ctx := uint64(r.n), r.ctx()
	r.do(corememory.MallocHost(ctx, &r.up, n))
	r.do(corememory.MallocHost(ctx, &r.down, n))
	r.do(corememory.Malloc(ctx, &r.mem[0], n, abi.MemMallocHugeFirst))
	r.do(corememory.Malloc(ctx, &r.mem[1], n, abi.MemMallocNormalOnly))
	r.do(corememory.Malloc(r.ctxs[r.rand.IntN(soakDevices)], &r.far, n, abi.MemMallocHugeFirst))
	r.do(corememory.Malloc(ctx, &r.desc, 32, abi.MemMallocHugeFirst))
	r.do(ctx.CreateEventExWithFlag(&r.event, abi.EventSync|abi.EventCaptureStreamProgress))
	if r.err == nil {
		r.upB, r.downB = view(r.up, r.n), view(r.down, r.n)
	}
}

// release frees everything, from whatever device.
func (r *runner) release() {
	ctx := r.ctxs[r.rand.IntN(soakDevices)]
	for _, p := range []core.Addr{r.mem[0], r.mem[1], r.far, r.desc} {
		if p != 0 {
			r.do(corememory.Free(ctx, p))
		}
	}
	for _, p := range []core.Addr{r.up, r.down} {
		if p != 0 {
			r.do(corememory.FreeHost(ctx, p))
		}
	}
	if r.event != 0 {
		r.do(ctx.DestroyEvent(r.event))
	}
	r.up, r.down, r.mem, r.far, r.desc, r.event = 0, 0, [2]core.Addr{}, 0, 0, 0
}

// next is a stream that goes on where s is: the same, or another after an event.
func (r *runner) next(s core.Handle) core.Handle {
	o := r.stream()
	if o != s {
		r.note('e')
		r.do(r.ctx().RecordEvent(r.event, s))
		r.do(r.ctx().StreamWaitEvent(o, r.event))
	}
	return o
}

// roundTrip sends a pattern to the device, around there, and back.
func (r *runner) roundTrip() {
	ctx, n := r.ctx(), uint64(r.n)
	r.round++
	r.trace = r.trace[:0]
	x := r.rand.Uint64() | 1
	for i := 0; i+8 <= r.n; i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(r.upB[i:], x)
	}
	clear(r.downB)
	s := r.stream()
	r.submitted.Add(1)
	at := r.mem[r.rand.IntN(2)]
	up := r.rand.IntN(5)
	r.note('0' + byte(up))
	switch up {
	case 0:
		r.batch(s, at, r.up, abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(r.dev)}, abi.MemLocation{})
	case 1:
		page := bytes.Clone(r.upB)
		r.do(transfer.MemcpyAsync(ctx, at, n, addrOf(page), n, abi.MemcpyDefault, s))
		runtime.KeepAlive(page)
	case 2:
		w := n / 8
		r.do(transfer.Memcpy2dAsync(ctx, at, w, r.up, w, w, 8, abi.MemcpyHostToDevice, s))
		if rest := n - 8*w; rest > 0 {
			r.do(transfer.MemcpyAsync(ctx, at+uintptr(8*w), rest, r.up+uintptr(8*w), rest, abi.MemcpyDefault, s))
		}
	default:
		r.do(transfer.MemcpyAsync(ctx, at, n, r.up, n, abi.MemcpyHostToDevice, s))
	}
	for range r.rand.IntN(4) { // around
		s = r.next(s)
		to := []core.Addr{r.mem[0], r.mem[1], r.far}[r.rand.IntN(3)]
		if to == at {
			continue
		}
		if to != r.far && at != r.far && r.rand.IntN(3) == 0 {
			// The descriptor is in use until everything so far is over.
			r.do(ctx.RecordEvent(r.event, s))
			r.do(ctx.SynchronizeEvent(r.event))
			r.note('d')
			r.do(transfer.SetMemcpyDesc(ctx, r.desc, abi.MemcpyInnerDeviceToDevice, at, to, n, 0))
			r.do(transfer.MemcpyAsyncWithDesc(ctx, r.desc, abi.MemcpyInnerDeviceToDevice, s))
		} else {
			if r.rand.IntN(4) == 0 {
				r.do(transfer.MemsetAsync(ctx, to, n, int32(r.round), n, s))
			}
			r.note('c')
			r.do(transfer.MemcpyAsync(ctx, to, n, at, n, abi.MemcpyDefault, s))
		}
		at = to
	}
	s = r.next(s)
	got := r.downB
	k := r.rand.IntN(4)
	r.note('0' + byte(k))
	switch {
	case k == 0 && at != r.far:
		r.batch(s, r.down, at, abi.MemLocation{}, abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(r.dev)})
	case k == 1:
		got = make([]byte, n)
		r.do(transfer.MemcpyAsync(ctx, addrOf(got), n, at, n, abi.MemcpyDeviceToHost, s)) // waits itself
		r.verify(got)
		return
	default:
		r.do(transfer.MemcpyAsync(ctx, r.down, n, at, n, abi.MemcpyDeviceToHost, s))
	}
	k = r.rand.IntN(4)
	r.note('0' + byte(k))
	switch k {
	case 0:
		r.do(ctx.SynchronizeStream(s))
	case 1:
		r.do(ctx.RecordEvent(r.event, s))
		var st abi.EventRecordedStatus
		for st != abi.EventRecordedStatusComplete && r.err == nil {
			r.do(ctx.QueryEventStatus(r.event, &st))
			if st != abi.EventRecordedStatusComplete {
				time.Sleep(10 * time.Microsecond)
			}
		}
	default:
		r.do(ctx.RecordEvent(r.event, s))
		r.do(ctx.SynchronizeEvent(r.event))
	}
	r.verify(got)
}

func (r *runner) batch(s core.Handle, dst, src core.Addr, to, from abi.MemLocation) {
	b := &r.batchArrays
	b.dsts, b.srcs, b.sizes = b.dsts[:0], b.srcs[:0], b.sizes[:0]
	step := max(1, r.n/(1+r.rand.IntN(20)))
	for i := 0; i < r.n; i += step {
		b.dsts, b.srcs = append(b.dsts, dst+uintptr(i)), append(b.srcs, src+uintptr(i))
		b.sizes = append(b.sizes, uint64(min(step, r.n-i)))
	}
	b.attr, b.first = abi.MemcpyBatchAttr{DstLoc: to, SrcLoc: from}, 0
	r.do(transfer.MemcpyBatchAsync(r.ctx(), &b.dsts[0], &b.sizes[0], &b.srcs[0], &b.sizes[0], uint64(len(b.sizes)),
		&b.attr, &b.first, 1, &b.at, s))
}

// verify looks at every byte that came back.
func (r *runner) verify(got []byte) {
	if r.err != nil {
		return
	}
	if !bytes.Equal(got, r.upB) {
		diff, first, last := 0, r.n, 0
		for i := range got {
			if got[i] != r.upB[i] {
				diff++
				first = min(first, i)
				last = i
			}
		}
		r.err = fmt.Errorf("round %d (%s): %d of %d bytes differ, the first at %d, the last at %d: %#x, want %#x",
			r.round, r.trace, diff, r.n, first, last, got[first], r.upB[first])
		return
	}
	r.verified.Add(1)
	r.bytes.Add(int64(r.n))
}

// mappings counts what of the process's memory is a device's or pinned.
func mappings(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(text), "ropeway")
}

// files counts open file descriptors.
func files(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}
