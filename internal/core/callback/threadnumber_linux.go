package callback

import "syscall"

// threadNumber returns the operating system's number of the calling thread. It is only useful in a goroutine that is
// locked to its thread.
func threadNumber() int64 { return int64(syscall.Gettid()) }
