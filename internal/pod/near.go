package pod

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var errNoFile = errors.New("pod: the owner sent no file of its memory")

// Memory of a process of the same user in the same network namespace is mapped, not sent: when it is opened, its owner
// passes the file that it is in over a Unix socket. Copies are then copies in this process. The link is there all the
// same: it says whether the owner lives, and copies fail when it does not.
//
//	importer                                                        owner
//	listens on a random name ── open, with that name, over TLS ──→  connects, compares users, sends the file
//	compares users, maps it  ←── the file ─────────────────────────
//
// Names in the abstract space reach no further than the namespace, so that two namespaces of one machine are two
// machines. Both sides ask the kernel for the other's user: one that may trace the owner could read its memory anyway.

const (
	nearPrefix = "ropeway-pod-"
	nearName   = len(nearPrefix) + 2*len(token{})
	nearInline = 2 << 20 // bytes that are copied by the caller of Write or Read; more by goroutines
	nearParts  = 4       // goroutines of a copy at most
)

// nearAllowed reports whether memory may be mapped: an answer for UCX's shared memory is one for ours.
func nearAllowed() bool { return wanted("all", "sm", "shm", "mm", "posix", "sysv") }

// wanted reports whether UCX_TLS, which is the transports that the user wants if it is set, has one of these.
func wanted(names ...string) bool {
	list, set := os.LookupEnv("UCX_TLS")
	if !set {
		return true
	}
	list, without := strings.CutPrefix(list, "^")
	named := false
	for name := range strings.SplitSeq(list, ",") {
		named = named || slices.Contains(names, name)
	}
	return named != without
}

// isNear reports whether a server is on this machine, in this network namespace.
func (n *Node) isNear(id int) bool {
	s, ok := n.config.server(id)
	if !ok || !nearAllowed() {
		return false
	}
	_, ok = deviceOf(s.Address)
	return ok
}

// keepFile keeps the file of an export for processes that are near, if there is nothing else in it and nothing has to
// be done here when they read or write.
func (x *Export) keepFile(f *os.File, offset uint64) {
	info, err := f.Stat()
	alone := err == nil && offset == 0 && uint64(info.Size()) == x.size
	if !alone || x.mirror != nil || x.wrote != nil || !nearAllowed() {
		return
	}
	if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		x.file = os.NewFile(uintptr(fd), "pod memory")
	}
}

// sendFile sends the file of the export to the socket that an importer has named, and reports whether it did. The
// importer has the export open.
func (x *Export) sendFile(name string, limit time.Duration) bool {
	random, ok := strings.CutPrefix(name, nearPrefix)
	if _, err := hex.DecodeString(random); !ok || err != nil || len(name) != nearName || x.file == nil {
		return false
	}
	c, err := net.DialTimeout("unix", "@"+name, limit)
	if err != nil {
		return false // in another namespace
	}
	defer c.Close() //nolint:errcheck // what counts was written
	u := c.(*net.UnixConn)
	if sameUser(u) != nil || u.SetDeadline(time.Now().Add(limit)) != nil {
		return false
	}
	_, _, err = u.WriteMsgUnix([]byte{0}, unix.UnixRights(int(x.file.Fd())), nil)
	return err == nil
}

var errUser = errors.New("pod: a process of another user")

// listenNear makes a socket to receive a file at, and its name; nil where there cannot be one.
func listenNear() (l *net.UnixListener, name string) {
	random := newToken()
	name = nearPrefix + hex.EncodeToString(random[:])
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		return nil, ""
	}
	return l, name
}

// receiveView maps the file that the owner has sent, which has size bytes.
func receiveView(l *net.UnixListener, size uint64, limit time.Duration) (*view, error) {
	if err := l.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	c, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // it was only read
	if err := sameUser(c); err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	var one [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(one[:], rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errNoFile, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errNoFile, err)
	}
	unix.CloseOnExec(fds[0])
	f := os.NewFile(uintptr(fds[0]), "pod memory")
	defer f.Close() //nolint:errcheck // the mapping stays
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if uint64(info.Size()) != size {
		return nil, fmt.Errorf("pod: the file of the memory has %d bytes instead of %d", info.Size(), size)
	}
	b, err := mapFile(f, 0, size)
	if err != nil {
		return nil, err
	}
	v := &view{bytes: b}
	v.users.Store(1)
	return v, nil
}

// view is memory of another process, mapped here.
type view struct {
	bytes []byte       // immutable until nobody uses it
	users atomic.Int64 // its Remote, and copies
}

func (v *view) release() {
	if v != nil && v.users.Add(-1) == 0 {
		unmap(v.bytes)
	}
}

// copy carries out a copy, which counts as a user of v.
func (v *view) copy(t *transfer) {
	total := uint64(0)
	for i := range t.segs {
		total += t.segs[i].N
	}
	parts := min(total/nearInline, nearParts, uint64(runtime.GOMAXPROCS(0)))
	if parts == 0 {
		err := v.part(t, 0, total)
		v.release()
		t.done(err)
		return
	}
	var left atomic.Int64
	var failed atomic.Pointer[error]
	left.Store(int64(parts))
	for i := range parts {
		go func() {
			if err := v.part(t, total*i/parts, total*(i+1)/parts); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
			if left.Add(-1) > 0 {
				return
			}
			v.release()
			var err error
			if p := failed.Load(); p != nil {
				err = *p
			}
			t.done(err)
		}()
	}
}

// part copies the bytes from begin to end of a copy, counted over its segments.
func (v *view) part(t *transfer, begin, end uint64) error {
	return guard(func() {
		at := uint64(0)
		for i := range t.segs {
			s := &t.segs[i]
			if at >= end {
				return
			}
			from, upto := max(begin, at)-at, min(end, at+s.N)-at
			if at += s.N; at <= begin {
				continue
			}
			there, here := addressOf(v.bytes)+uintptr(s.Offset+from), s.Local+uintptr(from)
			if t.write {
				move(there, here, upto-from)
			} else {
				move(here, there, upto-from)
			}
		}
	})
}
