package callback

import "syscall"

// threadNumber is the operating system's number of the calling thread. A goroutine that may move to another one has
// no use for it.
func threadNumber() int64 { return int64(syscall.Gettid()) }
