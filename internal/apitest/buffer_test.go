package apitest

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"ropeway"
)

func TestBuffers(t *testing.T) {
	d := device(t)
	mem, host := get(d.Alloc(100))(t), get(d.AllocPinned(100))(t)
	own := make([]byte, 100)
	reg := get(d.Register(own))(t)
	for _, b := range []*ropeway.Buffer{mem, host, reg} {
		if b.Len() != 100 || b.Ptr() == 0 || b.All().Len() != 100 || b.Range(90, 10).Len() != 10 {
			t.Errorf("%d bytes at %#x", b.Len(), b.Ptr())
		}
		if b.OnDevice() != (b == mem) || (b.Bytes() == nil) != (b == mem) {
			t.Errorf("OnDevice %t, %d bytes", b.OnDevice(), len(b.Bytes()))
		}
	}
	if &reg.Bytes()[0] != &own[0] {
		t.Error("registered memory is elsewhere")
	}
	_, err := d.Register(own)
	want(t, err, ropeway.ErrHostMemoryAlreadyRegistered, "aclrtHostRegisterV2", "ptr")
	for _, b := range []*ropeway.Buffer{mem, host, reg} {
		ok(t, b.Close())
		if b.Bytes() != nil {
			t.Error("bytes after Free")
		}
		want(t, b.Close(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
	}
	ok(t, get(d.Register(own))(t).Close()) // not registered any more
}

func TestFreedBuffers(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	host, mem, desc := get(d.AllocPinned(64))(t), get(d.Alloc(64))(t), get(d.NewDescriptor())(t)
	gone := []*ropeway.Buffer{get(d.Alloc(64))(t), get(d.AllocPinned(64))(t), get(d.Register(make([]byte, 64)))(t)}
	var old ropeway.Batch
	old.Add(mem.All(), host.All())
	old.Add(mem.All(), gone[1].All())
	for _, b := range gone {
		ok(t, b.Close())
	}
	for _, b := range gone {
		want(t, s.Copy(b.All(), host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
		want(t, s.Copy(mem.All(), b.Range(1, 2)), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "src")
		want(t, s.Copy2D(b.All(), 8, host.All(), 8, 8, 8), ropeway.ErrRTParamInvalid, "aclrtMemcpy2dAsync", "dst")
		want(t, s.Fill(b.All(), 1), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "devPtr")
		want(t, s.Fill32(b.All(), 1), ropeway.ErrRTParamInvalid, "aclrtMemsetD32Async", "ptr")
		want(t, d.Copy(mem.All(), b.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpy", "src")
		want(t, d.Fill(b.All(), 1), ropeway.ErrRTParamInvalid, "aclrtMemset", "devPtr")
		want(t, desc.Set(mem.All(), b.All()), ropeway.ErrRTParamInvalid, "aclrtSetMemcpyDesc", "src")
		var batch ropeway.Batch
		batch.Add(mem.All(), host.All())
		batch.Add(b.All(), host.All())
		if e := want(t, s.CopyBatch(&batch), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "dsts"); e.Index != 1 {
			t.Errorf("Index %d", e.Index)
		}
	}
	if e := want(t, s.CopyBatch(&old), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "srcs"); e.Index != 1 {
		t.Errorf("Index %d", e.Index)
	}
	want(t, d.CopyBatch(&old), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatch", "srcs")
	ok(t, desc.Close())
	want(t, desc.Close(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
	want(t, desc.Set(mem.All(), mem.All()), ropeway.ErrRTParamInvalid, "aclrtSetMemcpyDesc", "desc")
	want(t, s.CopyDescriptor(desc), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsyncWithDesc", "desc")
	ok(t, s.Synchronize(ctx))
}

func TestSpansOutOfRange(t *testing.T) {
	d := device(t)
	s, host, mem := get(d.NewStream())(t), get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
	const most = int(^uint(0) >> 1)
	for _, at := range [][2]int{{0, 65}, {1, 64}, {64, 1}, {65, 0}, {-1, 1}, {0, -1}, {-1, -1}, {most, 1},
		{1, most}, {most, most}} {
		bad := mem.Range(at[0], at[1])
		want(t, s.Copy(bad, host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
		want(t, s.Copy(host.All(), bad), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "src")
		want(t, d.Copy(bad, host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpy", "dst")
		want(t, s.Fill(bad, 1), ropeway.ErrRTParamInvalid, "aclrtMemsetAsync", "devPtr")
		var b ropeway.Batch
		b.Add(mem.All(), host.All())
		b.Add(bad, host.Range(0, 0))
		if e := want(t, s.CopyBatch(&b), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "dsts"); e.Index != 1 {
			t.Errorf("Index %d", e.Index)
		}
		b.Reset()
		b.Add(mem.All(), host.Range(at[0], at[1]))
		want(t, s.CopyBatch(&b), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "srcs")
		b.Reset()
		b.Add(mem.All(), host.All())
		ok(t, s.CopyBatch(&b))
	}
	ok(t, s.Copy(mem.Range(64, 0), host.Range(0, 0)))
	for _, tt := range []struct{ dp, sp, w, h int }{
		{8, 8, 8, 9}, {16, 8, 8, 6}, {8, 16, 8, 6}, {65, 65, 65, 1}, {1 << 62, 1 << 62, 8, 5}, {1 << 61, 1 << 61, 8, 5},
		{most, most, 8, most}, {9, 8, 8, most},
	} {
		want(t, s.Copy2D(mem.All(), tt.dp, host.All(), tt.sp, tt.w, tt.h), ropeway.ErrRTParamInvalid,
			"aclrtMemcpy2dAsync", "*")
		page := make([]byte, 64)
		want(t, s.Copy2D(mem.All(), tt.dp, ropeway.Pageable(page), tt.sp, tt.w, tt.h), ropeway.ErrRTParamInvalid,
			"aclrtMemcpy2dAsync", "*")
	}
	want(t, s.Copy2D(mem.All(), 4, host.All(), 8, 8, 2), ropeway.ErrInvalidParam, "aclrtMemcpy2dAsync", "width")
	want(t, s.Copy2D(mem.All(), -8, host.All(), 8, 8, 2), ropeway.ErrInvalidParam, "aclrtMemcpy2dAsync", "width")
	ok(t, s.Copy2D(mem.All(), 8, host.All(), 8, -8, 2)) // nothing to copy
	want(t, s.Fill32(mem.Range(0, 7), 1), ropeway.ErrRTParamInvalid, "aclrtMemsetD32Async", "memSize")
	want(t, s.Fill32(mem.Range(1, 4), 1), ropeway.ErrInvalidParam, "aclrtMemsetD32Async", "ptr")
	want(t, s.Fill32(ropeway.Pageable(make([]byte, 8)), 1), ropeway.ErrInvalidParam, "aclrtMemsetD32Async", "ptr")
	ok(t, s.Synchronize(ctx))
}

func TestZeroSpans(t *testing.T) {
	d := device(t)
	s, host, mem := get(d.NewStream())(t), get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
	for name, null := range map[string]ropeway.Span{"zero": {}, "nil slice": ropeway.Pageable(nil),
		"empty": ropeway.Pageable([]byte{})} {
		t.Run(name, func(t *testing.T) {
			ok(t, s.Copy(null, null))
			ok(t, s.Copy(mem.All(), null))
			ok(t, d.Copy(mem.All(), null))
			ok(t, s.Fill(null, 1))
			ok(t, s.Fill32(null, 1))
			if err := s.Copy(null, host.All()); err == nil {
				t.Error("64 bytes went nowhere")
			}
			if err := d.Copy(null, host.All()); err == nil {
				t.Error("64 bytes went nowhere")
			}
			var b ropeway.Batch
			b.Add(null, null)
			ok(t, s.CopyBatch(&b)) // all sizes are 0
			b.Add(mem.All(), host.All())
			if e := want(t, s.CopyBatch(&b), ropeway.ErrRTParamInvalid, "aclrtMemcpyBatchAsync", "*"); e.Index != 0 {
				t.Errorf("Index %d", e.Index)
			}
		})
	}
	var b ropeway.Batch
	if err := s.CopyBatch(&b); err == nil {
		t.Error("an empty batch was taken")
	}
	if err := d.CopyBatch(&b); err == nil {
		t.Error("an empty batch was taken")
	}
	want(t, s.Copy(host.All(), ropeway.Pageable(make([]byte, 64))), ropeway.ErrRTParamInvalid,
		"aclrtMemcpyAsync", "src")
	want(t, s.Copy(ropeway.Pageable(make([]byte, 64)), mem.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
	want(t, s.Copy(host.Range(0, 8), host.Range(8, 8)), ropeway.ErrRTFeatureNotSupport, "aclrtMemcpyAsync", "kind")
	ok(t, d.Copy(host.Range(0, 8), host.Range(8, 8)))
}

// TestStackMemory copies from and to arrays of a function while its stack grows and moves.
func TestStackMemory(t *testing.T) {
	d := device(t)
	s, mem := get(d.NewStream())(t), get(d.Alloc(256))(t)
	ok(t, s.Call(func() { deep(nil, nil, nil, nil, 2000) }))
	deep(t, d, s, mem, 3000)
	var wg sync.WaitGroup
	for range 4 { // fresh stacks grow
		mem := get(d.Alloc(256))(t)
		s := get(d.NewStream())(t)
		wg.Go(func() { deep(t, d, s, mem, 1000) })
	}
	wg.Wait()
}

func deep(t testing.TB, d *ropeway.Device, s *ropeway.Stream, mem *ropeway.Buffer, depth int) byte {
	if depth == 0 {
		return 0
	}
	var up, down [256]byte
	for i := range up {
		up[i] = byte(i + depth)
	}
	if s != nil && depth%16 == 0 {
		if err := d.Copy(mem.All(), ropeway.Pageable(up[:])); err != nil {
			t.Error(err)
		}
		if err := s.Call(func() { deep(nil, nil, nil, nil, 100) }); err != nil {
			t.Error(err)
		}
		if err := d.Copy(ropeway.Pageable(down[:]), mem.All()); err != nil {
			t.Error(err)
		}
		x := deep(nil, nil, nil, nil, 64) // grow
		if down != up {
			t.Errorf("depth %d: other bytes came back", depth)
		}
		down[0] += x
	}
	return deep(t, d, s, mem, depth-1) ^ up[0] ^ down[0]
}

// TestCollectedMemory copies with memory that is garbage the moment the copy is over, under a collector that never
// rests.
func TestCollectedMemory(t *testing.T) {
	d := device(t)
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	wg.Go(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	for g := range 3 {
		mem := get(d.Alloc(1 << 20))(t)
		wg.Go(func() {
			for i := range 60 {
				n := 1 + (i*7919)%(1<<20)
				p := pattern(n, g+i)
				up := slices.Clone(p)
				if err := d.Copy(mem.Range(0, n), ropeway.Pageable(up)); err != nil {
					t.Error(err)
				}
				down := make([]byte, n)
				if err := d.Copy(ropeway.Pageable(down), mem.Range(0, n)); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(down, p) {
					t.Errorf("%d bytes: others came back", n)
				}
			}
			stop.Store(true)
		})
	}
}

// TestForgottenRegistration drops the last reference to registered memory while a copy into it is queued: the memory
// must not be used again.
func TestForgottenRegistration(t *testing.T) {
	d := device(t)
	s, mem := get(d.NewStream())(t), get(d.Alloc(4096))(t)
	ok(t, s.Fill(mem.All(), 0xEE))
	gate := make(chan struct{})
	ok(t, s.Call(func() { <-gate }))
	func() {
		reg := get(d.Register(make([]byte, 4096)))(t)
		ok(t, s.Copy(reg.All(), mem.All()))
	}()
	var others [][]byte
	for range 3 {
		runtime.GC()
		for range 500 {
			others = append(others, make([]byte, 4096))
		}
	}
	close(gate)
	ok(t, s.Synchronize(ctx))
	for _, o := range others {
		if slices.Contains(o, 0xEE) {
			t.Fatal("a copy wrote into memory that was used again")
		}
	}
}

func TestRegisteredMemory(t *testing.T) {
	d := device(t)
	s, mem := get(d.NewStream())(t), get(d.Alloc(1<<20))(t)
	up, down := get(d.Register(pattern(1<<20, 3)))(t), get(d.Register(make([]byte, 1<<20)))(t)
	ok(t, s.Copy(mem.All(), up.All()))
	ok(t, s.Copy(down.All(), mem.All()))
	ok(t, s.Synchronize(ctx))
	if !bytes.Equal(up.Bytes(), down.Bytes()) {
		t.Error("other bytes came back")
	}
}
