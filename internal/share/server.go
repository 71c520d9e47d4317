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
	maxPeers     = 64                    // that are served at a time
	maxStrangers = 4                     // and of those that have nothing to expect
	peerPatience = time.Second           // for a question
	guessDelay   = 20 * time.Millisecond // before a refusal
	tries        = 64                    // to find a free name
	acceptPause  = 10 * time.Millisecond // when there are too many open files
)

// socketName is where the process with a tag listens: an abstract name, which is in no file system and goes with the socket.
func socketName(tag uint32) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("@ropeway-%05x", tag)}
}

// door is where others ask for what a broker exports.
type door struct {
	tag      uint32        // immutable
	broker   *Broker       // immutable
	listener *os.File      // immutable; a socket that listens
	shut     chan struct{} // closed by close

	mu        sync.Mutex
	peers     []*net.UnixConn // guarded by mu; those being served, the longest first
	strangers []*net.UnixConn // guarded by mu; the same of strangers, which only serve adds to
}

// open makes a door under a name that is free.
func (b *Broker) open() (*door, error) {
	var err error
	for range tries {
		var r [4]byte
		rand.Read(r[:]) //nolint:errcheck // it never fails
		tag := binary.LittleEndian.Uint32(r[:]) >> (32 - tagBits)
		if tag == 0 {
			continue // numbers of keys are not to be 0
		}
		var l *os.File
		if l, err = aside(func() (*os.File, error) { return listen(tag) }); err == nil {
			d := &door{tag: tag, broker: b, listener: l, shut: make(chan struct{})}
			b.serving.Go(d.serve)
			return d, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("share: cannot listen: %w", err)
}

// listen makes a socket that listens. It is no net.Listener because those make a connection of everything that comes.
func listen(tag uint32) (*os.File, error) {
	l, err := net.ListenUnix("unixpacket", socketName(tag))
	if err != nil {
		return nil, err
	}
	defer l.Close() //nolint:errcheck // the file goes on listening
	return l.File()
}

// close ends the serving; it does not wait for it.
func (d *door) close() {
	close(d.shut)
	d.listener.Close() //nolint:errcheck // nothing was written
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range append(d.peers, d.strangers...) {
		c.Close() //nolint:errcheck // it gets no answer
	}
}

// serve lets peers in until the door is closed, whatever they send.
func (d *door) serve() {
	for {
		c, who, err := accept(d.listener, d.welcome)
		if err == nil {
			if d.enter(c, d.broker.stranger(who)) {
				d.broker.serving.Go(func() {
					defer d.leave(c)
					d.talk(c, who)
				})
			}
			continue
		}
		select {
		case <-d.shut:
			return
		case <-time.After(acceptPause):
		}
	}
}

// stranger reports whether a peer can get nothing from this process, whatever it asks for: it is of another user, and on
// no white list. It is served, so that it learns why, but the others need not wait for it.
func (b *Broker) stranger(who peer) bool {
	if who.uid == uint32(os.Geteuid()) || who.uid == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.named[who.pid] == nil
}

// welcome reports whether a peer is served. Too many strangers are turned away before anything is done for them: whoever
// else comes is behind them in the kernel's queue.
func (d *door) welcome(who peer) bool {
	if !d.broker.stranger(who) {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.strangers) < maxStrangers
}

// enter takes a peer in; the longest of too many has to go. False if the door is closed.
func (d *door) enter(c *net.UnixConn, stranger bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.shut:
		c.Close() //nolint:errcheck // it gets no answer
		return false
	default:
	}
	if stranger {
		d.strangers = append(d.strangers, c)
		return true
	}
	if len(d.peers) == maxPeers {
		d.peers[0].Close() //nolint:errcheck // it gets no answer
		d.peers = slices.Delete(d.peers, 0, 1)
	}
	d.peers = append(d.peers, c)
	return true
}

func (d *door) leave(c *net.UnixConn) {
	c.Close() //nolint:errcheck // the peer has its answer, or gets none
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, list := range []*[]*net.UnixConn{&d.peers, &d.strangers} {
		if i := slices.Index(*list, c); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
		}
	}
}

// talk hears one question and answers it.
func (d *door) talk(c *net.UnixConn, who peer) {
	c.SetDeadline(time.Now().Add(peerPatience)) //nolint:errcheck // a connection that is closed fails below
	var b [questionLen + 1]byte
	n, err := c.Read(b[:]) // files that a peer sends along are dropped by the kernel
	if err != nil {
		return
	}
	q, ok := decodeQuestion(b[:n])
	if !ok {
		return
	}
	a, key, files := d.broker.judge(q, who)
	if a.status != granted {
		select {
		case <-d.shut:
			return
		case <-time.After(guessDelay):
		}
	}
	send(c, a.encode(key, q.nonce), files)
}

// judge decides on a question. Files are those to send; they may be closed meanwhile.
func (b *Broker) judge(q question, who peer) (answer, *Key, []*os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.exports[q.id]
	if x == nil || x.item.Kind != q.kind {
		return answer{status: unknown}, nil, nil
	}
	switch {
	case slices.ContainsFunc(x.allowed, func(p *process) bool { return p.pid == who.pid && p.alive() }):
	case !x.open:
		return answer{status: notNamed, value: uint32(who.pid)}, &x.key, nil
	case who.uid != uint32(os.Geteuid()) && who.uid != 0:
		return answer{status: otherUser, value: who.uid}, &x.key, nil
	}
	return answer{status: granted, files: len(x.item.Files), note: x.item.Note}, &x.key, slices.Clone(x.item.Files)
}
