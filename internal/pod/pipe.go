package pod

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipe is a connection that carries copies: TLS over a socket, or the socket itself. Each direction is used by one
// goroutine at a time.
type pipe struct {
	raw   *counted // closing it ends both directions
	r     *bufio.Reader
	w     *bufio.Writer
	plain syscall.Conn // the socket; nil if there is TLS over it

	in         [][]byte // buffer of the goroutine that reads
	parts, out [][]byte // buffers of the goroutine that writes
	head       []byte   // likewise
}

const (
	pipeBuffer = 32 << 10 // bytes; longer reads and writes bypass the buffers
	wordMost   = 64       // most bytes that are copied atomically, so that a word is not torn
	mostParts  = 1024     // most parts of one system call
	partLeast  = 1 << 10  // least average bytes of parts that are sent without copying them first
)

// newPipe returns a pipe over c, which is raw or TLS over it.
func newPipe(raw *counted, c net.Conn) *pipe {
	p := &pipe{raw: raw, r: bufio.NewReaderSize(c, pipeBuffer), w: bufio.NewWriterSize(c, pipeBuffer)}
	if c == net.Conn(raw) {
		p.plain, _ = inner(raw.Conn).(syscall.Conn)
	}
	return p
}

// counted counts the bytes of a connection, in both directions.
type counted struct {
	net.Conn
	moved atomic.Uint64
}

// Read implements net.Conn.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.moved.Add(uint64(n))
	return n, err
}

// Write implements net.Conn. It counts a long write piece by piece, so that a slow one shows progress.
func (c *counted) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = c.Conn.Write(b[n:min(len(b), n+pieceMost)])
		n += k
		c.moved.Add(uint64(k))
	}
	return n, err
}

// send writes a header, a list, and data in parts, which it may send without a copy. It does not keep the parts.
func (p *pipe) send(h *header, list []byte, parts [][]byte) error {
	var b [headerSize]byte
	h.put(&b)
	p.head = append(append(p.head[:0], b[:]...), list...)
	if p.plain != nil && len(parts) > 0 && h.length >= max(pipeBuffer, uint64(len(parts))*partLeast) &&
		p.w.Buffered() == 0 {
		return p.sendInPlace(parts)
	}
	_, err := p.w.Write(p.head)
	for i := 0; i < len(parts) && err == nil; i++ {
		_, err = p.w.Write(parts[i])
	}
	return err
}

// sendInPlace writes head and parts by as few system calls as possible.
func (p *pipe) sendInPlace(parts [][]byte) error {
	var rest []byte // rest of a long part, written piece by piece, so that a slow connection shows progress
	p.out = append(append(p.out[:0], p.head), parts...)
	if len(parts) == 1 && len(parts[0]) > pieceMost {
		p.out[1], rest = parts[0][:pieceMost], parts[0][pieceMost:]
	}
	b := net.Buffers(p.out)
	n, err := b.WriteTo(inner(p.raw.Conn))
	p.raw.moved.Add(uint64(n))
	clear(p.out)
	if err == nil && len(rest) > 0 {
		_, err = p.raw.Write(rest)
	}
	return err
}

// receive reads a header.
func (p *pipe) receive() (h header, err error) {
	b, err := p.r.Peek(headerSize)
	if err != nil {
		return h, err
	}
	h, ok := getHeader(b)
	if !ok {
		return h, errAnswer
	}
	_, err = p.r.Discard(headerSize)
	return h, err
}

// readParts reads to each of parts, which it changes, and subtracts the bytes read from left.
func (p *pipe) readParts(parts [][]byte, left *uint64) (err error) {
	large := *left >= uint64(len(parts))*partLeast
	for len(parts) > 0 && err == nil {
		n, to := 0, parts[0]
		switch {
		case len(to) <= wordMost:
			var b []byte
			if b, err = p.r.Peek(len(to)); err == nil {
				n = copy(to, b)
				_, err = p.r.Discard(n)
			}
		case large && len(parts) > 1 && p.plain != nil && p.r.Buffered() == 0:
			n, err = p.readv(parts)
		default:
			n, err = p.r.Read(to)
		}
		*left -= uint64(n)
		for ; len(parts) > 0 && n >= len(parts[0]); parts = parts[1:] {
			n -= len(parts[0])
		}
		if n > 0 {
			parts[0] = parts[0][n:]
		}
	}
	return err
}

// readv reads to the parts before the first short one with one system call.
func (p *pipe) readv(parts [][]byte) (n int, err error) {
	for i, b := range parts {
		if len(b) <= wordMost || i == mostParts {
			parts = parts[:i]
			break
		}
	}
	raw, err := p.plain.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Read(func(fd uintptr) bool {
		for n, err = unix.Readv(int(fd), parts); err == unix.EINTR; {
			n, err = unix.Readv(int(fd), parts)
		}
		return err != unix.EAGAIN
	})
	switch {
	case failed != nil:
		return 0, failed
	case err != nil:
		return 0, os.NewSyscallError("readv", err)
	case n == 0:
		return 0, io.EOF
	}
	p.raw.moved.Add(uint64(n))
	return n, nil
}

// drain reads n bytes and drops them.
func (p *pipe) drain(n uint64) error {
	_, err := io.CopyN(io.Discard, p.r, int64(n))
	return err
}

// stall calls fail if there is work and no byte has moved on any pipe for limit. An idle stall has no running timer.
type stall struct {
	limit time.Duration // immutable
	fail  func(error)   // immutable; called with no lock held

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil before the first work
	armed bool        // guarded by mu; the timer runs
	work  int         // guarded by mu; number of begun works that have not ended
	pipes []*pipe     // guarded by mu
	moved uint64      // guarded by mu; bytes at the last tick
	since time.Time   // guarded by mu; time of the last progress
}

// begin records the start of work.
func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.work++; s.work > 1 {
		return
	}
	if s.since = time.Now(); s.armed {
		return
	}
	s.armed = true
	if s.timer == nil {
		s.timer = time.AfterFunc(s.limit/4, s.tick)
	} else {
		s.timer.Reset(s.limit / 4)
	}
}

// end records the end of work.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.work--
}

// add makes s watch a pipe.
func (s *stall) add(p *pipe) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipes = append(s.pipes, p)
}

// stop ends the timer.
func (s *stall) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = true // keeps begin from starting it
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *stall) tick() {
	s.mu.Lock()
	moved, now := uint64(0), time.Now()
	for _, p := range s.pipes {
		moved += p.raw.moved.Load()
	}
	if moved != s.moved {
		s.moved, s.since = moved, now
	}
	late := s.work > 0 && now.Sub(s.since) >= s.limit
	switch {
	case late:
	case s.work > 0:
		s.timer.Reset(s.limit / 4)
	default:
		s.armed = false
	}
	s.mu.Unlock()
	if late {
		s.fail(fmt.Errorf("%w for %v", ErrTimeout, s.limit))
	}
}
