package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What is asked for, as capi/shim/process.h numbers it.
const (
	askInit = iota + 1
	askMap
	askUnmap
	askLoad
	askSymbol
	askClose
	askFork
	askKill
	askRun
	askStop
)

// mostData is how many pieces the variables of an object are in.
const mostData = 8

// request is ropeway_asked of capi/shim/process.h, without the text.
type request struct{ ID, What, A, B, C, D uint64 }

// reply is ropeway_answer of capi/shim/process.h.
type reply struct {
	ID     uint64
	Error  int64
	Result uint64
	Count  uint64
	Data   [mostData][2]uint64
	Text   [512]byte
}

// answered is a reply with the files that came with it, which are the receiver's.
type answered struct {
	reply
	files []int
}

// err is why it was not done.
func (a *answered) err() error {
	text, _, _ := bytes.Cut(a.Text[:], []byte{0})
	switch {
	case a.Error == 0:
		return nil
	case len(text) > 0:
		return errors.New(string(text))
	}
	return syscall.Errno(a.Error)
}

// errGone says that a process has ended.
var errGone = errors.New("the process that runs kernels has ended")

// peer is the other end of a socket: the keeper, or a process that runs kernels.
type peer struct {
	conn  *net.UnixConn
	ended func(pid uint64) // immutable; is called when the keeper reports the end of a process; may be nil

	mu      sync.Mutex
	id      uint64                   // guarded by mu; of the last request
	waiting map[uint64]chan answered // guarded by mu; nil: the process has ended
}

// newPeer makes a pair of sockets, and returns our end and the other, which is the caller's to close.
func newPeer(ended func(uint64)) (*peer, int, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	f := os.NewFile(uintptr(ends[0]), "ropeway-kernels")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		unix.Close(ends[1])
		return nil, -1, err
	}
	p := &peer{conn: c.(*net.UnixConn), ended: ended, waiting: map[uint64]chan answered{}}
	go p.read()
	return p, ends[1], nil
}

// read hands out replies until the process has ended.
func (p *peer) read() {
	buffer, control := make([]byte, binary.Size(reply{})), make([]byte, unix.CmsgSpace(4*mostData))
	for {
		n, m, _, _, err := p.conn.ReadMsgUnix(buffer, control)
		if err != nil || n < len(buffer) {
			break
		}
		var a answered
		binary.Decode(buffer, binary.NativeEndian, &a.reply) //nolint:errcheck // it has the right size
		a.files = filesOf(control[:m])
		if a.ID == 0 && p.ended != nil {
			p.ended(a.Result)
			continue
		}
		p.mu.Lock()
		c := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if c != nil {
			c <- a
		} else {
			closeAll(a.files)
		}
	}
	p.conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.waiting {
		close(c)
	}
	p.waiting = nil
}

func filesOf(control []byte) (files []int) {
	list, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for i := range list {
		if fds, err := unix.ParseUnixRights(&list[i]); err == nil {
			files = append(files, fds...)
		}
	}
	for _, fd := range files {
		unix.CloseOnExec(fd)
	}
	return files
}

func closeAll(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

// send asks for something, and returns where the reply will come; that is closed if the process ends first.
func (p *peer) send(q request, text string, files ...int) (chan answered, error) {
	c := make(chan answered, 1)
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return nil, errGone
	}
	p.id++
	q.ID = p.id
	p.waiting[q.ID] = c
	p.mu.Unlock()
	b, _ := binary.Append(nil, binary.NativeEndian, &q) //nolint:errcheck // it has a fixed size
	if text != "" {
		b = append(append(b, text...), 0)
	}
	var control []byte
	if len(files) > 0 {
		control = unix.UnixRights(files...)
	}
	if _, _, err := p.conn.WriteMsgUnix(b, control, nil); err != nil {
		p.mu.Lock()
		delete(p.waiting, q.ID)
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: %v", errGone, err)
	}
	return c, nil
}

// ask asks for something and waits for the reply.
func (p *peer) ask(q request, text string, files ...int) (answered, error) {
	c, err := p.send(q, text, files...)
	if err != nil {
		return answered{}, err
	}
	a, ok := <-c
	if !ok {
		return answered{}, errGone
	}
	return a, a.err()
}

// gone says that the process has ended. What it sent before is still read; another process may have its end of the
// socket, so waiting for the end of that is no use.
func (p *peer) gone() {
	const enough = time.Second
	p.conn.SetReadDeadline(time.Now().Add(enough)) //nolint:errcheck // else it was closed
}

// close ends the connection, and with it the process.
func (p *peer) close() { p.conn.Close() }
