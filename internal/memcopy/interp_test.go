//go:build amd64 && !noasm && !race

package memcopy

import (
	_ "embed"
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
	opAddArg
	opSubArg
	opCmpReg // flags of src-dst
	opCmpArg
	opNeg
	opLoadByte
	opLoadInt  // width bytes, the rest is 0
	opStoreInt // the low width bytes
	opResult   // the result disp bytes in = src
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
	opJB
	opJBE
	opJump
	opRet
)

// form is what one mnemonic does with one kind of operands, and the CPU feature
// beyond the first amd64 that it needs.
type form struct {
	op    op
	width int // of a vector or integer in memory, in bytes
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
	"ADDQ a,r":         {opAddArg, 0, ""},
	"SUBQ a,r":         {opSubArg, 0, ""},
	"CMPQ r,r":         {opCmpReg, 0, ""},
	"CMPQ r,a":         {opCmpArg, 0, ""},
	"NEGQ r":           {opNeg, 0, ""},
	"MOVQ r,a":         {opResult, 0, ""},
	"MOVQ m,r":         {opLoadInt, 8, ""},
	"MOVQ r,m":         {opStoreInt, 8, ""},
	"MOVL m,r":         {opLoadInt, 4, ""},
	"MOVL r,m":         {opStoreInt, 4, ""},
	"MOVWLZX m,r":      {opLoadInt, 2, ""},
	"MOVW r,m":         {opStoreInt, 2, ""},
	"MOVB r,m":         {opStoreInt, 1, ""},
	"MOVBLZX m,r":      {opLoadByte, 0, ""},
	"LOCK":             {opLock, 0, ""},
	"ORB i,m":          {opOrByte, 0, ""},
	"PREFETCHT0 m":     {opPrefetch, 0, ""},
	"SFENCE":           {opFence, 0, ""},
	"JEQ l":            {opJE, 0, ""},
	"JNE l":            {opJNE, 0, ""},
	"JA l":             {opJA, 0, ""},
	"JAE l":            {opJAE, 0, ""},
	"JB l":             {opJB, 0, ""},
	"JBE l":            {opJBE, 0, ""},
	"JMP l":            {opJump, 0, ""},
	"RET":              {opRet, 0, ""},
	"VMOVDQU m,y":      {opLoad, 32, "AVX"},
	"VMOVDQU y,m":      {opStore, 32, "AVX"},
	"VMOVDQU m,x":      {opLoad, 16, "AVX"},
	"VMOVDQU x,m":      {opStore, 16, "AVX"},
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
var registers = map[string]int{"AX": 0, "CX": 1, "DX": 2, "BX": 3, "CL": 1, "SI": 6, "DI": 7,
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
