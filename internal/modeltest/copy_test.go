package modeltest

import (
	"runtime"
	"slices"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// cell is 8 bytes of device memory that an address was written to.
type cell struct {
	b   *buffer
	off int
}

// sizes are small, or around the borders where the engine changes its ways.
func sizes(t *rapid.T) int {
	if rapid.IntRange(0, 9).Draw(t, "large") == 9 {
		return rapid.SampledFrom([]int{4096, 64 << 10, 64<<10 + 1, 512<<10 - 1, 700_000}).Draw(t, "size")
	}
	return rapid.IntRange(1, 200).Draw(t, "size")
}

// alloc makes a buffer with every byte of it set.
func (w *world) alloc(t *rapid.T, kind place, ctx *settings, n int) *buffer {
	w.ids++
	b := &buffer{id: w.ids, kind: kind, dev: ctx.dev, want: make([]byte, n)}
	for i := range b.want {
		b.want[i] = byte(b.id*31 + i*7 + i>>8)
	}
	switch kind {
	case onDevice:
		must(t, corememory.Malloc(ctx.Thread, &b.addr, uint64(n), abi.MemMallocHugeFirst))
		fill := slices.Clone(b.want)
		must(t, transfer.Memcpy(ctx.Thread, b.addr, uint64(n), addrOf(fill), uint64(n), abi.MemcpyHostToDevice))
		runtime.KeepAlive(fill)
	case pinned:
		must(t, corememory.MallocHost(ctx.Thread, &b.addr, uint64(n)))
		b.mem = view(b.addr, n)
	case registered, pageable:
		b.mem = make([]byte, n)
		b.addr = addrOf(b.mem)
		if kind == registered {
			must(t, corememory.HostRegisterV2(ctx.Thread, b.addr, uint64(n), abi.HostRegPinned))
		}
	}
	copy(b.mem, b.want)
	w.logf(t, "new %v at %#x", b, b.addr)
	w.buffers = append(w.buffers, b)
	return b
}

func (w *world) free(t *rapid.T, b *buffer) {
	w.orderHost(t, writes(b, 0, len(b.want)))
	w.destroyGraphsOf(t, b)
	w.logf(t, "free %v", b)
	switch b.kind {
	case onDevice:
		must(t, corememory.Free(w.ctxs[0].Thread, b.addr)) // any context will do
	case pinned:
		must(t, corememory.FreeHost(w.ctxs[0].Thread, b.addr))
	case registered:
		must(t, corememory.HostUnregister(w.ctxs[0].Thread, b.addr))
	}
	is := func(o *buffer) bool { return o == b }
	w.buffers, w.descs = slices.DeleteFunc(w.buffers, is), slices.DeleteFunc(w.descs, is)
	w.cells = slices.DeleteFunc(w.cells, func(c cell) bool { return c.b == b })
	if b.kind == onDevice || b.kind == pinned {
		w.freed = append(w.freed, b)
	}
}

// find is the live device buffer of a device that n bytes at addr lie in. sure is false if that cannot be said from the
// model alone: allocations are a little larger than what was asked for, and an address that the program has made up may
// be memory of the process, which on a GPU lies among that of devices.
func (w *world) find(dev int, addr core.Addr, n int) (b *buffer, off int, sure bool) {
	for _, b := range w.buffers {
		if b.kind != onDevice || addr < b.addr || addr >= b.addr+core.Addr(len(b.want))+64 {
			continue
		}
		off = int(addr - b.addr)
		return b, off, b.dev == dev && off <= len(b.want) && n <= len(b.want)-off
	}
	return nil, 0, !coretest.OnGPU
}

// inject makes the next task fail, perhaps, and says with which code.
func (w *world) inject(t *rapid.T) abi.Code {
	if rapid.IntRange(0, 7).Draw(t, "task fails") != 7 || w.modelsRun() {
		return 0
	}
	f := rapid.SampledFrom([]struct {
		err  error
		code abi.Code
	}{
		{driver.ErrFault, abi.ErrRTSysDma},
		{driver.ErrTimeout, abi.ErrRTTaskTimeout},
		{faulty.Code(abi.ErrRTAicoreException), abi.ErrRTAicoreException},
	}).Draw(t, "failure")
	w.drv.Fail(faulty.Task, 1, f.err)
	w.logf(t, "the next task fails with %d", f.code)
	return f.code
}

// queued is the end of a submission: either the task fails when it runs, or effect is what it does.
func (w *world) queued(s *stream, fails abi.Code, effect func(), uses ...use) {
	w.submitted(s, uses...)
	if fails != 0 {
		s.taskFailed(fails)
		return
	}
	effect()
}

// move is what a copy does.
func move(dst *buffer, to int, src *buffer, from, n int) func() {
	return func() { copy(dst.want[to:to+n], src.want[from:from+n]) }
}

var anyKind = []abi.MemcpyKind{abi.MemcpyHostToHost, abi.MemcpyHostToDevice, abi.MemcpyDeviceToHost,
	abi.MemcpyDeviceToDevice, abi.MemcpyDefault}

// kindFor is a kind that goes with a copy between two buffers of which one is pageable.
func kindFor(t *rapid.T, dst, src *buffer) abi.MemcpyKind {
	switch {
	case src.kind == pageable && dst.kind == onDevice:
		return rapid.SampledFrom([]abi.MemcpyKind{abi.MemcpyHostToDevice, abi.MemcpyDefault}).Draw(t, "kind")
	case dst.kind == pageable && src.kind == onDevice:
		return rapid.SampledFrom([]abi.MemcpyKind{abi.MemcpyDeviceToHost, abi.MemcpyDefault}).Draw(t, "kind")
	}
	return rapid.SampledFrom(anyKind).Draw(t, "kind")
}

// ends are two buffers to copy between and how much; not both on the host unless that is allowed.
func (w *world) ends(t *rapid.T, hosts bool) (dst *buffer, to int, src *buffer, from, n int) {
	dst, src = pick(t, w.buffers, "destination"), pick(t, w.buffers, "source")
	if !hosts && dst.kind != onDevice && src.kind != onDevice {
		t.Skip("host to host")
	}
	to, n = part(t, dst, min(len(dst.want), len(src.want)), "destination")
	from = rapid.IntRange(0, len(src.want)-n).Draw(t, "source offset")
	return
}

// waited is a call that synchronises s first, as copies with pageable memory do; false if it reported a failure, and
// did nothing else.
func (w *world) waited(t *rapid.T, s *stream, err *core.Error) bool {
	code := s.report()
	expect(t, err, code, "a copy that waits")
	w.learn(s.clock)
	s.synced = true
	return code == 0
}

func (w *world) copyActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"alloc": func(t *rapid.T) {
			if len(w.buffers) > 12 {
				t.Skip("enough")
			}
			kind := rapid.SampledFrom([]place{onDevice, onDevice, pinned, registered, pageable}).Draw(t, "kind")
			w.alloc(t, kind, pick(t, w.ctxs, "context"), sizes(t))
		},
		"free": func(t *rapid.T) { w.free(t, pick(t, w.buffers, "buffer")) },
		"register": func(t *rapid.T) {
			b := pick(t, w.some(pageable), "pageable buffer")
			w.logf(t, "register %v", b)
			must(t, corememory.HostRegisterV2(w.ctxs[0].Thread, b.addr, uint64(len(b.want)), abi.HostRegPinned))
			b.kind = registered
		},
		"unregister": func(t *rapid.T) {
			b := pick(t, w.some(registered), "registered buffer")
			w.orderHost(t, writes(b, 0, len(b.want)))
			w.destroyGraphsOf(t, b)
			w.logf(t, "unregister %v", b)
			must(t, corememory.HostUnregister(w.ctxs[0].Thread, b.addr))
			b.kind = pageable
		},
		"host writes": func(t *rapid.T) {
			b := pick(t, w.some(pinned, registered, pageable), "host buffer")
			off, n := part(t, b, len(b.want), "bytes")
			w.orderHost(t, writes(b, off, n))
			v := rapid.Byte().Draw(t, "value")
			w.logf(t, "host writes %v [%d,%d)", b, off, off+n)
			for i := off; i < off+n; i++ {
				b.mem[i] = v + byte(i)
				b.want[i] = v + byte(i)
			}
		},
		"host reads": func(t *rapid.T) {
			b := pick(t, w.some(pinned, registered, pageable), "host buffer")
			off, n := part(t, b, len(b.want), "bytes")
			w.orderHost(t, reads(b, off, n))
			w.logf(t, "host reads %v [%d,%d)", b, off, off+n)
			compare(t, b, off, b.mem[off:off+n])
		},
		"copy": func(t *rapid.T) {
			ctx := pick(t, w.ctxs, "context")
			dst, to, src, from, n := w.ends(t, true)
			w.reach(t, ctx, dst, src)
			w.orderHost(t, writes(dst, to, n), reads(src, from, n))
			w.logf(t, "copy %v+%d <- %v+%d, %d bytes", dst, to, src, from, n)
			must(t, transfer.Memcpy(ctx.Thread, dst.at(to), uint64(len(dst.want)-to), src.at(from), uint64(n),
				rapid.SampledFrom(anyKind).Draw(t, "kind")))
			move(dst, to, src, from, n)()
		},
		"copy async": func(t *rapid.T) { w.copyAsync(t) },
		"copy buffered": func(t *rapid.T) {
			s := pick(t, w.streams, "stream")
			dst, src := pick(t, w.some(onDevice), "destination"),
				pick(t, w.some(pinned, registered, pageable), "source")
			to, n := part(t, dst, min(len(dst.want), len(src.want)), "destination")
			if n == 0 {
				t.Skip("nothing")
			}
			w.reach(t, s.ctx, dst)
			w.orderHost(t, reads(src, 0, n))
			w.order(t, s, writes(dst, to, n))
			w.staged = true
			w.logf(t, "copy buffered %v+%d <- %v, %d bytes, on %v", dst, to, src, n, s)
			must(t, transfer.MemcpyAsync(s.ctx.Thread, dst.at(to), uint64(n), src.at(0), uint64(n),
				abi.MemcpyHostToBufToDevice, s.h))
			w.queued(s, 0, move(dst, to, src, 0, n), writes(dst, to, n))
		},
		"copy 2D":         func(t *rapid.T) { w.copy2D(t) },
		"fill":            func(t *rapid.T) { w.fill(t) },
		"batch":           func(t *rapid.T) { w.batch(t) },
		"offset cell":     func(t *rapid.T) { w.setCell(t) },
		"offset copy":     func(t *rapid.T) { w.copyOffset(t) },
		"set descriptor":  func(t *rapid.T) { w.setDescriptor(t) },
		"copy descriptor": func(t *rapid.T) { w.copyDescriptor(t) },
		"disable peer": func(t *rapid.T) {
			a, b := pick(t, w.ctxs, "context"), rapid.IntRange(0, devices-1).Draw(t, "peer")
			if a.dev == b {
				t.Skip("itself")
			}
			must(t, corememory.DeviceDisablePeerAccess(a.Thread, int32(b)))
			w.peers[a.dev][b] = false
		},
		"check": func(t *rapid.T) { w.check(t) },
	}
}

func (w *world) copyAsync(t *rapid.T) {
	s := pick(t, w.streams, "stream")
	dst, to, src, from, n := w.ends(t, false)
	w.reach(t, s.ctx, dst, src)
	kind := kindFor(t, dst, src)
	waits := n > 0 && (dst.kind == pageable || src.kind == pageable)
	call := func() *core.Error {
		w.logf(t, "copy async %v+%d <- %v+%d, %d bytes, kind %d, on %v", dst, to, src, from, n, kind, s)
		return transfer.MemcpyAsync(s.ctx.Thread, dst.at(to), uint64(len(dst.want)-to), src.at(from), uint64(n), kind,
			s.h)
	}
	if kind == abi.MemcpyHostToHost && n > 0 && w.prod.NoHostKind {
		expect(t, call(), abi.ErrRTFeatureNotSupport, "a copy that is declared as host to host")
		return
	}
	if waits {
		w.openGates()
		w.order(t, s, writes(dst, to, n), reads(src, from, n))
		// What s is ordered after is over when s is; work of other streams that s is not ordered after is not touched.
		if w.waited(t, s, call()) {
			move(dst, to, src, from, n)()
		}
		return
	}
	w.order(t, s, writes(dst, to, n), reads(src, from, n))
	if n == 0 || dst == src && to == from {
		must(t, call())
		return
	}
	fails := w.inject(t)
	must(t, call())
	w.queued(s, fails, move(dst, to, src, from, n), writes(dst, to, n), reads(src, from, n))
}

// plane is a random shape in b.
func plane(t *rapid.T, b *buffer, width, height int, label string) (off, pitch, span int) {
	pitch = width
	if height > 1 {
		pitch = rapid.IntRange(width, max(width, (len(b.want)-width)/(height-1))).Draw(t, label+" pitch")
	}
	span = (height-1)*pitch + width
	if span > len(b.want) {
		t.Skip("too large")
	}
	return rapid.IntRange(0, len(b.want)-span).Draw(t, label+" offset"), pitch, span
}

func (w *world) copy2D(t *rapid.T) {
	s := pick(t, w.streams, "stream")
	async := rapid.Bool().Draw(t, "async")
	dst, src := pick(t, w.buffers, "destination"), pick(t, w.buffers, "source")
	hosts, devs := dst.kind != onDevice && src.kind != onDevice, dst.kind == onDevice && src.kind == onDevice
	if hosts || devs && !async {
		t.Skip("not to be had")
	}
	height := rapid.IntRange(1, 6).Draw(t, "height")
	width := rapid.IntRange(1, max(1, min(len(dst.want), len(src.want))/height)).Draw(t, "width")
	to, dpitch, dspan := plane(t, dst, width, height, "destination")
	from, spitch, sspan := plane(t, src, width, height, "source")
	if dst == src && to < from+sspan && from < to+dspan {
		t.Skip("overlap")
	}
	effect := func() {
		for i := range height {
			copy(dst.want[to+i*dpitch:][:width], src.want[from+i*spitch:][:width])
		}
	}
	w.reach(t, s.ctx, dst, src)
	kind := kindFor(t, dst, src)
	if kind == abi.MemcpyHostToHost || kind == abi.MemcpyDeviceToDevice && !async { // refused by name
		kind = abi.MemcpyDefault
	}
	w.logf(t, "copy 2D %v+%d <- %v+%d, %dx%d bytes, pitches %d %d, kind %d, async %t on %v", dst, to, src, from, width,
		height, dpitch, spitch, kind, async, s)
	uses := []use{writes(dst, to, dspan), reads(src, from, sspan)}
	waits := dst.kind == pageable || src.kind == pageable
	call := func() *core.Error {
		if !async {
			return transfer.Memcpy2d(s.ctx.Thread, dst.at(to), uint64(dpitch), src.at(from), uint64(spitch),
				uint64(width), uint64(height), kind)
		}
		return transfer.Memcpy2dAsync(s.ctx.Thread, dst.at(to), uint64(dpitch), src.at(from), uint64(spitch),
			uint64(width), uint64(height), kind, s.h)
	}
	switch {
	case !async:
		w.orderHost(t, uses...)
		must(t, call())
		effect()
	case waits:
		w.openGates()
		w.order(t, s, uses...)
		if w.waited(t, s, call()) {
			effect()
		}
	default:
		w.order(t, s, uses...)
		fails := w.inject(t)
		must(t, call())
		w.queued(s, fails, effect, uses...)
	}
}

func (w *world) fill(t *rapid.T) {
	s, b := pick(t, w.streams, "stream"), pick(t, w.buffers, "buffer")
	off, n := part(t, b, len(b.want), "bytes")
	value := rapid.Uint32().Draw(t, "value")
	words, async := rapid.Bool().Draw(t, "words"), rapid.Bool().Draw(t, "async")
	if words {
		if b.kind == pageable {
			t.Skip("refused")
		}
		skip := int(-b.at(off) & 3)
		off, n = off+skip, max(0, n-skip)&^3
	}
	if n == 0 {
		t.Skip("nothing")
	}
	effect := func() {
		for i := range n {
			b.want[off+i] = byte(value)
			if words {
				b.want[off+i] = byte(value >> (i % 4 * 8))
			}
		}
	}
	w.reach(t, s.ctx, b)
	most := uint64(len(b.want) - off)
	w.logf(t, "fill %v [%d,%d) with %#x, words %t, async %t on %v", b, off, off+n, value, words, async, s)
	call := func() *core.Error {
		switch {
		case words && async:
			return transfer.MemsetD32Async(s.ctx.Thread, b.at(off), most, value, uint64(n/4), s.h)
		case words:
			return transfer.MemsetD32(s.ctx.Thread, b.at(off), most, value, uint64(n/4))
		case async:
			return transfer.MemsetAsync(s.ctx.Thread, b.at(off), most, int32(value), uint64(n), s.h)
		}
		return transfer.Memset(s.ctx.Thread, b.at(off), most, int32(value), uint64(n))
	}
	if !async || b.kind != onDevice { // host memory is filled at once
		w.orderHost(t, writes(b, off, n))
		must(t, call())
		effect()
		return
	}
	w.order(t, s, writes(b, off, n))
	fails := w.inject(t)
	must(t, call())
	w.queued(s, fails, effect, writes(b, off, n))
}

// segment is one copy of a batch.
type segment struct {
	dst     *buffer
	to      int
	src     *buffer
	from, n int
}

func location(b *buffer) abi.MemLocation {
	if b.kind == onDevice {
		return abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(b.dev)}
	}
	return abi.MemLocation{Type: abi.MemLocationTypeHost}
}

func (w *world) batch(t *rapid.T) {
	s, async := pick(t, w.streams, "stream"), rapid.Bool().Draw(t, "async")
	devs, hosts := w.some(onDevice), w.some(pinned, registered, pageable)
	var segs []segment
	var uses []use
	waits, down := false, rapid.Bool().Draw(t, "down") // a batch has one direction
	for range rapid.IntRange(1, 6).Draw(t, "segments") {
		dst, src := pick(t, devs, "device buffer"), pick(t, hosts, "host buffer")
		if down {
			dst, src = src, dst
		}
		to, n := part(t, dst, min(len(dst.want), len(src.want)), "destination")
		from := rapid.IntRange(0, len(src.want)-n).Draw(t, "source offset")
		u := []use{writes(dst, to, n), reads(src, from, n)}
		if n == 0 || clash(uses, u) {
			continue // segments are unordered
		}
		segs, uses = append(segs, segment{dst, to, src, from, n}), append(uses, u...)
		waits = waits || src.kind == pageable || dst.kind == pageable
	}
	if len(segs) == 0 {
		t.Skip("nothing")
	}
	var dsts, srcs []core.Addr
	var sizes, starts []uint64
	var attrs []abi.MemcpyBatchAttr
	for i, g := range segs {
		w.reach(t, s.ctx, g.dst, g.src)
		dsts, srcs, sizes = append(dsts, g.dst.at(g.to)), append(srcs, g.src.at(g.from)), append(sizes, uint64(g.n))
		a := abi.MemcpyBatchAttr{DstLoc: location(g.dst), SrcLoc: location(g.src)}
		if i == 0 || attrs[len(attrs)-1] != a || rapid.Bool().Draw(t, "new attribute") {
			attrs, starts = append(attrs, a), append(starts, uint64(i))
		}
		w.logf(t, "segment %d: %v+%d <- %v+%d, %d bytes", i, g.dst, g.to, g.src, g.from, g.n)
	}
	effect := func() {
		for _, g := range segs {
			move(g.dst, g.to, g.src, g.from, g.n)()
		}
	}
	n, at := uint64(len(segs)), uint64(12345)
	done := func(err *core.Error) *core.Error {
		if at != ^uint64(0) {
			t.Fatalf("failIndex is %d", at)
		}
		return err
	}
	w.logf(t, "batch, async %t on %v", async, s)
	if !async {
		w.orderHost(t, uses...)
		must(t, done(transfer.MemcpyBatch(s.ctx.Thread, &dsts[0], &sizes[0], &srcs[0], &sizes[0], n, &attrs[0],
			&starts[0], uint64(len(attrs)), &at)))
		effect()
		return
	}
	if waits { // what of it is over when the call returns depends on the product: the model takes it for queued
		w.openGates()
		if s.failed != nil {
			w.sync(t, s)
		}
	}
	w.order(t, s, uses...)
	var fails abi.Code
	if !waits {
		fails = w.inject(t)
	}
	must(t, done(transfer.MemcpyBatchAsync(s.ctx.Thread, &dsts[0], &sizes[0], &srcs[0], &sizes[0], n, &attrs[0],
		&starts[0], uint64(len(attrs)), &at, s.h)))
	w.queued(s, fails, effect, uses...)
}

// clash reports whether two sets of uses cannot be unordered.
func clash(a, b []use) bool {
	for _, x := range a {
		for _, y := range b {
			if x.b == y.b && x.lo < y.hi && y.lo < x.hi && (x.write || y.write) {
				return true
			}
		}
	}
	return false
}
