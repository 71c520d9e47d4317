package drivertest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// sizes lists the sizes at which engines change their method: nothing, less than a word, around 64 KiB and 512 KiB,
// large.
var sizes = []int{0, 1, 2, 3, 4, 63, 255, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 512<<10 - 1, 512 << 10, 512<<10 + 1,
	5 << 20}

// places returns a range of n bytes of every kind of memory that a queue can use.
func (e *env) places(n int) map[string]memory {
	host, alias := e.registered(n)
	return map[string]memory{"device": e.device(n), "pinned": e.pinned(n), "registered": host, "mapped": alias}
}

// ways lists the ways to carry out an operation.
var ways = []struct {
	name string
	do   func(q *queue, op driver.Op)
}{
	{"run", func(q *queue, op driver.Op) {
		q.e.run(op)
		if op.Segs != nil {
			op.Segs.Release()
		}
	}},
	{"idle", func(q *queue, op driver.Op) {
		q.submit(op)
		q.finish()
	}},
	{"queued", func(q *queue, op driver.Op) {
		release := q.block()
		q.submit(op)
		release()
		q.finish()
	}},
}

// submit calls Submit, or Copy for a plain copy.
func (q *queue) submit(op driver.Op) {
	if op.Kind == driver.OpCopy && op.Done == nil {
		q.Copy(op.Dst, op.Src, op.N, op.Tag)
	} else {
		q.Submit(op)
	}
}

func testCopy(e *env) {
	const margin = 100
	largest := sizes[len(sizes)-1]
	from, to := e.places(largest+2*margin), e.places(largest+2*margin)
	q := e.queue()
	for fromName, src := range from {
		for toName, dst := range to {
			for i, n := range sizes {
				for j, way := range ways {
					if n > 1<<20 && (fromName == "mapped" || toName == "mapped" || testing.Short() &&
						way.name != "queued") {
						continue // like the others, but slow to check
					}
					s, d := src.addr+uintptr(i+j), dst.addr+margin-uintptr(3*i+j)
					want := noise(uint64(i*10+j), n)
					e.write(s, want)
					e.run(driver.Op{Kind: driver.OpFill, Dst: d - 32, N: uint64(n + 64), Width: 1, Value: canary})
					way.do(q, driver.Op{Kind: driver.OpCopy, Dst: d, Src: s, N: uint64(n), Tag: tag(i)})
					what := fmt.Sprintf("%d bytes %s to %s, %s", n, fromName, toName, way.name)
					e.holds(what, d, want)
					e.holds(what+", before", d-32, painted(32, canary))
					e.holds(what+", after", d+uintptr(n), painted(32, canary))
				}
			}
		}
	}
}

// A copy between overlapping ranges has the result of memmove.
func testCopyOverlap(e *env) {
	q := e.queue()
	for name, m := range e.places(2 << 20) {
		for _, n := range []int{1, 100, 5000, 64<<10 + 1, 700_000} {
			for _, shift := range []int{0, 1, 7, 64, 4096, 100_000} {
				for i, way := range ways {
					all := noise(uint64(n+shift+i), n+shift)
					for _, up := range []bool{false, true} {
						e.write(m.addr+3, all)
						want := append([]byte(nil), all...)
						op := driver.Op{Kind: driver.OpCopy, Dst: m.addr + 3, Src: m.addr + 3 + uintptr(shift),
							N: uint64(n)}
						if up {
							op.Dst, op.Src = op.Src, op.Dst
							copy(want[shift:], all[:n])
						} else {
							copy(want[:n], all[shift:])
						}
						way.do(q, op)
						e.holds(fmt.Sprintf("%s: %d bytes moved by %d, up %v, %s", name, n, shift, up, way.name),
							m.addr+3, want)
					}
				}
			}
		}
	}
}

// testCopyHuge copies more than 4 GiB to prove that no size has 32 bits on the way. If the host has to find the pages,
// which takes long, it moves them up a little, else it copies them elsewhere.
func testCopyHuge(e *env) {
	const n = 4<<30 + 12345
	up := uintptr(n)
	if e.d.Name() == "soft" {
		up = 64<<20 + 1
	}
	if testing.Short() {
		e.Skip("short")
	}
	if free, _ := e.dev.Memory(); free < uint64(n+up) || available() < uint64(n+up)+6<<30 {
		e.Skipf("needs %d GiB of memory and some to spare", (n+up)>>30)
	}
	src := e.device(int(n + up)).addr
	dst := src + up
	e.run(driver.Op{Kind: driver.OpFill, Dst: src, N: n, Width: 1, Value: 0x5A})
	marks := []uintptr{0, 1 << 31, 1<<32 - 50, 1 << 32, n - 100}
	for i, at := range marks {
		e.write(src+at, noise(uint64(i), 100))
	}
	q := e.queue()
	q.Copy(dst, src, n, tag(1))
	q.finish()
	for i, at := range marks {
		want := noise(uint64(i), 100)
		if at == 1<<32-50 { // the next mark overwrote its second half
			want = append(want[:50:50], noise(uint64(i+1), 100)[:50]...)
		}
		e.holds(fmt.Sprintf("at %d", at), dst+at, want)
	}
	e.holds("between marks", dst+3<<30, painted(1<<20, 0x5A))
}

// available returns the memory that the machine has free.
func available() (bytes uint64) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			fmt.Sscan(line, &bytes)
			return bytes << 10
		}
	}
	return 0
}

func testCopy2D(e *env) {
	const room = 9 << 20
	places := e.places(room)
	q := e.queue()
	for _, kind := range [][2]string{{"device", "pinned"}, {"pinned", "device"}, {"device", "device"},
		{"registered", "device"}, {"pinned", "mapped"}} {
		src, dst := places[kind[0]], places[kind[1]]
		for i, s := range []struct{ width, height, dstPitch, srcPitch int }{
			{0, 5, 10, 10}, {7, 0, 10, 10}, {1, 1, 1, 1}, {5, 3, 5, 5}, {5, 3, 7, 11}, {100, 33, 101, 257},
			{1000, 65, 1001, 1003}, {1024, 700, 1111, 1024}, {3, 200_000, 7, 5}, {700_001, 3, 700_003, 700_001}, {4096,
				200, 4096, 4099},
		} {
			if s.height > 100_000 && kind[0] != "registered" {
				continue // slow to compute
			}
			for _, way := range ways {
				srcAt, dstAt := 0, 0
				if src.addr == dst.addr {
					srcAt = room / 2
				}
				srcLen, dstLen := s.height*s.srcPitch+s.width, s.height*s.dstPitch+s.width
				from := noise(uint64(i), srcLen)
				e.write(src.addr+uintptr(srcAt), from)
				want := noise(uint64(100+i), dstLen)
				e.write(dst.addr+uintptr(dstAt), want)
				for y := range s.height {
					copy(want[y*s.dstPitch:][:s.width], from[y*s.srcPitch:])
				}
				way.do(q, driver.Op{
					Kind: driver.OpCopy2D, Dst: dst.addr + uintptr(dstAt), Src: src.addr +
						uintptr(srcAt), N: uint64(s.width),
					Height: uint64(s.height), DstPitch: uint64(s.dstPitch), SrcPitch: uint64(s.srcPitch), Tag: tag(i),
				})
				e.holds(fmt.Sprintf("%+v %v %s", s, kind, way.name), dst.addr+uintptr(dstAt), want)
			}
		}
	}
}

func testBatch(e *env) {
	q := e.queue()
	for i, s := range []struct{ count, most int }{
		{0, 1}, {1, 0}, {1, 100}, {2, 100_000}, {5, 64}, {7, 1 << 20}, {255, 300}, {256, 300}, {257, 300}, {512,
			1}, {513, 4096}, {1000, 2000}, {5000, 700},
	} {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		lens := make([]int, s.count)
		total := 0
		for j := range lens {
			lens[j] = rnd.IntN(s.most + 1)
			total += lens[j] + 3
		}
		host, dev := e.pinned(total+1), e.device(total+1)
		for _, down := range []bool{true, false} {
			for _, way := range ways {
				// Sources lie in order with gaps, destinations in another order.
				src, dst := host, dev
				if !down {
					src, dst = dev, host
				}
				from, want := noise(uint64(i), total), painted(total, canary)
				e.write(src.addr, from)
				e.write(dst.addr, want)
				starts := make([]int, s.count)
				at := 0
				for j := range lens {
					starts[j] = at
					at += lens[j] + 3
				}
				segs := driver.NewSegments()
				to := 0
				for _, j := range rnd.Perm(s.count) {
					segs.Add(dst.addr+uintptr(to), src.addr+uintptr(starts[j]), uint64(lens[j]))
					copy(want[to:], from[starts[j]:starts[j]+lens[j]])
					to += lens[j] + 3
				}
				way.do(q, driver.Op{Kind: driver.OpBatch, Segs: segs, Tag: tag(i)})
				e.holds(fmt.Sprintf("%d segments of up to %d, to device %v, %s", s.count, s.most, down, way.name),
					dst.addr, want)
			}
		}
		testenv.OK(e, e.d.FreeHost(host.addr))
		testenv.OK(e, e.dev.Free(dev.addr))
	}
}

func testFill(e *env) {
	const margin = 64
	places := e.places(5<<20 + 4*margin)
	q := e.queue()
	for name, m := range places {
		for i, n := range sizes {
			for j, way := range ways {
				if n > 1<<20 && testing.Short() && name != "device" {
					continue
				}
				at := m.addr + margin + uintptr(i*4)
				what := fmt.Sprintf("%s: %d bytes, %s", name, n, way.name)
				value := byte(0x30 + i + j)

				e.write(at-16, painted(n+32, canary))
				// Only the low byte of the value matters for elements of one byte.
				way.do(q, driver.Op{Kind: driver.OpFill, Dst: at + 1, N: uint64(n), Width: 1,
					Value: 0xABCD00 | uint32(value)})
				e.holds(what, at+1, painted(n, value))
				e.holds(what+", before", at-16, painted(17, canary))
				e.holds(what+", after", at+1+uintptr(n), painted(15, canary))

				words := n / 4
				want := painted(n+32, canary)
				e.write(at-16, want)
				for k := range words {
					binary.LittleEndian.PutUint32(want[16+4*k:], 0x01020304*uint32(j+1))
				}
				way.do(q, driver.Op{Kind: driver.OpFill, Dst: at, N: uint64(words), Width: 4,
					Value: 0x01020304 * uint32(j+1)})
				e.holds(what+" in words", at-16, want)
			}
		}
	}
}

// descriptor returns the bytes of a copy descriptor.
func descriptor(l driver.Layout, dst, src uintptr, n uint32) []byte {
	b := noise(9, 64)
	binary.LittleEndian.PutUint32(b[l.Length:], n)
	binary.LittleEndian.PutUint64(b[l.Src:], uint64(src))
	binary.LittleEndian.PutUint64(b[l.Dst:], uint64(dst))
	return b[:descBytes(l)]
}

func descBytes(l driver.Layout) int {
	if l == driver.Desc32 {
		return 32
	}
	return 64
}

func testDesc(e *env) {
	q := e.queue()
	for _, l := range []driver.Layout{driver.Desc32, driver.Desc64} {
		for _, n := range []int{0, 1, 4096, 64<<10 + 1, 600_001} {
			src, dst, decoy, desc := e.device(n+1), e.device(n+1), e.device(n+1), e.device(64)
			fresh := e.pinned(64)
			e.write(src.addr, noise(uint64(n), n+1))
			op := driver.Op{Kind: driver.OpDesc, Src: desc.addr, N: uint64(descBytes(l)), Layout: l, Tag: tag(n)}

			e.write(dst.addr, painted(n+1, canary))
			e.write(desc.addr, descriptor(l, dst.addr, src.addr, uint32(n)))
			q.Submit(op)
			q.finish()
			want := append(noise(uint64(n), n+1)[:n:n], canary)
			e.holds(fmt.Sprintf("descriptor of %d bytes", n), dst.addr, want)

			// The copy reads the descriptor when it runs: a task before it changes the content since submission.
			e.write(dst.addr, painted(n+1, canary))
			e.write(decoy.addr, painted(n+1, canary))
			e.write(desc.addr, descriptor(l, decoy.addr, src.addr, uint32(n)))
			copy(fresh.host, descriptor(l, dst.addr, src.addr, uint32(n)))
			release := q.block()
			q.Copy(desc.addr, fresh.addr, uint64(descBytes(l)), tag(1))
			q.Submit(op)
			release()
			q.finish()
			e.holds("rewritten descriptor", dst.addr, want)
			e.holds("destination before it was rewritten", decoy.addr, painted(n+1, canary))

			// The same without a wait in between: the queue is still busy with the change.
			e.write(dst.addr, painted(n+1, canary))
			e.write(desc.addr, descriptor(l, decoy.addr, src.addr, uint32(n)))
			q.Copy(desc.addr, fresh.addr, uint64(descBytes(l)), tag(1))
			q.Submit(op)
			q.finish()
			e.holds("descriptor rewritten just before", dst.addr, want)
		}
	}
}

func cell(addr uintptr) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(addr)) }

func testOffset(e *env) {
	q := e.queue()
	for _, n := range []int{1, 4096, 64<<10 + 1, 600_001} {
		src, dst, decoy, cells := e.device(n+100), e.device(n+100), e.device(n+100), e.device(16)
		fresh := e.pinned(16)
		from := noise(uint64(n), n+100)
		e.write(src.addr, from)
		op := driver.Op{Kind: driver.OpOffset, Dst: cells.addr, Src: cells.addr + 8, N: uint64(n), DstPitch: 7,
			SrcPitch: 33, Tag: tag(n)}
		want := append(append(painted(7, canary), from[33:33+n]...), painted(93, canary)...)

		e.write(dst.addr, painted(n+100, canary))
		e.write(cells.addr, append(cell(dst.addr), cell(src.addr)...))
		q.Submit(op)
		q.finish()
		e.holds("offsets", dst.addr, want)

		e.write(dst.addr, painted(n+100, canary))
		e.write(decoy.addr, painted(n+100, canary))
		e.write(cells.addr, append(cell(decoy.addr), cell(decoy.addr)...))
		copy(fresh.host, append(cell(dst.addr), cell(src.addr)...))
		release := q.block()
		q.Copy(cells.addr, fresh.addr, 16, tag(1))
		q.Submit(op)
		release()
		q.finish()
		e.holds("rewritten cells", dst.addr, want)
		e.holds("decoy", decoy.addr, painted(n+100, canary))
	}
}

// A descriptor or a cell may have any content: the copy only uses memory of the device.
func testIndirectFaults(e *env) {
	good, desc := e.device(4096), e.device(64)
	freed := e.device(4096)
	testenv.OK(e, e.dev.Free(freed.addr))
	pinned := e.pinned(4096)
	e.write(good.addr, noise(1, 4096))
	copy(pinned.host, noise(2, 4096))
	q := e.queue()
	bad := map[string]uintptr{
		"nil": 0, "small": 8, "top": ^uintptr(0) - 100, "not canonical": 1 << 63, "freed": freed.addr,
		"pinned":   pinned.addr,
		"pageable": e.mapped(4096).addr, "too short": good.addr + 4000,
	}
	if e.d.Devices() > 1 {
		other, err := e.d.Open(1)
		testenv.OK(e, err)
		defer other.Close()
		if bad["other device"], err = other.Alloc(4096, driver.PageNormal); err != nil {
			e.Fatal(err)
		}
	}
	for name, addr := range bad {
		for i, pair := range [][2]uintptr{{addr, good.addr}, {good.addr, addr}} {
			l := driver.Desc64
			e.write(desc.addr, descriptor(l, pair[0], pair[1], 500))
			q.Submit(driver.Op{Kind: driver.OpDesc, Src: desc.addr, N: 64, Layout: l, Tag: tag(i)})
			q.fails("descriptor with "+name, tag(i), driver.ErrFault)
			e.write(desc.addr, append(cell(pair[0]), cell(pair[1])...))
			q.Submit(driver.Op{Kind: driver.OpOffset, Dst: desc.addr, Src: desc.addr + 8, N: 500, Tag: tag(i)})
			q.fails("cells with "+name, tag(i), driver.ErrFault)
		}
	}
	e.holds("memory beside", good.addr, noise(1, 4096))
	if string(pinned.host) != string(noise(2, 4096)) {
		e.Fatal("pinned memory was written")
	}
	// The descriptor itself may have been freed.
	for i, op := range []driver.Op{
		{Kind: driver.OpDesc, Src: desc.addr, N: 64, Layout: driver.Desc64},
		{Kind: driver.OpOffset, Dst: desc.addr, Src: desc.addr + 8, N: 500},
	} {
		release := q.block()
		op.Tag = tag(i)
		q.Submit(op)
		if i == 0 {
			testenv.OK(e, e.dev.Free(desc.addr))
		}
		release()
		q.fails("freed descriptor or cells", tag(i), driver.ErrFault)
	}
}

// A chain in which each operation needs the result of the one before.
func testEveryKindInOrder(e *env) {
	const n = 100_000
	q := e.queue()
	for round := range 20 {
		in, out := e.pinned(n), e.pinned(n)
		a, b, c, d, meta := e.device(n), e.device(n), e.device(n), e.device(n), e.device(256)
		ctl := e.pinned(256)
		copy(in.host, noise(uint64(round), n))
		copy(ctl.host, descriptor(driver.Desc32, c.addr, b.addr, n))
		copy(ctl.host[64:], append(cell(d.addr), cell(c.addr)...))
		want := append([]byte(nil), in.host...)
		var order []int
		post := func(i int) {
			q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() { order = append(order, i) }})
		}
		f := e.d.NewFlag()
		release := func() {}
		if round%2 == 1 { // queue all of it before any runs
			release = q.block()
		}
		post(0)
		q.Copy(a.addr, in.addr, n, tag(1)) // host to device
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: a.addr + 10, N: 25, Width: 4, Value: 0xDEADBEEF})
		for i := range 25 {
			binary.LittleEndian.PutUint32(want[10+4*i:], 0xDEADBEEF)
		}
		post(1)
		q.Submit(driver.Op{Kind: driver.OpCopy2D, Dst: b.addr, Src: a.addr, N: 250, Height: n / 250, DstPitch: 250,
			SrcPitch: 250})
		q.Copy(meta.addr, ctl.addr, 256, tag(2))
		q.Submit(driver.Op{Kind: driver.OpDesc, Src: meta.addr, N: 32, Layout: driver.Desc32})
		q.Submit(driver.Op{Kind: driver.OpSet, Flag: f})
		q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
		q.Submit(driver.Op{Kind: driver.OpClear, Flag: f})
		q.Submit(driver.Op{Kind: driver.OpOffset, Dst: meta.addr + 64, Src: meta.addr + 72, N: n})
		q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: func() { order = append(order, 2) }})
		q.Submit(driver.Op{Kind: driver.OpFill, Dst: d.addr + n - 3, N: 3, Width: 1, Value: 7})
		copy(want[n-3:], []byte{7, 7, 7})
		segs := driver.NewSegments()
		for i := range 1000 {
			segs.Add(out.addr+uintptr(i*100), d.addr+uintptr((999-i)*100), 100)
		}
		q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
		post(3)
		release()
		q.finish()
		if f.IsSet() {
			e.Fatal("flag is set after it was cleared")
		}
		if fmt.Sprint(order) != "[0 1 2 3]" {
			e.Fatalf("host functions ran as %v", order)
		}
		for i := range 1000 {
			if string(out.host[i*100:][:100]) != string(want[(999-i)*100:][:100]) {
				e.Fatalf("round %d: segment %d of the result is wrong", round, i)
			}
		}
		for _, m := range []memory{a, b, c, d, meta} {
			e.dev.Free(m.addr)
		}
	}
}
