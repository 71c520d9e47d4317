package pod

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var errNoFile = errors.New("pod: the owner sent no file of its memory")

// Processes on one machine are linked by Unix sockets if they have the same user, as reported by the kernel, and the
// same network namespace. If all servers of a pod are on this machine, no process listens on TCP. Memory is mapped, not
// sent: when it is opened, its owner gives a ticket for its file. Copies are then made in this process. The link still
// exists: it shows whether the owner lives, and copies fail if it does not.
//
// Names of abstract sockets are only visible in their namespace, so two namespaces of one machine count as two
// machines. Without the pod's key nobody can compute a name, or take it before its owner does.

const (
	nearInline = 2 << 20 // the caller of Write or Read copies up to this many bytes; goroutines copy more
	nearParts  = 4       // most goroutines of a copy
)

// isNear reports whether a server is on this machine, in this network namespace.
func (n *Node) isNear(s Server) bool {
	if n.config.Transport != TransportAuto {
		return false
	}
	_, ok := deviceOf(s.Address)
	return ok
}

// allNear reports whether all servers are on this machine.
func (n *Node) allNear() bool {
	for _, s := range n.config.Servers {
		if !n.isNear(s) {
			return false
		}
	}
	return true
}

// socketName returns the name of the Unix socket of a process.
func (n *Node) socketName(p place) string {
	h := hmac.New(sha256.New, n.config.key)
	fmt.Fprintf(h, "ropeway pod socket %d %d %d", n.config.Pod, p.server, p.port) //nolint:errcheck // a hash takes all
	return "@ropeway-pod-" + hex.EncodeToString(h.Sum(nil)[:16])
}

// keepFile keeps the file of an export for processes on this machine, if it contains nothing else and this process has
// nothing to do when they read or write.
func (x *Export) keepFile(f *os.File, offset uint64) {
	info, err := f.Stat()
	alone := err == nil && offset == 0 && uint64(info.Size()) == x.size
	if !alone || x.mirror != nil || x.wrote != nil || x.n.config.Transport != TransportAuto {
		return
	}
	if fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		x.file = os.NewFile(uintptr(fd), "pod memory")
	}
}

var errUser = errors.New("pod: a process of another user")

// receiveView maps the file for which the owner has sent a ticket in a.
func (l *link) receiveView(a *response) (*view, error) {
	var proof ticket
	if copy(proof[:], a.Proof) != len(proof) || len(a.Ticket) != len(proof) {
		return nil, errNoFile
	}
	deadline := time.Now().Add(l.n.config.Timeout)
	c, err := l.n.dialUnix(l.to, deadline)
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // only the file was received
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := c.Write(append([]byte(bulkMagic), a.Ticket...)); err != nil {
		return nil, err
	}
	answer, rights := make([]byte, len(proof)), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := c.ReadMsgUnix(answer, rights)
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
	if !proof.same(answer) {
		return nil, errNoFile
	}
	size := a.About.Size
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

// view is mapped memory of another process.
type view struct {
	bytes []byte       // immutable while users is not 0
	users atomic.Int64 // its Remote and running copies
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

// part copies bytes [begin, end) of a copy, counted over its segments.
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
