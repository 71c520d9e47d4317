package transfer_test

import (
	"bytes"
	"runtime"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// Regions a segment of a fuzzed batch may lie in.
const (
	nowhere  = iota // NULL
	freedMem        // device memory that was freed
	device0         // of the current device
	device1         // of another
	pinnedMem
	pageMem
	regions
)

// bench is a runtime for fuzzed batches and the memory they may use.
type bench struct {
	rt      *core.Runtime
	name    string
	ctx     *core.Thread
	streams [4]core.Handle // NULL, one of the context, of another, destroyed
	addr    [regions]core.Addr
	room    [regions]int
	want    [regions][]byte
	page    []byte
}

const dead, foreign = 3, 2

func newBench(f *testing.F, name string) *bench {
	p, err := product.Find(name, "")
	testenv.OK(f, err)
	d, err := soft.New(soft.Options{Devices: 2, Memory: 64 << 20})
	testenv.OK(f, err)
	b := &bench{rt: core.New(core.Options{Driver: d, Product: p}), name: name, page: make([]byte, 1024)}
	f.Cleanup(func() { b.rt.Close() })
	done := func(err *core.Error) {
		if err != nil {
			f.Fatal(err)
		}
	}
	th := b.rt.NewThread(1)
	var ctx [2]*core.Thread
	for dev := range ctx {
		done(th.SetDevice(int32(dev)))
		var c core.Handle
		done(th.GetCurrentContext(&c))
		ctx[dev] = b.rt.ThreadIn(c)
	}
	b.ctx = ctx[0]
	done(memory.DeviceEnablePeerAccess(b.ctx, 1, 0))
	done(b.ctx.CreateStream(&b.streams[1]))
	done(ctx[1].CreateStream(&b.streams[foreign]))
	done(b.ctx.CreateStream(&b.streams[dead]))
	done(b.ctx.DestroyStream(b.streams[dead]))
	done(memory.Malloc(b.ctx, &b.addr[device0], 256, abi.MemMallocHugeFirst))
	done(memory.Malloc(ctx[1], &b.addr[device1], 256, abi.MemMallocHugeFirst))
	done(memory.MallocHost(b.ctx, &b.addr[pinnedMem], 256))
	done(memory.Malloc(b.ctx, &b.addr[freedMem], 256, abi.MemMallocHugeFirst))
	done(memory.Free(b.ctx, b.addr[freedMem]))
	b.addr[pageMem] = core.AddrOf(b.page)
	size := 256 + int(p.Padding)
	b.room = [regions]int{device0: size, device1: size, pinnedMem: 256, pageMem: len(b.page)}
	for i, n := range b.room {
		b.want[i] = make([]byte, n)
	}
	return b
}

// reset brings all memory into the state it has before a batch.
func (b *bench) reset(t *testing.T) {
	for i := range b.want {
		for j := range b.want[i] {
			b.want[i][j] = byte(i*64 + j*3 + j>>5)
		}
		if n := uint64(len(b.want[i])); n > 0 {
			if err := transfer.Memcpy(b.ctx, b.addr[i], n, core.AddrOf(b.want[i]), n, abi.MemcpyDefault); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compare looks at all memory.
func (b *bench) compare(t *testing.T) {
	for i := range b.want {
		n := uint64(len(b.want[i]))
		if n == 0 {
			continue
		}
		got := make([]byte, n)
		if err := transfer.Memcpy(b.ctx, core.AddrOf(got), n, b.addr[i], n, abi.MemcpyDefault); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, b.want[i]) {
			t.Fatalf("region %d: got\n%x, want\n%x", i, got, b.want[i])
		}
	}
}

// tape hands out the fuzzer's bytes, and zeros past the end.
type tape []byte

func (r *tape) next() int {
	if len(*r) == 0 {
		return 0
	}
	x := (*r)[0]
	*r = (*r)[1:]
	return int(x)
}

// bad is true rarely: 1 in 16.
func (r *tape) bad() bool { return r.next()%16 == 15 }

// fuzzed is one batch call.
type fuzzed struct {
	b           *bench
	async, v2   bool
	stream      int
	n           int
	dst, src    []int // regions
	to, from    []int // offsets
	size, most  []uint64
	attrs       []abi.MemcpyBatchAttr
	index       []uint64
	numAttrs    int
	missing     [6]bool // arrays that are NULL
	noFailIndex bool
	dsts, srcs  []core.Addr
}

// locations are what an attribute may say, for regions and otherwise.
func locationOf(region, x int) abi.MemLocation {
	switch {
	case x%16 == 15:
		return abi.MemLocation{Type: abi.MemLocationType(x / 16 % 6), ID: uint32(x / 16)}
	case region == device0 || region == device1 || region == freedMem:
		return abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(max(0, region-device0))}
	case x%8 == 7:
		return abi.MemLocation{Type: abi.MemLocationTypeHostNuma, ID: uint32(x)}
	}
	return abi.MemLocation{Type: abi.MemLocationTypeHost}
}

// decode makes a call of the fuzzer's bytes, mostly one that is nearly right.
func decode(b *bench, r tape) *fuzzed {
	f := &fuzzed{b: b}
	x := r.next()
	f.async, f.v2, f.n = x&1 != 0, x&2 != 0, x>>2&7
	f.stream = 1
	if r.bad() {
		f.stream = r.next() % 4
	}
	if r.bad() {
		f.missing[r.next()%6] = true
	}
	f.noFailIndex = r.bad()
	up := r.next()&1 != 0
	for range max(f.n, 1) {
		x := r.next()
		// mostly between host and device, and mostly one way
		dst, src := device0+x&1, pinnedMem+x>>1&1
		if up == (x>>2&15 == 15) {
			dst, src = src, dst
		}
		if x&0xF8 == 0xF8 {
			dst = r.next() % regions
		}
		if x&0xF8 == 0xF0 {
			src = r.next() % regions
		}
		size := uint64(r.next() % 64)
		if r.bad() {
			size = uint64(r.next()) * 2
		}
		most := size + uint64(r.next()%3)
		if r.bad() && most > 0 {
			most /= 2
		}
		f.dst, f.src = append(f.dst, dst), append(f.src, src)
		f.to, f.from = append(f.to, r.next()%256), append(f.from, r.next()%256)
		f.size, f.most = append(f.size, size), append(f.most, most)
	}
	for i := range max(f.n, 1) {
		a := abi.MemcpyBatchAttr{DstLoc: locationOf(f.dst[i], r.next()), SrcLoc: locationOf(f.src[i], r.next())}
		if r.bad() {
			a.Rsv[r.next()%16] = 1
		}
		if i > 0 && f.attrs[len(f.attrs)-1] == a && r.next()%2 == 0 {
			continue
		}
		f.attrs, f.index = append(f.attrs, a), append(f.index, uint64(i))
	}
	if r.bad() {
		f.index[r.next()%len(f.index)] = uint64(r.next() % 10)
	}
	f.numAttrs = len(f.attrs)
	if r.bad() {
		f.numAttrs = r.next() % 10
		for len(f.attrs) < f.numAttrs {
			f.attrs, f.index = append(f.attrs, f.attrs[0]), append(f.index, uint64(len(f.index)))
		}
	}
	for i := range f.dst {
		f.dsts, f.srcs = append(f.dsts, f.address(f.dst[i], f.to[i])), append(f.srcs, f.address(f.src[i], f.from[i]))
	}
	return f
}

func (f *fuzzed) address(region, off int) core.Addr {
	if region == nowhere {
		return 0
	}
	return f.b.addr[region] + core.Addr(off)
}

const (
	unwritten = uint64(0xABCDEF)
	noSegment = ^uint64(0)
)

// expected is what the model says: the code, failIndex and how many segments are carried out.
func (f *fuzzed) expected() (code abi.Code, at uint64, run int) {
	const param, invalid = abi.ErrRTParamInvalid, abi.ErrInvalidParam
	size := f.size[:f.n]
	zero := true
	for _, n := range size {
		zero = zero && n == 0
	}
	switch {
	case f.noFailIndex && !f.v2, f.missing[0], f.n == 0:
		return invalid, noSegment, 0
	case zero:
		return 0, noSegment, 0
	case f.missing != [6]bool{}:
		return invalid, noSegment, 0
	}
	for i, n := range size {
		if f.most[i] < n {
			return invalid, noSegment, 0
		}
	}
	for _, a := range f.attrs[:f.numAttrs] {
		if a.Rsv != [16]uint8{} {
			return invalid, noSegment, 0
		}
	}
	if f.async && f.stream == dead {
		return abi.ErrRTInvalidHandle, noSegment, 0
	}
	if f.numAttrs == 0 || f.numAttrs > f.n || f.index[0] != 0 {
		return param, noSegment, 0
	}
	for k, first := range f.index[:f.numAttrs] {
		if first >= uint64(f.n) || k > 0 && first <= f.index[k-1] {
			return param, noSegment, 0
		}
	}
	whole := !f.async || f.b.name == "950" // nothing is done unless all are valid
	if f.async && f.b.name == "950" && f.stream == foreign {
		return abi.ErrRTStreamContext, noSegment, 0
	}
	for i := range f.n {
		code, at := f.segment(i)
		if code != 0 {
			if whole {
				i = 0
			}
			return code, at, i
		}
	}
	return 0, noSegment, f.n
}

// segment is what the model says of segment i.
func (f *fuzzed) segment(i int) (code abi.Code, at uint64) {
	k := 0
	for k+1 < f.numAttrs && f.index[k+1] <= uint64(i) {
		k++
	}
	dst, src, n := f.dst[i], f.src[i], int(f.size[i])
	host := func(r int) bool { return r == pinnedMem || r == pageMem }
	// live: an address at or past the end of an allocation belongs to none
	live := func(r, off int) bool { return r > freedMem && (r == pageMem || off < f.b.room[r]) }
	is := func(r int, l abi.MemLocation) bool {
		switch l.Type {
		case abi.MemLocationTypeHost, abi.MemLocationTypeHostNuma:
			return host(r)
		case abi.MemLocationTypeDevice:
			return !host(r) && l.ID == uint32(r-device0)
		}
		return false
	}
	switch {
	case f.async && n == 0,
		!live(dst, f.to[i]), !live(src, f.from[i]),
		!is(dst, f.attrs[k].DstLoc), !is(src, f.attrs[k].SrcLoc),
		host(dst) == host(src),
		host(dst) != host(f.dst[0]):
		return abi.ErrRTParamInvalid, uint64(i)
	}
	if f.async && f.stream == foreign && dst != pageMem && src != pageMem {
		return abi.ErrRTStreamContext, noSegment
	}
	if f.to[i]+n > f.b.room[dst] || f.from[i]+n > f.b.room[src] {
		return abi.ErrRTParamInvalid, noSegment
	}
	return 0, 0
}

// ordered reports whether the first run segments touch no byte of one another.
func (f *fuzzed) ordered(run int) bool {
	over := func(r, off int, n uint64, r2, off2 int, n2 uint64) bool {
		return r == r2 && off < off2+int(n2) && off2 < off+int(n)
	}
	for i := range run {
		for j := range i {
			if over(f.dst[i], f.to[i], f.size[i], f.dst[j], f.to[j], f.size[j]) ||
				over(f.dst[i], f.to[i], f.size[i], f.src[j], f.from[j], f.size[j]) ||
				over(f.src[i], f.from[i], f.size[i], f.dst[j], f.to[j], f.size[j]) {
				return false
			}
		}
	}
	return true
}

// call makes the call.
func (f *fuzzed) call(at *uint64) *core.Error {
	dsts, srcs, sizes, most, attrs, index := &f.dsts[0], &f.srcs[0], &f.size[0], &f.most[0], &f.attrs[0], &f.index[0]
	for i, p := range []func(){
		func() { sizes = nil }, func() { dsts = nil }, func() { srcs = nil },
		func() { most = nil }, func() { attrs = nil }, func() { index = nil },
	} {
		if f.missing[i] {
			p()
		}
	}
	if f.noFailIndex {
		at = nil
	}
	c, n, k, s := f.b.ctx, uint64(f.n), uint64(f.numAttrs), f.b.streams[f.stream]
	switch {
	case f.async && f.v2:
		return transfer.MemcpyBatchAsyncV2(c, dsts, most, srcs, sizes, n, attrs, index, k, s)
	case f.async:
		return transfer.MemcpyBatchAsync(c, dsts, most, srcs, sizes, n, attrs, index, k, at, s)
	case f.v2:
		return transfer.MemcpyBatchV2(c, dsts, most, srcs, sizes, n, attrs, index, k)
	}
	return transfer.MemcpyBatch(c, dsts, most, srcs, sizes, n, attrs, index, k, at)
}

// FuzzBatch makes batch calls of the fuzzer's bytes and compares code, failIndex and memory with a model.
func FuzzBatch(f *testing.F) {
	benches := []*bench{newBench(f, "A2"), newBench(f, "950")}
	f.Add([]byte{})
	for seed := range 64 { // something of everything
		data := make([]byte, 200)
		x := uint32(seed*2654435761 + 1)
		for i := range data {
			x = x*1664525 + 1013904223
			data[i] = byte(x >> 24)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := tape(data)
		b := benches[r.next()%2]
		c := decode(b, r)
		b.reset(t)
		code, at, run := c.expected()
		got := unwritten
		err := c.call(&got)
		var is abi.Code
		if err != nil {
			is = err.Code
		}
		if c.v2 || c.noFailIndex {
			got, at = unwritten, unwritten
		}
		if is != code || got != at {
			t.Fatalf("%s %+v:\n%v, failIndex %#x; want %d, %#x", b.name, c, err, got, code, at)
		}
		if err := b.ctx.SynchronizeStream(b.streams[1]); err != nil {
			t.Fatal(err)
		}
		if err := b.ctx.SynchronizeDevice(); err != nil {
			t.Fatal(err)
		}
		if c.ordered(run) {
			for i := range run {
				copy(b.want[c.dst[i]][c.to[i]:][:c.size[i]], b.want[c.src[i]][c.from[i]:])
			}
			b.compare(t)
		}
		runtime.KeepAlive(b)
	})
}
