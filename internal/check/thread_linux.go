package check

import "golang.org/x/sys/unix"

// threadNumber is the system's number of the calling thread.
func threadNumber() uint32 { return uint32(unix.Gettid()) }
