package far

import (
	"bytes"
	"testing"

	"ropeway/internal/driver"
)

// TestBesideOwn proves that copies and fills treat adjacent mappings of memory of this server and of another as one
// buffer.
func TestBesideOwn(t *testing.T) {
	b := setUp(t)
	at := must[uintptr](t)(b.b.Reserve(3*size, 0))
	own := must[driver.Memory](t)(b.b.Create(1, size, driver.PageHugeFirst))
	h := b.x.Handle()
	far := must[driver.Memory](t)(b.b.ImportFar(h[:], 1))
	b.ok(b.b.Map(at, own))
	b.ok(b.b.Map(at+size, far))
	if l := b.b.Locate(at + 8); l.Place != driver.OnDevice || l.Room != 2*size-8 {
		t.Errorf("memory that another server's follows is %v", l)
	}
	b.ok(b.b.Map(at+2*size, own))
	for _, off := range []uint64{8, size + 8} {
		if l := b.b.Locate(at + uintptr(off)); l.Place != driver.OnDevice || l.Device != 1 || l.Room != 3*size-off {
			t.Errorf("%d bytes into three mappings: %v", off, l)
		}
	}
	view := must[[]byte](t)(b.b.viewer.View(at, size))
	b.q.Submit(driver.Op{Kind: driver.OpFill, Dst: at + size - 100, N: 200, Width: 1, Value: 7})
	if err := b.wait(); err != nil || !bytes.Equal(view[size-100:], bytes.Repeat([]byte{7}, 100)) ||
		!bytes.Equal(b.their()[:100], view[size-100:]) {
		t.Errorf("a fill across the border: %v", err)
	}
	want := b.random()
	copy(b.pinned(), want)
	b.q.Copy(at+size/2, b.pin, size, driver.Tag{})
	if err := b.wait(); err != nil || !bytes.Equal(view[size/2:], want[:size/2]) ||
		!bytes.Equal(b.their()[:size/2], want[size/2:]) {
		t.Errorf("a copy across the border: %v", err)
	}
	clear(b.pinned())
	b.ok(b.b.Run(driver.Op{Kind: driver.OpCopy, Dst: b.pin, Src: at + size - 16, N: 32}))
	if got := b.pinned()[:32]; !bytes.Equal(got[:16], view[size-16:]) || !bytes.Equal(got[16:], b.their()[:16]) {
		t.Errorf("a small copy across the border: %v", got)
	}
	for _, off := range []uintptr{0, size, 2 * size} {
		b.ok(b.b.Unmap(at + off))
	}
	b.ok(far.Free())
	b.ok(own.Free())
	b.ok(b.b.Release(at))
}
