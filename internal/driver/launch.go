package driver

import (
	"time"

	"ropeway/internal/kernel"
)

// Launcher is a driver that runs kernels.
type Launcher interface {
	// Runs reports whether binaries of a format can be loaded.
	Runs(f kernel.Format) bool

	// LoadModule puts a binary on an open device, with variables of its own; name is for people.
	LoadModule(device int, name string, image []byte) (Module, error)
}

// Module is a binary on a device. Methods may be called concurrently.
type Module interface {
	// Code is what Launch.Code takes for a function of the binary.
	Code(symbol string) (uintptr, error)

	// Global is the device address of a variable of the binary, of size bytes; copies reach it.
	Global(symbol string, size uint64) (uintptr, error)

	// Hold keeps the module on the device until Release, also if it is unloaded meanwhile. A queued launch holds its
	// module.
	Hold()
	Release()

	// Unload removes the module. Idempotent; closing the device does it, too.
	Unload()
}

// Describer is a Module that knows of its binary what that does not say itself.
type Describer interface {
	// Params are the parameters of a function; false if they are not known.
	Params(code uintptr) (params []kernel.Param, known bool)

	// Variable is how many bytes a variable has; false if there is none.
	Variable(symbol string) (size uint64, ok bool)
}

// Launch is a kernel to be run: OpLaunch. The queue owns it until the operation is over.
type Launch struct {
	Module Module
	Code   [2]uintptr // the functions of its halves; 0: there is none
	Per    [2]uint32  // calls of each half per block
	Blocks uint32
	First  uint32 // number of the first block

	Grid, Threads [3]uint32 // of a SIMT launch; else 0

	// Args is where the arguments are, Size bytes: in device memory, or, if Copied, in pinned memory that is not
	// written to.
	Args   uintptr
	Size   uint64
	Copied bool
	Within bool // some of them are addresses of others, so all stay in use until the operation is over

	ByAddress bool // the functions take the address of the arguments alone, and fail if they do not return 0

	Together bool          // all blocks run at the same time
	Limit    time.Duration // the operation fails after that; 0: never
	Shared   uint32        // bytes of dynamic memory that the threads of a block share

	// Touched, if not nil, gets what the kernel says it touches, when it has run.
	Touched func(list []kernel.Touch, all bool)

	// Seen, if not nil, gets what the kernel really touched, when it has run, and whether that is all: whole pages of
	// device memory, sorted, as far as the driver can see them (see kernel.Watch). Called before Over.
	Seen func(list []kernel.Touch, all bool)

	// Over, if not nil, is called when the operation has run, failed or been dropped: instead of Op.Done, which would
	// have to be allocated.
	Over LaunchOwner
}

// LaunchQueue is a queue that takes a launch at a lower cost than Submit does.
type LaunchQueue interface {
	// Launch is Submit of an operation that is this launch and has this tag.
	Launch(l *Launch, tag Tag)
}

// CoreObserver is an Observer that also receives which core ran which blocks of a kernel. Observers need not be one,
// and drivers that do not know the cores do not call it.
type CoreObserver interface {
	// Worked reports what one core did of the kernel of an operation, once for each core that ran blocks of it, before
	// Ran. It is called by several goroutines at a time, and must not wait.
	Worked(tag Tag, w CoreWork)
}

// CoreWork is what a core did of one kernel: all the blocks that it ran, one after the other.
type CoreWork struct {
	Core         int
	First        uint32 // block that it ran first; the others have higher numbers
	Blocks       uint32 // how many
	Began, Ended int64  // by the observer's clock
}

// LaunchOwner receives a launch that is over. The driver may hold locks then: LaunchOver does not block, and calls no
// driver.
type LaunchOwner interface{ LaunchOver(l *Launch) }

// Return returns the launch to its owner.
func (l *Launch) Return() {
	if l.Over != nil {
		l.Over.LaunchOver(l)
	}
}

// lent is the owner of a launch that another driver runs meanwhile.
type lent struct{ LaunchOwner }

func (lent) LaunchOver(*Launch) {}

// Lend returns a copy of the launch for the driver below: it is not returned to its owner when that driver has run it.
func (l *Launch) Lend() *Launch {
	c := *l
	if c.Over != nil {
		c.Over = lent{l.Over}
	}
	return &c
}

// Owner returns the owner of the launch, lent or not; nil if it has none.
func (l *Launch) Owner() LaunchOwner {
	o := l.Over
	for {
		x, ok := o.(lent)
		if !ok {
			return o
		}
		o = x.LaunchOwner
	}
}

// ProgramLauncher is a driver whose programs may have steps that are kernels, with arguments that are Copied and no
// Limit. The program keeps their launches, and the driver does not return them.
type ProgramLauncher interface{ LaunchesInPrograms() }

// KernelFailure is how a kernel failed.
type KernelFailure uint8

// How kernels fail.
const (
	KernelException KernelFailure = iota // it did something that it must not
	KernelTrap                           // it stopped itself
	KernelTimeout                        // it did not end in time
	KernelMemory                         // it touched memory of a device that is not there
)

// KernelError is the error of a launch that failed.
type KernelError struct {
	Failure KernelFailure
	Launch  *Launch // which; it is not over yet
	Program bool    // it is a step of a program
	Err     error   // what is known of it
}

func (e *KernelError) Error() string { return e.Err.Error() }

func (e *KernelError) Unwrap() error { return e.Err }
