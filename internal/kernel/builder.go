package kernel

import (
	"encoding/binary"
	"fmt"

	"ropeway/internal/abi"
)

// Sizes of builders.
const (
	BuilderBytes = 64 << 10 // size of the buffer of a thread's builder
	mostParams   = 128      // of a thread's builder, and of kernels without meta data
	word         = 8
)

// Refusal is the reason why arguments are refused.
type Refusal struct {
	Code  abi.Code
	Param string
	Text  string
}

func refuse(code abi.Code, param, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Param: param, Text: fmt.Sprintf(format, args...)}
}

// Placeholder is an address in an argument buffer that a launch fills in, when the device address of the buffer is
// known.
type Placeholder struct{ Addr, Data uint32 } // offsets in the buffer, of the address and of the data it points to

// Builder builds an argument buffer, parameter by parameter. One thread uses it at a time.
//
// The buffer has, in this order: the synchronisation address, if the kernel wants it; the parameters, each at a
// multiple of 8; the overflow address; and the data of placeholders. The buffer of an AI CPU function has parameters
// and data, without gaps.
type Builder struct {
	buf    []byte
	used   int
	params []param
	most   int
	packed bool // an AI CPU function
	sync   bool // the buffer begins with the synchronisation address
	closed bool // the overflow address has been placed: no parameter can be appended
	final  bool
	stale  bool // changed since Finalize
	hidden int  // offset of the overflow address
}

type param struct {
	at, size    int
	placeholder bool
	data        int
}

// Start makes b an empty builder for a kernel, in buf. sync means that the product has a synchronisation area; most
// is the largest number of parameters.
func (b *Builder) Start(k *Kernel, buf []byte, sync bool, most int) {
	*b = Builder{buf: buf, params: b.params[:0], most: most, packed: k.Type == AICPU,
		sync: sync && k.Sync && k.Type != AICPU}
	if b.sync {
		b.used = word
	}
}

// MostParams returns the largest number of parameters of a thread's builder.
func MostParams() int { return mostParams }

// align returns n rounded up to the next offset where a value may start.
func (b *Builder) align(n int) int {
	if b.packed {
		return n
	}
	return (n + word - 1) &^ (word - 1)
}

// room returns the offset for the next size bytes; false if they do not fit.
func (b *Builder) room(size uint64) (at int, ok bool) {
	at = b.align(b.used)
	return at, at <= len(b.buf) && size <= uint64(len(b.buf)-at)
}

func (b *Builder) append(p param) (int, *Refusal) {
	if len(b.params) >= b.most {
		return 0, refuse(abi.ErrRTParamInvalid, "argsHandle", "the builder takes %d parameters and has them", b.most)
	}
	at, ok := b.room(uint64(p.size))
	if !ok {
		return 0, b.full(uint64(p.size))
	}
	p.at = at
	b.used = at + p.size
	b.params = append(b.params, p)
	return len(b.params) - 1, nil
}

func (b *Builder) full(size uint64) *Refusal {
	return refuse(abi.ErrRTParamInvalid, "argsHandle", "%d bytes do not fit: %d of %d are used", size, b.used,
		len(b.buf))
}

func finalized() *Refusal {
	return refuse(abi.ErrRTFeatureNotSupport, "argsHandle",
		"the arguments are finalized; aclrtKernelArgsInit starts over")
}

func taken() *Refusal {
	return refuse(abi.ErrRTFeatureNotSupport, "argsHandle",
		"parameters come before the first buffer of a placeholder is taken")
}

// Append adds a parameter and returns its number.
func (b *Builder) Append(value []byte) (int, *Refusal) {
	switch {
	case b.final:
		return 0, finalized()
	case b.closed:
		return 0, taken()
	}
	i, err := b.append(param{size: len(value)})
	if err == nil {
		copy(b.buf[b.params[i].at:], value)
	}
	return i, err
}

// AppendPlaceholder adds a placeholder parameter and returns its number.
func (b *Builder) AppendPlaceholder() (int, *Refusal) {
	switch {
	case b.closed && !b.final:
		return 0, taken()
	case b.final:
		return 0, finalized()
	}
	return b.append(param{size: word, placeholder: true})
}

// close puts the overflow address after the parameters.
func (b *Builder) close(overflow func() (uintptr, *Refusal)) *Refusal {
	if b.closed || b.packed {
		b.closed = true
		return nil
	}
	at, ok := b.room(word)
	if !ok {
		return b.full(word)
	}
	addr, err := overflow()
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b.buf[at:], uint64(addr))
	b.used, b.closed, b.hidden = at+word, true, at
	return nil
}

// Take reserves size bytes for the data of placeholder i and returns them. overflow returns the overflow address of
// the context.
func (b *Builder) Take(i int, size uint64, overflow func() (uintptr, *Refusal)) ([]byte, *Refusal) {
	switch {
	case !b.params[i].placeholder:
		return nil, refuse(abi.ErrRTParamInvalid, "paramHandle", "parameter %d is no placeholder", i)
	case b.final:
		return nil, finalized()
	}
	if err := b.close(overflow); err != nil {
		return nil, err
	}
	at, ok := b.room(size)
	if !ok {
		return nil, b.full(size)
	}
	b.params[i].data = at
	b.used = at + int(size)
	return b.buf[at : at+int(size)], nil
}

// Update overwrites parameter i.
func (b *Builder) Update(i int, value []byte) *Refusal {
	p := b.params[i]
	switch {
	case p.placeholder:
		return refuse(abi.ErrRTParamInvalid, "paramHandle", "parameter %d is a placeholder", i)
	case p.size != len(value):
		return refuse(abi.ErrRTParamInvalid, "paramSize", "is %d, and parameter %d has %d bytes", len(value), i, p.size)
	}
	copy(b.buf[p.at:], value)
	b.stale = b.final
	return nil
}

// Finalize ends the arguments. It calls sync for the synchronisation address if the kernel takes it.
func (b *Builder) Finalize(overflow, sync func() (uintptr, *Refusal)) *Refusal {
	if err := b.close(overflow); err != nil {
		return err
	}
	if b.sync {
		addr, err := sync()
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(b.buf, uint64(addr))
	}
	b.final, b.stale = true, false
	return nil
}

// Unfinish undoes Finalize.
func (b *Builder) Unfinish() { b.stale = true }

// Ready reports whether the arguments can be launched.
func (b *Builder) Ready() bool { return b.final && !b.stale }

// Bytes returns the used part of the buffer.
func (b *Builder) Bytes() []byte { return b.buf[:b.used] }

// Placeholders appends the addresses that a launch fills in.
func (b *Builder) Placeholders(list []Placeholder) []Placeholder {
	for _, p := range b.params {
		if p.placeholder {
			list = append(list, Placeholder{Addr: uint32(p.at), Data: uint32(p.data)})
		}
	}
	return list
}

// UserBytes returns the size of a buffer for size bytes of arguments.
func UserBytes(k *Kernel, size uint64) uint64 {
	if k.Type == AICPU {
		return size
	}
	return size + 64 + word*uint64(k.Takes)
}

// HandleBytes returns the size of the handle of a builder in the caller's memory.
func HandleBytes(k *Kernel) uint64 { return 96 + 48*uint64(k.Takes) }

// Fill stores the addresses of placeholders in args, whose device address is at. It skips those beyond the end of
// args.
func Fill(args []byte, at uintptr, list []Placeholder) {
	for _, p := range list {
		if uint64(p.Addr)+word <= uint64(len(args)) {
			binary.LittleEndian.PutUint64(args[p.Addr:], uint64(at)+uint64(p.Data))
		}
	}
}

// SIMTHead is the number of bytes that the runtime puts before the arguments of a SIMT kernel.
const SIMTHead = 32

// PutSIMTHead writes these bytes: a counter, and the sizes of a block and of the grid.
func PutSIMTHead(head []byte, grid, block [3]uint32) {
	le := binary.LittleEndian
	le.PutUint64(head, 0)
	for i := range 3 {
		le.PutUint32(head[8+4*i:], block[2-i])
		le.PutUint32(head[20+4*i:], grid[2-i])
	}
}
