//go:build amd64 && !noasm && !race

package memcopy

import (
	"encoding/binary"
	"fmt"
)

// span is memory that a routine may use, from address lo on.
type span struct {
	lo          uint64
	data        []byte
	read, write bool
}

// memory is all that exists: an access that is not wholly inside one span, with
// the right to it, is a fault.
type memory struct {
	spans    []span
	steps    int               // beyond one for each byte
	asked    func(addr uint64) // if not nil, is told what is prefetched
	streamed int               // bytes stored past the cache
	traced   bool
	trace    []uint64 // addresses in the order of access, if traced
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
	if o != opJAE && o != opJB && !m.zfSet || o != opJE && o != opJNE && !m.cfSet {
		panic(faultf("flags are undefined"))
	}
	switch o {
	case opJE:
		return m.zf
	case opJNE:
		return !m.zf
	case opJA:
		return !m.zf && !m.cf
	case opJB:
		return m.cf
	case opJBE:
		return m.cf || m.zf
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
// args has room for a result, which it puts there.
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
	budget := 1000 + mem.steps
	for _, s := range mem.spans {
		budget += len(s.data)
	}
	var m machine
	arg := func(in *inst) *uint64 {
		if in.disp%8 != 0 || in.disp < 0 || in.disp/8 >= int64(len(args)) {
			panic(faultf("no such argument"))
		}
		return &args[in.disp/8]
	}
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
			m.set(in.dst, *arg(in))
		case opResult:
			*arg(in) = m.reg(in.src)
		case opMovImm:
			m.set(in.dst, uint64(in.imm))
		case opMovReg:
			m.set(in.dst, m.reg(in.src))
		case opAddImm, opAddReg, opAddArg:
			a, b := m.reg(in.dst), uint64(in.imm)
			switch in.op {
			case opAddReg:
				b = m.reg(in.src)
			case opAddArg:
				b = *arg(in)
			}
			m.set(in.dst, a+b)
			m.flags(a+b == 0, a+b < a)
		case opSubImm, opSubReg, opSubArg:
			a, b := m.reg(in.dst), uint64(in.imm)
			switch in.op {
			case opSubReg:
				b = m.reg(in.src)
			case opSubArg:
				b = *arg(in)
			}
			m.set(in.dst, a-b)
			m.flags(a == b, a < b)
		case opAndImm:
			v := m.reg(in.dst) & uint64(in.imm)
			m.set(in.dst, v)
			m.flags(v == 0, false)
		case opCmpImm, opCmpReg, opCmpArg:
			a, b := m.reg(in.src), uint64(in.imm)
			switch in.op {
			case opCmpReg:
				b = m.reg(in.dst)
			case opCmpArg:
				b = *arg(in)
			}
			m.flags(a == b, a < b)
		case opDec: // leaves CF
			v := m.reg(in.dst) - 1
			m.set(in.dst, v)
			m.zf, m.zfSet = v == 0, true
		case opNeg:
			v := -m.reg(in.dst)
			m.set(in.dst, v)
			m.flags(v == 0, v != 0)
		case opLoadInt:
			var b [8]byte
			copy(b[:], mem.at(m.address(in, false), uint64(in.width), true, false))
			m.set(in.dst, binary.LittleEndian.Uint64(b[:]))
		case opStoreInt:
			b := binary.LittleEndian.AppendUint64(nil, m.reg(in.src))
			copy(mem.at(m.address(in, false), uint64(in.width), false, true), b[:in.width])
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
			addr := m.address(in, false)
			if mem.asked != nil {
				mem.asked(addr)
			}
		case opLoad, opLoadAligned:
			addr := m.address(in, in.op == opLoadAligned)
			m.setVec(in.dst, mem.at(addr, uint64(in.width), true, false))
		case opStore, opStoreAligned, opStoreStream:
			addr := m.address(in, in.op != opStore)
			v := m.getVec(in.src, in.width)
			copy(mem.at(addr, uint64(in.width), false, true), v)
			if in.op == opStoreStream {
				m.unfenced = true
				mem.streamed += in.width
			}
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
		case opJE, opJNE, opJA, opJAE, opJB, opJBE, opJump:
			if in.op == opJump || m.cond(in.op) {
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
