// Package kernels holds the copies that run on the GPU itself, as PTX, and plans their launches.
//
// The copy engines take several microseconds a copy, whatever its size. A batch of small segments is therefore carried
// out by one kernel that moves the bytes with ordinary loads and stores, over the link too. A few segments are
// parameters of the launch; more are in a table of pieces in pinned host memory, which may be written after the launch.
// Copies whose addresses are in device memory are carried out by two kernels: one reads and checks the addresses, one
// moves the bytes. copy.cu is the source, ptx.sh makes copy.ptx from it.
package kernels

import _ "embed"

// PTX is the text of the kernels, for cuModuleLoadData. It needs a GPU of compute capability 7.0 and a driver of CUDA
// 11.0, or later ones.
//
//go:embed copy.ptx
var PTX string

// Names of the kernels in PTX.
const (
	Gather     = "ropeway_gather"     // GatherParams; Threads a block; grid from Plan.Launch
	Few        = "ropeway_few"        // FewParams; Threads a block; grid from FewParams.Set
	Descriptor = "ropeway_descriptor" // DescriptorParams; one block of ReadThreads
	Offset     = "ropeway_offset"     // OffsetParams; one block of ReadThreads
	Move       = "ropeway_move"       // MoveParams; Threads a block; grid from MoveBlocks
)

// Threads of a block.
const (
	Threads     = 256
	ReadThreads = 32
)

// The parameters of the kernels, with the layout of a launch's parameter buffer. Addresses are the device's.

// GatherParams are for Gather, which copies Count entries of a table. Entries run in any order; overlap between them is
// not defined. The table belongs to the kernel until it has run. Entries may be written after the launch, but must be
// written: the kernel waits until each has the tag. Earlier entries in the table must have other tags.
type GatherParams struct {
	Table           uint64 // of Entry; a multiple of 16
	Count, Run, Tag uint32
}

// MostFew is the most segments of FewParams.
const MostFew = 160

// FewParams are for Few: Count segments, each of less than 4 GiB. They are cut into parts of Size bytes; Begin counts
// the parts that come before each segment, and all of them at the end.
type FewParams struct {
	Count, Size uint32
	Dst, Src    [MostFew]uint64
	Bytes       [MostFew]uint32
	Begin       [MostFew + 1]uint32
	_           uint32
}

// DescriptorParams are for Descriptor, which reads a copy descriptor and leaves the copy in Found for Move.
type DescriptorParams struct {
	Descriptor       uint64
	Length, Src, Dst uint32 // offsets of its fields: driver.Layout
	_                uint32
	Current          uint64 // address of a word with the address of the Live table; the kernel reads both when it runs
	Found            uint64 // device memory for a Found
	Report           uint64 // pinned word for the Status
}

// OffsetParams are for Offset, which reads the two cells of an offset copy and leaves the copy in Found for Move.
type OffsetParams struct {
	DstCell, SrcCell       uint64
	DstOffset, SrcOffset   uint64
	Bytes                  uint64
	Current, Found, Report uint64 // as in DescriptorParams
}

// MoveParams are for Move, which carries out the copy found, unless its Status is bad. For overlapping ranges the
// result is that of memmove; one block copies those, at a few GB/s. A copy may overwrite its own descriptor, which has
// been read by then.
type MoveParams struct {
	Found uint64
}

// Found is a copy whose addresses were read when it ran.
type Found struct {
	Dst, Src, Bytes uint64
	Status          Status
	_               uint32
}

// Status is the result of reading a copy.
type Status uint32

const (
	Good           Status = iota
	BadSource             // not inside one live range
	BadDestination        // likewise
)

// Range is live device memory, [Start, End). A Live table is the number of ranges, as 64 bits, and the ranges, sorted,
// in pinned or device memory. A table that a kernel may be reading must not change: write a new one, then its address
// to the word that Current points to, and keep the old one until earlier launches are over.
type Range struct{ Start, End uint64 }

// Entry is a piece of a batch in the table: in each word 48 bits of an address, 10 of the length, and 6 of the tag.
type Entry struct{ To, From uint64 }

// lastTag is the last tag; the first is 1.
const lastTag = 63

// Tag distinguishes the entries of a batch from older ones in the table. It is shifted to its place in a word.
type Tag uint64

// Number returns the tag for GatherParams.
func (t Tag) Number() uint32 { return uint32(t >> 58) }

// Next returns the tag after t. If again is true, all tags have been used: the table has to be cleared first.
func (t Tag) Next() (next Tag, again bool) {
	if t.Number() == lastTag {
		return 1 << 58, true
	}
	return t + 1<<58, false
}

// Pack makes an entry. Both ends are below 1<<48 (see [Window.Reachable]), and n is below 1 MiB.
func (t Tag) Pack(dst, src uintptr, n uint64) Entry {
	return Entry{uint64(dst) | n<<54>>6 | uint64(t), uint64(src) | n>>10<<48 | uint64(t)}
}

// Unpack returns the arguments of Pack.
func (e Entry) Unpack() (dst, src uintptr, n uint64) {
	const low, length = 1<<48 - 1, 1<<10 - 1
	return uintptr(e.To & low), uintptr(e.From & low), e.To>>48&length | e.From>>48&length<<10
}

// Has reports whether the entry has the tag.
func (e Entry) Has(t Tag) bool { return e.To>>58 == uint64(t)>>58 && e.From>>58 == uint64(t)>>58 }
