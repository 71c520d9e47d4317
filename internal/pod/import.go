package pod

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// link is the importer's link to a process. It exists while memory of that process is imported.
type link struct {
	n     *Node    // immutable
	to    place    // immutable
	conn  net.Conn // immutable
	c     starter  // immutable; carries copies
	users int      // guarded by Node.mu

	mu     sync.Mutex // held over a request and its response
	failed chan struct{}
	once   sync.Once
	why    error // written before failed is closed

	responses chan response // capacity 1
}

// Remote is memory of another server. Methods may be called concurrently.
type Remote struct {
	n      *Node  // immutable
	handle Handle // immutable
	About         // immutable

	opening sync.Mutex // held over a change of link, which may wait

	mu     sync.Mutex
	link   *link  // guarded by mu
	share  uint64 // guarded by mu; number of the memory on link
	near   *view  // guarded by mu; nil: copies go over link
	closed bool   // guarded by mu
}

// Import opens memory of another server. It takes at most the pod's timeout.
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

// opened is memory opened on a link.
type opened struct {
	link  *link // counts this as a user
	share uint64
	about About
	near  *view
}

// dropOpened drops it without telling the owner.
func (n *Node) dropOpened(o opened) {
	o.near.release()
	n.drop(o.link)
}

// openAt opens memory on a link to its process, and makes a link if there is none. again means that it was open before.
func (n *Node) openAt(h Handle, again bool) (o opened, err error) {
	if o.link, err = n.linkTo(place{h.Server, h.Port}); err != nil {
		return o, err
	}
	a, err := o.link.ask(request{Do: doOpen, Secret: h.Secret[:], Again: again})
	if err == nil {
		switch a.Refused {
		case "":
			o.share, o.about = a.Share, a.About
			if a.Ticket != nil {
				o.near, _ = o.link.receiveView(&a) // without a view copies go over the link
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

// linkTo returns the link to a process and counts the caller as a user.
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

// makeLink makes the link to a process, for all callers that wait for it.
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
	n.serving.Go(l.watch)
	return l, nil
}

// drop ends a use of a link. The last one ends the link.
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
	l.c.stop(err)
	l.conn.Close() //nolint:errcheck // no more data is wanted
}

// watch reads the owner's responses until the connection ends, and the link with it. It returns when the link uses no
// memory.
func (l *link) watch() {
	defer func() { l.c.close(ErrClosed) }()
	for {
		var a response
		if err := readFrame(l.conn, l.n.config.Timeout, true, &a); err != nil {
			l.fail(fmt.Errorf("%w: %w", ErrGone, err))
			return
		}
		select {
		case l.responses <- a:
		default:
			l.fail(errAnswer) // without a request
			return
		}
	}
}

// ask sends a request to the owner and returns the response. If that fails, it fails the link.
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
// goroutine, when the copy no longer uses memory of either side; it must not wait. The call owns the segments until
// then.
func (r *Remote) Write(segs []Segment, done func(error)) {
	r.copy(segs, &transfer{write: true, done: done})
}

// WriteStaying is Write from memory that stays accessible until done is called, whatever the program does: the kernel
// and UCX read it in place. Write copies it first, and fails with ErrFault if it is unmapped.
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
		go func() { // the link has failed; a new one may work
			if err := r.reopen(); err != nil {
				done(err)
			} else if !r.begin(t) {
				done(ErrGone)
			}
		}()
	}
}

// begin starts a copy, and reports whether the link is alive.
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
		t.share = share
		l.c.start(t)
	}
	return ok
}

// reopen opens the memory on a new link, if its link has failed.
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

// Err returns why the link has failed, or nil if it has not, as far as is known.
func (r *Remote) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link.alive() {
		return nil
	}
	return r.link.why
}

// Close closes the memory, and waits until its owner knows. Copies in flight may fail.
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
