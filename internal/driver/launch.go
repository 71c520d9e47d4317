package driver

import (
	"time"

	"ropeway/internal/kernel"
)

// Launcher is a driver that runs kernels.
type Launcher interface {
	// Runs reports whether binaries of a format can be loaded.
	Runs(f kernel.Format) bool

	// LoadModule loads a binary on an open device, with variables of its own; name is for messages.
	LoadModule(device int, name string, image []byte) (Module, error)
}

// Module is a binary on a device. Methods may be called concurrently.
type Module interface {
	// Code returns the value of Launch.Code for a function of the binary.
	Code(symbol string) (uintptr, error)

	// Global returns the device address of a variable of the binary, which has size bytes; copies can use it.
	Global(symbol string, size uint64) (uintptr, error)

	// Params returns the parameters of a function, and Variable the size of a variable; false if the device does not
	// know them.
	Params(code uintptr) (params []kernel.Param, known bool)
	Variable(symbol string) (size uint64, known bool)

	// Hold keeps the module on the device until Release, even after Unload. A queued launch holds its module.
	Hold()
	Release()

	// Unload removes the module. Idempotent; closing the device also unloads it.
	Unload()
}

// Launch is a kernel with its arguments: OpLaunch. The queue owns it until the operation is over.
type Launch struct {
	Module Module
	Code   [2]uintptr // the functions of its halves; 0: none
	Per    [2]uint32  // calls of each half per block
	Blocks uint32
	First  uint32 // number of the first block

	Grid, Threads [3]uint32 // of a SIMT launch; else 0

	// Args is the address of the arguments, Size bytes in device memory or, if Copied, in pinned memory that does not
	// change.
	Args   uintptr
	Size   uint64
	Copied bool
	Within bool // the arguments contain addresses of each other, so they stay in use until the operation is over

	ByAddress bool // the functions take only the address of the arguments, and fail if they do not return 0

	Together bool          // all blocks run at the same time
	Limit    time.Duration // the operation fails after that; 0: never
	Shared   uint32        // bytes of dynamic memory that the threads of a block share

	// Touched, if not nil, is called after the kernel has run with the memory that it reports as used.
	Touched func(list []kernel.Touch, all bool)

	// Seen, if not nil, is called after the kernel has run with the memory that it really used, and whether the list is
	// complete: whole pages of device memory, sorted, as far as the driver can see them (see kernel.Watch). It is
	// called before Over.
	Seen func(list []kernel.Touch, all bool)

	// Over, if not nil, gets the launch back when the operation has run, failed or been dropped. It replaces Op.Done,
	// which would have to be allocated.
	Over LaunchOwner
}

// CoreWork is the work of a core on one kernel: all blocks that it ran, one after another.
type CoreWork struct {
	Launch       *Launch // the kernel
	Core         int
	First        uint32 // first block; later ones have higher numbers
	Blocks       uint32 // number of blocks
	Began, Ended int64  // by the clock of Events
}

// LaunchOwner receives a launch that is over. The driver may hold locks: LaunchOver must not block or call a driver.
type LaunchOwner interface{ LaunchOver(l *Launch) }

// Return returns the launch to its owner.
func (l *Launch) Return() {
	if l.Over != nil {
		l.Over.LaunchOver(l)
	}
}

// lent replaces the owner in a lent copy of a launch.
type lent struct{ LaunchOwner }

func (lent) LaunchOver(*Launch) {}

// Lend returns a copy of the launch for the driver below, whose owner is not told when that driver has run it.
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

// KernelFailure is a way for a kernel to fail.
type KernelFailure uint8

// How kernels fail.
const (
	KernelException KernelFailure = iota // it did something illegal
	KernelTrap                           // it stopped itself
	KernelTimeout                        // it exceeded its time limit
	KernelMemory                         // it accessed unallocated device memory
)

// KernelError is the error of a failed launch.
type KernelError struct {
	Failure KernelFailure
	Launch  *Launch // not returned to its owner yet
	Program bool    // it is a step of a program
	Err     error   // details
}

func (e *KernelError) Error() string { return e.Err.Error() }

func (e *KernelError) Unwrap() error { return e.Err }
