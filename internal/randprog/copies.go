package randprog

import (
	"fmt"
	"slices"
	"strings"
)

// kinds of aclrtMemcpyKind.
const (
	hostToHost = iota
	hostToDevice
	deviceToHost
	deviceToDevice
	byAddress
	buffered
	inDevice
)

// step is a task that a stream can run, at once or captured.
type step struct {
	text   func(s *stream) string
	effect func()
	uses   []use
	reads  []*object

	function bool // the host does it: streams with reports refuse it
	call     bool // it calls a function of the program, which does not fail
}

func (g *gen) queue(t *thread, s *stream, x step) {
	o := &op{thread: t, stream: s, text: x.text(s), effect: x.effect, uses: x.uses, reads: x.reads, later: true}
	if g.on["fail"] && !x.call && g.IntN(20) == 0 {
		code := pick(g, []int{507013, 507015})
		o.text, o.effect, o.later = fmt.Sprintf("fail %d\n%s", code, o.text), nil, false
		g.do(o)
		g.do(&op{thread: t, ctx: s.ctx, text: fmt.Sprintf("aclrtSynchronizeStream %s = %d", s.ref(), code),
			syncs: []*stream{s}})
		return
	}
	g.do(o)
}

// kind draws a kind that a copy accepts. The addresses decide, but for managed and pageable memory.
func (g *gen) kind(dst, src *buffer) int {
	switch {
	case dst.managed() || src.managed():
		switch {
		case src.onHost():
			return hostToDevice
		case dst.onHost():
			return deviceToHost
		}
		return deviceToDevice
	case src.pageable():
		return pick(g, []int{hostToDevice, byAddress})
	case dst.pageable():
		return pick(g, []int{deviceToHost, byAddress})
	}
	return hostToDevice + g.IntN(4)
}

// ends draws what to copy; ok is false if there is nothing.
func (g *gen) ends(dst, src *buffer) (to, from, n int, ok bool) {
	if dst == nil || src == nil {
		return
	}
	to, n = g.part(dst, len(src.want))
	from = g.IntN(len(src.want) - n + 1)
	return to, from, n, dst != src || to+n <= from || from+n <= to
}

// copy draws an asynchronous copy between memory that is not pageable.
func (g *gen) copy(near func(*buffer) bool) (x step, ok bool) {
	all := func(b *buffer) bool { return !b.pageable() && (near == nil || near(b)) }
	dst, src := g.some(all), g.some(all)
	if dst == nil || src == nil || dst.onHost() && src.onHost() {
		return
	}
	to, from, n, ok := g.ends(dst, src)
	if !ok {
		return
	}
	kind := g.kind(dst, src)
	most := n + g.IntN(len(dst.want)-to-n+1)
	return step{
		text: func(s *stream) string {
			return fmt.Sprintf("aclrtMemcpyAsync %s %d %s %d %d %s", dst.task(g, to), most, src.task(g, from), n, kind,
				s.ref())
		},
		effect:   func() { copy(dst.want[to:to+n], src.want[from:from+n]) },
		uses:     []use{dst.writes(to, n), src.reads(from, n)},
		reads:    []*object{&dst.object, &src.object},
		function: dst.managed() || src.managed(),
	}, true
}

// fill draws an asynchronous fill of device memory.
func (g *gen) fill(near func(*buffer) bool) (x step, ok bool) {
	b := g.some(func(b *buffer) bool { return b.onDevice() && (near == nil || near(b)) })
	if b == nil {
		return
	}
	off, n := g.part(b, len(b.want))
	v := g.Uint32()
	words := g.IntN(3) == 0
	if words {
		off, n = off&^3, n&^3
		if n == 0 || off+n > len(b.want) {
			return
		}
	}
	return step{
		text: func(s *stream) string {
			if words {
				return fmt.Sprintf("aclrtMemsetD32Async %s %d %d %d %s", b.at(off), n, v, n/4, s.ref())
			}
			return fmt.Sprintf("aclrtMemsetAsync %s %d %d %d %s", b.at(off), n, v&255, n, s.ref())
		},
		effect: func() {
			for i := range n {
				b.want[off+i] = byte(v)
				if words {
					b.want[off+i] = byte(v >> (i % 4 * 8))
				}
			}
		},
		uses:  []use{b.writes(off, n)},
		reads: []*object{&b.object},
	}, true
}

// plane draws a copy of lines.
func (g *gen) plane() (x step, ok bool) {
	dst, src := g.some((*buffer).onDevice, (*buffer).onHost), g.some((*buffer).onDevice, (*buffer).onHost)
	if dst == nil || src == nil || dst == src || dst.onHost() && src.onHost() {
		return
	}
	height := 1 + g.IntN(6)
	width := 1 + g.IntN(max(1, min(len(dst.want), len(src.want))/height))
	shape := func(b *buffer) (off, pitch, span int) {
		pitch = width
		if height > 1 {
			pitch += g.IntN(max(1, (len(b.want)-width)/(height-1)-width+1))
		}
		span = (height-1)*pitch + width
		if span > len(b.want) {
			return 0, 0, 0
		}
		return g.IntN(len(b.want) - span + 1), pitch, span
	}
	to, dpitch, dspan := shape(dst)
	from, spitch, sspan := shape(src)
	if dspan == 0 || sspan == 0 {
		return
	}
	return step{
		text: func(s *stream) string {
			return fmt.Sprintf("aclrtMemcpy2dAsync %s %d %s %d %d %d %d %s", dst.at(to), dpitch, src.at(from), spitch,
				width, height, byAddress, s.ref())
		},
		effect: func() {
			for i := range height {
				copy(dst.want[to+i*dpitch:][:width], src.want[from+i*spitch:][:width])
			}
		},
		uses:  []use{dst.writes(to, dspan), src.reads(from, sspan)},
		reads: []*object{&dst.object, &src.object},
	}, true
}

// mix draws a launch of the kernel. Where it reads what it writes, it reads the same bytes.
func (g *gen) mix(ctx *context) (x step, ok bool) {
	near := func(b *buffer) bool { return b.kind == "device" && b.dev == ctx.dev || b.kind == "pinned" }
	dst, src := g.some(near), g.some(near)
	if dst == nil || src == nil || dst == src {
		return
	}
	to, from, n, _ := g.ends(dst, src)
	n = min(n, 5000)
	v, blocks := g.IntN(256), 1+g.IntN(5)
	return step{
		text: func(s *stream) string {
			return fmt.Sprintf("aclrtLaunchKernelWithHostArgs #%d %d %s 0 [ %s %s %d %d ] 32 0 0", ctx.kernel, blocks,
				s.ref(), dst.at(to), src.at(from), n, v)
		},
		effect: func() {
			for i := range n {
				dst.want[to+i] += src.want[from+i]*byte(v) + byte(i)
			}
		},
		uses:  []use{dst.writes(to, n), src.reads(from, n)},
		reads: []*object{&dst.object, &src.object},
	}, true
}

// function draws a host function, which changes host memory or sleeps.
func (g *gen) function(s *stream) step {
	call := func(args string) func(*stream) string {
		return func(s *stream) string {
			if s.reports {
				return fmt.Sprintf("aclrtLaunchCallback @f [ %s ] 1 %s", args, s.ref())
			}
			return fmt.Sprintf("aclrtLaunchHostFunc %s @f [ %s ]", s.ref(), args)
		}
	}
	b := g.some((*buffer).onHost, (*buffer).managed)
	if b == nil || g.IntN(3) == 0 {
		return step{text: call(fmt.Sprintf("0 0 %d 0", g.IntN(1000))), call: true}
	}
	off, n := g.part(b, 64<<10)
	v := g.IntN(256)
	return step{
		call: true,
		text: call(fmt.Sprintf("1 %s %d %d", b.at(off), n, v)),
		effect: func() {
			for i := range n {
				b.want[off+i] += byte(v)
			}
		},
		uses:  []use{b.writes(off, n)},
		reads: []*object{&b.object},
	}
}

// batch draws a batch: segments in any order, all up or all down. pageable says whether a side is.
func (g *gen) batch() (x step, pageable, ok bool) {
	down := g.IntN(2) == 0
	var dsts, srcs, sizes, attrs, starts []string
	var effects []func()
	location := func(b *buffer) uint64 {
		if b.onDevice() {
			return 1<<32 | uint64(b.dev)
		}
		return 0
	}
	hosts := []func(*buffer) bool{(*buffer).onHost, (*buffer).pageable}
	for range 1 + g.IntN(6) {
		dst, src := g.some((*buffer).onDevice), g.some(hosts...)
		if down {
			dst, src = src, dst
		}
		to, from, n, good := g.ends(dst, src)
		if !good {
			continue
		}
		uses := []use{dst.writes(to, n), src.reads(from, n)}
		if clash(x.uses, uses) {
			continue
		}
		pageable = pageable || dst.pageable() || src.pageable()
		x.uses, x.reads = append(x.uses, uses...), append(x.reads, &dst.object, &src.object)
		attr := fmt.Sprintf("%d %d 0 0", location(dst), location(src))
		if len(attrs) == 0 || attrs[len(attrs)-1] != attr {
			attrs, starts = append(attrs, attr), append(starts, fmt.Sprint(len(dsts)))
		}
		dsts, srcs, sizes = append(dsts, dst.at(to)), append(srcs, src.at(from)), append(sizes, fmt.Sprint(n))
		effects = append(effects, func() { copy(dst.want[to:to+n], src.want[from:from+n]) })
	}
	list := func(words []string) string { return "[ " + strings.Join(words, " ") + " ]" }
	x.text = func(s *stream) string {
		return fmt.Sprintf("aclrtMemcpyBatchAsync %s %s %s %s %d %s %s %d [ 0 ] %s", list(dsts), list(sizes),
			list(srcs), list(sizes), len(dsts), list(attrs), list(starts), len(attrs), s.ref())
	}
	x.effect = func() {
		for _, f := range effects {
			f()
		}
	}
	return x, pageable, len(dsts) > 0
}

// clash reports whether two sets of uses may not be unordered.
func clash(a, b []use) bool {
	return slices.ContainsFunc(a, func(x use) bool {
		return slices.ContainsFunc(b, func(y use) bool {
			return x.b == y.b && x.lo < y.hi && y.lo < x.hi && (x.write || y.write)
		})
	})
}

// descriptor is device memory with the addresses of a copy: a descriptor, or two words for copies with offsets.
type descriptor struct {
	object
	bytesOf
	offsets     bool
	dst, src    *buffer
	to, from, n int
}

func (g *gen) newDescriptor(t *thread) {
	dst, src := g.some((*buffer).onDevice), g.some((*buffer).onDevice)
	to, from, n, ok := g.ends(dst, src)
	if !ok || dst == src || dst.dev != src.dev || len(g.descs) > 3 {
		return
	}
	d := &descriptor{dst: dst, src: src, to: to, from: from, n: n,
		offsets: g.on["offset"] && (!g.on["desc"] || g.IntN(2) == 0)}
	d.slot = g.slot()
	text := fmt.Sprintf("aclrtMalloc &%d 64 0\n", d.slot)
	if d.offsets {
		text += fmt.Sprintf("aclrtMemcpy %s 16 [ %s %s ] 16 1", d.ref(), dst.ref(), src.ref())
	} else {
		text += fmt.Sprintf("aclrtSetMemcpyDesc %s 6 %s %s %d 0", d.ref(), src.at(from), dst.at(to), n)
	}
	g.descs = append(g.descs, d)
	g.do(&op{thread: t, ctx: g.ctxOf(dst.dev), text: text, reads: []*object{&dst.object, &src.object},
		changes: []*object{&d.object}})
}

// useDescriptor copies by a descriptor. On some products the call writes the first bytes of it.
func (g *gen) useDescriptor(t *thread, s *stream) {
	list := slices.DeleteFunc(slices.Clone(g.descs), func(d *descriptor) bool { return d.dst.dev != s.ctx.dev })
	if len(list) == 0 || s.slot < 0 {
		g.newDescriptor(t)
		return
	}
	d := pick(g, list)
	dst, src, to, from, n := d.dst, d.src, d.to, d.from, d.n
	o := &op{thread: t, stream: s, reads: []*object{&d.object, &dst.object, &src.object},
		uses: []use{dst.writes(to, n), src.reads(from, n), {b: &d.bytesOf, lo: 12, hi: 64}},
		effect: func() {
			copy(dst.want[to:to+n], src.want[from:from+n])
		}}
	if d.offsets {
		o.text = fmt.Sprintf("aclrtMemcpyAsyncWithOffset %s %d %d %s+8 %d %d %d %s", d.ref(), to+n, to, d.ref(), n,
			from, inDevice, s.ref())
	} else {
		o.uses = append(o.uses, use{b: &d.bytesOf, hi: 12, write: true, host: true})
		o.text = fmt.Sprintf("aclrtMemcpyAsyncWithDesc %s %d %s", d.ref(), inDevice, s.ref())
	}
	g.do(o)
}

// pageableCopy copies with pageable memory: the call waits for the stream.
func (g *gen) pageableCopy(t *thread, s *stream) {
	dst, src := g.some((*buffer).pageable), g.some((*buffer).onDevice)
	if g.IntN(2) == 0 {
		dst, src = src, dst
	}
	to, from, n, ok := g.ends(dst, src)
	if !ok {
		return
	}
	g.do(&op{thread: t, stream: s, syncs: []*stream{s}, reads: []*object{&dst.object, &src.object},
		text: fmt.Sprintf("aclrtMemcpyAsync %s %d %s %d %d %s", dst.at(to), n, src.at(from), n, g.kind(dst, src),
			s.ref()),
		uses: []use{dst.writes(to, n), src.reads(from, n)}, effect: func() {
			copy(dst.want[to:to+n], src.want[from:from+n])
		}})
}

// bufferedCopy copies bytes that the call takes over.
func (g *gen) bufferedCopy(t *thread, s *stream) {
	dst, src := g.some((*buffer).onDevice), g.some((*buffer).onHost, (*buffer).pageable)
	to, from, n, ok := g.ends(dst, src)
	if !ok {
		return
	}
	read := src.reads(from, n)
	read.host = true
	g.do(&op{thread: t, stream: s, reads: []*object{&dst.object, &src.object}, uses: []use{dst.writes(to, n), read},
		text: fmt.Sprintf("aclrtMemcpyAsync %s %d %s %d %d %s", dst.at(to), n, src.at(from), n, buffered, s.ref()),
		effect: func() {
			copy(dst.want[to:to+n], src.want[from:from+n])
		}})
}

// hostCopy copies or fills at once.
func (g *gen) hostCopy(t *thread) {
	all := func(*buffer) bool { return true }
	dst, src := g.some(all), g.some(all)
	to, from, n, ok := g.ends(dst, src)
	if !ok {
		return
	}
	o := &op{thread: t, ctx: pick(g, g.ctxs), reads: []*object{&dst.object, &src.object}}
	if v := g.IntN(256); g.IntN(4) == 0 && !dst.managed() {
		o.text = fmt.Sprintf("aclrtMemset %s %d %d %d", dst.at(to), n, v, n)
		o.uses = []use{dst.writes(to, n)}
		o.effect = func() {
			for i := range n {
				dst.want[to+i] = byte(v)
			}
		}
	} else {
		o.text = fmt.Sprintf("aclrtMemcpy %s %d %s %d %d", dst.at(to), n, src.at(from), n, byAddress)
		o.uses = []use{dst.writes(to, n), src.reads(from, n)}
		o.effect = func() { copy(dst.want[to:to+n], src.want[from:from+n]) }
	}
	g.do(o)
}
