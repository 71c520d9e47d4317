package pod

import (
	"errors"
	"slices"
	"time"

	"ropeway/internal/ucx"
)

// end is this process's end of a link. The engine owns it.
type end struct {
	e            *engine
	mine, theirs token
	failed       func(error)

	waiting  []*transfer // copies with requests to send
	turn     int         // index of the next of them
	requests int         // pieces of requests in flight
	unsent   int         // messages that UCX has accepted but not copied
	answers  int         // answers in flight to requests of the other side
	isBusy   bool
	progress time.Time // time of the last message or of the start of work

	shares map[uint64]*Export // exports that the other side has open
}

// transfer is a copy between memory of this process and memory of another.
type transfer struct {
	end   *end // set by an engine
	share uint64
	write bool
	stays bool        // of a write: local memory stays accessible until done is called; see WriteStaying
	segs  []Segment   // none is empty
	done  func(error) // called by the engine, once

	next     int    // index of the segment to send
	at       uint64 // bytes of it that were sent
	inFlight int
	large    bool // worth several connections
	err      error
}

// span is the part of a copy in one request.
type span struct {
	segs  []Segment // all of them belong to the request
	from  uint64    // start in the first of them
	upto  uint64    // end in the last of them
	total uint64    // bytes
}

// cut returns the span of the next request of t: at most the given bytes and places.
func (t *transfer) cut(most uint64, places int) (s span) {
	first := t.next
	s.from = t.at
	for t.next < len(t.segs) && t.next-first < places && s.total < most {
		n := min(t.segs[t.next].N-t.at, most-s.total)
		s.total += n
		t.at += n
		s.upto = t.at
		if t.at == t.segs[t.next].N {
			t.next, t.at = t.next+1, 0
		}
	}
	last := t.next
	if t.at > 0 {
		last++
	}
	s.segs = t.segs[first:last]
	return s
}

// Segment is a part of a copy: N bytes at Local in this process and at Offset in the other's memory.
type Segment struct {
	Local  uintptr
	Offset uint64
	N      uint64
}

// What a slot waits for.
const (
	waitSent   = 1 << iota // UCX has sent the message
	waitAnswer             // the other side has answered
)

const slotMask = 1<<32 - 1

// slot is a message in flight: a request to the other side, or an answer to one of its requests.
type slot struct {
	e      *engine
	index  uint64
	turn   uint32 // counts the uses, so that answers to an earlier request are ignored
	header [headerSize]byte
	data   []byte // one of the engine's rooms, until the message is sent; nil if the data is sent in place

	end    *end
	of     *transfer // of a request
	waits  uint8
	err    error
	span           // of a request
	left   uint64  // bytes of the request; of a read, those not received
	pieces int     // pieces of the request
	export *Export // of an answer: the export it uses
}

// newSlot takes a slot.
func (e *engine) newSlot(x *end) *slot {
	if n := len(e.free); n > 0 {
		s := e.free[n-1]
		e.free = e.free[:n-1]
		s.end = x
		return s
	}
	s := &slot{e: e, index: uint64(len(e.slots)), end: x}
	e.slots = append(e.slots, s)
	return s
}

// room returns memory for the slot's message, until it is sent. Mostly UCX has copied a message when Send returns, so
// that successive messages are composed in the same memory, which stays in the cache.
func (s *slot) room() []byte {
	if n := len(s.e.rooms); n > 0 {
		s.data = s.e.rooms[n-1]
		s.e.rooms = s.e.rooms[:n-1]
	} else {
		s.data = make([]byte, dataMost)
	}
	return s.data
}

// leaveRoom makes the room available for the next message.
func (s *slot) leaveRoom() {
	if s.data != nil && len(s.e.rooms) < mostRooms {
		s.e.rooms = append(s.e.rooms, s.data)
	}
	s.data = nil
}

// send sends the slot's message. It ends the slot if that fails.
func (s *slot) send(h *header, data uintptr, n uint64) {
	h.token = s.end.theirs
	h.put(&s.header)
	s.waits |= waitSent
	s.end.unsent++
	done, err := s.e.w.Send(s.header[:], data, n, s.index)
	switch {
	case err != nil:
		s.ended(waitSent, err)
	case done:
		s.ended(waitSent, nil)
	}
}

// ended records the end of something that the slot waited for.
func (s *slot) ended(what uint8, err error) {
	x := s.end
	if s.waits&what == 0 {
		return
	}
	s.waits &^= what
	if what&waitSent != 0 {
		s.leaveRoom()
		x.unsent--
	}
	x.moved()
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		s.waits &^= waitAnswer // there will be no answer
	}
	if s.waits != 0 {
		return
	}
	t, failure := s.of, s.err
	if s.export != nil {
		s.export.release()
	}
	if t != nil {
		x.requests -= s.pieces
	} else {
		x.answers--
	}
	s.turn++
	s.end, s.of, s.err, s.span, s.export = nil, nil, nil, span{}, nil
	s.e.free = append(s.e.free, s)
	if t != nil {
		t.inFlight--
		if failure != nil && t.err == nil {
			t.err = failure
		}
		if t.err != nil {
			t.stop()
		}
		t.finish()
	} else if failure != nil {
		x.e.fail(failure) // an answer that cannot be sent
	}
	x.pump()
	x.rest()
}

// stop sends no more requests of t.
func (t *transfer) stop() {
	t.next = len(t.segs)
	t.end.drop(t)
}

func (x *end) drop(t *transfer) {
	if i := slices.Index(x.waiting, t); i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
	}
}

// finish ends t if none of its requests is left.
func (t *transfer) finish() {
	if t.inFlight > 0 || t.next < len(t.segs) {
		return
	}
	done := t.done
	if t.done = nil; done == nil {
		return
	}
	err := t.err
	if err != nil && t.end.e.why != nil {
		err = t.end.e.why
	}
	done(err)
}

// begin begins a copy.
func (x *end) begin(t *transfer) {
	if why := x.e.why; why != nil {
		t.err, t.next = why, len(t.segs)
	}
	if t.next == len(t.segs) {
		t.finish()
		return
	}
	x.work()
	x.waiting = append(x.waiting, t)
	x.pump()
}

// work records that the end has work.
func (x *end) work() {
	if !x.isBusy {
		x.isBusy, x.progress = true, time.Now() // e.now may be old: the engine may have slept
	}
}

// moved records that a message was sent or received.
func (x *end) moved() {
	if x.e.now.After(x.progress) {
		x.progress = x.e.now
	}
}

// rest updates isBusy after work has ended.
func (x *end) rest() { x.isBusy = len(x.waiting)+x.requests+x.answers > 0 }

// pump sends requests of the copies in turn, as far as there is room. It does not compose messages that UCX cannot send
// yet: they would leave the cache before they are sent.
func (x *end) pump() {
	for x.e.why == nil && len(x.waiting) > 0 && x.requests < window && x.unsent < mostUnsent {
		x.turn++
		t := x.waiting[x.turn%len(x.waiting)]
		x.request(t)
		if t.next == len(t.segs) {
			x.drop(t)
		}
	}
}

// request sends the next request of t: the segments that fit, and a part of the last. A read of one segment may have
// several pieces, which are answered one by one.
func (x *end) request(t *transfer) {
	s := x.e.newSlot(x)
	t.inFlight++
	s.of, s.waits = t, waitAnswer
	most, places := uint64(pieceMost), placesMost
	if t.write {
		places = scatters
	} else if t.segs[t.next].N-t.at > pieceMost {
		most, places = readMost, 1
	}
	s.span = t.cut(most, places)
	total := s.total
	s.left, s.pieces = total, int((total+pieceMost-1)/pieceMost)
	x.requests += s.pieces
	h := header{kind: kRead, op: uint64(s.turn)<<32 | s.index, share: t.share, length: total}
	if t.stays && len(s.segs) == 1 && total >= directLeast {
		_, local, _ := s.place(0)
		h.kind, h.offset = kWrite, s.segs[0].Offset+s.from
		s.send(&h, local, total)
		return
	}
	var room []byte
	if t.write || len(s.segs) > 1 {
		room = s.room()[:0]
	}
	if len(s.segs) == 1 {
		h.offset, _, _ = s.place(0)
	} else {
		h.kind, h.count = kGather, uint32(len(s.segs))
		for i := range s.segs {
			offset, _, n := s.place(i)
			room = putPlace(room, offset, n)
		}
	}
	if t.write {
		h.kind -= kRead - kWrite // kWrite, or kScatter for kGather
		at := len(room)
		room = room[:at+int(total)]
		if err := s.gather(room[at:]); err != nil {
			s.leaveRoom() // the request is not sent
			s.ended(waitAnswer, err)
			return
		}
	}
	s.send(&h, addressOf(s.data), uint64(len(room)))
}

// place returns the offset of segment i in the other's memory, its address here, and the number of its bytes in the
// request.
func (s *span) place(i int) (offset uint64, local uintptr, n uint64) {
	g := &s.segs[i]
	from, upto := uint64(0), g.N
	if i == 0 {
		from = s.from
	}
	if i == len(s.segs)-1 {
		upto = s.upto
	}
	return g.Offset + from, g.Local + uintptr(from), upto - from
}

var errAnswer = errors.New("pod: the other server's answer is not to what was asked")

// answer handles an answer to a request of this process.
func (x *end) answer(h *header, m *ucx.Message) {
	switch {
	case h.kind == kAck && len(m.Data) == 0:
		x.acked(h.op, h.status)
	case h.kind == kAck:
		x.e.fail(errAnswer)
	default:
		x.came(h, m)
	}
}

// asked returns the request with number op; nil if it has ended.
func (x *end) asked(op uint64) *slot {
	index := op & slotMask
	if index >= uint64(len(x.e.slots)) {
		return nil
	}
	s := x.e.slots[index]
	if s.end != x || s.of == nil || s.turn != uint32(op>>32) || s.waits&waitAnswer == 0 {
		return nil
	}
	return s
}

// acked ends a request after its kAck.
func (x *end) acked(op uint64, status uint8) {
	if s := x.asked(op); s != nil {
		err := statusError(status)
		if err == nil && !s.of.write {
			err = errAnswer
		}
		s.ended(waitAnswer, err)
	}
}

// came handles a kData: a piece of a read.
func (x *end) came(h *header, m *ucx.Message) {
	s := x.asked(h.op)
	if s == nil {
		return
	}
	if s.of.write {
		x.e.fail(errAnswer)
		return
	}
	n := uint64(len(m.Data))
	err := errAnswer
	switch {
	case n == 0 || n > s.left:
	case len(s.segs) > 1 && n == s.left:
		err = s.scatter(m.Data)
	case len(s.segs) == 1 && inside(h.offset, n, s.upto-s.from):
		_, local, _ := s.place(0)
		err = guard(func() { move(local+uintptr(h.offset), addressOf(m.Data), n) })
	}
	if s.left -= min(n, s.left); err != nil || s.left == 0 {
		s.ended(waitAnswer, err)
	}
}

// gather copies the local bytes of a write to to, which has their length.
func (s *span) gather(to []byte) error {
	return guard(func() {
		for i := range s.segs {
			_, local, n := s.place(i)
			move(addressOf(to), local, n)
			to = to[n:]
		}
	})
}

// scatter copies the bytes of a read, which are complete, to their local addresses.
func (s *span) scatter(data []byte) error {
	return guard(func() {
		for i := range s.segs {
			_, local, n := s.place(i)
			move(local, addressOf(data), n)
			data = data[n:]
		}
	})
}

func statusError(status uint8) error {
	switch status {
	case statusDone:
		return nil
	case statusUnknown:
		return ErrUnknown
	case statusRange:
		return ErrRange
	}
	return errAnswer
}

// fail ends all work of the link. Messages that UCX has not sent keep their slots until UCX reports them.
func (x *end) fail(err error) {
	x.failed(err)
	for _, e := range x.shares {
		e.release()
	}
	x.shares = nil
	for len(x.waiting) > 0 {
		t := x.waiting[0]
		t.err = err
		t.stop()
		t.finish()
	}
	for _, s := range x.e.slots {
		s.ended(s.waits&waitAnswer, err)
	}
}
