package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Type is the kind of core a kernel runs on, as ACL_KERNEL_TYPE_* number them.
type Type uint32

// The types.
const (
	AICore Type = 0
	Cube   Type = 1
	Vector Type = 2
	Mix    Type = 3
	AICPU  Type = 100
)

// Halves of a kernel. A kernel that is not a mix has one of them, according to its type.
const (
	CubeHalf   = 0 // or the AI Core
	VectorHalf = 1
)

// Code is one function of a binary.
type Code struct {
	Symbol string // "": no code
	Size   uint64
}

// Kernel is one kernel of a binary. It is not changed.
type Kernel struct {
	Name   string
	Type   Type
	Number uint64 // entry, also called tiling key
	Code   [2]Code
	Ratio  [2]uint16 // cube and vector cores per block, of a mix
	Halves bool      // consists of one half or two
	Sync   bool      // its arguments begin with the address of the synchronisation area, where the product has one
	Batch  bool      // all blocks run at the same time, unless the launch overrides it
	Vector VectorKind
	UB     uint32 // bytes of unified buffer that the compiler uses

	Params    []Param // nil if HasParams is false
	HasParams bool
	ArgsSize  uint64 // bytes of all parameters
	Takes     int    // parameters that a builder in the caller's memory takes

	So, Lib string // of a kernel for the AI CPU: its shared object, and opKernelLib

	first     half // role of its first symbol
	listed    bool // found by its number
	fromMeta  bool
	described bool // the binary has its meta data
}

// half is the role of a symbol in its kernel.
type half uint8

const (
	whole half = iota
	ofCube
	ofVector
)

// Variable is a global variable of a binary.
type Variable struct {
	Symbol string
	Size   uint64
}

// Options are properties of a binary that its image does not specify.
type Options struct {
	Default Type // type of kernels that do not specify one
	Pairs   bool // the product has cube and vector cores: a merged kernel is a mix
}

// Table lists the kernels and variables of a binary.
type Table struct {
	Format  Format
	Loaded  uint64 // bytes loaded to a device
	Open    bool   // the kernels are unknown: any name may exist
	Barrier bool   // blocks of its kernels wait for each other, so they run at the same time

	byName   map[string]*Kernel
	byNumber map[uint64]*Kernel
	vars     map[string]Variable
	fftsAddr bool // the image has a variable for the synchronisation address, so kernels do not get it as an argument
}

const (
	cubeSuffix   = "_mix_aic"
	vectorSuffix = "_mix_aiv"
	longestName  = 4095

	// BarrierSymbol is the function by which blocks of a shared object's kernels wait for each other.
	BarrierSymbol = "ropeway_block_barrier"
)

// Read returns the table of a binary.
func Read(image []byte, o Options) (*Table, error) {
	t := &Table{Format: FormatOf(image), byName: map[string]*Kernel{}, byNumber: map[uint64]*Kernel{},
		vars: map[string]Variable{}}
	switch t.Format {
	case PTX:
		t.Loaded = uint64(len(image))
		return t, t.readPTX(image, o)
	case Fatbin:
		t.Loaded, t.Open = uint64(len(image)), true
		return t, nil
	case InProcess:
		return t, t.readFunctions(image, o)
	case Unknown:
		// The vendor's runtime checks no magic number; readELF returns the error.
	}
	f, err := readELF(image)
	if err != nil {
		return nil, err
	}
	t.Loaded = f.loaded()
	for _, n := range f.wants() {
		t.fftsAddr = t.fftsAddr || n == 2
	}
	if t.Format == Cubin {
		t.readCubin(f, o)
		return t, nil
	}
	sections := f.metaSections()
	for _, s := range f.symbols {
		switch {
		case s.name == BarrierSymbol && !s.defined:
			t.Barrier = true
		case !s.defined || s.binding != symGlobal || s.hidden || s.name == "" || len(s.name) > longestName:
		case s.kind == symObject:
			t.vars[s.name] = Variable{Symbol: s.name, Size: s.size}
		case s.kind == symFunc:
			var m meta
			if sec, ok := sections[s.name]; ok {
				b, inside := f.bytes(sec)
				if !inside {
					return nil, badMeta(s.name, "the section is not all there")
				}
				if m, err = readMeta(s.name, b, o.Pairs); err != nil {
					return nil, err
				}
			}
			if err := t.add(s.name, s.size, m, o); err != nil {
				return nil, err
			}
		}
	}
	t.number()
	return t, nil
}

// split returns the registered name of a symbol, and the half that its suffix denotes.
func split(symbol string) (name string, h half) {
	c, v := strings.LastIndex(symbol, cubeSuffix), strings.LastIndex(symbol, vectorSuffix)
	switch {
	case c < 0 && v < 0:
		return symbol, whole
	case c > v:
		return symbol[:c] + symbol[c+len(cubeSuffix):], ofCube
	}
	return symbol[:v] + symbol[v+len(vectorSuffix):], ofVector
}

// add registers a symbol.
func (t *Table) add(symbol string, size uint64, m meta, o Options) error {
	name, suffix := split(symbol)
	h := suffix
	switch m.kind {
	case 2, 6, 3, 7: // the suffix does not count
		h = whole
		if m.sync && (m.kind == 2 || m.kind == 6) {
			h = ofCube
		} else if m.sync {
			h = ofVector
		}
	case 4, 5:
		if suffix == whole {
			return badMeta(symbol, "a mix kernel whose name has neither %s nor %s", cubeSuffix, vectorSuffix)
		}
	}
	k := t.byName[name]
	if k == nil {
		t.byName[name] = newKernel(name, symbol, size, h, m, o, t.fftsAddr)
		return nil
	}
	if h == whole || h == k.first || k.Code[place(h)].Symbol != "" && k.Code[1-place(h)].Symbol != "" {
		return fmt.Errorf("two functions are kernel %s, and are no cube half and vector half", name)
	}
	at := place(h)
	if k.first == whole { // a plain function and a half: the plain one is the other half
		plain := k.Code[CubeHalf]
		if plain.Symbol == "" {
			plain = k.Code[VectorHalf]
		}
		k.Code[1-at] = plain
	}
	k.Code[at] = Code{Symbol: symbol, Size: size}
	k.Halves = true
	k.Type = AICore
	if o.Pairs {
		k.Type = Mix
	}
	if k.first != ofVector {
		k.UB, k.Vector = m.ub, m.vector
	}
	if m.ratio != [2]uint16{} && k.Ratio == [2]uint16{} {
		k.Ratio = m.ratio
	}
	k.Sync = !t.fftsAddr
	k.Batch = k.Batch || m.batch
	k.described = k.described || m.there
	return nil
}

func place(h half) int {
	if h == ofVector {
		return VectorHalf
	}
	return CubeHalf
}

// newKernel returns the kernel of its first symbol.
func newKernel(name, symbol string, size uint64, h half, m meta, o Options, fftsAddr bool) *Kernel {
	k := &Kernel{
		Name: name, Type: o.Default, Ratio: m.ratio, Halves: h != whole, Batch: m.batch, Vector: m.vector, UB: m.ub,
		Params: m.params, HasParams: m.declared, ArgsSize: m.total, Takes: m.builderParams(),
		first: h, listed: !m.unlisted, described: m.there,
	}
	switch {
	case m.kind == 1:
		k.Type = AICore
	case m.kind == 2 || m.kind == 6:
		k.Type = Cube
	case m.kind == 3 || m.kind == 7:
		k.Type = Vector
	case m.kind == 4 || m.kind == 5:
		k.Type = Mix
	case h == ofCube:
		k.Type = Cube
	case h == ofVector:
		k.Type = Vector
	}
	at := CubeHalf
	if h == ofVector || h == whole && k.Type == Vector {
		at = VectorHalf
	}
	k.Code[at] = Code{Symbol: symbol, Size: size}
	k.Sync = !fftsAddr && (m.sync || k.Type == Mix)
	k.Number, k.fromMeta = m.number, m.numbered
	if !m.numbered {
		k.Number = numberOf(name)
	}
	return k
}

// numberOf returns the number at the end of a name, after its last _; 0 if there is none that fits in 64 bits.
func numberOf(name string) uint64 {
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '_')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// number builds the index by number. If several kernels have one number, the first by name is used.
func (t *Table) number() {
	for _, k := range t.Kernels() {
		if _, taken := t.byNumber[k.Number]; !taken && k.listed {
			t.byNumber[k.Number] = k
		}
	}
}

// Describe gives kernels of a shared object without meta data the meta data of the binary that it stands in for, so
// that the program's queries and arguments are the same as with that binary.
func (t *Table) Describe(of *Table) {
	if t.Format != Native {
		return
	}
	for name, k := range t.byName {
		if as := of.byName[name]; as != nil && !k.described && (k.single() != nil || as.single() == nil) {
			t.byName[name] = k.as(as)
		}
	}
	clear(t.byNumber)
	t.number()
}

// single returns the code of a kernel that is one function, else nil.
func (k *Kernel) single() *Code {
	switch {
	case k.Code[VectorHalf].Symbol == "":
		return &k.Code[CubeHalf]
	case k.Code[CubeHalf].Symbol == "":
		return &k.Code[VectorHalf]
	}
	return nil
}

// as returns the kernel other with the code of k.
func (k *Kernel) as(other *Kernel) *Kernel {
	c := *other
	c.Code = k.Code
	if code := k.single(); code != nil {
		at := CubeHalf
		if other.Code[CubeHalf].Symbol == "" {
			at = VectorHalf
		}
		c.Code = [2]Code{}
		c.Code[at] = *code
	}
	return &c
}

// Kernels returns all kernels, sorted by name.
func (t *Table) Kernels() []*Kernel {
	all := make([]*Kernel, 0, len(t.byName))
	for _, k := range t.byName {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *Kernel) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Find returns the kernel of a name, or nil.
func (t *Table) Find(name string) *Kernel { return t.byName[name] }

// GPU reports whether the binary is for GPUs. Such binaries do not list their variables reliably; only the device
// knows them.
func (t *Table) GPU() bool { return t.Format == PTX || t.Format == Cubin || t.Format == Fatbin }

// Unlisted returns a kernel of a binary whose kernels are unknown.
func (t *Table) Unlisted(name string, o Options) *Kernel { return gpuKernel(name, meta{}, o) }

// WithParams returns k with parameters that the device reported.
func (k *Kernel) WithParams(list []Param) *Kernel {
	c := *k
	c.Params, c.HasParams, c.ArgsSize = list, true, 0
	for _, p := range list {
		c.ArgsSize = max(c.ArgsSize, uint64(p.Offset)+uint64(p.Size))
	}
	return &c
}

// FindNumber returns the kernel of a number, or nil.
func (t *Table) FindNumber(n uint64) *Kernel { return t.byNumber[n] }

// Global returns a global variable; false if there is none of that name.
func (t *Table) Global(name string) (Variable, bool) {
	v, ok := t.vars[name]
	return v, ok
}
