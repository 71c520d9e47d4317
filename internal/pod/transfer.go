package pod

import "errors"

// Errors of copies and imports, alone or with detail.
var (
	ErrTimeout    = errors.New("pod: the other server does not answer")
	ErrGone       = errors.New("pod: the other server, or its process, is gone")
	ErrUnknown    = errors.New("pod: the other server does not export it, or no longer")
	ErrNotAllowed = errors.New("pod: the other server has not named this process")
	ErrRange      = errors.New("pod: the range is not inside the exported memory")
	ErrFault      = errors.New("pod: memory of this process is not there")
	ErrClosed     = errors.New("pod: closed")
)

var errAnswer = errors.New("pod: the other server's answer is not to what was asked")

// transfer is a copy between memory of this process and memory of another.
type transfer struct {
	share uint64
	write bool
	stays bool        // of a write: local memory stays accessible until done is called; see WriteStaying
	segs  []Segment   // none is empty
	done  func(error) // called once

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
