package apitest

import (
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"ropeway"
)

// TestArray: an array's lengths and offsets are in numbers, and its values are the memory.
func TestArray(t *testing.T) {
	d := device(t)
	host, mem := get(ropeway.AllocPinned[float64](d, 8))(t), get(ropeway.Alloc[float64](d, 8))(t)
	if host.Len() != 8 || host.Buffer().Len() != 64 || mem.Values() != nil || len(host.Values()) != 8 {
		t.Errorf("%d numbers, %d bytes, %d values", host.Len(), host.Buffer().Len(), len(host.Values()))
	}
	for i := range host.Values() {
		host.Values()[i] = float64(i)
	}
	s := get(d.NewStream())(t)
	ok(t, s.Copy(mem.All(), host.All()))
	ok(t, s.Copy(host.Range(0, 2), mem.Range(6, 2)))
	ok(t, s.Synchronize(ctx))
	if want := []float64{6, 7, 2, 3, 4, 5, 6, 7}; !slices.Equal(host.Values(), want) {
		t.Errorf("got %v, want %v", host.Values(), want)
	}
	for _, at := range [][2]int{{-1, 1}, {0, 9}, {8, 1}, {9, 0}, {0, -1}, {1 << 61, 1}, {0, 1 << 61},
		{math.MinInt, 1}} {
		want(t, s.Copy(mem.All(), host.Range(at[0], at[1])), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "src")
	}
	ok(t, s.Copy(mem.Range(8, 0), host.Range(0, 0)))
	ok(t, s.Synchronize(ctx))
	ok(t, host.Close())
	if host.Values() != nil {
		t.Error("values after Close")
	}
	want(t, host.Close(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
	for _, n := range []int{-1, 0, math.MaxInt, 1 << 60} {
		_, err := ropeway.Alloc[int64](d, n)
		if !errors.Is(err, ropeway.ErrRTParamInvalid) && !errors.Is(err, ropeway.ErrInvalidParam) && !errors.Is(err,
			ropeway.ErrRTMemoryAllocation) {
			t.Errorf("%d numbers: %v", n, err)
		}
	}
}

// TestView: bytes are seen as numbers if there are whole ones, at an address for them.
func TestView(t *testing.T) {
	d := device(t)
	b := get(d.AllocPinned(16))(t)
	a := get(ropeway.View[uint32](b))(t)
	a.Values()[1] = 0x04030201
	if got := b.Bytes()[4:8]; !slices.Equal(got, []byte{1, 2, 3, 4}) || a.Len() != 4 {
		t.Errorf("bytes %v, %d numbers", got, a.Len())
	}
	_, err := ropeway.View[int32](get(d.Alloc(6))(t))
	want(t, err, ropeway.ErrRTParamInvalid, "ropeway.View", "b")
	own := make([]byte, 64)
	_, err = ropeway.View[int64](get(d.Register(own[1:33]))(t))
	want(t, err, ropeway.ErrRTParamInvalid, "ropeway.View", "b")
}

// TestReadAtWriteAt: a buffer keeps the contracts of io.ReaderAt and io.WriterAt, at its end and beyond, for all
// kinds of memory.
func TestReadAtWriteAt(t *testing.T) {
	d := device(t)
	for name, b := range map[string]*ropeway.Buffer{
		"device": get(d.Alloc(10))(t), "pinned": get(d.AllocPinned(10))(t),
		"registered": get(d.Register(make([]byte, 10)))(t), "managed": get(d.AllocManaged(10))(t),
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := b.WriteAt([]byte("0123456789"), 0); n != 10 || err != nil {
				t.Errorf("WriteAt: %d, %v", n, err)
			}
			if n, err := b.WriteAt([]byte("xyz"), 8); n != 2 || err != io.ErrShortWrite {
				t.Errorf("WriteAt over the end: %d, %v", n, err)
			}
			if n, err := b.WriteAt([]byte("x"), 11); n != 0 || err != io.ErrShortWrite {
				t.Errorf("WriteAt beyond the end: %d, %v", n, err)
			}
			got := make([]byte, 4)
			for _, tt := range []struct {
				off  int64
				n    int
				err  error
				text string
			}{{0, 4, nil, "0123"}, {6, 4, nil, "67xy"}, {8, 2, io.EOF, "xy"}, {10, 0, io.EOF, ""},
				{math.MaxInt64, 0, io.EOF, ""}} {
				if n, err := b.ReadAt(got, tt.off); n != tt.n || err != tt.err || string(got[:n]) != tt.text {
					t.Errorf("ReadAt(%d) = %d, %v, %q", tt.off, n, err, got[:n])
				}
			}
			if n, err := b.ReadAt(nil, 3); n != 0 || err != nil {
				t.Errorf("ReadAt of nothing: %d, %v", n, err)
			}
			_, err := b.ReadAt(got, -1)
			want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemcpy", "src")
			_, err = b.WriteAt(got, math.MinInt64)
			want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemcpy", "dst")
			ok(t, b.Close())
			_, err = b.ReadAt(got, 0)
			want(t, err, ropeway.ErrRTParamInvalid, "aclrtMemcpy", "src")
		})
	}
}
