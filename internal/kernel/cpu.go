package kernel

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
)

// CPU runs kernels that are functions of shared objects. Package native is one, and registers itself; programs that
// load no such kernels need none.
type CPU interface {
	// Load loads a shared object. Each call creates another copy of its code and variables; name is for messages.
	Load(name string, image []byte) (SharedObject, error)

	// NewRun returns a Run, which runs one launch at a time.
	NewRun() Run
}

// SharedObject is a loaded shared object. It stays loaded until it is closed and all holders have released it.
type SharedObject interface {
	Symbol(name string) (uintptr, error) // address of a function or variable
	Hold()                               // keeps the object until Release
	Release()
	Close() // idempotent
}

// Call is a launch.
type Call struct {
	Code    [2]uintptr // the functions of its halves
	Per     [2]uint32  // calls of each half per block
	Blocks  uint32
	First   uint32 // number of the first block
	Grid    [3]uint32
	Threads [3]uint32
	Args    uintptr // address of the arguments
	Size    uint64
	Watch   bool // Touched will be called

	ByAddress bool // functions take only the address of the arguments, and fail if they do not return 0
}

// Touch is memory that a kernel reports as read or written.
type Touch struct {
	Addr  uintptr
	N     uint64
	Write bool
}

// MostTouches is the largest number of touches that a launch can report.
const MostTouches = 1024

// Run runs launches, one after another.
type Run interface {
	// Begin begins a launch of an object, and returns a number for Stop. End must follow.
	Begin(o SharedObject, c *Call) (turn uint64)

	// Work makes calls until none is left, and records in s, if not nil, which ones it made. Any number of goroutines
	// may call it at a time. Together makes all calls at the same time, each on a thread of its own, if there are at
	// most MostTogether: each thread calls work, which calls Work.
	Work(s *Share)
	Together(work func())

	// Stop ends the running calls of a launch, at once if they are in code of a kernel. late means that its time
	// limit expired. Stop has no effect on a launch that has ended.
	Stop(turn uint64, late bool)

	// End ends a launch, after all goroutines have returned from Work, and returns its failure or nil.
	End() *Fault

	// Touched returns the memory that the kernel of the ended launch reported, if Call.Watch was set, and whether the
	// list is complete.
	Touched() (list []Touch, all bool)
}

// Share counts the calls of a launch that one goroutine made. It must be in memory that does not move: C code writes
// it, with the same layout (ropeway_share in capi/shim/kernel.h).
type Share struct {
	Calls uint32 // number of calls
	First uint32 // blocks of the first and the last call
	Last  uint32
}

// Made records a call for a block.
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

// MostTogether is the largest number of calls that run at the same time.
const MostTogether = 1024

// Calls returns the number of calls to make.
func (c *Call) Calls() uint64 { return uint64(c.Blocks) * uint64(c.Per[0]+c.Per[1]) }

// block returns the number of the block of the i-th call.
func (c *Call) block(i uint64) uint32 { return c.First + uint32(i/uint64(c.Per[0]+c.Per[1])) }

var cpu atomic.Pointer[CPU]

// RegisterCPU makes c the CPU of the process.
func RegisterCPU(c CPU) { cpu.Store(&c) }

// ErrNoCPU is returned if no CPU is registered.
var ErrNoCPU = errors.New("this program was built without what runs kernels on a CPU: import ropeway/kernel")

// OnCPU returns the CPU that runs the kernels of a binary.
func OnCPU(image []byte) (CPU, error) {
	if IsFunctions(image) {
		return inProcess{}, nil
	}
	if c := cpu.Load(); c != nil {
		return *c, nil
	}
	return nil, ErrNoCPU
}

// Fault is the failure of a kernel on a CPU.
type Fault struct {
	Signal  syscall.Signal // 0: it was stopped
	Late    bool           // its time limit expired
	Barrier bool           // a barrier in a launch whose blocks do not run at the same time
	Ended   bool           // the kernel ended its thread
	Block   uint32
	Address uint64 // address of a memory fault
	Code    uint64 // address of the code
	Result  uint32 // its result, if that is the failure; then Signal is 0
	Err     error  // the error of a Func; then Signal is 0
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
