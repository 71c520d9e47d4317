package kernel

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

// CPU runs kernels that are functions of shared objects. Programs that load none need not have one: package native is
// one, and registers itself.
type CPU interface {
	// Load loads a shared object. Each call makes another copy of its code and variables; name is for people.
	Load(name string, image []byte) (SharedObject, error)

	// NewRun makes what a launch runs in.
	NewRun() Run
}

// SharedObject is a loaded shared object. It stays loaded until it was closed and nothing holds it any more.
type SharedObject interface {
	Symbol(name string) (uintptr, error) // address of a function or variable
	Hold()                               // keeps the object until Release
	Release()
	Close() // idempotent
}

// Call is what a launch does.
type Call struct {
	Code    [2]uintptr // the functions of its halves
	Per     [2]uint32  // calls of each half per block
	Blocks  uint32
	First   uint32 // number of the first block
	Grid    [3]uint32
	Threads [3]uint32
	Args    uintptr // where the arguments are
	Size    uint64
	Watch   bool // Touched is wanted

	ByAddress bool // functions take the address of the arguments alone, and fail if they do not return 0
}

// Touch is memory that a kernel says it reads or writes.
type Touch struct {
	Addr  uintptr
	N     uint64
	Write bool
}

// MostTouches is how many of them a launch can say.
const MostTouches = 1024

// Run runs launches, one after the other.
type Run interface {
	// Begin begins a launch of an object, and returns a number for Stop. End must follow.
	Begin(o SharedObject, c *Call) (turn uint64)

	// Work makes calls until none is left, and notes in s, if that is not nil, which it made. Any number of goroutines
	// may do so at a time. Together has all calls made at the same time, each on a thread of its own, as long as there
	// are no more than MostTogether: each calls work, which calls Work.
	Work(s *Share)
	Together(work func())

	// Stop makes the calls end that are under way in a launch, at once if they are in code of a kernel. late: because
	// its time was up. A launch that has ended is not touched.
	Stop(turn uint64, late bool)

	// End ends a launch, which all goroutines have left, and says how it failed; nil if it did not.
	End() *Fault

	// Touched is what the kernel of the launch that has ended said it touches, if that is wanted, and whether that
	// is all.
	Touched() (list []Touch, all bool)
}

// Share is what one goroutine did of a launch. It is in memory that does not move: C code writes it, and has the same
// layout (ropeway_share in capi/shim/kernel.h).
type Share struct {
	Calls uint32 // how many
	First uint32 // block of the first, and of the last
	Last  uint32
}

// Made notes a call for a block.
func (s *Share) Made(block uint32) {
	if s == nil {
		return
	}
	if s.Calls == 0 {
		s.First = block
	}
	s.Calls++
	s.Last = block
}

// MostTogether is how many calls run at the same time, at most.
const MostTogether = 1024

// Calls is how many calls there are to make.
func (c *Call) Calls() uint64 { return uint64(c.Blocks) * uint64(c.Per[0]+c.Per[1]) }

// block is the number of the block that the i-th call is for.
func (c *Call) block(i uint64) uint32 { return c.First + uint32(i/uint64(c.Per[0]+c.Per[1])) }

var cpu atomic.Pointer[CPU]

// RegisterCPU makes c the one that runs kernels of the process.
func RegisterCPU(c CPU) { cpu.Store(&c) }

// ErrNoCPU says that a program has nothing that runs kernels.
var ErrNoCPU = errors.New("this program was built without what runs kernels on a CPU: import ropeway/kernel")

// OnCPU returns what runs the kernels of a binary.
func OnCPU(image []byte) (CPU, error) {
	if IsFunctions(image) {
		return inProcess{}, nil
	}
	if c := cpu.Load(); c != nil {
		return *c, nil
	}
	return nil, ErrNoCPU
}

// Fault is how a kernel failed on a CPU.
type Fault struct {
	Signal  syscall.Signal // 0: it was stopped
	Late    bool           // because its time was up
	Barrier bool           // a barrier in a launch whose blocks do not run at the same time
	Ended   bool           // the kernel ended its thread
	Block   uint32
	Address uint64 // of a memory fault
	Code    uint64 // where the code was
	Result  uint32 // what it returned, if that is why; then it has no Signal
	Err     error  // what a Func returned; then it has no Signal
}

func (f *Fault) Error() string {
	switch {
	case f.Err != nil:
		return fmt.Sprintf("block %d of the kernel failed: %v", f.Block, f.Err)
	case f.Late:
		return "the kernel did not end in time"
	case f.Barrier:
		return fmt.Sprintf("block %d of the kernel waits for the others, but there are more than %d, "+
			"which cannot run at the same time", f.Block, MostTogether)
	case f.Result != 0:
		return fmt.Sprintf("block %d of the kernel returned %d", f.Block, f.Result)
	case f.Ended:
		return fmt.Sprintf("block %d of the kernel ended its thread", f.Block)
	case f.Signal == 0:
		return "the kernel was stopped"
	case f.Signal == syscall.SIGSEGV || f.Signal == syscall.SIGBUS:
		return fmt.Sprintf("block %d of the kernel touched memory that is not there: %#x (code at %#x)", f.Block,
			f.Address, f.Code)
	}
	return fmt.Sprintf("block %d of the kernel ended with signal %d, %v (code at %#x)", f.Block, int(f.Signal),
		f.Signal, f.Code)
}
