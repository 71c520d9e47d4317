package model

import (
	"encoding/binary"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// argBlock is device memory with the arguments of a kernel, as aclmdlRITaskGetParams returns them. It lives as long as
// the model: if a program passes it to aclmdlRITaskSetParams, the kernel reads its arguments there.
type argBlock struct {
	addr core.Addr
	size uint64
	used bool // by a kernel; the program then owns the content
}

// argsOf returns the address of the arguments of a kernel in device memory. mu is held.
func (m *Model) argsOf(l *driver.Launch, k *kernel) (core.Addr, error) {
	if !l.Copied || l.Size == 0 {
		return l.Args, nil
	}
	b := k.args
	if b == nil || b.used || b.size < l.Size {
		addr, err := m.ctx.Device.Opened.Load().Alloc(l.Size, driver.PageNormal)
		if err != nil {
			return 0, err
		}
		b = &argBlock{addr: addr, size: l.Size}
		m.args = append(m.args, b)
		m.atEnd = append(m.atEnd, func() { m.ctx.Device.Opened.Load().Free(addr) })
		k.args = b
	}
	bytes := make([]byte, l.Size)
	if err := load(m.rt, bytes, l.Args); err != nil {
		return 0, err
	}
	if l.Within {
		for at := bytes; len(at) >= 8; at = at[8:] {
			if word := core.Addr(binary.LittleEndian.Uint64(at)); l.Args <= word && word < l.Args+core.Addr(l.Size) {
				binary.LittleEndian.PutUint64(at, uint64(word-l.Args+b.addr))
			}
		}
	}
	return b.addr, store(m.rt, b.addr, bytes)
}

// useArgs records that a kernel reads its arguments at addr. mu is held.
func (m *Model) useArgs(addr core.Addr) {
	for _, b := range m.args {
		if b.addr <= addr && addr < b.addr+core.Addr(b.size) {
			b.used = true
		}
	}
}
