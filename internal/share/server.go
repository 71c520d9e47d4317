package share

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	maxPeers     = 64                    // peers served at a time
	maxStrangers = 4                     // strangers served at a time
	peerPatience = time.Second           // for a request
	guessDelay   = 20 * time.Millisecond // before a refusal
	tries        = 64                    // to find a free name
	acceptPause  = 10 * time.Millisecond // if there are too many open files
)

// socketName returns the name at which the process with a tag listens: an abstract name, which is not in a file
// system and disappears with the socket.
func (b *Broker) socketName(tag uint32) *net.UnixAddr {
	name := fmt.Sprintf("@ropeway-%05x", tag)
	if b.Realm != 0 {
		name += fmt.Sprintf("-%d", b.Realm)
	}
	return &net.UnixAddr{Net: "unixpacket", Name: name}
}

// server serves the exports of a broker to other processes.
type server struct {
	tag      uint32        // immutable
	broker   *Broker       // immutable
	listener *os.File      // immutable; a socket that listens
	shut     chan struct{} // closed by close

	mu        sync.Mutex
	peers     []*net.UnixConn // guarded by mu; peers being served, the oldest first
	strangers []*net.UnixConn // guarded by mu; strangers being served; only serve appends
}

// open creates a server under a free name.
func (b *Broker) open() (*server, error) {
	var err error
	for range tries {
		var r [4]byte
		rand.Read(r[:]) //nolint:errcheck // it never fails
		tag := binary.LittleEndian.Uint32(r[:]) >> (32 - tagBits)
		if tag == 0 {
			continue // numbers of keys must not be 0
		}
		var l *os.File
		if l, err = aside(func() (*os.File, error) { return listen(b.socketName(tag)) }); err == nil {
			s := &server{tag: tag, broker: b, listener: l, shut: make(chan struct{})}
			b.serving.Go(s.serve)
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("share: cannot listen: %w", err)
}

// listen returns a listening socket. It is not a net.Listener, because a net.Listener allocates a connection for
// every peer.
func listen(at *net.UnixAddr) (*os.File, error) {
	l, err := net.ListenUnix("unixpacket", at)
	if err != nil {
		return nil, err
	}
	defer l.Close() //nolint:errcheck // the file continues to listen
	return l.File()
}

// close ends the server; it does not wait for its goroutines.
func (s *server) close() {
	close(s.shut)
	s.listener.Close() //nolint:errcheck // nothing was written
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range append(s.peers, s.strangers...) {
		c.Close() //nolint:errcheck // it gets no reply
	}
}

// serve serves peers until the server is closed, whatever they send.
func (s *server) serve() {
	for {
		c, from, err := accept(s.listener, s.admits)
		if err == nil {
			if s.enter(c, s.broker.stranger(from)) {
				s.broker.serving.Go(func() {
					defer s.leave(c)
					s.handle(c, from)
				})
			}
			continue
		}
		select {
		case <-s.shut:
			return
		case <-time.After(acceptPause):
		}
	}
}

// stranger reports whether every request of a peer would be refused: it belongs to another user and is not on a white
// list. It is served, so that it gets a reason, but other peers do not wait for it.
func (b *Broker) stranger(from peer) bool {
	if from.uid == uint32(os.Geteuid()) || from.uid == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.named[from.pid] == nil
}

// admits reports whether a peer is served. If there are too many strangers, further ones are rejected before anything
// is allocated for them; peers that connect later wait in the kernel's queue.
func (s *server) admits(from peer) bool {
	if !s.broker.stranger(from) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.strangers) < maxStrangers
}

// enter adds a peer. If there are too many, it closes the one served longest. False if the server is closed.
func (s *server) enter(c *net.UnixConn, stranger bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.shut:
		c.Close() //nolint:errcheck // it gets no reply
		return false
	default:
	}
	if stranger {
		s.strangers = append(s.strangers, c)
		return true
	}
	if len(s.peers) == maxPeers {
		s.peers[0].Close() //nolint:errcheck // it gets no reply
		s.peers = slices.Delete(s.peers, 0, 1)
	}
	s.peers = append(s.peers, c)
	return true
}

func (s *server) leave(c *net.UnixConn) {
	c.Close() //nolint:errcheck // the peer has its reply, or gets none
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range []*[]*net.UnixConn{&s.peers, &s.strangers} {
		if i := slices.Index(*list, c); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
}

// handle reads one request and replies.
func (s *server) handle(c *net.UnixConn, from peer) {
	c.SetDeadline(time.Now().Add(peerPatience)) //nolint:errcheck // a connection that is closed fails below
	var b [requestLen + 1]byte
	n, err := c.Read(b[:]) // files that a peer sends along are dropped by the kernel
	if err != nil {
		return
	}
	q, ok := decodeRequest(b[:n])
	if !ok {
		return
	}
	a, key, files := s.broker.decide(q, from)
	if a.status != granted {
		select {
		case <-s.shut:
			return
		case <-time.After(guessDelay):
		}
	}
	send(c, a.encode(key, q.nonce), files)
}

// decide decides on a request. The files are to be sent; a withdrawal may close them before that.
func (b *Broker) decide(q request, from peer) (reply, *Key, []*os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.exports[q.id]
	if x == nil || x.item.Kind != q.kind {
		return reply{status: unknown}, nil, nil
	}
	switch {
	case slices.ContainsFunc(x.allowed, func(p *process) bool { return p.pid == from.pid && p.alive() }):
	case !x.open:
		return reply{status: notNamed, value: uint32(from.pid)}, &x.key, nil
	case from.uid != uint32(os.Geteuid()) && from.uid != 0:
		return reply{status: otherUser, value: from.uid}, &x.key, nil
	}
	return reply{status: granted, files: len(x.item.Files), note: x.item.Note}, &x.key, slices.Clone(x.item.Files)
}
