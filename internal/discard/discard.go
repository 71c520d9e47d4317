// Package discard finds out from machine code whether a program looks at what a call returned.
//
// It follows the code from the place the call returns to, on all paths, until the register with the value is read (the
// program has it), or overwritten, or lost to another call (the program drops it). What it does not understand counts
// as read: it says "drops" only of what is certain. A program that stores the value and never looks at it has it, as
// far as can be seen here.
package discard

import (
	"bytes"
	"os"

	"golang.org/x/arch/x86/x86asm"
)

// Reader reads code at an address; fewer bytes than b has if there is no more.
type Reader func(at uintptr, b []byte) int

// Self reads the code of this process.
func Self(at uintptr, b []byte) int {
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		return 0
	}
	defer f.Close()
	n, _ := f.ReadAt(b, int64(at)) //nolint:errcheck // what was read counts
	return n
}

// Budgets of one question: code that drops a value does so within a few instructions.
const (
	mostInstructions = 256
	mostForks        = 16
	window           = 512 // bytes that are read at once
)

// By reports whether the code that a call returns to drops the value of the call, in the register of integers. returns
// are the return addresses of the stack, innermost first: a function that returns the value hands it to its caller.
func By(returns []uintptr, read Reader) bool {
	if len(returns) == 0 || !understood {
		return false
	}
	w := walk{returns: returns, read: read, left: mostInstructions, forks: mostForks}
	return w.drops(returns[0], 0)
}

// walk is one question.
type walk struct {
	returns []uintptr
	read    Reader
	left    int // instructions that may be looked at
	forks   int // branches that may be followed both ways

	code []byte  // what was read last
	at   uintptr // where that is
}

// endbr64 marks where jumps may go, which the decoder does not know.
var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// next is the instruction at pc; false if there is none that can be read.
func (w *walk) next(pc uintptr) (x86asm.Inst, bool) {
	const longest = 15
	if w.left--; w.left < 0 {
		return x86asm.Inst{}, false
	}
	if pc < w.at || pc-w.at+longest > uintptr(len(w.code)) {
		b := make([]byte, window)
		w.code, w.at = b[:w.read(pc, b)], pc
	}
	code := w.code[min(pc-w.at, uintptr(len(w.code))):]
	if bytes.HasPrefix(code, endbr64) {
		return x86asm.Inst{Op: x86asm.NOP, Len: len(endbr64)}, true
	}
	i, err := x86asm.Decode(code, 64)
	return i, err == nil
}

// drops reports whether the code at pc, in the given frame of the stack, drops the value on every path.
func (w *walk) drops(pc uintptr, frame int) bool {
	for {
		i, ok := w.next(pc)
		if !ok {
			return false
		}
		pc += uintptr(i.Len)
		switch kind := kindOf(&i); {
		case kind == nothing:
		case kind == unknown:
			return false
		case kind == ret:
			if frame++; frame >= len(w.returns) {
				return false
			}
			pc = w.returns[frame]
		case kind == jump:
			to, ok := i.Args[0].(x86asm.Rel)
			if !ok {
				return leaves(&i)
			}
			pc += uintptr(int64(to))
		case kind == branch:
			to, _ := i.Args[0].(x86asm.Rel) // there is nothing else
			if w.forks--; w.forks < 0 || !w.drops(pc+uintptr(int64(to)), frame) {
				return false
			}
		case reads(&i, kind):
			return false
		case kind == call, overwrites(&i, kind):
			return true
		}
	}
}

// leaves reports whether a jump goes through a variable at a fixed place, as to a function of another library: a call
// at the end of a function. Others may be tables of a switch.
func leaves(i *x86asm.Inst) bool {
	to, ok := i.Args[0].(x86asm.Mem)
	return ok && to.Base == x86asm.RIP
}

// kind is what an instruction does with its operands. All those that are known use the register only where they name
// it.
type kind uint8

const (
	unknown kind = iota
	nothing
	plain // reads all its operands, and may write the first
	sets  // writes its first operand without reading it
	call
	ret
	jump
	branch
)

func kindOf(i *x86asm.Inst) kind {
	switch i.Op {
	case x86asm.MOV, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD, x86asm.LEA, x86asm.POP,
		x86asm.MOVAPS, x86asm.MOVUPS, x86asm.MOVAPD, x86asm.MOVUPD, x86asm.MOVDQA, x86asm.MOVDQU, x86asm.MOVSS,
		x86asm.MOVSD_XMM, x86asm.MOVQ, x86asm.MOVD,
		x86asm.SETA, x86asm.SETAE, x86asm.SETB, x86asm.SETBE, x86asm.SETE, x86asm.SETG, x86asm.SETGE, x86asm.SETL,
		x86asm.SETLE, x86asm.SETNE, x86asm.SETNS, x86asm.SETS:
		return sets
	case x86asm.ADD, x86asm.SUB, x86asm.AND, x86asm.OR, x86asm.XOR, x86asm.CMP, x86asm.TEST, x86asm.INC, x86asm.DEC,
		x86asm.NEG, x86asm.NOT,
		x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.PUSH, x86asm.LEAVE,
		x86asm.PXOR, x86asm.XORPS, x86asm.XORPD, x86asm.ADDSD, x86asm.SUBSD, x86asm.MULSD, x86asm.DIVSD, x86asm.ADDSS,
		x86asm.SUBSS, x86asm.MULSS,
		x86asm.CVTSI2SD, x86asm.CVTSI2SS, x86asm.CVTSS2SD, x86asm.CVTSD2SS, x86asm.PUNPCKLQDQ,
		x86asm.UCOMISD, x86asm.UCOMISS:
		return plain
	case x86asm.IMUL:
		if i.Args[1] != nil { // else the register is meant without a name
			return plain
		}
	case x86asm.NOP:
		return nothing
	case x86asm.XCHG:
		if i.Args[0] == i.Args[1] {
			return nothing
		}
	case x86asm.CALL:
		return call
	case x86asm.RET:
		return ret
	case x86asm.JMP:
		return jump
	case x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JE, x86asm.JG, x86asm.JGE, x86asm.JL,
		x86asm.JLE, x86asm.JNE,
		x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JS:
		return branch
	}
	return unknown
}

// reads reports whether an instruction reads the register, or a part of it.
func reads(i *x86asm.Inst, k kind) bool {
	if zeroes(i) {
		return false
	}
	for n, a := range i.Args {
		switch a := a.(type) {
		case x86asm.Reg:
			if part(a) && !(n == 0 && k == sets) {
				return true
			}
		case x86asm.Mem:
			if part(a.Base) || part(a.Index) {
				return true
			}
		}
	}
	return false
}

// overwrites reports whether an instruction that does not read the register writes all of the value in it.
func overwrites(i *x86asm.Inst, k kind) bool {
	r, ok := i.Args[0].(x86asm.Reg)
	return ok && (r == x86asm.EAX || r == x86asm.RAX) && (k == sets || zeroes(i))
}

// zeroes reports whether an instruction is the usual way to make a register 0.
func zeroes(i *x86asm.Inst) bool {
	_, register := i.Args[0].(x86asm.Reg)
	return (i.Op == x86asm.XOR || i.Op == x86asm.SUB) && register && i.Args[0] == i.Args[1]
}

// part reports whether r is the register with the value of a call, or a part of it.
func part(r x86asm.Reg) bool {
	return r == x86asm.AL || r == x86asm.AH || r == x86asm.AX || r == x86asm.EAX || r == x86asm.RAX
}
