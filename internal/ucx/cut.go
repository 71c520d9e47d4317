package ucx

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cut ends the TCP connections of the worker. Its endpoint is closed next. Over TCP that sends a last message to the
// other side, and does not return before the kernel has taken it: never, if the other side is alive, reads nothing and
// the connection is full. On a connection that has ended, sending fails at once.
//
// UCX does not say which connections a worker has. They are in the epoll sets that its descriptor watches.
func (w *Worker) cut() {
	top, err := w.FD()
	if err != nil {
		return
	}
	for _, set := range watched(top) {
		for _, fd := range watched(set) {
			// A descriptor that is no connection refuses.
			unix.Shutdown(fd, unix.SHUT_RDWR) //nolint:errcheck // nothing is left to do
		}
	}
}

// watched is which descriptors an epoll descriptor watches; none if it is something else.
func watched(epoll int) (list []int) {
	f, err := os.Open(fmt.Sprintf("/proc/self/fdinfo/%d", epoll))
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "tfd:"); ok {
			if fields := strings.Fields(text); len(fields) > 0 {
				if fd, err := strconv.Atoi(fields[0]); err == nil {
					list = append(list, fd)
				}
			}
		}
	}
	return list
}
