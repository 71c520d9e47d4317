package capitest

import (
	"os"
	"syscall"
)

// ended is the signal that ended a process, or nil.
func ended(s *os.ProcessState) os.Signal {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal()
	}
	return nil
}
