//go:build !linux

package callback

// threadNumber returns 0: there is no portable number of a thread.
func threadNumber() int64 { return 0 }
