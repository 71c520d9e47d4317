package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	entry    = 24        // bytes of a Segment: Dst, Src, N
	ahead    = 2         // a segment is prefetched this many segments before its turn
	mostEach = 64 << 10  // largest segment, in bytes
	mostAll  = 256 << 10 // most bytes of a call, which cannot be preempted
	line     = 64
)

// walk is the state of the generator of copySegments.
type walk struct {
	isa
	at, end, fetch    GPPhysical // position in the list; its end; end of the positions with a segment to prefetch
	toBy, fromBy      GPPhysical // differences from the addresses of the frames to their mappings
	dst, src, n, t, u GPPhysical
}

// copySegments first checks all segments, so that as few instructions as possible separate the memory accesses when
// it copies: speed depends on how many accesses the CPU has in flight. The list ends at the first segment that must
// not be copied.
func copySegments(v isa) {
	name := "copySegments" + v.name
	TEXT(name, NOSPLIT, "func(list *uintptr, bytes, toLo, toSize, toBy, fromLo, fromSize, fromBy, streamMin "+
		"uintptr) uintptr")
	Pragma("noescape")
	Doc(name+" copies the segments of bytes of list, at least one, and returns how many bytes of the list",
		"it has done. It stops before a segment that is not inside the frames, that has more than",
		fmt.Sprintf("%d bytes or brings the sum above %d, or that has ranges which overlap.", mostEach, mostAll),
		fmt.Sprintf("Segments from streamMin on, at least %d, are written with non-temporal stores where that pays.",
			2*streamStep))
	w := walk{isa: v, at: RSI, end: R8, fetch: R9, toBy: R11, fromBy: R12,
		dst: RAX, src: RBX, n: RCX, t: RDX, u: RDI}
	MOVQ(arg("toBy"), w.toBy)
	MOVQ(arg("fromBy"), w.fromBy)
	w.check()
	MOVQ(arg("list"), w.at)
	CMPQ(w.at, w.end)
	JEQ(LabelRef("done"))
	MOVQ(w.end, w.fetch)
	SUBQ(U32(ahead*entry), w.fetch)
	Label("segment")
	w.ask()
	Label("copy")
	w.get(0)
	ADDQ(w.toBy, w.dst)
	ADDQ(w.fromBy, w.src)
	// Both ends: the last block of a segment overlaps the one before.
	MOVQ(w.dst, w.t)
	ADDQ(w.n, w.t)
	MOVQ(w.src, w.u)
	ADDQ(w.n, w.u)
	CMPQ(w.n, arg("streamMin"))
	JAE(LabelRef("stream"))
	CMPQ(w.n, U32(2*blocks[0]))
	JA(LabelRef("large"))
	for _, b := range blocks {
		CMPQ(w.n, U32(b))
		JAE(LabelRef(fmt.Sprintf("from%d", b)))
	}
	Label("next")
	ADDQ(Imm(entry), w.at)
	CMPQ(w.at, w.end)
	JB(LabelRef("segment"))
	Label("done")
	SUBQ(arg("list"), w.at)
	Store(w.at, ReturnIndex(0))
	MOVQ(arg("streamMin"), w.t)
	CMPQ(w.t, U32(mostEach))
	JA(LabelRef("unfenced"))
	SFENCE()
	Label("unfenced")
	VZEROUPPER()
	RET()

	for _, b := range blocks {
		Label(fmt.Sprintf("from%d", b))
		if b >= 16 {
			w.ends(b)
		} else {
			w.small(b)
		}
		JMP(LabelRef("next"))
	}
	w.large()
	w.stream()
}

// blocks are the sizes b such that a segment of at least b bytes is copied as two blocks of b bytes.
var blocks = []int{128, 64, 32, 16, 8, 4, 2, 1}

// arg returns an argument as an operand, so that values shared by all segments take no register.
func arg(name string) Mem {
	a, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return a.Addr
}

// get loads the segment at offset disp from at.
func (w *walk) get(disp int) {
	MOVQ(Mem{Base: w.at, Disp: disp}, w.dst)
	MOVQ(Mem{Base: w.at, Disp: disp + 8}, w.src)
	MOVQ(Mem{Base: w.at, Disp: disp + 16}, w.n)
}

// check sets end to the first segment that must not be copied.
func (w *walk) check() {
	toLo, fromLo, left := R9, R10, R13
	MOVQ(arg("list"), w.at)
	MOVQ(w.at, w.end)
	ADDQ(arg("bytes"), w.end)
	MOVQ(arg("toLo"), toLo)
	MOVQ(arg("fromLo"), fromLo)
	MOVQ(U32(mostAll), left)
	Label("check")
	w.get(0)
	CMPQ(w.n, U32(mostEach))
	JA(LabelRef("checked"))
	// The distance of dst and src, in either direction, is less than n.
	MOVQ(w.dst, w.t)
	ADDQ(w.toBy, w.t)
	SUBQ(w.src, w.t)
	SUBQ(w.fromBy, w.t)
	CMPQ(w.t, w.n)
	JB(LabelRef("checked"))
	NEGQ(w.t)
	CMPQ(w.t, w.n)
	JB(LabelRef("checked"))
	for _, e := range []struct {
		addr, lo GPPhysical
		size     string
	}{{w.dst, toLo, "toSize"}, {w.src, fromLo, "fromSize"}} {
		SUBQ(e.lo, e.addr)
		MOVQ(arg(e.size), w.t)
		SUBQ(e.addr, w.t)
		JBE(LabelRef("checked"))
		CMPQ(w.n, w.t)
		JA(LabelRef("checked"))
	}
	SUBQ(w.n, left)
	JB(LabelRef("checked"))
	ADDQ(Imm(entry), w.at)
	CMPQ(w.at, w.end)
	JB(LabelRef("check"))
	Label("checked")
	MOVQ(w.at, w.end)
}

// ask prefetches the first lines of a later segment.
func (w *walk) ask() {
	CMPQ(w.at, w.fetch)
	JAE(LabelRef("copy"))
	w.get(ahead * entry)
	ADDQ(w.toBy, w.dst)
	ADDQ(w.fromBy, w.src)
	ask := func(base GPPhysical, from, to int) {
		for i := from; i < to; i++ {
			PREFETCHT0(Mem{Base: base, Disp: i * line})
		}
	}
	for _, lines := range []int{1, 2, 4} {
		ask(w.src, lines/2, lines)
		if lines == 1 {
			CMPQ(w.n, arg("streamMin"))
			JAE(LabelRef("source"))
		}
		ask(w.dst, lines/2, lines)
		if lines < 4 {
			CMPQ(w.n, U32(lines*3/2*line))
			JBE(LabelRef("copy"))
		}
	}
	JMP(LabelRef("copy"))
	Label("source")
	ask(w.src, 1, 4)
}

// ends copies b to 2*b bytes, b at least 16.
func (w *walk) ends(b int) {
	width, regs, move := w.width, w.regs, w.load
	if b < width {
		width, regs, move = b, []VecPhysical{Y0, Y1}, func(o ...Op) { VMOVDQU(o[0], o[1]) }
		if b == 16 {
			regs = []VecPhysical{X0, X1}
		}
	}
	k := b / width
	for i := range k {
		move(Mem{Base: w.src, Disp: i * width}, regs[i])
	}
	for i := range k {
		move(Mem{Base: w.u, Disp: i*width - b}, regs[k+i])
	}
	for i := range k {
		move(regs[i], Mem{Base: w.dst, Disp: i * width})
	}
	for i := range k {
		move(regs[k+i], Mem{Base: w.t, Disp: i*width - b})
	}
}

// small copies b to 2*b-1 bytes.
func (w *walk) small(b int) {
	head, tail := w.n, w.src
	first, last := Mem{Base: w.src}, Mem{Base: w.u, Disp: -b}
	to, end := Mem{Base: w.dst}, Mem{Base: w.t, Disp: -b}
	switch b {
	case 8:
		MOVQ(first, head)
		MOVQ(last, tail)
		MOVQ(head, to)
		MOVQ(tail, end)
	case 4:
		MOVL(first, head.As32())
		MOVL(last, tail.As32())
		MOVL(head.As32(), to)
		MOVL(tail.As32(), end)
	case 2:
		MOVWLZX(first, head.As32())
		MOVWLZX(last, tail.As32())
		MOVW(head.As16(), to)
		MOVW(tail.As16(), end)
	case 1:
		MOVBLZX(first, head.As32())
		MOVB(head.As8(), to)
	}
}

// block copies b bytes at offset disp from from.
func (w *walk) block(b int, from, to GPPhysical, disp int, store func(...Op)) {
	for i := range b / w.width {
		w.load(Mem{Base: from, Disp: i*w.width + disp}, w.regs[i])
	}
	for i := range b / w.width {
		store(w.regs[i], Mem{Base: to, Disp: i*w.width + disp})
	}
}

func (w *walk) large() {
	step := 2 * blocks[0]
	Label("large")
	w.block(step, w.src, w.dst, 0, w.store)
	ADDQ(U32(step), w.src)
	ADDQ(U32(step), w.dst)
	SUBQ(U32(step), w.n)
	CMPQ(w.n, U32(step))
	JA(LabelRef("large"))
	w.block(step, w.u, w.t, -step, w.store)
	JMP(LabelRef("next"))
}

const (
	streamStep  = 256
	streamRough = 8 << 10 // at least this size: also segments that are not whole steps
)

// stream copies the bytes up to a cache line, whole lines, and the rest. Storing to one line both through and past
// the cache costs more than a short segment gains.
func (w *walk) stream() {
	head, rough := R13, R10
	Label("stream")
	MOVQ(w.dst, head)
	NEGQ(head)
	ANDQ(Imm(line-1), head)
	MOVQ(w.n, rough)
	ANDQ(Imm(streamStep-1), rough)
	ADDQ(head, rough)
	JEQ(LabelRef("lines"))
	CMPQ(w.n, U32(streamRough))
	JB(LabelRef("large"))
	w.block(line, w.src, w.dst, 0, w.store)
	ADDQ(head, w.dst)
	ADDQ(head, w.src)
	SUBQ(head, w.n)
	Label("lines")
	SUBQ(U32(streamStep), w.n)
	Label("turn")
	w.block(streamStep, w.src, w.dst, 0, func(o ...Op) { VMOVNTDQ(o[0], o[1]) })
	ADDQ(U32(streamStep), w.src)
	ADDQ(U32(streamStep), w.dst)
	SUBQ(U32(streamStep), w.n)
	JAE(LabelRef("turn"))
	ADDQ(U32(streamStep), w.n)
	JEQ(LabelRef("next"))
	w.block(streamStep, w.u, w.t, -streamStep, w.store)
	JMP(LabelRef("next"))
}
