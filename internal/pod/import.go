package pod

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// link is the way to one other process. It is there while something of it is imported.
type link struct {
	n     *Node    // immutable
	to    place    // immutable
	conn  net.Conn // immutable
	e     *engine  // immutable
	users int      // guarded by Node.mu

	mu     sync.Mutex // held over a request and its response
	failed chan struct{}
	once   sync.Once
	why    error // written before failed is closed

	responses chan response // of one
}

// Remote is memory of another server. Methods may be called concurrently.
type Remote struct {
	n      *Node  // immutable
	handle Handle // immutable
	About         // immutable

	opening sync.Mutex // held over a change of link, which takes a while

	mu     sync.Mutex
	link   *link  // guarded by mu
	share  uint64 // guarded by mu; number of the memory on link
	near   *view  // guarded by mu; nil: copies go over link
	closed bool   // guarded by mu
}

// Import opens memory of another server. It takes as long as the pod's timeout at most.
func (n *Node) Import(h Handle) (*Remote, error) {
	if h.Pod != n.config.Pod {
		return nil, fmt.Errorf("%w: it is a handle of pod %d, this is pod %d", ErrUnknown, h.Pod, n.config.Pod)
	}
	o, err := n.openAt(h, false)
	if err != nil {
		return nil, err
	}
	return &Remote{n: n, handle: h, About: o.about, link: o.link, share: o.share, near: o.near}, nil
}

// opened is memory that was opened.
type opened struct {
	link  *link // with one user more
	share uint64
	about About
	near  *view
}

// dropOpened gives it up, without a word to its owner.
func (n *Node) dropOpened(o opened) {
	o.near.release()
	n.drop(o.link)
}

// openAt opens memory on a link to its process, which it makes if there is none. again: it was open before.
func (n *Node) openAt(h Handle, again bool) (o opened, err error) {
	if o.link, err = n.linkTo(place{h.Server, h.Port}); err != nil {
		return o, err
	}
	ask := request{Do: doOpen, Secret: h.Secret[:], Again: again}
	var near *net.UnixListener
	if n.isNear(int(h.Server)) {
		if near, ask.Near = listenNear(); near != nil {
			defer near.Close() //nolint:errcheck // nothing was written
		}
	}
	a, err := o.link.ask(ask)
	if err == nil {
		switch a.Refused {
		case "":
			o.share, o.about = a.Share, a.About
			if a.Near && near != nil {
				o.near, _ = receiveView(near, a.About.Size, n.config.Timeout) // without it copies go over the link
			}
			return o, nil
		case wordNotAllowed:
			err = fmt.Errorf("%w, %d", ErrNotAllowed, n.pid)
		default:
			err = ErrUnknown
		}
	}
	n.drop(o.link)
	return o, err
}

// linkTo is the link to a process, with one user more.
func (n *Node) linkTo(to place) (*link, error) {
	for {
		n.mu.Lock()
		if l := n.links[to]; l != nil && l.alive() {
			l.users++
			n.mu.Unlock()
			return l, nil
		}
		d := n.dialing[to]
		if d == nil {
			d = &dialing{done: make(chan struct{})}
			n.dialing[to] = d
			n.mu.Unlock()
			return n.makeLink(to, d)
		}
		n.mu.Unlock()
		if <-d.done; d.err != nil {
			return nil, d.err
		}
	}
}

// makeLink makes the link to a process, for all who wait for it.
func (n *Node) makeLink(to place, d *dialing) (*link, error) {
	l, err := n.dial(to)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && n.closed {
		l.fail(ErrClosed)
		err = ErrClosed
	}
	delete(n.dialing, to)
	d.err = err
	close(d.done)
	if err != nil {
		return nil, err
	}
	l.users = 1
	n.links[to] = l
	return l, nil
}

// drop gives a use of a link up. The last one ends it.
func (n *Node) drop(l *link) {
	n.mu.Lock()
	l.users--
	last := l.users == 0
	if last && n.links[l.to] == l {
		delete(n.links, l.to)
	}
	n.mu.Unlock()
	if last {
		l.fail(ErrClosed)
	}
}

// What is done about connections that the other side ends before it has said anything: it has many of strangers, and
// no room.
const (
	dialTries = 6
	dialPause = 10 * time.Millisecond // before the second; before each later one twice as long
)

// dial makes a link.
func (n *Node) dial(to place) (l *link, err error) {
	server, ok := n.config.server(int(to.server))
	if !ok {
		return nil, fmt.Errorf("%w: the pod has no server %d", ErrUnknown, to.server)
	}
	limit, begin := n.config.Timeout, time.Now()
	for try := range dialTries {
		if try > 0 {
			select {
			case <-n.ctx.Done():
				return nil, ErrClosed
			case <-time.After(dialPause << (try - 1)):
			}
		}
		if l, err = n.dialOnce(to, server.Address); err == nil {
			return l, nil
		}
		if !errors.Is(err, errDropped) || time.Since(begin) > limit {
			break
		}
	}
	switch {
	case errors.Is(err, ErrHere), errors.Is(err, ErrClosed):
		return nil, err
	case errors.Is(err, errKey):
		return nil, fmt.Errorf("%w: server %d has another key", ErrGone, to.server)
	case isTimeout(err):
		return nil, fmt.Errorf("%w for %v: server %d", ErrTimeout, limit, to.server)
	}
	return nil, fmt.Errorf("%w: server %d: %w", ErrGone, to.server, err)
}

// errDropped is how a connection ends that the other side has taken and ended without a word.
var errDropped = errors.New("it ends the connection")

// dialOnce makes a link by one connection.
func (n *Node) dialOnce(to place, at netip.Addr) (*link, error) {
	limit := n.config.Timeout
	d := net.Dialer{Timeout: limit}
	raw, err := d.DialContext(n.ctx, "tcp", net.JoinHostPort(at.String(), strconv.Itoa(int(to.port))))
	if err != nil {
		return nil, err
	}
	raw = notInherited(raw)
	l := &link{n: n, to: to, failed: make(chan struct{}), responses: make(chan response, 1)}
	c := tls.Client(raw, n.tls)
	l.conn = c
	err = l.greet(raw, c, limit)
	if err == nil {
		return l, nil
	}
	c.Close() //nolint:errcheck // it is of no use
	if l.e != nil {
		l.e.close(ErrClosed)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil, fmt.Errorf("%w: %w", errDropped, err)
	}
	return nil, err
}

// greet proves the key and exchanges the addresses of the workers.
func (l *link) greet(raw net.Conn, c *tls.Conn, limit time.Duration) (err error) {
	raw.SetDeadline(time.Now().Add(limit)) //nolint:errcheck // a connection that is closed fails below
	if err := c.HandshakeContext(l.n.ctx); err != nil {
		return err
	}
	if l.e, err = l.n.newEngine(); err != nil {
		return err
	}
	mine, me := newToken(), l.n.importer(l.to)
	hello := request{Do: doHello, Protocol: protocol, Server: l.n.config.Me().ID, Pid: int(l.n.pid),
		Worker: l.e.w.Address(), Token: mine[:], Importer: me[:]}
	if err := writeFrame(c, limit, hello); err != nil {
		return err
	}
	var a response
	if err := readFrame(c, limit, false, &a); err != nil {
		return err
	}
	if a.Refused != "" || len(a.Token) != len(token{}) || len(a.Worker) == 0 {
		return fmt.Errorf("pod: the other side refuses: %q", a.Refused)
	}
	raw.SetDeadline(time.Time{}) //nolint:errcheck // a connection that is closed fails below
	keepAlive(raw, limit)
	err = l.e.connect(a.Worker, mine, token(a.Token), func(err error) {
		l.once.Do(func() { l.why = err; close(l.failed) })
		go c.Close()
	})
	if err == nil {
		l.n.serving.Go(l.watch)
	}
	return err
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// alive reports whether the link has not failed.
func (l *link) alive() bool {
	select {
	case <-l.failed:
		return false
	default:
		return true
	}
}

// fail ends the link.
func (l *link) fail(err error) {
	l.e.post(func() { l.e.fail(err) })
	l.conn.Close() //nolint:errcheck // nothing more is wanted
}

// watch reads what the owner sends: responses. When the connection ends, so does the link.
func (l *link) watch() {
	for {
		var a response
		if err := readFrame(l.conn, l.n.config.Timeout, true, &a); err != nil {
			l.fail(fmt.Errorf("%w: %w", ErrGone, err))
			return
		}
		select {
		case l.responses <- a:
		default:
			l.fail(errAnswer) // nobody has asked
			return
		}
	}
}

// ask asks the owner. A link on which that fails has failed.
func (l *link) ask(r request) (a response, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.n.config.Timeout
	if err := writeFrame(l.conn, limit, r); err != nil {
		l.fail(fmt.Errorf("%w: %w", ErrGone, err))
		return a, fmt.Errorf("%w: %w", ErrGone, err)
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case a = <-l.responses:
		return a, nil
	case <-l.failed:
		return a, l.why
	case <-t.C:
		err = fmt.Errorf("%w for %v", ErrTimeout, limit)
		l.fail(err)
		return a, err
	}
}

// Write copies from this process to the memory, and Read from it. Neither waits: done is called, once, from any
// goroutine, when no byte of either side is used any more; it must not wait. The segments are the call's until then.
func (r *Remote) Write(segs []Segment, done func(error)) {
	r.copy(segs, &transfer{write: true, done: done})
}

// WriteStaying is Write from memory that is there until done is called, whatever the program does: the kernel and UCX
// read it where it is. Write copies it first, and fails with ErrFault where it is gone.
func (r *Remote) WriteStaying(segs []Segment, done func(error)) {
	r.copy(segs, &transfer{write: true, stays: true, done: done})
}

// Read is Write in the other direction.
func (r *Remote) Read(segs []Segment, done func(error)) { r.copy(segs, &transfer{done: done}) }

func (r *Remote) copy(segs []Segment, t *transfer) {
	done := t.done
	segs = slices.DeleteFunc(segs, func(s Segment) bool { return s.N == 0 })
	for i := range segs {
		if !inside(segs[i].Offset, segs[i].N, r.Size) {
			done(fmt.Errorf("%w: %d bytes at %d of %d", ErrRange, segs[i].N, segs[i].Offset, r.Size))
			return
		}
	}
	t.segs = segs
	if !r.begin(t) {
		go func() { // the link has failed; the other side may be back
			if err := r.reopen(); err != nil {
				done(err)
			} else if !r.begin(t) {
				done(ErrGone)
			}
		}()
	}
}

// begin starts a copy, if the link lives.
func (r *Remote) begin(t *transfer) bool {
	r.mu.Lock()
	l, share, near := r.link, r.share, r.near
	ok := !r.closed && l.alive()
	if ok && near != nil {
		near.users.Add(1)
	}
	r.mu.Unlock()
	switch {
	case !ok:
	case near != nil:
		near.copy(t)
	default:
		t.end, t.share = l.e.end, share
		l.e.start(t)
	}
	return ok
}

// reopen opens the memory again, on a new link, if its link has failed.
func (r *Remote) reopen() error {
	r.opening.Lock()
	defer r.opening.Unlock()
	r.mu.Lock()
	old, closed := r.link, r.closed
	r.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case old.alive():
		return nil
	}
	o, err := r.n.openAt(r.handle, true)
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrNotAllowed):
		return fmt.Errorf("%w: another process is at its place, or it has freed the memory (%v)", ErrGone, err)
	case err != nil:
		return err
	case o.about != r.About:
		r.n.dropOpened(o)
		return fmt.Errorf("%w: another process is at its place", ErrGone)
	}
	r.mu.Lock()
	was := opened{link: old, near: r.near}
	if closed = r.closed; !closed {
		r.link, r.share, r.near = o.link, o.share, o.near
	}
	r.mu.Unlock()
	if closed {
		r.n.dropOpened(o)
		return ErrClosed
	}
	r.n.dropOpened(was)
	return nil
}

// Err is why the other side cannot be reached, as far as that is known; nil if it can, or nothing was tried since.
func (r *Remote) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link.alive() {
		return nil
	}
	return r.link.why
}

// Close gives the memory up, and waits until its owner knows. Copies that are in flight may fail.
func (r *Remote) Close() error {
	r.mu.Lock()
	l, share, near, twice := r.link, r.share, r.near, r.closed
	r.closed = true
	r.mu.Unlock()
	if twice {
		return ErrClosed
	}
	defer r.n.dropOpened(opened{link: l, near: near})
	if !l.alive() {
		return l.why
	}
	_, err := l.ask(request{Do: doClose, Share: share})
	return err
}
