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
	tag      uint32            // immutable
	broker   *Broker           // immutable
	listener *net.UnixListener // immutable
	shut     chan struct{}     // closed by close

	mu    sync.Mutex
	peers []*net.UnixConn // guarded by mu; those being served, the longest first
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
		var l *net.UnixListener
		if l, err = aside(func() (*net.UnixListener, error) { return net.ListenUnix("unixpacket", socketName(tag)) }); err == nil {
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

// close ends the serving; it does not wait for it.
func (d *door) close() {
	close(d.shut)
	d.listener.Close() //nolint:errcheck // nothing was written
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.peers {
		c.Close() //nolint:errcheck // it gets no answer
	}
}

// serve lets peers in until the door is closed, whatever they send.
func (d *door) serve() {
	for {
		c, err := d.listener.AcceptUnix()
		if err == nil {
			if d.enter(c) {
				d.broker.serving.Go(func() {
					defer d.leave(c)
					d.talk(c)
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

// enter takes a peer in; the longest of too many has to go. False if the door is closed.
func (d *door) enter(c *net.UnixConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.shut:
		c.Close() //nolint:errcheck // it gets no answer
		return false
	default:
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
	if i := slices.Index(d.peers, c); i >= 0 {
		d.peers = slices.Delete(d.peers, i, i+1)
	}
}

// talk hears one question and answers it.
func (d *door) talk(c *net.UnixConn) {
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
	who, err := peerOf(c)
	if err != nil {
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
