package apitest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"ropeway"
	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/testenv"
)

// block holds a stream until the function it returns is called.
func block(t testing.TB, s *ropeway.Stream) (release func()) {
	t.Helper()
	gate := make(chan struct{})
	ok(t, s.Call(func() { <-gate }))
	return sync.OnceFunc(func() { close(gate) })
}

func TestCopies(t *testing.T) {
	d := device(t)
	for _, s := range []*ropeway.Stream{get(d.NewStream())(t), get(d.NewPriorityStream(0))(t),
		get(d.NewPriorityStream(7))(t), d.DefaultStream()} {
		host, mem := get(d.AllocPinned(4096))(t), get(d.Alloc(4096))(t)
		copy(host.Bytes(), pattern(4096, 0))
		ok(t, s.Copy(mem.All(), host.All()))
		ok(t, s.Copy2D(mem.Range(2048, 2048), 64, mem.Range(0, 2048), 128, 32, 16))
		ok(t, s.Fill(mem.Range(2048, 10), 9))
		ok(t, s.Fill32(mem.Range(4000, 8), 0x04030201))
		ok(t, s.Copy(host.Range(2048, 2048), mem.Range(2048, 2048)))
		ok(t, s.Synchronize(ctx))
		p := pattern(4096, 0)
		model := bytes.Clone(p[2048:])
		for row := range 16 {
			copy(model[row*64:row*64+32], p[row*128:])
		}
		copy(model, bytes.Repeat([]byte{9}, 10))
		copy(model[4000-2048:], []byte{1, 2, 3, 4, 1, 2, 3, 4})
		if !bytes.Equal(host.Bytes()[2048:], model) {
			t.Error("other bytes came back")
		}
		if idle, err := s.Idle(); err != nil || !idle {
			t.Errorf("Idle() = %t, %v", idle, err)
		}
		ok(t, d.Fill(mem.All(), 5))
		ok(t, d.Copy(host.All(), mem.All()))
		if !bytes.Equal(host.Bytes(), bytes.Repeat([]byte{5}, 4096)) {
			t.Error("other bytes after Fill")
		}
	}
}

func TestClosedStream(t *testing.T) {
	d := device(t)
	s, e, host, mem, desc := get(d.NewStream())(t), get(d.NewEvent())(t), get(d.AllocPinned(64))(t),
		get(d.Alloc(64))(t), get(d.NewDescriptor())(t)
	ok(t, d.Fill(mem.All(), 3))
	for _, priority := range []int{-1, 8} {
		_, err := d.NewPriorityStream(priority)
		want(t, err, ropeway.ErrRTParamInvalid, "aclrtCreateStreamWithConfig", "priority")
	}
	never := get(d.NewNotify())(t)
	ok(t, s.WaitNotify(never, 0))
	ok(t, s.Fill(mem.All(), 4))
	// what has not run is dropped, and that is said
	want(t, s.Close(), ropeway.ErrRTStreamAbort, "aclrtDestroyStreamForce", "stream")
	ok(t, d.Copy(host.All(), mem.All()))
	if host.Bytes()[63] != 3 {
		t.Error("a stream that was closed went on")
	}
	ok(t, get(d.NewStream())(t).Close())
	var b ropeway.Batch
	b.Add(mem.All(), host.All())
	_, idle := s.Idle()
	for api, err := range map[string]error{
		"aclrtMemcpyAsync":          s.Copy(mem.All(), host.All()),
		"aclrtMemcpy2dAsync":        s.Copy2D(mem.All(), 8, host.All(), 8, 8, 8),
		"aclrtMemcpyBatchAsync":     s.CopyBatch(&b),
		"aclrtMemsetAsync":          s.Fill(mem.All(), 1),
		"aclrtMemsetD32Async":       s.Fill32(mem.All(), 1),
		"aclrtMemcpyAsyncWithDesc":  s.CopyDescriptor(desc),
		"aclrtLaunchHostFunc":       s.Call(func() {}),
		"aclrtRecordEvent":          s.Record(e),
		"aclrtStreamWaitEvent":      s.Wait(e),
		"aclrtResetEvent":           s.Reset(e),
		"aclrtSynchronizeStream":    s.Synchronize(ctx),
		"aclrtStreamQuery":          idle,
		"aclrtStreamAbort":          s.Abort(),
		"aclrtSetStreamFailureMode": s.StopOnFailure(),
		"aclrtDestroyStreamForce":   s.Close(),
	} {
		want(t, err, ropeway.ErrRTInvalidHandle, api, "stream")
	}
	want(t, d.DefaultStream().Close(), ropeway.ErrInvalidParam, "aclrtDestroyStreamForce", "stream")
	want(t, d.DefaultStream().CopyDescriptor(desc), ropeway.ErrInvalidParam, "aclrtMemcpyAsyncWithDesc", "stream")
	want(t, d.DefaultStream().Call(nil), ropeway.ErrRTParamInvalid, "aclrtLaunchHostFunc", "fn")
}

func TestClosedEvent(t *testing.T) {
	d := device(t)
	s, e, o := get(d.NewStream())(t), get(d.NewEvent())(t), get(d.NewEvent())(t)
	ok(t, s.Record(e))
	ok(t, s.Record(o))
	ok(t, e.Close())
	_, done := e.Done()
	_, since := ropeway.Elapsed(o, e)
	for api, err := range map[string]error{
		"aclrtRecordEvent":      s.Record(e),
		"aclrtStreamWaitEvent":  s.Wait(e),
		"aclrtResetEvent":       s.Reset(e),
		"aclrtSynchronizeEvent": e.Wait(ctx),
		"aclrtQueryEventStatus": done,
		"aclrtDestroyEvent":     e.Close(),
	} {
		want(t, err, ropeway.ErrRTInvalidHandle, api, "event")
	}
	want(t, since, ropeway.ErrRTInvalidHandle, "aclrtEventElapsedTime", "endEvent")
}

func TestEvents(t *testing.T) {
	d := device(t)
	s, o := get(d.NewStream())(t), get(d.NewStream())(t)
	e, start, st := get(d.NewEvent())(t), get(d.NewEvent())(t), get(d.NewStateEvent())(t)
	if done, err := e.Done(); err != nil || !done {
		t.Errorf("never recorded: %t, %v", done, err)
	}
	ok(t, e.Wait(ctx))
	ok(t, s.Wait(e)) // nothing to wait for
	ok(t, s.Synchronize(ctx))
	_, err := ropeway.Elapsed(start, e)
	want(t, err, ropeway.ErrRTInternalError, "aclrtEventElapsedTime", "startEvent")
	want(t, s.Reset(e), ropeway.ErrRTFeatureNotSupport, "aclrtResetEvent", "event")

	ok(t, s.Record(start))
	release := block(t, s)
	ok(t, s.Record(e))
	ok(t, o.Wait(e))
	if done, err := e.Done(); err != nil || done {
		t.Errorf("while blocked: %t, %v", done, err)
	}
	if idle, err := o.Idle(); err != nil || idle {
		t.Errorf("waiting stream: idle %t, %v", idle, err)
	}
	_, err = ropeway.Elapsed(start, e)
	want(t, err, ropeway.ErrRTEventTimestampInvalid, "aclrtEventElapsedTime", "endEvent")
	time.Sleep(2 * time.Millisecond) // is what e.Since has to see
	release()
	ok(t, o.Synchronize(ctx))
	if done, err := e.Done(); err != nil || !done {
		t.Errorf("after it: %t, %v", done, err)
	}
	if dt := get(ropeway.Elapsed(start, e))(t); dt < 2*time.Millisecond || dt > time.Minute {
		t.Errorf("%v between the records", dt)
	}

	ok(t, o.Wait(st)) // before any record: held
	if idle, _ := o.Idle(); idle {
		t.Error("a wait for a state that is not set was passed")
	}
	ok(t, s.Record(st))
	ok(t, o.Synchronize(ctx))
	ok(t, o.Wait(st)) // set until reset
	ok(t, o.Synchronize(ctx))
	ok(t, s.Reset(st))
	ok(t, s.Synchronize(ctx))
	ok(t, o.Wait(st))
	if idle, _ := o.Idle(); idle {
		t.Error("a wait for a state that was reset was passed")
	}
	ok(t, s.Record(st))
	ok(t, o.Synchronize(ctx))
}

// TestGivingUp lets contexts end while a stream is blocked: every wait returns the context's own error, and the work
// is done later.
func TestGivingUp(t *testing.T) {
	d := device(t)
	s, e, host, mem := get(d.NewStream())(t), get(d.NewEvent())(t), get(d.AllocPinned(1<<20))(t), get(d.Alloc(1<<20))(t)
	ok(t, s.Fill(mem.All(), 1))
	release := block(t, s)
	defer release()
	ok(t, s.Copy(host.All(), mem.All()))
	ok(t, s.Record(e))

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	later, cancel := context.WithCancel(ctx)
	time.AfterFunc(5*time.Millisecond, cancel)
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	over, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"cancelled before": {cancelled, context.Canceled},
		"cancelled later":  {later, context.Canceled},
		"time":             {short, context.DeadlineExceeded},
		"deadline over":    {over, context.DeadlineExceeded},
	} {
		for what, f := range map[string]func(context.Context) error{"stream": s.Synchronize, "device": d.Synchronize,
			"event": e.Wait} {
			if err := f(tt.ctx); err != tt.want { //nolint:errorlint // itself, not wrapped
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if host.Bytes()[0] != 0 {
		t.Error("the copy ran after a function that has not returned")
	}
	release()
	long, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ok(t, s.Synchronize(long))
	ok(t, e.Wait(long))
	ok(t, d.Synchronize(long))
	if !bytes.Equal(host.Bytes(), bytes.Repeat([]byte{1}, 1<<20)) {
		t.Error("the copy did not run")
	}
	ok(t, s.Synchronize(cancelled)) // nothing to wait for
}

func TestAbort(t *testing.T) {
	d := device(t)
	s, e, host, mem := get(d.NewStream())(t), get(d.NewEvent())(t), get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
	held, st := get(d.NewStream())(t), get(d.NewStateEvent())(t)
	ok(t, s.Wait(st)) // never recorded
	ok(t, s.Fill(mem.All(), 1))
	ok(t, s.Record(e))
	ok(t, held.Wait(e))
	errs := make(chan error)
	go func() { errs <- s.Synchronize(ctx) }()
	testenv.AwaitParked(t, 1, "ropeway.(*Stream).Synchronize")
	ok(t, s.Abort())
	want(t, <-errs, ropeway.ErrRTStreamAbort, "aclrtSynchronizeStream", "stream")
	if err := held.Synchronize(ctx); err == nil {
		t.Error("a stream that waited for dropped work says nothing")
	}
	if _, err := e.Done(); err == nil {
		t.Error("an event whose record was dropped says nothing")
	}
	ok(t, s.Copy(mem.All(), host.All())) // works again
	ok(t, s.Synchronize(ctx))
	ok(t, s.Record(e))
	ok(t, e.Wait(ctx))
}

func TestFailures(t *testing.T) {
	var f *faulty.Driver
	d := device(t, withDriver(func(d driver.Driver) driver.Driver { f = faulty.Wrap(d); return f }))
	s, e, host, mem := get(d.NewStream())(t), get(d.NewEvent())(t), get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
	ok(t, s.Fill(mem.All(), 1))
	f.Fail(faulty.Task, 1, faulty.Code(abi.ErrRTAicoreTimeout))
	ok(t, s.Fill(mem.All(), 2))
	ok(t, s.Copy(host.All(), mem.All())) // runs all the same
	ok(t, s.Record(e))
	want(t, e.Wait(ctx), ropeway.Code(abi.ErrRTAicoreTimeout), "aclrtSynchronizeEvent", "")
	want(t, d.Synchronize(ctx), ropeway.Code(abi.ErrRTAicoreTimeout), "aclrtSynchronizeDevice", "")
	ok(t, s.Synchronize(ctx))
	if host.Bytes()[0] != 1 {
		t.Errorf("got %d", host.Bytes()[0])
	}

	f.Fail(faulty.Task, 1, driver.ErrFault)
	ok(t, s.Fill(mem.All(), 2))
	want(t, s.Synchronize(ctx), ropeway.ErrRTSysDma, "aclrtSynchronizeStream", "")

	ok(t, s.StopOnFailure())
	f.Fail(faulty.Task, 1, driver.ErrFault)
	ok(t, s.Fill(mem.All(), 2))
	want(t, s.Synchronize(ctx), ropeway.ErrRTSysDma, "aclrtSynchronizeStream", "")
	want(t, s.Synchronize(ctx), ropeway.ErrRTSysDma, "aclrtSynchronizeStream", "")
	want(t, s.Fill(mem.All(), 2), ropeway.ErrRTSysDma, "aclrtMemsetAsync", "")

	f.Lose(0)
	if _, err := d.Alloc(64); !errors.Is(err, driver.ErrLost) {
		t.Errorf("a lost device: %v", err)
	}
}

func TestDescriptors(t *testing.T) {
	for _, product := range []ropeway.Product{ropeway.ProductA2, ropeway.ProductA3, ropeway.Product950} {
		t.Run(string(product), func(t *testing.T) {
			d := device(t, ropeway.WithProduct(product, ropeway.EP))
			s, host, mem, desc := get(d.NewStream())(t), get(d.AllocPinned(64))(t), get(d.Alloc(64))(t),
				get(d.NewDescriptor())(t)
			ok(t, s.CopyDescriptor(desc))
			if err := s.Synchronize(ctx); err == nil {
				t.Log("a descriptor that was never set copied nothing")
			}
			want(t, desc.Set(mem.Range(0, 4), mem.Range(8, 8)), ropeway.ErrRTParamInvalid,
				"aclrtSetMemcpyDesc", "count")
			want(t, desc.Set(mem.Range(0, 8), host.Range(8, 8)), ropeway.ErrRTParamInvalid,
				"aclrtSetMemcpyDesc", "srcAddr")
			want(t, desc.Set(mem.Range(0, 8), ropeway.Span{}), ropeway.ErrInvalidParam, "aclrtSetMemcpyDesc", "srcAddr")
			ok(t, s.Fill(mem.Range(0, 8), 1))
			ok(t, s.Fill(mem.Range(8, 56), 2))
			ok(t, desc.Set(mem.Range(40, 16), mem.Range(0, 16)))
			ok(t, s.CopyDescriptor(desc))
			ok(t, s.Copy(host.All(), mem.All()))
			ok(t, s.Synchronize(ctx))
			model := bytes.Repeat([]byte{2}, 64)
			copy(model, bytes.Repeat([]byte{1}, 8))
			copy(model[40:], model[:16])
			if !bytes.Equal(host.Bytes(), model) {
				t.Errorf("got %v", host.Bytes())
			}
		})
	}
	_, err := device(t, ropeway.WithProduct(ropeway.Product910, ropeway.EP)).NewDescriptor()
	want(t, err, ropeway.ErrRTFeatureNotSupport, "aclrtGetMemcpyDescSize", "")
}

func TestBatches(t *testing.T) {
	d := device(t)
	s, host, mem := get(d.NewStream())(t), get(d.AllocPinned(4096))(t), get(d.Alloc(4096))(t)
	up, down := pattern(4096, 5), make([]byte, 4096)
	copy(host.Bytes(), up)
	var there, back ropeway.Batch
	for i := 0; i < 4096; i += 256 { // pinned and ordinary memory by turns
		from, to := host.Range(i, 256), ropeway.Pageable(down[i:i+256])
		if i%512 == 0 {
			from, to = ropeway.Pageable(up[i:i+256]), host.Range(i, 256)
		}
		there.Add(mem.Range(i, 256), from)
		back.Add(to, mem.Range(i, 256))
	}
	// it would wait for the stream
	want(t, s.CopyBatch(&there), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "srcs")
	if e := want(t, s.CopyBatch(&back), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "dsts"); e.Index != 1 {
		t.Errorf("copy %d is refused, not the first with pageable memory", e.Index)
	}
	ok(t, d.CopyBatch(&there))
	clear(host.Bytes())
	ok(t, d.CopyBatch(&back))
	for i := 0; i < 4096; i += 256 {
		got := down[i : i+256]
		if i%512 == 0 {
			got = host.Bytes()[i : i+256]
		}
		if !bytes.Equal(got, up[i:i+256]) {
			t.Errorf("segment at %d differs", i)
		}
	}
	other := get(open(t).Device(0))(t)
	want(t, other.CopyBatch(&there), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatch", "*")
}

func TestNoAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("pools drop what they are given under the race detector")
	}
	d := device(t)
	s, host, mem := get(d.NewStream())(t), get(d.AllocPinned(1<<20))(t), get(d.Alloc(1<<20))(t)
	numbers, pinned := get(ropeway.Alloc[int32](d, 64))(t), get(ropeway.AllocPinned[int32](d, 64))(t)
	page := make([]byte, 64)
	var b, pageable ropeway.Batch
	for i := range 64 {
		b.Add(mem.Range(i*128, 64), host.Range(i*128, 64))
	}
	for i := range 8 {
		pageable.Add(mem.Range(i*128, 64), ropeway.Pageable(page))
	}
	e := get(d.NewEvent())(t)
	ok(t, s.Record(e))
	for name, f := range map[string]func() error{
		"Copy":               func() error { return s.Copy(mem.Range(64, 64), host.Range(0, 64)) },
		"Copy down":          func() error { return s.Copy(host.Range(64, 64), mem.Range(0, 64)) },
		"Copy on the device": func() error { return s.Copy(mem.Range(64, 64), mem.Range(0, 64)) },
		"Copy pageable":      func() error { return d.Copy(mem.Range(0, 64), ropeway.Pageable(page)) },
		"Copy2D":             func() error { return s.Copy2D(mem.All(), 64, host.All(), 32, 16, 8) },
		"Fill":               func() error { return s.Fill(mem.Range(0, 64), 1) },
		"CopyBatch":          func() error { return s.CopyBatch(&b) },
		"Device.CopyBatch":   func() error { return d.CopyBatch(&pageable) },
		"CopyBatch, rebuilt": func() error {
			b.Reset()
			for i := range 64 {
				b.Add(mem.Range(i*128, 64), host.Range(i*128, 64))
			}
			return s.CopyBatch(&b)
		},
		"Synchronize": func() error { return s.Synchronize(ctx) },
		"Idle":        func() error { _, err := s.Idle(); return err },
		"Event.Wait":  func() error { return e.Wait(ctx) },
		"Event.Done":  func() error { _, err := e.Done(); return err },
		"Device.Copy": func() error { return d.Copy(mem.Range(0, 64), host.Range(0, 64)) },
		"Array":       func() error { return s.Copy(numbers.Range(0, 16), pinned.Range(16, 16)) },
		"ReadAt":      func() error { _, err := mem.ReadAt(page, 64); return err },
	} {
		ok(t, f())
		ok(t, s.Synchronize(ctx))
		if n := testing.AllocsPerRun(200, func() { ok(t, f()) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	release := block(t, s)
	defer release()
	for range 4096 { // let the queue's ring grow
		ok(t, s.Copy(mem.Range(64, 64), host.Range(0, 64)))
	}
	if n := testing.AllocsPerRun(500, func() { ok(t, s.Copy(mem.Range(64, 64), host.Range(0, 64))) }); n != 0 {
		t.Errorf("Copy on a busy stream: %v allocations", n)
	}
}

// TestHammer shares streams and events between goroutines.
func TestHammer(t *testing.T) {
	d := device(t)
	streams := []*ropeway.Stream{get(d.NewStream())(t), get(d.NewStream())(t)}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for g := range 8 {
		host, mem, e := get(d.AllocPinned(4096))(t), get(d.Alloc(2048))(t), get(d.NewEvent())(t)
		wg.Go(func() {
			<-start
			for i := range 200 {
				n := 1 + (i*31+g)%2048
				p := pattern(n, i+g)
				copy(host.Bytes(), p)
				a, b := streams[i%2], streams[(i+g)%2]
				err := errors.Join(a.Copy(mem.Range(0, n), host.Range(0, n)), a.Record(e), b.Wait(e),
					b.Copy(host.Range(2048, n), mem.Range(0, n)), b.Record(e), e.Wait(ctx))
				if err != nil {
					t.Error(err)
				}
				if !bytes.Equal(host.Bytes()[2048:2048+n], p) {
					t.Errorf("goroutine %d, round %d: other bytes came back", g, i)
				}
			}
		})
	}
	close(start)
	wg.Wait()
}

// TestCloseDoesNotWait: closing a device, or a runtime, drops what waits for something that never happens.
func TestCloseDoesNotWait(t *testing.T) {
	rt, err := ropeway.Open(ropeway.WithDevices(2), ropeway.WithDeviceMemory(64<<20))
	ok(t, err)
	for d, err := range rt.Devices() {
		ok(t, err)
		s, never := get(d.NewStream())(t), get(d.NewNotify())(t)
		ok(t, s.WaitNotify(never, 0))
		ok(t, s.Fill(get(d.Alloc(64))(t).All(), 1))
		if d.ID() == 0 {
			ok(t, d.Close())
		}
	}
	ok(t, rt.Close())
}

// BenchmarkCopy64 measures what the Go API adds to BenchmarkCopy64 of internal/core.
func BenchmarkCopy64(b *testing.B) {
	d := device(b)
	s := get(d.NewStream())(b)
	dst, src := get(d.Alloc(4096))(b).Range(0, 64), get(d.AllocPinned(4096))(b).Range(0, 64)
	for b.Loop() {
		if err := s.Copy(dst, src); err != nil {
			b.Fatal(err)
		}
	}
}
