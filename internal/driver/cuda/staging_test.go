package cuda

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// cores sets the number of cores for a test; half of them are helpers.
func cores(t *testing.T, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// manyHands sets enough cores for several helpers.
func manyHands(t *testing.T) { cores(t, 8) }

// TestOrdinaryMemory proves copies of ordinary memory in both directions: plain ones, rows and batches, small ones and
// ones that several goroutines share.
func TestOrdinaryMemory(t *testing.T) {
	manyHands(t)
	d, f := openFake(t, 1)
	v, err := d.Open(0)
	testenv.OK(t, err)
	const most = 20 << 20
	device, err := v.Alloc(most, driver.PageHugeFirst)
	testenv.OK(t, err)
	up, down := mapped(t, most), mapped(t, most)
	random := rand.NewChaCha8([32]byte{2})
	run := func(op driver.Op) {
		t.Helper()
		if err := d.Run(op); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{1, 100, 4096, loadFirst - 1, loadFirst + 1, loadBytes - 1, 3*loadBytes + 5, most} {
		random.Read(up[:n])
		run(driver.Op{Kind: driver.OpCopy, Dst: device, Src: startOf(up), N: uint64(n)})
		run(driver.Op{Kind: driver.OpCopy, Dst: startOf(down), Src: device, N: uint64(n)})
		if !bytes.Equal(up[:n], down[:n]) {
			t.Errorf("%d bytes did not come back", n)
		}
		clear(down[:n])
		run(driver.Op{Kind: driver.OpCopy, Dst: startOf(down), Src: startOf(up), N: uint64(n)})
		if !bytes.Equal(up[:n], down[:n]) {
			t.Errorf("%d bytes between host memory did not arrive", n)
		}
	}

	const width, pitch, height = 3001, 4099, 4000
	rowsUp := driver.Op{Kind: driver.OpCopy2D, Dst: device, Src: startOf(up), N: width, Height: height,
		DstPitch: width, SrcPitch: pitch}
	rowsDown := rowsUp
	rowsDown.Dst, rowsDown.Src, rowsDown.DstPitch, rowsDown.SrcPitch = startOf(down), device, pitch, width
	clear(down)
	run(rowsUp)
	run(rowsDown)
	for i := range height {
		at := i * pitch
		if !bytes.Equal(up[at:at+width], down[at:at+width]) || !bytes.Equal(down[at+width:at+pitch],
			make([]byte, pitch-width)) {
			t.Fatalf("row %d is not as it should be", i)
		}
	}

	clear(down)
	there, back := driver.NewSegments(), driver.NewSegments()
	for at, i := 0, 0; at < most; i++ {
		n := min(1+i*31%5000, most-at)
		there.Add(device+uintptr(most-at-n), startOf(up)+uintptr(at), uint64(n))
		back.Add(startOf(down)+uintptr(at), device+uintptr(most-at-n), uint64(n))
		at += n
	}
	run(driver.Op{Kind: driver.OpBatch, Segs: there})
	run(driver.Op{Kind: driver.OpBatch, Segs: back})
	if !bytes.Equal(up, down) {
		t.Error("a batch did not come back")
	}
	if err := errors.Join(v.Close(), d.Close(), f.close()); err != nil {
		t.Error(err)
	}
}

// TestOrdinaryMemoryMissing proves that nothing is written if any page of the source or the destination is unmapped,
// whichever helper finds it.
func TestOrdinaryMemoryMissing(t *testing.T) {
	manyHands(t)
	d, _ := openFake(t, 1)
	defer d.Close()
	v, err := d.Open(0)
	testenv.OK(t, err)
	defer v.Close()
	const n = 16 << 20
	device, err := v.Alloc(n, driver.PageHugeFirst)
	testenv.OK(t, err)
	fill := driver.Op{Kind: driver.OpFill, Dst: device, N: n, Width: 1, Value: 7}
	testenv.OK(t, d.Run(fill))
	whole := mapped(t, n)
	for name, prot := range map[string]int{"nothing": unix.PROT_NONE, "read only": unix.PROT_READ} {
		holed := mapped(t, n)
		testenv.OK(t, unix.Mprotect(holed[n-4096:], prot))
		host := startOf(holed)
		segments := func(dst, src uintptr) *driver.Segments {
			segs := driver.NewSegments()
			for at := uintptr(0); at < n; at += 1 << 12 {
				segs.Add(dst+at, src+at, 1<<12)
			}
			return segs
		}
		ops := map[string]driver.Op{
			"down":       {Kind: driver.OpCopy, Dst: host, Src: device, N: n},
			"batch down": {Kind: driver.OpBatch, Segs: segments(host, device)},
			"between":    {Kind: driver.OpCopy, Dst: host, Src: startOf(whole), N: n},
		}
		if prot == unix.PROT_NONE {
			ops["up"] = driver.Op{Kind: driver.OpCopy, Dst: device, Src: host, N: n}
			ops["rows up"] = driver.Op{Kind: driver.OpCopy2D, Dst: device, Src: host, N: 4096, Height: n / 4096,
				DstPitch: 4096, SrcPitch: 4096}
			ops["batch up"] = driver.Op{Kind: driver.OpBatch, Segs: segments(device, host)}
			ops["from there"] = driver.Op{Kind: driver.OpCopy, Dst: startOf(whole), Src: host, N: n}
		}
		for way, op := range ops {
			if err := d.Run(op); !errors.Is(err, driver.ErrFault) {
				t.Errorf("%s, %s: %v", name, way, err)
			}
		}
		if !bytes.Equal(holed[:n-4096], make([]byte, n-4096)) || !bytes.Equal(whole, make([]byte, n)) {
			t.Errorf("%s: host memory was written", name)
		}
	}
	testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: startOf(whole), Src: device, N: n}))
	if !bytes.Equal(whole, bytes.Repeat([]byte{7}, n)) {
		t.Error("device memory was written")
	}
}

// TestMixedBatch proves that Run carries out a batch with all kinds of segments: memory of two devices, pinned,
// registered at its device address, and ordinary memory, in every direction, including segments that overlap
// themselves; and that one bad segment keeps all of them from being copied.
func TestMixedBatch(t *testing.T) {
	manyHands(t)
	d, f := openFake(t, 2)
	const each = 64 << 10
	var addr []uintptr
	var devices []driver.Device
	for i := range 2 {
		v, err := d.Open(i)
		testenv.OK(t, err)
		a, err := v.Alloc(each, driver.PageNormal)
		testenv.OK(t, err)
		devices, addr = append(devices, v), append(addr, a)
	}
	host, err := d.AllocHost(each)
	testenv.OK(t, err)
	registered, plain := startOf(mapped(t, each)), startOf(mapped(t, each))
	alias, err := d.Register(registered, each, true, 0)
	testenv.OK(t, err)
	addr = append(addr, host, alias, plain)
	random := rand.New(rand.NewPCG(3, 3))
	model := make([][]byte, len(addr))
	for i := range model {
		model[i] = make([]byte, each)
		rand.NewChaCha8([32]byte{byte(i)}).Read(model[i])
		testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: addr[i], Src: startOf(model[i]), N: each}))
	}
	check := func(when string) {
		t.Helper()
		got := make([]byte, each)
		for i := range model {
			testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: startOf(got), Src: addr[i], N: each}))
			if !bytes.Equal(got, model[i]) {
				t.Errorf("%s: memory %d is not as it should be", when, i)
			}
		}
	}
	// One half of each memory is read, the other written, in pieces that only one segment writes.
	const half, piece = each / 2, 512
	segs := driver.NewSegments()
	for k, at := range random.Perm(half / piece * len(addr)) {
		to, from := at%len(addr), k%len(addr)
		n := 1 + random.IntN(piece)
		dst, src := half+at/len(addr)*piece, random.IntN(half-n)
		if to == from && k%3 == 0 && dst+n/3+n <= half+(at/len(addr)+1)*piece {
			src = dst + n/3 // overlaps itself; no other segment writes there
		}
		segs.Add(addr[to]+uintptr(dst), addr[from]+uintptr(src), uint64(n))
	}
	bad := driver.NewSegments()
	for _, s := range segs.List {
		bad.Add(s.Dst, s.Src, s.N)
	}
	bad.Add(addr[0]+each-1, plain, 2)
	if err := d.Run(driver.Op{Kind: driver.OpBatch, Segs: bad}); !errors.Is(err, driver.ErrFault) {
		t.Errorf("a bad segment: %v", err)
	}
	check("after a bad segment")
	where := func(a uintptr) []byte {
		for i := range addr {
			if a-addr[i] < each {
				return model[i][a-addr[i]:]
			}
		}
		panic("nowhere")
	}
	for _, s := range segs.List {
		copy(where(s.Dst)[:s.N], where(s.Src))
	}
	if err := d.Run(driver.Op{Kind: driver.OpBatch, Segs: segs}); err != nil {
		t.Error(err)
	}
	check("after the batch")
	if err := errors.Join(d.Unregister(registered), devices[0].Close(), devices[1].Close(), d.Close(),
		f.close()); err != nil {
		t.Error(err)
	}
}

// TestCursor proves that a cursor returns every byte once, in order, within the limits of pieces and bytes.
func TestCursor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		c := cursor{rows: rows{dst: 1000, src: 5000, n: uint64(r.IntN(50)), height: uint64(r.IntN(5)), dstPitch: 60,
			srcPitch: 70}}
		var want, got []driver.Segment // of one byte each
		for i := range uintptr(c.rows.height) {
			for k := range uintptr(c.rows.n) {
				want = append(want, driver.Segment{Dst: 1000 + 60*i + k, Src: 5000 + 70*i + k, N: 1})
			}
		}
		for range r.IntN(6) {
			s := driver.Segment{Dst: uintptr(r.IntN(9999)), Src: uintptr(r.IntN(9999)), N: uint64(r.IntN(40))}
			c.list = append(c.list, s)
			for k := range uintptr(s.N) {
				want = append(want, driver.Segment{Dst: s.Dst + k, Src: s.Src + k, N: 1})
			}
		}
		for {
			most, pieces := uint64(1+r.IntN(60)), 1+r.IntN(4)
			took := c.next(most, pieces, nil)
			if len(took) == 0 {
				break
			}
			sum := uint64(0)
			for _, s := range took {
				sum += s.N
				for k := range uintptr(s.N) {
					got = append(got, driver.Segment{Dst: s.Dst + k, Src: s.Src + k, N: 1})
				}
			}
			if sum > most || len(took) > pieces {
				t.Fatalf("%d bytes in %d pieces, asked for %d in %d", sum, len(took), most, pieces)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d bytes, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("byte %d is %+v, want %+v", i, got[i], want[i])
			}
		}
	}
}
