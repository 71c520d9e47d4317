package libcuda

import (
	"runtime"

	"golang.org/x/sys/unix"

	"ropeway/internal/dl"
)

// ownFaults is the mask of signals for faults of a thread itself.
const ownFaults = 1<<(unix.SIGILL-1) | 1<<(unix.SIGTRAP-1) | 1<<(unix.SIGBUS-1) |
	1<<(unix.SIGFPE-1) | 1<<(unix.SIGSEGV-1)

// unsignalled calls a function of libcuda that may start threads, with signals blocked. The threads inherit the mask of
// the caller, which may be a thread of a C program: otherwise signals that the program blocks later, to wait for them,
// would be delivered to these threads and end the program.
func unsignalled(call func() Result) Result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.Sigset_t
	all := unix.Sigset_t{Val: [len(before.Val)]uint64{^uint64(ownFaults)}}
	if unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) //nolint:errcheck // it was so before
	}
	return call()
}

// keysNeeded is the number of free pthread keys required, more than libcuda is likely to take.
const keysNeeded = 16

// keysLeft reports whether the process has that many. libcuda crashes if it gets none.
func keysLeft() bool {
	process := dl.Process()
	create, err := process.Symbol("pthread_key_create")
	if err != nil {
		return true // unknown
	}
	remove, err := process.Symbol("pthread_key_delete")
	if err != nil {
		return true
	}
	o := getOuts()
	defer o.done()
	for range keysNeeded {
		if int32(dl.Call(create, o.at(0), 0)) != 0 {
			return false
		}
		defer dl.Call(remove, uintptr(o.int32(0)))
	}
	return true
}
