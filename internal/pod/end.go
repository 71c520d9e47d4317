package pod

import (
	"errors"
	"slices"
	"time"

	"ropeway/internal/ucx"
)

// end is this process's end of a link. It is the engine's.
type end struct {
	e            *engine
	mine, theirs token
	failed       func(error)

	waiting  []*transfer // of which not all requests are sent
	turn     int         // which of them is next
	requests int         // pieces that requests in flight are about
	unsent   int         // messages that UCX has taken and not copied
	answers  int         // in flight, to what the other side asked for
	owed     []uint64    // requests of the other side that were carried out and are not answered yet
	isBusy   bool
	progress time.Time // when something came or went, or work began

	shares map[uint64]*Export // what the other side has opened here
}

// transfer is a copy between memory of this process and memory of another.
type transfer struct {
	end   *end
	share uint64
	write bool
	stays bool        // of a write: memory of the segments is there until done is called; see WriteStaying
	segs  []Segment   // none is empty
	done  func(error) // called by the engine, once

	next     int    // the segment that is to be sent
	at       uint64 // and how much of it was
	inFlight int
	err      error
}

// Segment is a part of a copy: bytes of this process, and where they are in the memory of the other.
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

// slot is a message in flight: a request of ours, or an answer to one of the other side.
type slot struct {
	e      *engine
	index  uint64
	turn   uint32 // how often it was used: answers to an earlier request are not taken
	header [headerSize]byte
	data   []byte // one of the engine's rooms, until it is sent; nil if the message has no data of its own

	end    *end
	of     *transfer // of a request
	waits  uint8
	err    error
	segs   []Segment // of a request: what it is about
	from   uint64    // where it begins in the first of them
	upto   uint64    // and ends in the last
	left   uint64    // bytes that it is about, and of a read: that have not come
	pieces int       // of it
	export *Export   // of an answer: memory that it uses
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

// room is memory for the slot's message, until it is sent. Mostly UCX has copied a message when Send returns, so that
// one message after the other is put together in the same memory, which stays in the cache.
func (s *slot) room() []byte {
	if n := len(s.e.rooms); n > 0 {
		s.data = s.e.rooms[n-1]
		s.e.rooms = s.e.rooms[:n-1]
	} else {
		s.data = make([]byte, dataMost)
	}
	return s.data
}

// leaveRoom gives it to the next one.
func (s *slot) leaveRoom() {
	if s.data != nil && len(s.e.rooms) < mostRooms {
		s.e.rooms = append(s.e.rooms, s.data)
	}
	s.data = nil
}

// send sends the slot's message. It ends the slot where that fails.
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

// ended reports that something the slot waited for is over.
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
		s.waits &^= waitAnswer // it will not come
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
	s.end, s.of, s.err, s.segs, s.export = nil, nil, nil, nil, nil
	s.e.free = append(s.e.free, s)
	if t != nil {
		t.inFlight--
		if failure != nil && t.err == nil {
			t.err = failure
		}
		if t.err != nil {
			t.stop()
		}
		t.settle()
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

// settle ends t if nothing of it is left to do.
func (t *transfer) settle() {
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

// begin takes a copy.
func (x *end) begin(t *transfer) {
	if why := x.e.why; why != nil {
		t.err, t.next = why, len(t.segs)
	}
	if t.next == len(t.segs) {
		t.settle()
		return
	}
	x.work()
	x.waiting = append(x.waiting, t)
	x.pump()
}

// work notes that the end has something to do.
func (x *end) work() {
	if !x.isBusy {
		x.isBusy, x.progress = true, time.Now() // the engine may have slept for long
	}
}

// moved notes that something came or went.
func (x *end) moved() {
	if x.e.now.After(x.progress) {
		x.progress = x.e.now
	}
}

// rest notes that it has nothing to do any more, if that is so.
func (x *end) rest() { x.isBusy = len(x.waiting)+x.requests+x.answers+len(x.owed) > 0 }

// pump sends requests as far as there is room, of the copies in turn. What UCX cannot send yet is not put together yet:
// it would leave the cache meanwhile.
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

// request sends the next request of t: as many segments as fit, and a part of the last. A read of one segment may be
// about several pieces, which come one by one.
func (x *end) request(t *transfer) {
	s := x.e.newSlot(x)
	t.inFlight++
	s.of, s.waits = t, waitAnswer
	first, total, most, places := t.next, uint64(0), uint64(pieceMost), placesMost
	if t.write {
		places = scatters
	} else if t.segs[first].N-t.at > pieceMost {
		most, places = readMost, 1
	}
	s.from = t.at
	for t.next < len(t.segs) && t.next-first < places && total < most {
		n := min(t.segs[t.next].N-t.at, most-total)
		total += n
		t.at += n
		s.upto = t.at
		if t.at == t.segs[t.next].N {
			t.next, t.at = t.next+1, 0
		}
	}
	s.left, s.pieces = total, int((total+pieceMost-1)/pieceMost)
	x.requests += s.pieces
	last := t.next
	if t.at > 0 {
		last++
	}
	s.segs = t.segs[first:last]
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
			s.leaveRoom() // nothing is sent
			s.ended(waitAnswer, err)
			return
		}
	}
	s.send(&h, addressOf(s.data), uint64(len(room)))
}

// place is where segment i of the request is in the other's memory and in ours, and how many bytes of it the request
// is about.
func (s *slot) place(i int) (offset uint64, local uintptr, n uint64) {
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

// answer takes an answer to a request of ours, or to several.
func (x *end) answer(h *header, m *ucx.Message) {
	switch {
	case h.kind == kAck && uint64(len(m.Data)) == uint64(h.count)*opSize:
		x.acked(h.op, h.status)
		for list := m.Data; len(list) > 0 && x.e.why == nil; list = list[opSize:] {
			x.acked(getOp(list), h.status)
		}
	case h.kind == kAck:
		x.e.fail(errAnswer)
	default:
		x.came(h, m)
	}
}

// asked is the request of ours that an answer is to; nil if it has ended.
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

// acked ends a request.
func (x *end) acked(op uint64, status uint8) {
	if s := x.asked(op); s != nil {
		err := statusError(status)
		if err == nil && !s.of.write {
			err = errAnswer
		}
		s.ended(waitAnswer, err)
	}
}

// came takes a piece of what was asked for.
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

// gather reads what the request is to write, which is as long as to.
func (s *slot) gather(to []byte) error {
	return guard(func() {
		for i := range s.segs {
			_, local, n := s.place(i)
			move(addressOf(to), local, n)
			to = to[n:]
		}
	})
}

// scatter puts what came, which is all of it, to where the request says.
func (s *slot) scatter(data []byte) error {
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

// fail ends what the link has to do. Messages that UCX has not sent keep their slots until it gives them up.
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
		t.settle()
	}
	for _, s := range x.e.slots {
		s.ended(s.waits&waitAnswer, err)
	}
}
