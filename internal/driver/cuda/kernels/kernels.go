// Package kernels holds the copies that run on the GPU itself, as PTX, and says how to launch them.
//
// The copy engines take several microseconds a copy, whatever its size. A batch of small segments is therefore
// carried out by one kernel that moves the bytes with ordinary loads and stores, over the link too. A few segments
// are parameters of the launch; more stand in a table of pieces, which the kernel reads in pinned host memory, and
// which may be written after the launch. Copies whose addresses stand in device memory are carried out by two: one
// reads and judges them, one moves. copy.cu is the source, ptx.sh makes copy.ptx from it.
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

// The parameters of the kernels, laid out as a launch takes them in one buffer. Addresses are those the device uses.

// GatherParams are for Gather, which copies Count entries of a table. Entries run in any order; overlap between them
// is not defined. The table belongs to the kernel until it has run. Entries may be written later than the launch, but
// have to be: the kernel waits for each until it has the tag. What the table held before must not have it.
type GatherParams struct {
	Table           uint64 // of Entry; a multiple of 16
	Count, Run, Tag uint32
}

// MostFew is how many segments FewParams hold.
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
	Length, Src, Dst uint32 // where its fields are: driver.Layout
	_                uint32
	Current          uint64 // address of a word with the address of the Live table to judge by, both read when it runs
	Found            uint64 // device memory of the queue, for a Found
	Report           uint64 // pinned word that gets the Status
}

// OffsetParams are for Offset, which reads the two cells of an offset copy and leaves the copy in Found for Move.
type OffsetParams struct {
	DstCell, SrcCell       uint64
	DstOffset, SrcOffset   uint64
	Bytes                  uint64
	Current, Found, Report uint64 // as in DescriptorParams
}

// MoveParams are for Move, which carries out what was found, or nothing if it was not good. Overlapping ranges end as
// memmove leaves them; one block does those, at a few GB/s. A copy onto its own descriptor is no problem: it has been
// read by then.
type MoveParams struct {
	Found uint64
}

// Found is a copy whose addresses were read when it ran.
type Found struct {
	Dst, Src, Bytes uint64
	Status          Status
	_               uint32
}

// Status is what became of reading a copy.
type Status uint32

const (
	Good           Status = iota
	BadSource             // not inside one live range
	BadDestination        // likewise
)

// Range is device memory that is there: Start to before End. A Live table is the number of ranges, as 64 bits, and
// the ranges, sorted, in pinned or device memory. A table that a kernel may be reading must not change: write a new
// one, then its address to the word that Current points to, and keep the old one until what was launched before is
// over.
type Range struct{ Start, End uint64 }

// Entry is a piece of a batch in the table: in each word 48 bits of an address, 10 of the length, and 6 of the tag.
type Entry struct{ To, From uint64 }

// lastTag is the last there is; they begin with 1.
const lastTag = 63

// Tag distinguishes the entries of one batch from older ones in the table. It is shifted to its place in a word.
type Tag uint64

// Number is the tag as Gather takes it.
func (t Tag) Number() uint32 { return uint32(t >> 58) }

// Next is the tag after t. When again is true, all tags have been used: the table has to be cleared first.
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

// Unpack is what was packed.
func (e Entry) Unpack() (dst, src uintptr, n uint64) {
	const low, length = 1<<48 - 1, 1<<10 - 1
	return uintptr(e.To & low), uintptr(e.From & low), e.To>>48&length | e.From>>48&length<<10
}

// Has reports whether the entry has the tag.
func (e Entry) Has(t Tag) bool { return e.To>>58 == uint64(t)>>58 && e.From>>58 == uint64(t)>>58 }
