// Package recorder writes what a process does into a file, as it happens: calls, tasks, and when they ran.
//
// # The file
//
// It is a header, a number of slots, and windows; all of the size of a slot but the header. Slots are mapped memory.
// Records go into one until it is full; then it is written after the others as the next window, and emptied. The header
// says which window each slot is about to become. So whatever ends the process, what was recorded is there, and a long
// run takes no more memory than a short one. internal/trace reads it.
//
// A record is four little-endian words. Its type is the low byte of the first, which is written last: type 0 is an
// empty record, or one that was being written when the process was killed. Records are in no order.
//
// Times are ticks of [Recorder.Now], which are nanoseconds of CLOCK_MONOTONIC, nearly. Clock records say what they are
// exactly. All processes of a machine share that clock.
package recorder

// Suffix is how names of recorded files end.
const Suffix = ".ropeway"

// Sizes of the file's parts.
const (
	HeaderBytes = 4096
	RecordBytes = 32
	SlotBytes   = 256 << 10
	Slots       = 8
	recordWords = RecordBytes / 8
	textBytes   = RecordBytes - 8 // of a text that one record holds
)

// Magic begins a file: a name, and the version of the format.
const Magic = 0x3130_7961_7765_706f // "opeway01"

// Words of the header.
const (
	HeadMagic   = iota
	HeadProcess // number of the process
	HeadWall    // nanoseconds since 1970 when the file was begun
	HeadStart   // and ticks then
	HeadFlags   // see below
	HeadLost    // records that found no room
	HeadSlots   // and on: which window, from 1, a slot will become; 0: it is empty
)

// Flags of the header.
const (
	FlagEnded   = 1 << iota // the process came to its end
	FlagFull                // there was no room on the disk, and nothing is recorded from then on
	FlagChecked             // the checker held work back
)

// Type is the type of a record.
type Type uint8

// Types of records, with their words. "a | b<<32" is two halves of a word; streams are int32, -1 is none.
const (
	Empty Type = iota

	// TaskType is a task that was submitted.
	//	0: type | kind<<8 | direction<<16 | memory<<24 | stream<<32
	//	1: number on the stream | thread<<32
	//	2: when it was submitted
	//	3: bytes, or of a kernel the number of its name | device<<48
	TaskType

	// MoreType is more of a task, where there is more to say: else it has no segments, and its call began when it was
	// submitted.
	//	0: type | stream<<32
	//	1: number | segments, or blocks of a kernel<<32
	//	2: when the call began that submitted it
	MoreType

	// EventType is what a task has to do with an event.
	//	0: type | stream<<32
	//	1: number | number of the record that it waits for<<32; 0: any of the event
	//	2: the event
	//	3: stream of that record
	EventType

	// RanType is how a task went.
	//	0: type | result<<8 | stream<<32
	//	1: number | code<<32
	//	2: when it began; 0: when it was submitted
	//	3: when it ended
	RanType

	// CallType is a call.
	//	0: type | state<<8 | function<<16 | stream<<32
	//	1: thread | code<<32
	//	2: when it began
	//	3: when it ended; of one that begins to wait: number of the record that it waits for, or 0 | its stream<<32
	CallType

	// BlockedType is how long a call waited for work.
	//	0: type | stream<<32
	//	1: thread
	//	2: when it began
	//	3: ticks
	BlockedType

	// TextType names something. Long texts are in several parts, all full but the last.
	//	0: type | what<<8 | bytes in this part<<16 | part<<24 | number of what is named<<32
	//	1 to 3: text
	TextType

	// StreamType is a stream that was made.
	//	0: type | 1<<8 for a default stream | stream<<32
	//	1: device
	StreamType

	// ClockType says what time it is.
	//	1: ticks
	//	2: nanoseconds of CLOCK_MONOTONIC at that moment
	ClockType

	// CopiedType is a call that made one copy and returned when that had ended: a task, how it went, and the call. Its
	// device is that of its stream.
	//	0: type | direction<<8 | memory<<12 | function<<16 | stream<<32
	//	1: number on the stream | thread<<32
	//	2: when the call began
	//	3: bytes | ticks that it took<<32
	CopiedType

	// SiteType is where calls come from: those that name this number instead of a function's.
	//	0: type | number<<16 | function<<32
	//	1: line, if TextFile names a file | module and 1<<32; 0: it is in none
	//	2: where in the module's file the call returns to
	SiteType

	// RangeType is a part of the program with a text, or a moment. It is recorded when it begins and when it ends.
	//	0: type | kind<<8 | stream of the task that marks a moment<<32
	//	1: thread | number<<32
	//	2: when it began
	//	3: when it ended; 0: it has only begun; of a moment: number of the task that marks it, or 0
	RangeType

	// ModelType is a model. Tasks that execute it have its number as their event. Of one that was changed, the last
	// record of each task counts.
	//	0: type | number<<32
	//	1: how many tasks it has | how many of them are recorded<<32
	//	2: version of the pieces of its tasks; of a task that executes it, MoreType has that as segments
	ModelType

	// NodeType is a task of a model.
	//	0: type | kind<<8 | direction<<16 | memory<<24 | number of the model<<32
	//	1: place in the model | stream<<32
	//	2: bytes, or of a kernel the number of its name | its piece, and 1<<40; 0: none
	//	3: task of the model that it waits for, and 1; 0: none | blocks of a kernel<<32
	NodeType

	// PartType is when pieces of a model ran in a task that executes it.
	//	0: type | how many pieces<<8 | stream<<32
	//	1: number of the task on the stream | the first piece<<32
	//	2: when they began
	//	3: ticks that they took, longer ones as the longest | number of the model<<40; 0: that of the task
	PartType

	// CoreType is what a core did of a task: a number of blocks.
	//	0: type | core<<8 | stream<<32
	//	1: number of the task on its stream | first block<<32
	//	2: when it began
	//	3: ticks that it took, at most MostTicks | how many blocks, at most MostBlocks<<40
	CoreType

	// KernelType is the kernel that a core ran of a task that executes a model: it goes with a CoreType.
	//	0: type | core<<8 | stream<<32
	//	1: number of the task on its stream | number of the kernel's name<<32
	//	2: when it began
	KernelType
)

// Bits of what words have in part.
const (
	NodeBytes = 40 // of a task's bytes in a NodeType
	PartTicks = 40
)

// MostTicks and MostBlocks are the most that the record of a core can say.
const (
	MostTicks  = 1<<40 - 1
	MostBlocks = 1<<24 - 1
)

// MostNodes is how many tasks of a model are recorded.
const MostNodes = 1 << 16

// Results of tasks.
const (
	Done uint8 = iota
	Failed
	Dropped
)

// What texts name.
const (
	TextArgument uint8 = iota // of the program, by position
	TextFunction
	TextThread
	TextDevice
	TextDriver
	TextFile   // of a site, by its number
	TextIn     // function that a site is in
	TextModule // file with code, that sites are in
	TextBuild  // what its linker called that build, in hexadecimal digits
	TextRange
	TextServer // of a pod that the process is on, as a number; none without a pod
)
