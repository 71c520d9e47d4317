package pod

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

const (
	aloneLeast = 64 << 10 // least bytes of a segment that has requests of its own
	inlineMost = 16 << 10 // most bytes of a copy that its caller sends itself, on an idle connection
	moreBytes  = 8 << 20  // least bytes of a copy that is worth several connections
)

// requester is the importer's end of a link over TCP or a Unix socket. It sends requests over connections of its own
// (lanes) and receives the answers in the order of the requests. It dials one lane for the first copy, and the others
// for the first large copy.
//
// A lane has two goroutines: one sends, one receives into place. The caller sends a small copy on an idle lane itself.
type requester struct {
	limit  int                   // immutable; most lanes
	dial   func() (*pipe, error) // immutable; dials a connection
	failed func(error)           // immutable; called once, when the link fails; it does not wait
	stall  stall
	quit   chan struct{} // immutable; closed when why is set
	over   chan struct{} // immutable; closed when no goroutine is left

	mu      sync.Mutex
	waiting []*transfer // guarded by mu; copies with requests to send
	turn    int         // guarded by mu; index of the next of them
	lanes   []*lane     // guarded by mu
	dialing bool        // guarded by mu
	all     bool        // guarded by mu; there was a large copy: dial all lanes
	running int         // guarded by mu; goroutines and callers that use lanes
	why     error       // guarded by mu; why the requester has failed, or nil
	behind  sync.Cond   // on mu; a lane with awaited has written a request, or the requester has failed
}

// lane is a connection of a requester.
type lane struct {
	*pipe
	wake chan struct{} // capacity 1; the goroutine that sets sending sends to it

	sending bool         // guarded by requester.mu; a goroutine sends, or wake is set
	calls   [window]call // guarded by requester.mu, except the first, which the receiving goroutine reads
	head, n int          // guarded by requester.mu; the calls in flight
	written uint64       // guarded by requester.mu; number of requests written, whose memory is no longer used
	awaited bool         // guarded by requester.mu; the receiving goroutine waits for written

	room     []byte // owned by the goroutine that sends
	list     []byte // of the request; owned by the goroutine that sends
	sent     uint64 // number of the next request; owned by the goroutine that sends
	received uint64 // number of the next answer; owned by the receiving goroutine
}

// call is a request in flight.
type call struct {
	t *transfer
	span
}

func newRequester(n *Node, dial func() (*pipe, error), failed func(error)) *requester {
	q := &requester{limit: n.config.Connections, dial: dial, failed: failed, quit: make(chan struct{}),
		over: make(chan struct{})}
	q.stall.limit, q.stall.fail = n.config.Timeout, q.stop
	q.behind.L = &q.mu
	return q
}

// start implements carrier.
func (q *requester) start(t *transfer) {
	q.mu.Lock()
	if why := q.why; why != nil || len(t.segs) == 0 {
		q.mu.Unlock()
		t.done(why)
		return
	}
	q.stall.begin()
	q.waiting = append(q.waiting, t)
	large := q.limit > 1 && t.worthMore()
	t.large, q.all = large, q.all || large
	if (len(q.lanes) == 0 || len(q.lanes) < q.limit && large) && !q.dialing {
		q.dialing = true
		q.running++
		go q.connect()
	}
	var idle *lane
	for _, c := range q.lanes {
		switch {
		case c.sending:
		case large:
			c.sending = true
			c.wake <- struct{}{}
		case idle == nil || c.n < idle.n:
			idle = c
		}
	}
	if idle == nil {
		q.mu.Unlock()
		return // the sending goroutines take the copy
	}
	idle.sending = true
	inline := idle.n == 0 && len(q.waiting) == 1 && len(t.segs) == 1 && t.segs[0].N <= inlineMost
	if inline {
		q.running++
	}
	q.mu.Unlock()
	if !inline {
		idle.wake <- struct{}{}
		return
	}
	q.pump(idle, true)
	q.left()
}

// worthMore reports whether a copy is worth several connections.
func (t *transfer) worthMore() bool {
	total := uint64(0)
	for i := range t.segs {
		if total += t.segs[i].N; total >= moreBytes {
			return true
		}
	}
	return false
}

// connect adds lanes: one, or all if there was a large copy.
func (q *requester) connect() {
	defer q.left()
	for {
		p, err := q.dial()
		if err != nil {
			q.stop(err)
			return
		}
		c := &lane{pipe: p, wake: make(chan struct{}, 1)}
		q.mu.Lock()
		if q.why != nil {
			q.mu.Unlock()
			p.raw.Close() //nolint:errcheck // nothing was written
			return
		}
		q.lanes = append(q.lanes, c)
		q.stall.add(p)
		q.running += 2
		c.sending = true
		c.wake <- struct{}{}
		more := q.all && len(q.lanes) < q.limit
		q.dialing = more
		q.mu.Unlock()
		go q.sends(c)
		go q.receives(c)
		if !more {
			return
		}
	}
}

// left records that a goroutine or a caller has left. If the requester has failed, the last one ends the copies in
// flight.
func (q *requester) left() {
	q.mu.Lock()
	q.running--
	last := q.why != nil && q.running == 0
	q.mu.Unlock()
	if last {
		q.finish()
	}
}

// sends is the sending goroutine of a lane.
func (q *requester) sends(c *lane) {
	defer q.left()
	for {
		select {
		case <-c.wake:
			q.pump(c, false)
		case <-q.quit:
			return
		}
	}
}

// pump sends requests until there are no more or too many in flight; only one if inline. The caller has set c.sending.
func (q *requester) pump(c *lane, inline bool) {
	for n := 0; ; n++ {
		q.mu.Lock()
		if c.written = c.sent; c.awaited {
			c.awaited = false
			q.behind.Broadcast()
		}
		if q.why != nil {
			q.mu.Unlock()
			return
		}
		k := (*call)(nil)
		if n == 0 || !inline {
			k = q.next(c)
		}
		if k == nil && c.w.Buffered() == 0 {
			hand := inline && len(q.waiting) > 0 && c.n < window
			c.sending = hand
			q.mu.Unlock()
			if hand {
				c.wake <- struct{}{}
			}
			return
		}
		q.mu.Unlock()
		err := error(nil)
		if k == nil {
			err = c.w.Flush()
		} else {
			err = q.write(c, k)
		}
		if err != nil {
			q.stop(gone(err))
			return
		}
	}
}

// next takes the next request of the waiting copies, in turn; nil if there is none, if there is no room for it, or if
// another lane should take it. mu is held.
func (q *requester) next(c *lane) *call {
	if len(q.waiting) == 0 {
		return nil
	}
	q.turn++
	i := q.turn % len(q.waiting)
	t := q.waiting[i]
	full, fewer := c.n == window, c.n-1
	if full {
		fewer = window
	}
	if t.large && q.wakeOthers(fewer) || full {
		return nil
	}
	k := &c.calls[(c.head+c.n)%window]
	c.n++
	most, places := uint64(readMost), scatters
	switch {
	case t.direct():
		places = 1
	case t.write && !t.stays:
		most = pieceMost // the bytes are copied first
	}
	k.t, k.span = t, t.cut(most, places)
	t.inFlight++
	if t.next == len(t.segs) {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return k
}

// wakeOthers wakes the lanes with fewer than n requests in flight, to take the next request of a large copy, and
// reports whether there are any. Requests of a read are short messages: without this one lane would take them all. mu
// is held.
func (q *requester) wakeOthers(n int) (found bool) {
	for _, o := range q.lanes {
		if o.n >= n {
			continue
		}
		if found = true; !o.sending {
			o.sending = true
			o.wake <- struct{}{}
		}
	}
	return found
}

// direct reports whether the next request of a copy has a single segment, which the connection reads or writes in
// place.
func (t *transfer) direct() bool {
	return (!t.write || t.stays) && t.segs[t.next].N-t.at >= aloneLeast
}

// write sends a request.
func (q *requester) write(c *lane, k *call) error {
	h := header{kind: kRead, op: c.sent, share: k.t.share, length: k.total}
	h.offset, _, _ = k.place(0)
	list := len(k.segs) > 1
	if list {
		h.kind, h.count = kGather, uint32(len(k.segs))
	}
	c.list, c.parts = c.list[:0], c.parts[:0]
	for i := range k.segs {
		offset, local, n := k.place(i)
		if list {
			c.list = putPlace(c.list, offset, n)
		}
		if k.t.write && k.t.stays {
			c.parts = append(c.parts, bytesAt(local, n))
		}
	}
	if k.t.write {
		h.kind -= kRead - kWrite // kWrite, or kScatter for kGather
		if !k.t.stays {
			if c.room == nil {
				c.room = make([]byte, pieceMost)
			}
			if err := k.gather(c.room[:k.total]); err != nil {
				q.ended(c, k.t, err, false)
				return nil // nothing was sent
			}
			c.parts = append(c.parts, c.room[:k.total])
		}
	}
	c.sent++
	err := c.send(&h, c.list, c.parts)
	clear(c.parts)
	return err
}

// ended records that a request of t has ended: the first one of the lane, which was answered, or the last one, which
// was not sent.
func (q *requester) ended(c *lane, t *transfer, err error, answered bool) {
	q.mu.Lock()
	if c.n--; answered {
		c.calls[c.head] = call{}
		c.head = (c.head + 1) % window
	}
	t.inFlight--
	if err != nil && t.err == nil {
		t.err, t.next = err, len(t.segs)
		if i := slices.Index(q.waiting, t); i >= 0 {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		}
	}
	done := t.done
	if t.inFlight > 0 || t.next < len(t.segs) {
		done = nil
	} else {
		t.done = nil
	}
	wake := !c.sending && len(q.waiting) > 0 && c.n <= window/2 // one wake-up for several requests
	c.sending = c.sending || wake
	q.mu.Unlock()
	if wake {
		c.wake <- struct{}{}
	}
	if done != nil {
		q.stall.end()
		done(t.err)
	}
}

// receives is the receiving goroutine of a lane.
func (q *requester) receives(c *lane) {
	defer q.left()
	q.stop(gone(q.receive(c)))
}

func (q *requester) receive(c *lane) error {
	for {
		h, err := c.pipe.receive()
		if err != nil {
			return err
		}
		k, ok := q.asked(c, h.op)
		if !ok {
			return errAnswer
		}
		c.received++
		switch {
		case h.kind == kAck && (h.status != statusDone || k.t.write):
			err = statusError(h.status)
		case h.kind == kData && !k.t.write && h.length == k.total:
			var fatal error
			if err, fatal = k.fill(c.pipe); fatal != nil {
				return fatal
			}
		default:
			return errAnswer
		}
		q.ended(c, k.t, err, true)
	}
}

// asked returns the request with number op, after all of it was written, since a malicious owner may answer early. It
// returns false if there is no such request.
func (q *requester) asked(c *lane, op uint64) (call, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.why == nil && op == c.received && op == c.written && c.n > 0 {
		c.awaited = true
		q.behind.Wait()
	}
	return c.calls[c.head], op == c.received && op < c.written && c.n > 0
}

// fill reads the bytes of a read to their local addresses. err reports that memory of this process is unmapped; fill
// then drops the rest of the answer. fatal is an error of the connection.
func (k *call) fill(p *pipe) (err, fatal error) {
	left := k.total
	p.in = p.in[:0]
	for i := range k.segs {
		_, local, n := k.place(i)
		p.in = append(p.in, bytesAt(local, n))
	}
	err = guard(func() { fatal = p.readParts(p.in, &left) })
	clear(p.in)
	if isFault(fatal) {
		err, fatal = ErrFault, nil
	}
	if err != nil && fatal == nil {
		fatal = p.drain(left)
	}
	return err, fatal
}

// stop fails the requester, and does not wait.
func (q *requester) stop(err error) {
	q.mu.Lock()
	if q.why != nil {
		q.mu.Unlock()
		return
	}
	q.why = err
	close(q.quit)
	q.behind.Broadcast()
	for _, c := range q.lanes {
		c.raw.Close() //nolint:errcheck // it ends the goroutines
	}
	last := q.running == 0
	q.mu.Unlock()
	q.failed(err)
	if last {
		q.finish()
	}
}

// close fails the requester and waits until nothing of it is left.
func (q *requester) close(err error) {
	q.stop(err)
	<-q.over
}

// finish ends the copies in flight. No goroutine may use lanes.
func (q *requester) finish() {
	q.stall.stop()
	q.mu.Lock()
	all := q.waiting
	q.waiting = nil
	for _, c := range q.lanes {
		for ; c.n > 0; c.n-- {
			all = append(all, c.calls[c.head].t)
			c.head = (c.head + 1) % window
		}
	}
	var done []func(error)
	for _, t := range all {
		if t.done != nil {
			done = append(done, t.done)
			t.done = nil
		}
	}
	why := q.why
	q.mu.Unlock()
	for _, f := range done {
		f(why)
	}
	close(q.over)
}

// gone returns the error of a link whose connection has failed with err.
func gone(err error) error {
	for _, known := range []error{errAnswer, ErrGone, ErrTimeout, ErrClosed} {
		if errors.Is(err, known) {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return ErrGone
	}
	return fmt.Errorf("%w: %w", ErrGone, err)
}
