package randprog

import (
	"fmt"
	"slices"
	"strings"
)

// buffer is memory of the program and the bytes that the model says are in it.
type buffer struct {
	object
	bytesOf
	kind  string
	dev   int
	want  []byte
	alias int // slot: address for the device; that of the object if there is no other
	extra int // slot: physical memory
}

const page = 2 << 20 // of mapped memory

func (b *buffer) at(off int) string { return fmt.Sprintf("#%d+%d", b.slot, off) }

// task is the address as a task may use it.
func (b *buffer) task(g *gen, off int) string {
	if g.IntN(2) == 0 {
		return fmt.Sprintf("#%d+%d", b.alias, off)
	}
	return b.at(off)
}

func (b *buffer) onDevice() bool { return b.kind == "device" || b.kind == "mapped" || b.kind == "pool" }
func (b *buffer) onHost() bool {
	return b.kind == "pinned" || b.kind == "registered" || b.kind == "aliased"
}
func (b *buffer) pageable() bool { return b.kind == "pageable" }
func (b *buffer) managed() bool  { return b.kind == "managed" }

func (b *buffer) reads(off, n int) use  { return use{b: &b.bytesOf, lo: off, hi: off + n} }
func (b *buffer) writes(off, n int) use { return use{b: &b.bytesOf, lo: off, hi: off + n, write: true} }

// some returns a buffer of the given kinds, nil if there is none.
func (g *gen) some(kinds ...func(*buffer) bool) *buffer {
	var list []*buffer
	for _, b := range g.buffers {
		if slices.ContainsFunc(kinds, func(is func(*buffer) bool) bool { return is(b) }) {
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return pick(g, list)
}

// part draws a range of b with 1 to most bytes.
func (g *gen) part(b *buffer, most int) (off, n int) {
	most = min(most, len(b.want))
	switch n = most; g.IntN(4) {
	case 0:
	case 1:
		n = 1 + g.IntN(min(n, 300))
	default:
		n = 1 + g.IntN(n)
	}
	return g.IntN(len(b.want) - n + 1), n
}

// alloc makes a buffer and writes all of it.
func (g *gen) alloc(t *thread, kind string) {
	n := 1 + g.IntN(5000)
	switch {
	case g.on["large"] && g.IntN(4) == 0:
		n = 1<<20 + g.IntN(3<<20)
	case g.IntN(2) == 0:
		n = 1 + g.IntN(200_000)
	}
	ctx := pick(g, g.ctxs)
	b := &buffer{kind: kind, dev: ctx.dev}
	b.slot = g.slot()
	b.alias = b.slot
	text := ""
	switch ref := b.ref(); kind {
	case "device":
		text = fmt.Sprintf(pick(g, []string{"aclrtMalloc &%d %d %d", "aclrtMallocAlign32 &%d %d %d",
			"aclrtMallocCached &%d %d %d"}), b.slot, n, g.IntN(3))
	case "pinned":
		text = fmt.Sprintf("aclrtMallocHost &%d %d", b.slot, n)
	case "pageable":
		text = fmt.Sprintf("malloc &%d %d", b.slot, n)
	case "registered":
		text = fmt.Sprintf("malloc &%d %d\naclrtHostRegisterV2 %s %d %d", b.slot, n, ref, n, 0x10000000)
	case "aliased": // host memory with an address for the device
		b.alias = g.slot()
		text = fmt.Sprintf("malloc &%d %d\naclrtHostRegister %s %d 0 &%d", b.slot, n, ref, n, b.alias)
	case "managed":
		text = fmt.Sprintf("aclrtMemAllocManaged &%d %d 1", b.slot, n)
	case "mapped":
		size := (n + page - 1) / page * page
		b.extra = g.slot()
		text = fmt.Sprintf("aclrtReserveMemAddress &%d %d 0 0 0\naclrtMallocPhysical &%d %d [ 0 %d 1 0 ] 0\n"+
			"aclrtMapMem %s %d 0 #%d 0", b.slot, size, b.extra, size, 4|ctx.dev<<32, ref, size, b.extra)
	case "pool":
		var list []*stream
		for _, s := range g.streams {
			if s.ctx.pool != 0 && s.slot >= 0 {
				list = append(list, s)
			}
		}
		if len(list) == 0 {
			return
		}
		s := pick(g, list)
		b.dev, b.want = s.ctx.dev, make([]byte, n)
		g.do(&op{thread: t, stream: s, changes: []*object{&b.object}, uses: []use{b.writes(0, n)},
			text: fmt.Sprintf("aclrtMemPoolMallocAsync &%d %d #%d %s", b.slot, n, s.ctx.pool, s.ref())})
		g.buffers = append(g.buffers, b)
		g.fillAll(t, s, b)
		return
	}
	b.want = make([]byte, n)
	g.do(&op{thread: t, ctx: ctx, text: text, changes: []*object{&b.object}})
	g.buffers = append(g.buffers, b)
	if b.onDevice() {
		g.fillAll(t, nil, b)
	} else {
		g.hostWrites(t, b, 0, n)
	}
}

// fillAll fills a buffer, by a task of s or, if that is nil, at once.
func (g *gen) fillAll(t *thread, s *stream, b *buffer) {
	v, n := g.IntN(256), len(b.want)
	o := &op{thread: t, stream: s, reads: []*object{&b.object}, uses: []use{b.writes(0, n)},
		text: fmt.Sprintf("aclrtMemset %s %d %d %d", b.ref(), n, v, n),
		effect: func() {
			for i := range b.want {
				b.want[i] = byte(v)
			}
		}}
	if s != nil {
		o.text = fmt.Sprintf("aclrtMemsetAsync %s %d %d %d %s", b.ref(), n, v, n, s.ref())
	} else {
		o.ctx = g.ctxOf(b.dev)
	}
	g.do(o)
}

func (g *gen) ctxOf(dev int) *context {
	for _, c := range g.ctxs {
		if c.dev == dev {
			return c
		}
	}
	panic("no such device")
}

// release frees a buffer.
func (g *gen) release(t *thread, b *buffer) {
	for _, x := range slices.Clone(g.graphs) {
		if x.touches(b) {
			g.destroyGraph(t, x)
		}
	}
	g.descs = slices.DeleteFunc(g.descs, func(d *descriptor) bool {
		gone := d.dst == b || d.src == b
		if gone {
			g.do(&op{thread: t, text: "aclrtFree " + d.ref(), changes: []*object{&d.object}, ctx: g.ctxOf(d.dst.dev),
				uses: []use{{b: &d.bytesOf, hi: 64, write: true}}})
		}
		return gone
	})
	g.buffers = slices.DeleteFunc(g.buffers, func(o *buffer) bool { return o == b })
	o := &op{thread: t, changes: []*object{&b.object}, uses: []use{b.writes(0, len(b.want))}, ctx: g.ctxOf(b.dev)}
	switch ref := b.ref(); b.kind {
	case "device", "managed":
		o.text = "aclrtFree " + ref
	case "pinned":
		o.text = "aclrtFreeHost " + ref
	case "pageable":
		o.text = "free " + ref
	case "registered", "aliased":
		o.text = fmt.Sprintf("aclrtHostUnregister %s\nfree %s", ref, ref)
	case "mapped":
		o.text = fmt.Sprintf("aclrtUnmapMem %s\naclrtFreePhysical #%d\naclrtReleaseMemAddress %s", ref, b.extra, ref)
	case "pool":
		var list []*stream
		for _, s := range g.streams {
			if s.ctx.dev == b.dev && s.slot >= 0 {
				list = append(list, s)
			}
		}
		if len(list) == 0 {
			list = append(list, g.newStream(t, g.ctxOf(b.dev)))
		}
		o.stream = pick(g, list)
		o.text = fmt.Sprintf("aclrtMemPoolFreeAsync %s %s", ref, o.stream.ref())
	}
	g.do(o)
}

// hostWrites has the host write a range.
func (g *gen) hostWrites(t *thread, b *buffer, off, n int) {
	g.seeds++
	x := g.seeds
	g.do(&op{thread: t, reads: []*object{&b.object}, uses: []use{b.writes(off, n)},
		text: fmt.Sprintf("write %s %d %d", b.at(off), n, x), effect: func() { Pattern(b.want[off:off+n], x) }})
}

// check compares a range with the model.
func (g *gen) check(t *thread, b *buffer, off, n int) {
	o := &op{thread: t, reads: []*object{&b.object}, uses: []use{b.reads(off, n)}}
	place, text := b.at(off), ""
	if b.onDevice() {
		o.ctx = g.ctxOf(b.dev)
		text = fmt.Sprintf("aclrtMemcpy #%d %d %s %d 2\n", t.scratch, n, place, n)
		place = fmt.Sprintf("#%d", t.scratch)
	}
	o.text = text + fmt.Sprintf("check %s %d %d", place, n, Hash(b.want[off:off+n]))
	g.do(o)
}

// register changes what host memory is.
func (g *gen) register(t *thread) {
	b := g.some((*buffer).pageable, func(b *buffer) bool { return b.kind == "registered" })
	if b == nil || !g.on["registered"] || slices.ContainsFunc(g.graphs, func(x *graph) bool { return x.touches(b) }) {
		return
	}
	n := len(b.want)
	o := &op{thread: t, ctx: pick(g, g.ctxs), changes: []*object{&b.object}, uses: []use{b.writes(0, n)}}
	if b.kind == "pageable" {
		o.text = fmt.Sprintf("aclrtHostRegisterV2 %s %d %d", b.ref(), n, 0x10000000)
		o.effect = func() { b.kind = "registered" }
	} else {
		o.text = "aclrtHostUnregister " + b.ref()
		o.effect = func() { b.kind = "pageable" }
	}
	g.do(o)
}

// end frees everything and ends what is left.
func (g *gen) end(t *thread) {
	for _, s := range g.streams {
		g.syncStream(t, s)
	}
	for _, b := range g.buffers {
		g.check(t, b, 0, len(b.want))
	}
	for len(g.buffers) > 0 {
		g.release(t, g.buffers[0])
	}
	for len(g.graphs) > 0 {
		g.destroyGraph(t, g.graphs[0])
	}
	for _, c := range g.cells {
		text := map[string]string{"notify": "aclrtDestroyNotify ", "count": "aclrtCntNotifyDestroy ", "value": ""}
		name, other := text[c.way]
		if !other {
			name = "aclrtDestroyEvent "
		}
		if name != "" {
			g.do(&op{thread: t, ctx: g.ctxOf(c.dev), text: name + c.ref(), changes: []*object{&c.object}})
		}
	}
	for _, s := range slices.Clone(g.streams) {
		if s.slot >= 0 {
			g.destroyStream(t, s)
		} else {
			g.syncStream(t, s)
		}
	}
	var last []string
	for _, c := range g.ctxs {
		if c.pool != 0 {
			last = append(last, fmt.Sprintf("aclrtMemPoolDestroy #%d", c.pool))
		}
	}
	if g.words != 0 {
		last = append(last, fmt.Sprintf("aclrtFree #%d", g.words))
	}
	for _, t := range g.threads {
		last = append(last, fmt.Sprintf("free #%d", t.scratch))
	}
	g.do(&op{thread: t, ctx: g.ctxs[0], text: strings.Join(last, "\n")})
}
