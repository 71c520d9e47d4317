//go:build amd64 && !noasm && !race

package memcopy

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// This file runs memcopy_amd64.s from its text, so that kernels can be tested
// that the CPU cannot run. What it does not know is an error, never a guess.
// The race detector would make it ten times as slow, and has nothing to find.

//go:embed memcopy_amd64.s
var asmText string

type op uint8

const (
	opArg op = iota + 1 // dst = the argument disp bytes in
	opMovImm
	opMovReg
	opAddImm
	opAddReg
	opSubImm
	opSubReg
	opAndImm
	opCmpImm // flags of src-imm
	opDec
	opLoadByte
	opLock
	opOrByte // of memory, after a LOCK
	opPrefetch
	opLoad // of a vector, as the next ones
	opLoadAligned
	opStore
	opStoreAligned
	opStoreStream // aligned, past the cache, so a fence must follow
	opMoveQ       // general to vector register, the rest is 0
	opBroadcast
	opFence
	opZeroUpper
	opJE
	opJNE
	opJA
	opJAE
	opRet
)

// form is what one mnemonic does with one kind of operands, and the CPU feature
// beyond the first amd64 that it needs.
type form struct {
	op    op
	width int // of a vector, in bytes
	needs string
}

// forms is keyed by mnemonic and operand kinds: i(mmediate), a(rgument),
// m(emory), l(abel), r(egister), or x, y, z for a vector register. The features
// are those of the Intel manual; rows for instructions that the kernels do not
// have serve the tests that put them in.
var forms = map[string]form{
	"MOVQ a,r":         {opArg, 0, ""},
	"MOVQ i,r":         {opMovImm, 0, ""},
	"MOVQ r,r":         {opMovReg, 0, ""},
	"ADDQ i,r":         {opAddImm, 0, ""},
	"ADDQ r,r":         {opAddReg, 0, ""},
	"SUBQ i,r":         {opSubImm, 0, ""},
	"SUBQ r,r":         {opSubReg, 0, ""},
	"ANDQ i,r":         {opAndImm, 0, ""},
	"CMPQ r,i":         {opCmpImm, 0, ""},
	"DECQ r":           {opDec, 0, ""},
	"MOVBLZX m,r":      {opLoadByte, 0, ""},
	"LOCK":             {opLock, 0, ""},
	"ORB i,m":          {opOrByte, 0, ""},
	"PREFETCHT0 m":     {opPrefetch, 0, ""},
	"SFENCE":           {opFence, 0, ""},
	"JEQ l":            {opJE, 0, ""},
	"JNE l":            {opJNE, 0, ""},
	"JA l":             {opJA, 0, ""},
	"JAE l":            {opJAE, 0, ""},
	"RET":              {opRet, 0, ""},
	"VMOVDQU m,y":      {opLoad, 32, "AVX"},
	"VMOVDQU y,m":      {opStore, 32, "AVX"},
	"VMOVDQA m,y":      {opLoadAligned, 32, "AVX"},
	"VMOVDQA y,m":      {opStoreAligned, 32, "AVX"},
	"VMOVNTDQ y,m":     {opStoreStream, 32, "AVX"},
	"VMOVQ r,x":        {opMoveQ, 16, "AVX"},
	"VZEROUPPER":       {opZeroUpper, 0, "AVX"},
	"VPBROADCASTQ x,y": {opBroadcast, 32, "AVX2"},
	"VMOVDQU64 m,z":    {opLoad, 64, "AVX512F"},
	"VMOVDQU64 z,m":    {opStore, 64, "AVX512F"},
	"VMOVDQA64 m,z":    {opLoadAligned, 64, "AVX512F"},
	"VMOVDQA64 z,m":    {opStoreAligned, 64, "AVX512F"},
	"VMOVNTDQ z,m":     {opStoreStream, 64, "AVX512F"},
	"VPBROADCASTQ x,z": {opBroadcast, 64, "AVX512F"},
	"VMOVDQU64 m,y":    {opLoad, 32, "AVX512VL"},
	"VMOVDQU8 m,z":     {opLoad, 64, "AVX512BW"},
}

// registers that a routine may use, by their number in machine code. Not SP and
// BP, which the caller gets back as they were, nor R14 and R15, which Go uses.
var registers = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "SI": 6, "DI": 7,
	"R8": 8, "R9": 9, "R10": 10, "R11": 11, "R12": 12, "R13": 13}

// inst is comparable: two that do the same are equal. What op does not use is 0.
type inst struct {
	op        op
	width     int
	dst, src  int   // registers
	base      int   // register of a memory operand
	disp, imm int64 // of a memory operand or argument; immediate
	target    int   // index of the instruction jumped to
}

// program is one routine.
type program struct {
	name   string
	args   int      // bytes of arguments
	source []string // its lines, with single blanks; the first is the TEXT line
	code   []inst
	line   []string // source of each instruction
	forms  []string // key into forms of each instruction
}

var programs = sync.OnceValue(func() map[string]*program {
	all := map[string]*program{}
	var source []string
	flush := func() {
		if source != nil {
			p, err := parse(source)
			if err != nil {
				panic("memcopy_amd64.s: " + err.Error())
			}
			all[p.name] = p
		}
	}
	for line := range strings.Lines(asmText) {
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case line == "" || strings.HasPrefix(line, "//") || line == `#include "textflag.h"`:
			continue
		case strings.HasPrefix(line, "TEXT "):
			flush()
			source = nil
		}
		source = append(source, line)
	}
	flush()
	return all
})

func mustProgram(t testing.TB, name string) *program {
	t.Helper()
	p := programs()[name]
	if p == nil {
		t.Fatalf("memcopy_amd64.s has no %s", name)
	}
	return p
}

var (
	textLine  = regexp.MustCompile(`^TEXT ·(\w+)\(SB\), NOSPLIT, \$0-(\d+)$`)
	argument  = regexp.MustCompile(`^\w+\+(\d+)\(FP\)$`)
	memoryRef = regexp.MustCompile(`^(-?\d*)\((\w+)\)$`)
	vectorReg = regexp.MustCompile(`^([XYZ])(\d|1[0-5])$`) // 16 to 31 are left out: VZEROUPPER does not clear them
	labelName = regexp.MustCompile(`^\w+$`)
)

func parse(source []string) (*program, error) {
	m := textLine.FindStringSubmatch(source[0])
	if m == nil {
		return nil, fmt.Errorf("unknown beginning %q", source[0])
	}
	p := &program{name: m[1], source: source}
	p.args, _ = strconv.Atoi(m[2])
	labels := map[string]int{}
	var jumps []string
	for _, line := range source[1:] {
		if name, ok := strings.CutSuffix(line, ":"); ok && labelName.MatchString(name) {
			if _, twice := labels[name]; twice {
				return nil, fmt.Errorf("%s: label %q twice", p.name, name)
			}
			labels[name] = len(p.code)
			continue
		}
		in, key, label, err := parseInst(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", p.name, line, err)
		}
		p.code = append(p.code, in)
		p.line = append(p.line, line)
		p.forms = append(p.forms, key)
		jumps = append(jumps, label)
	}
	for i, label := range jumps {
		if label != "" {
			at, ok := labels[label]
			if !ok {
				return nil, fmt.Errorf("%s: %q: no such label", p.name, p.line[i])
			}
			p.code[i].target = at
		}
	}
	return p, nil
}

func parseInst(line string) (in inst, key, label string, err error) {
	mnemonic, rest, _ := strings.Cut(line, " ")
	var operands []string
	if rest != "" {
		operands = strings.Split(rest, ", ")
	}
	var kinds []string
	for i, o := range operands {
		kind := "l"
		setReg := func(n int) {
			if i == len(operands)-1 {
				in.dst = n
			} else {
				in.src = n
			}
		}
		if n, ok := registers[o]; ok {
			kind = "r"
			setReg(n)
		} else if m := vectorReg.FindStringSubmatch(o); m != nil {
			kind = strings.ToLower(m[1])
			n, _ := strconv.Atoi(m[2])
			setReg(n)
		} else if imm, ok := strings.CutPrefix(o, "$"); ok {
			kind = "i"
			in.imm, err = strconv.ParseInt(imm, 0, 64)
		} else if m := argument.FindStringSubmatch(o); m != nil {
			kind = "a"
			in.disp, err = strconv.ParseInt(m[1], 10, 64)
		} else if m := memoryRef.FindStringSubmatch(o); m != nil {
			kind = "m"
			if in.base, ok = registers[m[2]]; !ok {
				err = fmt.Errorf("unknown base register %q", m[2])
			} else if m[1] != "" {
				in.disp, err = strconv.ParseInt(m[1], 10, 32)
			}
		} else if !labelName.MatchString(o) {
			err = fmt.Errorf("unknown operand %q", o)
		} else {
			label = o
		}
		if err != nil {
			return in, "", "", err
		}
		kinds = append(kinds, kind)
	}
	key = strings.TrimSpace(mnemonic + " " + strings.Join(kinds, ","))
	f, ok := forms[key]
	if !ok {
		return in, "", "", fmt.Errorf("unknown instruction %q", key)
	}
	in.op, in.width = f.op, f.width
	if in.imm != int64(int32(in.imm)) || in.op == opOrByte && in.imm>>8 != 0 {
		return in, "", "", fmt.Errorf("immediate %#x out of range", in.imm)
	}
	return in, key, label, nil
}

// span is memory that a routine may use, from address lo on.
type span struct {
	lo          uint64
	data        []byte
	read, write bool
}

// memory is all that exists: an access that is not wholly inside one span, with
// the right to it, is a fault.
type memory struct {
	spans  []span
	traced bool
	trace  []uint64 // addresses in the order of access, if traced
}

type fault string

func faultf(format string, args ...any) fault { return fault(fmt.Sprintf(format, args...)) }

func (m *memory) at(addr, n uint64, read, write bool) []byte {
	if m.traced {
		m.trace = append(m.trace, addr)
	}
	for i := range m.spans {
		s := &m.spans[i]
		off, size := addr-s.lo, uint64(len(s.data))
		if off < size && n <= size-off && (s.read || !read) && (s.write || !write) {
			return s.data[off : off+n : off+n]
		}
	}
	panic(faultf("access to %d bytes at %#x (read %v, write %v) outside the allowed ranges", n, addr, read, write))
}

// machine holds what a routine can see. Nothing is defined when it begins.
type machine struct {
	gp             [16]uint64
	gpSet          [16]bool
	vec            [16][64]byte
	vecSet         [16]bool
	zf, cf         bool
	zfSet, cfSet   bool
	upper          bool // some vector register may have more than its low 16 bytes set
	unfenced, lock bool
}

func (m *machine) reg(r int) uint64 {
	if !m.gpSet[r] {
		panic(faultf("general register %d is undefined", r))
	}
	return m.gp[r]
}

func (m *machine) set(r int, v uint64) { m.gp[r], m.gpSet[r] = v, true }

// setVec writes a vector register; all above b becomes 0.
func (m *machine) setVec(r int, b []byte) {
	if len(b) < 64 {
		m.vec[r] = [64]byte{}
	}
	copy(m.vec[r][:], b)
	m.vecSet[r] = true
	m.upper = m.upper || len(b) > 16
}

func (m *machine) getVec(r, width int) []byte {
	if !m.vecSet[r] {
		panic(faultf("vector register %d is undefined", r))
	}
	return m.vec[r][:width]
}

func (m *machine) flags(zf, cf bool) { m.zf, m.cf, m.zfSet, m.cfSet = zf, cf, true, true }

func (m *machine) cond(o op) bool {
	if o != opJAE && !m.zfSet || (o == opJA || o == opJAE) && !m.cfSet {
		panic(faultf("flags are undefined"))
	}
	switch o {
	case opJE:
		return m.zf
	case opJNE:
		return !m.zf
	case opJA:
		return !m.zf && !m.cf
	}
	return !m.cf
}

func (m *machine) address(in *inst, aligned bool) uint64 {
	addr := m.reg(in.base) + uint64(in.disp)
	if aligned && addr%uint64(in.width) != 0 {
		panic(faultf("address %#x is not aligned to %d", addr, in.width))
	}
	return addr
}

// run calls p with args. It returns what went wrong: a fault, a use of
// something undefined, no end, or a return that leaves the CPU as it must not.
func (p *program) run(mem *memory, args ...uint64) (err error) {
	if p.args != 8*len(args) {
		return fmt.Errorf("%s takes %d bytes of arguments, not %d", p.name, p.args, 8*len(args))
	}
	pc := 0
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			err = fmt.Errorf("%s: %q: %s", p.name, p.line[pc], r)
		default:
			panic(r)
		}
	}()
	budget := 1000
	for _, s := range mem.spans {
		budget += len(s.data)
	}
	var m machine
	for ; ; pc++ {
		if pc == len(p.code) {
			return fmt.Errorf("%s runs past its end", p.name)
		}
		if budget--; budget < 0 {
			return fmt.Errorf("%s does not end", p.name)
		}
		in := &p.code[pc]
		if m.lock && in.op != opOrByte {
			panic(faultf("LOCK before it"))
		}
		switch in.op {
		case opArg:
			if in.disp%8 != 0 || in.disp/8 >= int64(len(args)) {
				panic(faultf("no such argument"))
			}
			m.set(in.dst, args[in.disp/8])
		case opMovImm:
			m.set(in.dst, uint64(in.imm))
		case opMovReg:
			m.set(in.dst, m.reg(in.src))
		case opAddImm, opAddReg:
			a, b := m.reg(in.dst), uint64(in.imm)
			if in.op == opAddReg {
				b = m.reg(in.src)
			}
			m.set(in.dst, a+b)
			m.flags(a+b == 0, a+b < a)
		case opSubImm, opSubReg:
			a, b := m.reg(in.dst), uint64(in.imm)
			if in.op == opSubReg {
				b = m.reg(in.src)
			}
			m.set(in.dst, a-b)
			m.flags(a == b, a < b)
		case opAndImm:
			v := m.reg(in.dst) & uint64(in.imm)
			m.set(in.dst, v)
			m.flags(v == 0, false)
		case opCmpImm:
			a, b := m.reg(in.src), uint64(in.imm)
			m.flags(a == b, a < b)
		case opDec: // leaves CF
			v := m.reg(in.dst) - 1
			m.set(in.dst, v)
			m.zf, m.zfSet = v == 0, true
		case opLoadByte:
			m.set(in.dst, uint64(mem.at(m.address(in, false), 1, true, false)[0]))
		case opLock:
			m.lock = true
		case opOrByte: // the probes run beside writers, so it must be atomic
			if !m.lock {
				panic(faultf("no LOCK before it"))
			}
			m.lock = false
			b := mem.at(m.address(in, false), 1, true, true)
			b[0] |= byte(in.imm)
			m.flags(b[0] == 0, false)
		case opPrefetch:
			m.address(in, false)
		case opLoad, opLoadAligned:
			addr := m.address(in, in.op == opLoadAligned)
			m.setVec(in.dst, mem.at(addr, uint64(in.width), true, false))
		case opStore, opStoreAligned, opStoreStream:
			addr := m.address(in, in.op != opStore)
			v := m.getVec(in.src, in.width)
			copy(mem.at(addr, uint64(in.width), false, true), v)
			m.unfenced = m.unfenced || in.op == opStoreStream
		case opMoveQ:
			m.setVec(in.dst, binary.LittleEndian.AppendUint64(nil, m.reg(in.src)))
		case opBroadcast:
			v := [64]byte{}
			for i := 0; i < in.width; i += 8 {
				copy(v[i:], m.getVec(in.src, 8))
			}
			m.setVec(in.dst, v[:in.width])
		case opFence:
			m.unfenced = false
		case opZeroUpper:
			for r := range m.vec {
				clear(m.vec[r][16:])
			}
			m.upper = false
		case opJE, opJNE, opJA, opJAE:
			if m.cond(in.op) {
				pc = in.target - 1
			}
		case opRet:
			if m.unfenced {
				panic(faultf("no fence since a non-temporal store"))
			}
			if m.upper {
				panic(faultf("no VZEROUPPER since the use of wide registers"))
			}
			return nil
		default:
			panic(faultf("cannot run op %d", in.op))
		}
	}
}
