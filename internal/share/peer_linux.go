package share

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a connection.
type peer struct {
	pid int32 // 0 if it is in another pid namespace
	uid uint32
}

// peerOf returns the process that connected, as the kernel reports it.
func peerOf(c *net.UnixConn) (peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var u *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		u, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	}); err != nil {
		return peer{}, err
	}
	if failed != nil {
		return peer{}, failed
	}
	return peer{u.Pid, u.Uid}, nil
}

// wait waits until it can connect to the process that listens at a name; EAGAIN if that takes too long, EINTR after a
// signal. It waits in the kernel's queue, because processes in that queue overtake one that polls.
func wait(at *net.UnixAddr, patience time.Duration) (*net.UnixConn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "exporter") // blocking
	defer f.Close()                          //nolint:errcheck // the connection has its own
	limit := unix.NsecToTimeval(int64(max(patience, time.Millisecond)))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return nil, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: at.Name}); err != nil {
		return nil, err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// accept waits for a peer that is admitted. It closes others before it allocates anything for them, which takes a few
// microseconds each.
func accept(l *os.File, admits func(peer) bool) (*net.UnixConn, peer, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, peer{}, err
	}
	for {
		var fd int
		var failed error
		if err := raw.Read(func(listener uintptr) bool {
			fd, _, failed = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return failed != unix.EAGAIN
		}); err != nil {
			return nil, peer{}, err
		}
		if failed != nil {
			return nil, peer{}, failed
		}
		u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || !admits(peer{u.Pid, u.Uid}) {
			unix.Close(fd) //nolint:errcheck // nothing was written
			continue
		}
		f := os.NewFile(uintptr(fd), "peer")
		c, err := net.FileConn(f)
		f.Close() //nolint:errcheck // the connection has its own
		if err != nil {
			return nil, peer{}, err
		}
		return c.(*net.UnixConn), peer{u.Pid, u.Uid}, nil
	}
}

// hasEnded reports whether the process has certainly ended. Its end of the connection may still be open in a child
// that it forked.
func (p peer) hasEnded() bool { return p.pid > 0 && errors.Is(unix.Kill(int(p.pid), 0), syscall.ESRCH) }

// aside runs f while the descriptors of the standard streams are in use. In a process without standard streams, a
// file that f opens would get such a descriptor, and the program would print to it or replace it.
func aside[T any](f func() (T, error)) (T, error) {
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		defer unix.Close(fd) //nolint:errcheck // nothing was written
		if fd > syscall.Stderr {
			break
		}
	}
	return f()
}

// send writes one packet with files. If a file was closed, because its export was withdrawn, send sends nothing.
func send(c *net.UnixConn, text []byte, files []*os.File) {
	var fds []int
	var write func(rest []*os.File)
	write = func(rest []*os.File) {
		if len(rest) > 0 {
			if raw, err := rest[0].SyscallConn(); err == nil {
				raw.Control(func(fd uintptr) { // it stays open until the packet is written
					fds = append(fds, int(fd))
					write(rest[1:])
				})
			}
			return
		}
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		c.WriteMsgUnix(text, rights, nil) //nolint:errcheck // the peer may have gone
	}
	write(files)
}

// receive reads one packet with files, which the caller owns even on error. ErrGarbage if it is too large, EMFILE if
// this process cannot open the files.
func receive(c *net.UnixConn) ([]byte, []*os.File, error) {
	text := make([]byte, maxReply)
	rights := make([]byte, unix.CmsgSpace(4*MaxFiles))
	n, m, flags, _, err := c.ReadMsgUnix(text, rights)
	var files []*os.File
	if messages, err := unix.ParseSocketControlMessage(rights[:m]); err == nil {
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				continue
			}
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "shared"))
			}
		}
	}
	switch {
	case err != nil:
		return nil, files, err
	case n == 0:
		return nil, files, io.EOF
	case flags&unix.MSG_TRUNC != 0, flags&unix.MSG_CTRUNC != 0 && len(files) == MaxFiles:
		return nil, files, ErrGarbage
	case flags&unix.MSG_CTRUNC != 0: // the buffer was large enough
		return nil, files, syscall.EMFILE
	}
	return text[:n], files, nil
}

// process is a process on white lists.
type process struct {
	pid   int32
	fd    int    // a pidfd, which always refers to this process; -1 where the kernel has none
	began string // without a pidfd: start time, as text from the kernel
	lists int    // number of white lists that contain it
}

// openProcess returns a running process. ErrNoProcess.
func openProcess(pid int32) (*process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("%w: %d", ErrNoProcess, pid)
	}
	fd, err := aside(func() (int, error) { return unix.PidfdOpen(int(pid), 0) })
	switch {
	case err == nil:
		p := &process{pid: pid, fd: fd}
		if !p.alive() {
			p.close()
			return nil, fmt.Errorf("%w: %d has ended", ErrNoProcess, pid)
		}
		return p, nil
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EPERM): // an old kernel, or a sandbox
		began, err := Began(pid)
		if err != nil {
			return nil, fmt.Errorf("%w: %d", ErrNoProcess, pid)
		}
		return &process{pid: pid, fd: -1, began: began}, nil
	case errors.Is(err, syscall.ESRCH):
		return nil, fmt.Errorf("%w: %d", ErrNoProcess, pid)
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
		return nil, fmt.Errorf("%w: %d is a thread, not a process", ErrNoProcess, pid)
	}
	return nil, fmt.Errorf("share: process %d: %w", pid, err)
}

// alive reports whether the process has not ended.
func (p *process) alive() bool {
	if p.fd < 0 {
		now, err := Began(p.pid)
		return err == nil && now == p.began
	}
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}} // readable once it has ended
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}

func (p *process) close() {
	if p.fd >= 0 {
		unix.Close(p.fd) //nolint:errcheck // nothing was written
	}
}

// Began returns the start time of a process, which together with its number identifies it for ever. syscall.ESRCH if
// it has ended, even if its parent has not waited for it yet.
func Began(pid int32) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	return readStat(string(b))
}

// readStat is Began for the kernel's line about a process. A process whose first thread has ended continues with the
// others.
func readStat(line string) (began string, err error) {
	_, rest, _ := strings.Cut(line[max(0, strings.LastIndexByte(line, ')')):], " ")
	words := strings.Fields(rest)
	const state, threads, start = 0, 17, 19 // fields 3, 20 and 22 of the whole line
	switch {
	case len(words) <= start:
		return "", fmt.Errorf("share: the kernel says %q of a process", line)
	case words[state] == "X", words[state] == "Z" && (words[threads] == "0" || words[threads] == "1"):
		return "", syscall.ESRCH
	}
	return words[start], nil
}
