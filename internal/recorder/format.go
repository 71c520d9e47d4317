// Package recorder writes the calls and tasks of a process, with their times, to a file as they happen.
//
// # The file
//
// The file is a header, a number of slots, and windows of the same size as slots. Slots are mapped memory. Records
// are put into a slot until it is full; then the slot is appended to the file as the next window, and reused. The
// header has the number of the window that each slot will become. So the records survive however the process ends,
// and a long run takes no more memory than a short one. internal/trace reads it.
//
// A record is four little-endian words. Its type is the low byte of the first, which is written last: type 0 is an
// empty record, or one that was being written when the process was killed. Records are unordered.
//
// Times are ticks of [Recorder.Now], nearly nanoseconds of CLOCK_MONOTONIC. Clock records allow converting them
// exactly. All processes of a machine share that clock.
package recorder

// Suffix is the suffix of the names of recorded files.
const Suffix = ".ropeway"

// Sizes of the file's parts.
const (
	HeaderBytes = 4096
	RecordBytes = 32
	SlotBytes   = 256 << 10
	Slots       = 8
	recordWords = RecordBytes / 8
	textBytes   = RecordBytes - 8 // bytes of a text in one record
)

// Magic begins a file: a name, and the version of the format.
const Magic = 0x3130_7961_7765_706f // "opeway01"

// Words of the header.
const (
	HeadMagic   = iota
	HeadProcess // number of the process
	HeadWall    // nanoseconds since 1970 when the file was begun
	HeadStart   // ticks at that time
	HeadFlags   // see below
	HeadLost    // number of records that were lost for lack of space
	HeadSlots   // first of the words of slots: number, from 1, of the window that each will become; 0: it is empty
)

// Flags of the header.
const (
	FlagEnded   = 1 << iota // the process ended normally
	FlagFull                // the disk was full, and nothing was recorded after that
	FlagChecked             // the checker delayed work
)

// Type is the type of a record.
type Type uint8

// Types of records, with their words. "a | b<<32" is two halves of a word; streams are int32, -1 is none.
const (
	Empty Type = iota

	// TaskType is a submitted task.
	//	0: type | kind<<8 | direction<<16 | memory<<24 | stream<<32
	//	1: number on the stream | thread<<32
	//	2: submission time
	//	3: bytes, or for a kernel the number of its name | device<<48
	TaskType

	// MoreType has more of a task. A task without it has no segments, and its call began when it was submitted.
	//	0: type | stream<<32
	//	1: number | segments, or blocks of a kernel<<32
	//	2: start of the call that submitted it
	MoreType

	// EventType is the event that a task records or waits for.
	//	0: type | stream<<32
	//	1: number | number of the awaited record<<32; 0: any of the event
	//	2: the event
	//	3: stream of that record
	EventType

	// RanType is the end of a task.
	//	0: type | result<<8 | stream<<32
	//	1: number | code<<32
	//	2: start time; 0: submission time
	//	3: end time
	RanType

	// CallType is a call.
	//	0: type | state<<8 | function<<16 | stream<<32
	//	1: thread | code<<32
	//	2: start time
	//	3: end time; of a call that begins to wait: number of the awaited record, or 0 | its stream<<32
	CallType

	// BlockedType is the time that a call waited for work.
	//	0: type | stream<<32
	//	1: thread
	//	2: start time
	//	3: ticks
	BlockedType

	// TextType names an object. Long texts have several parts, all full except the last.
	//	0: type | kind of object<<8 | bytes in this part<<16 | part<<24 | number of the object<<32
	//	1 to 3: text
	TextType

	// StreamType is a new stream.
	//	0: type | 1<<8 for a default stream | stream<<32
	//	1: device
	StreamType

	// ClockType relates ticks to nanoseconds.
	//	1: ticks
	//	2: nanoseconds of CLOCK_MONOTONIC at that moment
	ClockType

	// CopiedType is a call that made one copy and returned when that had ended: it combines the task, its end and the
	// call. The device is the stream's.
	//	0: type | direction<<8 | memory<<12 | function<<16 | stream<<32
	//	1: number on the stream | thread<<32
	//	2: start of the call
	//	3: bytes | duration in ticks<<32
	CopiedType

	// SiteType is a call site. Calls from it have this number instead of the function's.
	//	0: type | number<<16 | function<<32
	//	1: line, if TextFile names a file | (module + 1)<<32; 0: no module
	//	2: offset of the return address in the module's file
	SiteType

	// RangeType is a named range of the program, or a moment. It is recorded when it begins and when it ends.
	//	0: type | kind<<8 | stream of the task that marks a moment<<32
	//	1: thread | number<<32
	//	2: start time
	//	3: end time; 0: it has not ended; of a moment: number of the task that marks it, or 0
	RangeType

	// ModelType is a model. Tasks that execute it have its number as their event. If a model was changed, the last
	// record of each task counts.
	//	0: type | number<<32
	//	1: number of its tasks | number of those recorded<<32
	//	2: version of the pieces of its tasks; MoreType has it as the segments of a task that executes the model
	ModelType

	// NodeType is a task of a model.
	//	0: type | kind<<8 | direction<<16 | memory<<24 | number of the model<<32
	//	1: index in the model | stream<<32
	//	2: bytes, or for a kernel the number of its name | (its piece + 1)<<40; 0: none
	//	3: index of the awaited task + 1; 0: none | blocks of a kernel<<32
	NodeType

	// PartType has the time of pieces of a model in a task that executes it.
	//	0: type | number of pieces<<8 | stream<<32
	//	1: number of the task on the stream | the first piece<<32
	//	2: start time
	//	3: duration in ticks, at most 1<<PartTicks - 1 | number of the model<<40; 0: that of the task
	PartType

	// CoreType is the work of a core on a task: a number of blocks.
	//	0: type | core<<8 | stream<<32
	//	1: number of the task on its stream | first block<<32
	//	2: start time
	//	3: duration in ticks, at most MostTicks | number of blocks, at most MostBlocks, <<40
	CoreType

	// KernelType is the kernel of a CoreType whose task executes a model.
	//	0: type | core<<8 | stream<<32
	//	1: number of the task on its stream | number of the kernel's name<<32
	//	2: start time
	KernelType
)

// Widths in bits of fields that share a word.
const (
	NodeBytes = 40 // bytes of a task in a NodeType
	PartTicks = 40
)

// MostTicks and MostBlocks are the largest values in the record of a core.
const (
	MostTicks  = 1<<40 - 1
	MostBlocks = 1<<24 - 1
)

// MostNodes is the largest number of tasks recorded for a model.
const MostNodes = 1 << 16

// Results of tasks.
const (
	Done uint8 = iota
	Failed
	Dropped
)

// Kinds of objects that texts name.
const (
	TextArgument uint8 = iota // argument of the program, by position
	TextFunction
	TextThread
	TextDevice
	TextDriver
	TextFile   // source file of a site, by the site's number
	TextIn     // function that contains a site
	TextModule // executable or library that contains sites
	TextBuild  // build ID of a module, in hexadecimal digits
	TextRange
	TextServer // number of the process's server in its pod; none without a pod
)
