package kernel

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Names of the sections with meta data: of the binary, and prefix for one symbol.
const (
	metaOfBinary = ".ascend.meta"
	metaOfSymbol = ".ascend.meta."
)

// stackBytes is the largest stack that a kernel can ask for.
const stackBytes = 32 << 10

// Param is one parameter of a kernel.
type Param struct{ Offset, Size uint32 }

// VectorKind is the kind of vector functions of a kernel.
type VectorKind uint8

// The kinds, as meta data number them; NoKind is the kind of a kernel without the record.
const (
	NoKind  VectorKind = 0
	NoneVec VectorKind = 1
	SIMD    VectorKind = 2
	SIMT    VectorKind = 3
	Both    VectorKind = 4
)

// meta is the parsed meta data of one symbol.
type meta struct {
	there    bool   // the symbol has a section of meta data
	kind     uint32 // record 1; 0: no such record
	sync     bool
	ratio    [2]uint16 // cube, vector
	list     bool      // record 4 is there
	args     int       // records of arguments in it
	listLen  int       // bytes of it
	ub       uint32
	vector   VectorKind
	numbered bool // record 14 gives a number
	unlisted bool // record 14: no lookup by number
	number   uint64
	params   []Param // nil: no parameter data
	declared bool    // record 16 is there
	total    uint64  // bytes of all parameters
	batch    bool
}

func badMeta(symbol, format string, args ...any) error {
	return fmt.Errorf("meta data of %s: %s", symbol, fmt.Sprintf(format, args...))
}

// readMeta reads the records of a section. pairs means that the product has cube and vector cores, and uses ratios
// and stacks.
func readMeta(symbol string, b []byte, pairs bool) (m meta, err error) {
	le := binary.LittleEndian
	m.there = true
	var total uint32
	seen := map[uint32]Param{}
	for len(b) >= 4 {
		kind, n := le.Uint16(b), int(le.Uint16(b[2:]))
		if n > len(b)-4 {
			return m, badMeta(symbol, "record %d of %d bytes reaches past the end", kind, n)
		}
		v := b[4 : 4+n]
		b = b[4+n:]
		need := map[uint16]int{1: 4, 2: 4, 3: 4, 7: 4, 8: 4, 12: 4, 14: 12, 16: 12, 17: 20, 18: 4}[kind]
		if n < need {
			return m, badMeta(symbol, "record %d has %d bytes, not %d", kind, n, need)
		}
		switch kind {
		case 1:
			m.kind = le.Uint32(v)
		case 2:
			m.sync = le.Uint32(v) == 1
		case 3:
			m.ratio = [2]uint16{le.Uint16(v), le.Uint16(v[2:])}
			if pairs && !validRatio(m.ratio) {
				return m, badMeta(symbol, "a ratio of %d:%d cores does not exist", m.ratio[0], m.ratio[1])
			}
		case 4:
			m.list, m.listLen, m.args = true, n, countArgs(v)
		case 7:
			m.ub = le.Uint32(v)
		case 8:
			if least := le.Uint32(v); pairs && least > stackBytes {
				return m, badMeta(symbol, "it needs a stack of %d bytes, and kernels have %d", least, stackBytes)
			}
		case 12:
			m.vector = VectorKind(le.Uint32(v))
		case 14:
			switch v[0] {
			case 0:
				m.numbered, m.number = true, le.Uint64(v[4:])
			case 0x80:
				m.unlisted = true
			default:
				return m, badMeta(symbol, "flag %#x of its number is not known", v[0])
			}
		case 16:
			m.declared, total, m.total = true, le.Uint32(v), le.Uint64(v[4:])
		case 17:
			ordinal := le.Uint32(v[4:])
			seen[ordinal] = Param{Offset: le.Uint32(v[8:]), Size: le.Uint32(v[12:])}
		case 18:
			mode := le.Uint32(v)
			if mode > 1 {
				return m, badMeta(symbol, "scheduling mode %d does not exist", mode)
			}
			m.batch = mode == 1
		}
	}
	if m.declared || len(seen) > 0 {
		if uint64(len(seen)) != uint64(total) {
			return m, badMeta(symbol, "it describes %d parameters and says that there are %d", len(seen), total)
		}
		m.params = make([]Param, 0, total)
		for i := range total {
			p, ok := seen[i]
			if !ok {
				return m, badMeta(symbol, "parameter %d is not described", i)
			}
			m.params = append(m.params, p)
		}
	}
	if m.vector == NoKind {
		m.ub = 0
	}
	return m, nil
}

func validRatio(r [2]uint16) bool {
	switch r {
	case [2]uint16{1, 2}, [2]uint16{2, 1}, [2]uint16{1, 1}, [2]uint16{1, 0}, [2]uint16{0, 1}:
		return true
	}
	return false
}

// countArgs returns the number of records of arguments in a description. They are big endian, with lengths in units
// of 8 bytes; like the compilers that write them, it ignores the last four bytes.
func countArgs(v []byte) (n int) {
	be := binary.BigEndian
	for left := len(v) - 4; left > 4; {
		kind, size := be.Uint16(v), int(be.Uint16(v[2:]))*8
		if kind == 5 {
			n++
		}
		if 4+size > len(v) {
			return n
		}
		v = v[4+size:]
		left -= 4 + size
	}
	return n
}

// builderParams returns the largest number of parameters of a builder in the caller's memory.
func (m *meta) builderParams() int {
	switch {
	case !m.there:
		return mostParams
	case !m.list || m.listLen == 0:
		return 0
	}
	return (1 + m.args) & 0xFF
}

// wants returns the numbers of the records of type 4 in section .ascend.meta: the values that a binary expects in its
// globals.
func (f *file) wants() (numbers []uint32) {
	le := binary.LittleEndian
	for _, s := range f.sections {
		if s.name != metaOfBinary {
			continue
		}
		b, _ := f.bytes(s)
		for len(b) >= 4 {
			kind, n := le.Uint16(b), int(le.Uint16(b[2:]))
			if n > len(b)-4 {
				break
			}
			if kind == 4 && n >= 4 {
				numbers = append(numbers, le.Uint32(b[4:]))
			}
			b = b[4+n:]
		}
	}
	return numbers
}

// metaSections returns the sections with meta data of symbols, by symbol.
func (f *file) metaSections() map[string]section {
	all := map[string]section{}
	for _, s := range f.sections {
		if name, ok := strings.CutPrefix(s.name, metaOfSymbol); ok && name != "" {
			all[name] = s
		}
	}
	return all
}
