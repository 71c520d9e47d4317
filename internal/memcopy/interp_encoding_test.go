//go:build amd64 && !noasm && !race

package memcopy

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The interpreter runs text, the CPU runs what the assembler made of it. This
// file reads the machine code of the routines back, and compares.

// routineCode returns the machine code of every routine of memcopy_amd64.s in
// this program, with the filling up to the next one.
func routineCode(t *testing.T) map[string][]byte {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.Open(exe)
	if err != nil {
		t.Skipf("this program is no ELF file: %v", err)
	}
	defer file.Close()
	text, table := file.Section(".text"), file.Section(".gopclntab")
	if table == nil {
		table = file.Section(".data.rel.ro.gopclntab") // position-independent
	}
	if text == nil || table == nil {
		t.Fatal("this program has no section .text or .gopclntab")
	}
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := table.Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(lines, text.Addr))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range symbols.Funcs {
		// Go code calls through a wrapper of the same name, which has another file.
		if source, _, _ := symbols.PCToLine(f.Entry); strings.HasSuffix(source, "memcopy_amd64.s") {
			name := strings.TrimSuffix(f.Name[strings.LastIndexByte(f.Name, '/')+1:], ".abi0")
			name = strings.TrimPrefix(name, "memcopy.")
			if all[name] != nil {
				t.Fatalf("%s is there twice", name)
			}
			all[name] = code[f.Entry-text.Addr : f.End-text.Addr]
		}
	}
	return all
}

var errCode = errors.New("unknown machine code")

// reader takes machine code apart. Past its end it reads 0 and sets short.
type reader struct {
	code  []byte
	at    int
	short bool
}

func (r *reader) byte() byte {
	if r.at >= len(r.code) {
		r.short = true
		return 0
	}
	r.at++
	return r.code[r.at-1]
}

func (r *reader) int8() int64 { return int64(int8(r.byte())) }

func (r *reader) int32() int64 {
	b := [4]byte{r.byte(), r.byte(), r.byte(), r.byte()}
	return int64(int32(binary.LittleEndian.Uint32(b[:])))
}

// stackPointer as the base of an operand: an argument, above the return address.
const stackPointer = 4

// operands reads a ModRM byte and what belongs to it. A displacement of one
// byte counts in units of scale. mem is false if both operands are registers.
func (r *reader) operands(scale int64) (reg, rm int, disp int64, mem bool, err error) {
	b := r.byte()
	mod := b >> 6
	reg, rm = int(b>>3&7), int(b&7)
	if mod == 3 {
		return reg, rm, 0, false, nil
	}
	if rm == 4 && r.byte() != 0x24 || rm == 5 && mod == 0 { // an index, or relative to the program counter
		return 0, 0, 0, false, errCode
	}
	switch mod {
	case 1:
		disp = r.int8() * scale
	case 2:
		disp = r.int32()
	}
	return reg, rm, disp, true, nil
}

// vex is a VEX or EVEX prefix, without the bits of registers, and the opcode.
type vex struct {
	evex   bool
	space  byte // opcode map: 1 is 0F, 2 is 0F 38
	prefix byte // 0 none, 1 is 66, 2 is F3
	w      byte
	length byte // 0, 1 and 2 for 128, 256 and 512 bits
	opcode byte
}

// vexOps are the encodings of the Intel manual.
var vexOps = map[vex]struct {
	op    op
	width int
}{
	{false, 1, 0, 0, 0, 0x77}: {opZeroUpper, 0},
	{false, 1, 1, 1, 0, 0x6E}: {opMoveQ, 16},
	{false, 1, 2, 0, 0, 0x6F}: {opLoad, 16},
	{false, 1, 2, 0, 0, 0x7F}: {opStore, 16},
	{false, 1, 2, 0, 1, 0x6F}: {opLoad, 32},
	{false, 1, 2, 0, 1, 0x7F}: {opStore, 32},
	{false, 1, 1, 0, 1, 0xE7}: {opStoreStream, 32},
	{false, 2, 1, 0, 1, 0x59}: {opBroadcast, 32},
	{true, 1, 2, 1, 2, 0x6F}:  {opLoad, 64},
	{true, 1, 2, 1, 2, 0x7F}:  {opStore, 64},
	{true, 1, 1, 0, 2, 0xE7}:  {opStoreStream, 64},
	{true, 2, 1, 1, 2, 0x59}:  {opBroadcast, 64},
}

// vector decodes an instruction that begins with first, one of C4, C5 and 62.
func (r *reader) vector(first byte) (in inst, evex bool, err error) {
	v := vex{space: 1}
	var p0, p1 byte // with inverted bits for registers; vvvv must be unused
	scale := int64(1)
	switch first {
	case 0xC5:
		p1 = r.byte()
		p0 = p1&0x80 | 0x61
		p1 &= 0x7F
	case 0xC4:
		p0, p1 = r.byte(), r.byte()
		v.space = p0 & 0x1F
	case 0x62:
		p0, p1 = r.byte(), r.byte()
		p2 := r.byte()
		v.evex, v.space, v.length = true, p0&7, p2>>5&3
		if p0&0x18 != 0x10 || p1&4 == 0 || p2&^0x60 != 0x08 { // a register above 15, a mask, a broadcast, zeroing
			return in, true, errCode
		}
		scale = 64 // the memory of each of these is a whole vector
	}
	if p0&0x60 != 0x60 || p1&0x78 != 0x78 { // X, B or vvvv in use
		return in, v.evex, errCode
	}
	if !v.evex {
		v.length = p1 >> 2 & 1
	}
	v.prefix, v.w, v.opcode = p1&3, p1>>7, r.byte()
	o, ok := vexOps[v]
	if !ok {
		return in, v.evex, errCode
	}
	in.op, in.width = o.op, o.width
	if in.op == opZeroUpper {
		if p0&0x80 == 0 {
			err = errCode
		}
		return in, v.evex, err
	}
	reg, rm, disp, mem, err := r.operands(scale)
	if p0&0x80 == 0 {
		reg += 8
	}
	switch in.op {
	case opMoveQ, opBroadcast:
		in.dst, in.src = reg, rm
		mem = !mem
	case opLoad:
		in.dst, in.base, in.disp = reg, rm, disp
	default:
		in.src, in.base, in.disp = reg, rm, disp
	}
	if err == nil && (!mem || rm == stackPointer) {
		err = errCode
	}
	return in, v.evex, err
}

var (
	jumpOps  = map[byte]op{0x4: opJE, 0x5: opJNE, 0x7: opJA, 0x3: opJAE, 0x2: opJB, 0x6: opJBE}
	immOps   = map[int]op{0: opAddImm, 4: opAndImm, 5: opSubImm, 7: opCmpImm}
	immOpsAX = map[byte]op{0x05: opAddImm, 0x25: opAndImm, 0x2D: opSubImm, 0x3D: opCmpImm}
	regOps   = map[byte]op{0x89: opMovReg, 0x01: opAddReg, 0x29: opSubReg, 0x39: opCmpReg}
	argOps   = map[byte]op{0x8B: opArg, 0x03: opAddArg, 0x2B: opSubArg, 0x3B: opCmpArg, 0x89: opResult}
)

// next decodes one instruction. The target of a jump is left as an offset.
func (r *reader) next() (in inst, evex bool, err error) {
	switch b := r.byte(); b {
	case 0xC3:
		return inst{op: opRet}, false, nil
	case 0xF0:
		return inst{op: opLock}, false, nil
	case 0x72, 0x73, 0x74, 0x75, 0x76, 0x77:
		off := r.int8()
		return inst{op: jumpOps[b&0xF], target: r.at + int(off)}, false, nil
	case 0xEB:
		off := r.int8()
		return inst{op: opJump, target: r.at + int(off)}, false, nil
	case 0xE9:
		off := r.int32()
		return inst{op: opJump, target: r.at + int(off)}, false, nil
	case 0x88:
		in, err = r.integer(opStoreInt, 1)
		return in, false, err
	case 0x89:
		in, err = r.integer(opStoreInt, 4)
		return in, false, err
	case 0x8B:
		in, err = r.integer(opLoadInt, 4)
		return in, false, err
	case 0x66:
		if r.byte() == 0x89 {
			in, err = r.integer(opStoreInt, 2)
			return in, false, err
		}
	case 0xC4, 0xC5, 0x62:
		return r.vector(b)
	case 0x80: // OR byte
		reg, rm, disp, mem, err := r.operands(1)
		if reg != 1 || !mem || rm == stackPointer {
			err = errCode
		}
		return inst{op: opOrByte, base: rm, disp: disp, imm: int64(r.byte())}, false, err
	case 0x0F:
		return r.twoByte()
	case 0x48, 0x49, 0x4C, 0x4D:
		in, err := r.wide(b)
		return in, false, err
	}
	return in, false, errCode
}

func (r *reader) twoByte() (in inst, evex bool, err error) {
	switch b := r.byte(); b {
	case 0x82, 0x83, 0x84, 0x85, 0x86, 0x87:
		off := r.int32()
		return inst{op: jumpOps[b&0xF], target: r.at + int(off)}, false, nil
	case 0xAE:
		if r.byte() == 0xF8 {
			return inst{op: opFence}, false, nil
		}
	case 0x18:
		if reg, rm, disp, mem, err := r.operands(1); err == nil && reg == 1 && mem && rm != stackPointer {
			return inst{op: opPrefetch, base: rm, disp: disp}, false, nil
		}
	case 0xB7:
		in, err = r.integer(opLoadInt, 2)
		return in, false, err
	case 0xB6:
		if reg, rm, disp, mem, err := r.operands(1); err == nil && mem && rm != stackPointer {
			return inst{op: opLoadByte, dst: reg, base: rm, disp: disp}, false, nil
		}
	}
	return in, false, errCode
}

// integer decodes the operands of a load or store of width bytes.
func (r *reader) integer(o op, width int) (in inst, err error) {
	reg, rm, disp, mem, err := r.operands(1)
	if err == nil && (!mem || rm == stackPointer) {
		err = errCode
	}
	if in = (inst{op: o, width: width, base: rm, disp: disp}); o == opLoadInt {
		in.dst = reg
	} else {
		in.src = reg
	}
	return in, err
}

// wide decodes what follows the prefix for 64 bits, which can have bits for the
// upper eight registers.
func (r *reader) wide(prefix byte) (in inst, err error) {
	b := r.byte()
	if o, ok := immOpsAX[b]; ok && prefix == 0x48 {
		return inst{op: o, imm: r.int32()}, nil // dst, or src to compare, is AX, which is 0
	}
	reg, rm, disp, mem, err := r.operands(1)
	reg += int(prefix & 4 * 2)
	if mem && prefix&1 != 0 { // no routine has a base among the upper eight
		err = errCode
	}
	if err != nil {
		return in, err
	}
	rm += int(prefix & 1 * 8)
	if o, ok := regOps[b]; ok && !mem {
		if o == opCmpReg {
			return inst{op: o, dst: reg, src: rm}, nil
		}
		return inst{op: o, dst: rm, src: reg}, nil
	}
	if o, ok := argOps[b]; ok && mem && rm == stackPointer {
		in = inst{op: o, dst: reg, disp: disp - 8}
		if o == opCmpArg || o == opResult {
			in.dst, in.src = 0, reg
		}
		return in, nil
	}
	switch {
	case b == 0x8B && mem:
		return inst{op: opLoadInt, width: 8, dst: reg, base: rm, disp: disp}, nil
	case b == 0x89 && mem:
		return inst{op: opStoreInt, width: 8, src: reg, base: rm, disp: disp}, nil
	case b == 0xF7 && reg == 3 && !mem:
		return inst{op: opNeg, dst: rm}, nil
	case b == 0xC7 && reg == 0 && !mem:
		return inst{op: opMovImm, dst: rm, imm: r.int32()}, nil
	case b == 0xFF && reg == 1 && !mem:
		return inst{op: opDec, dst: rm}, nil
	case b == 0x81 && !mem || b == 0x83 && !mem:
		o, ok := immOps[reg]
		in = inst{op: o, dst: rm}
		if o == opCmpImm {
			in.dst, in.src = 0, rm
		}
		if b == 0x81 {
			in.imm = r.int32()
		} else {
			in.imm = r.int8()
		}
		if ok {
			return in, nil
		}
	}
	return in, errCode
}

// matches reports how code differs from the text of p.
func (p *program) matches(code []byte) error {
	r := &reader{code: code}
	starts := []int{}
	var decoded []inst
	for i := range p.code {
		starts = append(starts, r.at)
		in, evex, err := r.next()
		if err != nil || r.short {
			return fmt.Errorf("%s: %q: %v at % x", p.name, p.line[i], errCode, code[starts[i]:min(len(code), r.at+4)])
		}
		if want := strings.HasPrefix(forms[p.forms[i]].needs, "AVX512"); evex != want {
			return fmt.Errorf("%s: %q: EVEX is %v, want %v", p.name, p.line[i], evex, want)
		}
		decoded = append(decoded, in)
	}
	for i, in := range decoded {
		if in.target != 0 {
			if in.target = slices.Index(starts, in.target); in.target < 0 {
				return fmt.Errorf("%s: %q: jumps into an instruction", p.name, p.line[i])
			}
		}
		if in != p.code[i] {
			return fmt.Errorf("%s: %q is %+v, the machine code %+v", p.name, p.line[i], p.code[i], in)
		}
	}
	for _, b := range code[r.at:] {
		if b != 0xCC {
			return fmt.Errorf("%s: more than filling after its end", p.name)
		}
	}
	return nil
}

// TestEncoding compares the machine code of every routine with its text, and
// then with one bit changed, to see that the comparison misses none.
func TestEncoding(t *testing.T) {
	codes := routineCode(t)
	evex := 0
	for name, p := range programs() {
		code := slices.Clone(codes[name])
		if err := p.matches(code); err != nil {
			t.Errorf("%v", err)
			continue
		}
		if testing.Short() && !strings.HasSuffix(name, "AVX512") {
			continue
		}
		for i := range 8 * len(code) {
			code[i/8] ^= 1 << (i % 8)
			if p.matches(code) == nil {
				t.Errorf("%s: bit %d of byte %d may change unseen", name, i%8, i/8)
			}
			code[i/8] ^= 1 << (i % 8)
		}
		for _, key := range p.forms {
			if strings.HasPrefix(forms[key].needs, "AVX512") {
				evex++
			}
		}
	}
	if len(codes) != len(programs()) || evex == 0 {
		t.Errorf("%d routines in the program, %d in the text, %d EVEX instructions", len(codes), len(programs()), evex)
	}
	t.Logf("%d routines, %d EVEX instructions", len(codes), evex)
}
