// Command gen writes the assembly kernels of package memcopy.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	page  = 4096
	pages = 8 // pages that copyPages reads and writes in turn
)

// isa is one vector width and the instructions that move it.
type isa struct {
	name  string
	width int
	regs  []VecPhysical
	load  func(ops ...Op)
	store func(ops ...Op)
	bcast func(ops ...Op)
}

var isas = []isa{
	{
		name: "AVX2", width: 32,
		regs:  []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15},
		load:  func(o ...Op) { VMOVDQU(o[0], o[1]) },
		store: func(o ...Op) { VMOVDQU(o[0], o[1]) },
		bcast: func(o ...Op) { VPBROADCASTQ(o[0], o[1]) },
	},
	{
		name: "AVX512", width: 64,
		regs:  []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15},
		load:  func(o ...Op) { VMOVDQU64(o...) },
		store: func(o ...Op) { VMOVDQU64(o...) },
		bcast: func(o ...Op) { VPBROADCASTQ(o...) },
	},
}

func main() {
	ConstraintExpr("amd64,!noasm")
	for _, v := range isas {
		copyPages(v)
		copyLinear(v, "copyStreamLinear"+v.name, 128, func(o ...Op) { VMOVNTDQ(o[0], o[1]) }, SFENCE,
			"with non-temporal stores")
		copyLinear(v, "copyTemporal"+v.name, 256, v.store, func() {}, "through the cache")
		fill(v, "fillStream"+v.name, true)
		fill(v, "fillTemporal"+v.name, false)
		copySegments(v)
	}
	prefetch()
	probe("probeRead", false)
	probe("probeWrite", true)
	Generate()
}

func copyArgs() (dst, src, n GPVirtual) {
	return Load(Param("dst"), GP64()).(GPVirtual), Load(Param("src"), GP64()).(GPVirtual),
		Load(Param("n"), GP64()).(GPVirtual)
}

// copyLinear walks both ranges in address order, step bytes at a time.
func copyLinear(v isa, name string, step int, store func(...Op), end func(), doc string) {
	TEXT(name, NOSPLIT, "func(dst, src, n uintptr)")
	Pragma("noescape")
	Doc(name+" copies n bytes in address order "+doc+".",
		fmt.Sprintf("dst is a multiple of 64, n of %d and not 0.", step))
	dst, src, n := copyArgs()
	Label("loop")
	for i := range step / v.width {
		v.load(Mem{Base: src, Disp: i * v.width}, v.regs[i])
	}
	for i := range step / v.width {
		store(v.regs[i], Mem{Base: dst, Disp: i * v.width})
	}
	ADDQ(U32(step), src)
	ADDQ(U32(step), dst)
	SUBQ(U32(step), n)
	JNE(LabelRef("loop"))
	end()
	VZEROUPPER()
	RET()
}

// copyPages copies a little of each of several pages in turn, so that more memory banks and prefetchers work at once.
// All loads precede the stores: src and dst often agree in their low 12 bits, and a load after a store with the same
// ones waits for it (measured on Zen 3: 5 GB/s instead of 14).
func copyPages(v isa) {
	step := len(v.regs) * v.width / pages
	name := "copyStreamPages" + v.name
	TEXT(name, NOSPLIT, "func(dst, src, n uintptr)")
	Pragma("noescape")
	Doc(fmt.Sprintf("%s copies n bytes with non-temporal stores, %d in turn from each of %d pages.", name, step, pages),
		fmt.Sprintf("dst is a multiple of 64, n of %d and not 0.", pages*page))
	dst, src, n := copyArgs()
	left := GP64()
	Label("block")
	MOVQ(U32(page/step), left)
	Label("loop")
	for i, r := range v.regs {
		v.load(Mem{Base: src, Disp: i*v.width/step*page + i*v.width%step}, r)
	}
	for i, r := range v.regs {
		VMOVNTDQ(r, Mem{Base: dst, Disp: i*v.width/step*page + i*v.width%step})
	}
	ADDQ(U32(step), src)
	ADDQ(U32(step), dst)
	DECQ(left)
	JNE(LabelRef("loop"))
	ADDQ(U32((pages-1)*page), src)
	ADDQ(U32((pages-1)*page), dst)
	SUBQ(U32(pages*page), n)
	JNE(LabelRef("block"))
	SFENCE()
	VZEROUPPER()
	RET()
}

func fill(v isa, name string, stream bool) {
	TEXT(name, NOSPLIT, "func(dst, n uintptr, pattern uint64)")
	Pragma("noescape")
	if stream {
		Doc(name + " repeats pattern over n bytes with non-temporal stores. dst is a multiple of 64, n of 256 and " +
			"not 0.")
	} else {
		Doc(name+" repeats pattern over n bytes. n is at least 256; the last 256 bytes are",
			"stored from the end, so n is a multiple of the period of pattern.")
	}
	dst := Load(Param("dst"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	pattern := Load(Param("pattern"), GP64()).(GPVirtual)
	VMOVQ(pattern, X0)
	v.bcast(X0, v.regs[0])
	const block = 256
	put := func() {
		for i := 0; i < block; i += v.width {
			if stream {
				VMOVNTDQ(v.regs[0], Mem{Base: dst, Disp: i})
			} else {
				v.store(v.regs[0], Mem{Base: dst, Disp: i})
			}
		}
	}
	if !stream {
		SUBQ(U32(block), n)
		JEQ(LabelRef("last"))
	}
	Label("loop")
	put()
	ADDQ(U32(block), dst)
	SUBQ(U32(block), n)
	if stream {
		JNE(LabelRef("loop"))
		SFENCE()
	} else {
		JA(LabelRef("loop"))
		ADDQ(n, dst) // n is now 0 or minus the bytes that the last block repeats
		Label("last")
		put()
	}
	VZEROUPPER()
	RET()
}

func prefetch() {
	TEXT("Prefetch", NOSPLIT, "func(addr uintptr)")
	Pragma("noescape")
	Doc("Prefetch asks for the cache line that holds addr. It never faults.")
	addr := Load(Param("addr"), GP64()).(GPVirtual)
	PREFETCHT0(Mem{Base: addr})
	RET()
}

func probe(name string, write bool) {
	TEXT(name, NOSPLIT, "func(addr, last uintptr)")
	Pragma("noescape")
	Doc(name + " touches addr, the first byte of each later page up to last, and last.")
	addr := Load(Param("addr"), GP64()).(GPVirtual)
	last := Load(Param("last"), GP64()).(GPVirtual)
	touch := func(a GPVirtual) {
		if write {
			prefix("LOCK")
			ORB(Imm(0), Mem{Base: a})
		} else {
			b := GP32()
			MOVBLZX(Mem{Base: a}, b)
		}
	}
	Label("loop")
	touch(addr)
	// The page after the last one may be at address 0, so compare the remaining bytes.
	ANDQ(I32(-page), addr)
	left := GP64()
	MOVQ(last, left)
	SUBQ(addr, left)
	ADDQ(U32(page), addr)
	CMPQ(left, U32(page))
	JAE(LabelRef("loop"))
	touch(last)
	RET()
}

// prefix emits an instruction without operands that avo has no function for.
func prefix(opcode string) { Instruction(&ir.Instruction{Opcode: opcode}) }
