package checkrun

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/finding"
	"ropeway/internal/ui"
)

// A reporter receives the records of processes. Its methods are called from several goroutines.
type reporter interface {
	connected(pid int) *sender
	record(from *sender, r *finding.Record)
	garbage(from *sender, why string)
}

// sender is a process that has connected.
type sender struct {
	process *finding.Process
	started bool             // it has sent Start, and will send End
	entries []*finding.Entry // entries of its findings, in the order of arrival
	told    []*finding.Entry // entries that the process prints itself
	bad     bool             // it sent an unreadable record, which was reported
	open    *finding.Finding // a finding that counts if the process ends without its last record
	fired   map[string]int   // number of injected faults, by the text of the injection
}

// listener is the socket to which the processes of one run send their records.
type listener struct {
	path   string
	socket *net.UnixListener
	to     reporter

	accepting chan struct{}  // closed when no more connections are taken
	talking   sync.WaitGroup // connections whose process will send more
	reading   sync.WaitGroup // connections
	mu        sync.Mutex
	open      map[*net.UnixConn]*sender
}

const (
	longestSocket = 107              // bytes of a path that fit the kernel's address of a socket
	longestRecord = 16 << 20         // bytes of a line
	lastWords     = 2 * time.Second  // time to listen to processes that outlive the program
	hangLimit     = 10 * time.Second // limit for operations that take no time unless something is broken
)

// socketDir makes a private directory whose files can be sockets. If the path of TMPDIR is too long, it uses the
// system's directory.
func socketDir() (dir string, err error) {
	for _, above := range []string{os.TempDir(), "/tmp", "/dev/shm"} {
		if above, err = filepath.Abs(above); err != nil { // the program may change its directory
			continue
		}
		if dir, err = os.MkdirTemp(above, "ropeway-check-"); err != nil {
			continue
		}
		if len(filepath.Join(dir, "report-1048576")) <= longestSocket {
			return dir, nil
		}
		os.Remove(dir)
		err = fmt.Errorf("the path of %s is too long for a socket", above)
	}
	return "", &ui.Advice{Err: err, Next: "set TMPDIR to a directory that can be written and has a short path"}
}

func listen(path string, to reporter) (*listener, error) {
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l := &listener{path: path, socket: socket, to: to, accepting: make(chan struct{}),
		open: map[*net.UnixConn]*sender{}}
	go l.accept()
	return l, nil
}

// accept takes connections until it meets the one of close, or until the socket is closed.
func (l *listener) accept() {
	defer close(l.accepting)
	for {
		c, err := l.socket.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(time.Millisecond) // no descriptor is free just now
			continue
		}
		pid := peer(c)
		if pid == os.Getpid() {
			c.Close()
			return
		}
		s := l.to.connected(pid)
		l.mu.Lock()
		l.open[c] = s
		l.mu.Unlock()
		l.talking.Add(1)
		l.reading.Go(func() {
			said := sync.OnceFunc(l.talking.Done)
			l.read(c, s, said)
			l.mu.Lock()
			delete(l.open, c) // before said: close counts open connections as alive
			l.mu.Unlock()
			c.Close()
			said()
		})
	}
}

// peer returns the process at the other end, 0 if the kernel does not say.
func peer(c *net.UnixConn) (pid int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Control(func(fd uintptr) { //nolint:errcheck // then pid stays 0
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// read reads records until the process ends. It calls said after the last record. The process may then live on or leave
// the connection to a forked child; closing it would be a signal to them.
func (l *listener) read(c io.Reader, s *sender, said func()) {
	in := bufio.NewReaderSize(c, 64<<10)
	for {
		line, tooLong, err := readLine(in)
		switch {
		case tooLong:
			l.to.garbage(s, fmt.Sprintf("a record of more than %d MiB", longestRecord>>20))
		case len(bytes.TrimSpace(line)) > 0:
			var r finding.Record
			if json.Unmarshal(line, &r) != nil {
				l.to.garbage(s, "something that is no record")
				break
			}
			lookUp(&r)
			l.to.record(s, &r)
			if r.End != nil {
				said()
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine reads a line of any length; one that is too long is read and dropped. The last line may have no end.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
		}
		if len(line) > longestRecord {
			line, tooLong = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// close waits until all records are read. Processes that outlive the program get a moment to end; it returns those that
// do not.
func (l *listener) close() (alive []*sender) {
	// Connections are queued in order: when ours is accepted, all earlier ones have been.
	if end, err := net.DialTimeout("unix", l.path, hangLimit); err == nil {
		select {
		case <-l.accepting:
		case <-time.After(hangLimit):
		}
		end.Close()
	}
	l.socket.Close()
	<-l.accepting
	done := make(chan struct{})
	go func() { l.talking.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(lastWords):
	}
	l.mu.Lock()
	for c, s := range l.open {
		alive = append(alive, s)
		c.Close()
	}
	l.mu.Unlock()
	l.reading.Wait()
	return slices.DeleteFunc(alive, func(s *sender) bool { return s.process.Ended })
}
