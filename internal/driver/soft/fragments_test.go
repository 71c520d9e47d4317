package soft

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ropeway/internal/driver"
)

// TestFragmentsModel does random work on host memory with registered and closed parts, and the same on plain bytes.
// Wherever the borders between views are, the results are equal.
func TestFragmentsModel(t *testing.T) {
	const size = 64 << 10
	mem := mmap(t, -1, size, readWrite, unix.MAP_PRIVATE)
	base := addressOf(mem)
	d := guardian(t)
	dev, err := d.Open(0)
	must(t, err)
	defer dev.Close()
	far, err := dev.Alloc(size, driver.PageNormal)
	must(t, err)
	out, err := d.AllocHost(size)
	must(t, err)
	rapid.Check(t, func(t *rapid.T) {
		start := uintptr(rapid.IntRange(0, 12<<10).Draw(t, "start"))
		n := uint64(rapid.IntRange(1, 48<<10).Draw(t, "size"))
		for i := range mem {
			mem[i] = byte(i*31 + i>>8)
		}
		alias, err := d.Register(base+start, n, true, 0)
		must(t, err)
		defer func() { must(t, d.Unregister(base+start)) }()
		must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: far, Src: base, N: size}))
		want := map[bool][]byte{false: bytes.Clone(mem), true: bytes.Clone(mem)} // host, device
		if lo, hi := d.Closable(base+start, n); lo < hi {
			must(t, d.Protect(lo, hi, driver.NoAccess))
		}
		// place draws n bytes of the host's memory, under either address, or of the device's.
		place := func(t *rapid.T, n uint64) (uintptr, []byte) {
			off := rapid.Uint64Range(0, size-n).Draw(t, "offset")
			onDevice := rapid.Bool().Draw(t, "device")
			b := want[onDevice][off : off+n]
			if onDevice {
				return far + uintptr(off), b
			}
			if r := d.hosts.byHost.Find(base + start); off >= uint64(start) && off+n <= uint64(start)+r.Size &&
				rapid.Bool().Draw(t, "alias") {
				return alias + uintptr(off) - start, b
			}
			return base + uintptr(off), b
		}
		length := rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64Range(0, 20<<10))
		t.Repeat(map[string]func(*rapid.T){
			"copy": func(t *rapid.T) {
				n := length.Draw(t, "n")
				dst, to := place(t, n)
				src, from := place(t, n)
				must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n}))
				copy(to, from)
			},
			"rows": func(t *rapid.T) {
				op := driver.Op{Kind: driver.OpCopy2D, N: rapid.Uint64Range(1, 3000).Draw(t, "n"),
					Height: rapid.Uint64Range(1, 5).Draw(t, "rows")}
				op.DstPitch = op.N + rapid.Uint64Range(0, 3000).Draw(t, "dst gap")
				op.SrcPitch = op.N + rapid.Uint64Range(0, 3000).Draw(t, "src gap")
				var to, from []byte
				op.Dst, to = place(t, (op.Height-1)*op.DstPitch+op.N)
				op.Src, from = place(t, (op.Height-1)*op.SrcPitch+op.N)
				must(t, d.Run(op))
				for i := range op.Height {
					copy(to[i*op.DstPitch:][:op.N], from[i*op.SrcPitch:][:op.N])
				}
			},
			"batch": func(t *rapid.T) { // from host to device, so that order does not matter
				segs := driver.NewSegments()
				defer segs.Release()
				at := uint64(0)
				for range rapid.IntRange(1, 4).Draw(t, "segments") {
					n := rapid.Uint64Range(0, 15<<10).Draw(t, "n")
					off := rapid.Uint64Range(0, size-n).Draw(t, "offset")
					segs.Add(far+uintptr(at), base+uintptr(off), n)
					copy(want[true][at:at+n], want[false][off:])
					at += n
				}
				must(t, d.Run(driver.Op{Kind: driver.OpBatch, Segs: segs}))
			},
			"fill": func(t *rapid.T) {
				op := driver.Op{Kind: driver.OpFill, Width: rapid.SampledFrom([]uint8{1, 4}).Draw(t, "width"),
					Value: rapid.Uint32().Draw(t, "value")}
				op.N = rapid.Uint64Range(0, 12<<10).Draw(t, "n") / uint64(op.Width)
				var to []byte
				op.Dst, to = place(t, op.N*uint64(op.Width))
				must(t, d.Run(op))
				element := binary.LittleEndian.AppendUint32(nil, op.Value)[:op.Width]
				copy(to, bytes.Repeat(element, int(op.N)))
			},
			"sum": func(t *rapid.T) {
				n := length.Draw(t, "n")
				addr, b := place(t, n)
				must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: out, Src: addr, N: n}))
				if !bytes.Equal(bytesAt(out, n), b) || d.Sum(addr, n) != d.Sum(out, n) {
					t.Fatalf("the sum of %d bytes at %#x is wrong", n, addr)
				}
			},
			"": func(t *rapid.T) {
				for device, addr := range map[bool]uintptr{false: base, true: far} {
					must(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: out, Src: addr, N: size}))
					if got := bytesAt(out, size); !bytes.Equal(got, want[device]) {
						for i := range got {
							if got[i] != want[device][i] {
								t.Fatalf("device %v: byte %d is %d, want %d", device, i, got[i], want[device][i])
							}
						}
					}
				}
			},
		})
	})
}

// Large copies over several views, with helpers, on a queue.
func TestFragmentsLarge(t *testing.T) {
	const size = 4 << 20
	d := guardian(t)
	dev, err := d.Open(0)
	must(t, err)
	defer dev.Close()
	far, err := dev.Alloc(size, driver.PageNormal)
	must(t, err)
	mem := mmap(t, -1, 2*size, readWrite, unix.MAP_PRIVATE)
	for i := range mem {
		mem[i] = byte(i*31 + i>>8)
	}
	want := bytes.Clone(mem)
	src, dst := addressOf(mem)+1, addressOf(mem)+size+77
	for _, at := range []uintptr{src, dst} {
		_, err := d.Register(at, size-200, false, 0)
		must(t, err)
		lo, hi := d.Closable(at, size-200)
		must(t, d.Protect(lo, hi, driver.NoAccess))
	}
	failed := &log{make(chan error, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failed.TaskFailed}})
	q.Copy(far, src, size-200, driver.Tag{})
	segs := driver.NewSegments()
	for off := uintptr(0); off < size-200; off += 100_000 {
		segs.Add(dst+off, far+off, uint64(min(100_000, size-200-off)))
	}
	q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	q.Wait(0, nil)
	select {
	case err := <-failed.failed:
		t.Fatal(err)
	default:
	}
	must(t, d.Unregister(src))
	must(t, d.Unregister(dst))
	copy(want[size+77:], want[1:size-199])
	if !bytes.Equal(mem, want) {
		t.Error("the bytes are not those that were sent")
	}
}

// A descriptor may lie on the border of two views.
func TestFragmentsDescriptor(t *testing.T) {
	d := guardian(t)
	dev, err := d.Open(0)
	must(t, err)
	defer dev.Close()
	far, err := dev.Alloc(200, driver.PageNormal)
	must(t, err)
	must(t, d.Run(driver.Op{Kind: driver.OpFill, Dst: far, N: 100, Width: 1, Value: 7}))
	mem := mmap(t, -1, 16384, readWrite, unix.MAP_PRIVATE)
	const at = 4096 - 20
	alias, err := d.Register(addressOf(mem)+10, 16000, true, 0)
	must(t, err)
	binary.LittleEndian.PutUint32(mem[at+int(driver.Desc32.Length):], 100)
	binary.LittleEndian.PutUint64(mem[at+int(driver.Desc32.Src):], uint64(far))
	binary.LittleEndian.PutUint64(mem[at+int(driver.Desc32.Dst):], uint64(far+100))
	failed := &log{make(chan error, 10)}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failed.TaskFailed}})
	q.Submit(driver.Op{Kind: driver.OpDesc, Src: alias + at - 10, N: 64, Layout: driver.Desc32})
	q.Wait(0, nil)
	select {
	case err := <-failed.failed:
		t.Fatal(err)
	default:
	}
	if d.Sum(far, 100) != d.Sum(far+100, 100) {
		t.Error("the copy was not made")
	}
}
