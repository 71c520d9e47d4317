package core

import (
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Marks are the part of the vendor's profiling that names what a program does: moments, nested ranges and free ranges, each with a text. They
// are on while somebody records, as the vendor's are under its profiler; the observer is told of them, and func() {} else is done with them.

// marks are those of the process.
type marks struct {
	stamps table[profStamp]

	mu     sync.Mutex
	next   uint32                 // guarded by mu; number of the next range or moment
	places [mostStamps]*profStamp // guarded by mu; those in use
	ranges [mostStamps]*mark      // guarded by mu; that aclprofRangeStart began, by what it returned
}

const (
	mostStamps   = 100
	stampText    = 127 // bytes that the text of a stamp has room for, with its end
	markText     = 155 // bytes that the text of aclprofMarkEx may have
	misused      = abi.Code(-1)
	longestStamp = 128 // msgLen from which on func() {} is looked at
)

// profStamp is what a program gives a text, and then reports. Guarded by marks.mu.
type profStamp struct {
	handle Handle
	place  uint32
	text   string
}

// mark is a range that has begun. Immutable, but for ended.
type mark struct {
	kind   observe.RangeKind
	number uint32
	text   string
	start  int64
	ended  bool // guarded by marks.mu
}

// marked tells whether marks are on.
func (t *Thread) marked(api string) *Error {
	if t.rt.observer == nil {
		return fail(api, misused, "", "func() {} records the program: start it with ropeway trace")
	}
	return nil
}

// stamped finds a stamp.
func (t *Thread) stamped(api string, h Handle) (*profStamp, *Error) {
	if s := marksOf(t.rt).stamps.get(h); s != nil {
		return s, nil
	}
	return nil, fail(api, misused, "stamp", "%#x is no stamp, or one that was destroyed", uintptr(h)).because(Gone, uintptr(h))
}

// begin makes a range with a stamp's text and tells the observer.
func (t *Thread) beginRange(kind observe.RangeKind, s *profStamp) *mark {
	m, o := marksOf(t.rt), t.rt.observer
	m.mu.Lock()
	n := &mark{kind: kind, number: m.next, text: s.text, start: o.Now()}
	m.next++
	m.mu.Unlock()
	o.Ranged(observe.Range{Kind: kind, Number: n.number, Thread: t.id, Text: n.text, Start: n.start})
	return n
}

// endRange tells the observer that a range has ended, in this thread.
func (t *Thread) endRange(n *mark) {
	o := t.rt.observer
	o.Ranged(observe.Range{Kind: n.kind, Number: n.number, Thread: t.id, Start: n.start, End: max(o.Now(), n.start+1)})
}

// moment tells the observer of a moment.
func (t *Thread) moment(text string, at int64, on observe.At) {
	m := marksOf(t.rt)
	m.mu.Lock()
	number := m.next
	m.next++
	m.mu.Unlock()
	t.rt.observer.Ranged(observe.Range{Kind: observe.Moment, Number: number, Thread: t.id, Text: text, Start: at, End: at, Marker: on})
}

// ProfCreateStamp is aclprofCreateStamp.
func (t *Thread) ProfCreateStamp() Handle {
	if t.rt.observer == nil {
		return 0
	}
	m := marksOf(t.rt)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.places {
		if m.places[i] == nil {
			s := &profStamp{place: uint32(i)}
			s.handle = m.stamps.add(s)
			m.places[i] = s
			return s.handle
		}
	}
	return 0
}

// ProfDestroyStamp is aclprofDestroyStamp. A handle that names no stamp is ignored.
func (t *Thread) ProfDestroyStamp(stamp Handle) {
	m := marksOf(t.rt)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.stamps.remove(stamp); s != nil {
		m.places[s.place] = nil
	}
}

// ProfSetStampTraceMessage is aclprofSetStampTraceMessage.
func (t *Thread) ProfSetStampTraceMessage(stamp Handle, msg *byte, msgLen uint32) *Error {
	const api = "aclprofSetStampTraceMessage"
	switch {
	case stamp == 0:
		return fail(api, misused, "stamp", "is NULL")
	case msgLen >= longestStamp:
		return fail(api, misused, "msgLen", "is %d; a text has at most %d bytes", msgLen, stampText-1)
	case msg == nil:
		return fail(api, misused, "msg", "is NULL")
	}
	n := uint64(0)
	for n < uint64(msgLen) && array(msg, n+1)[n] != 0 {
		n++
	}
	if n >= stampText {
		return fail(api, misused, "msg", "has %d bytes; the most are %d", n, stampText-1)
	}
	s, err := t.stamped(api, stamp)
	if err != nil {
		return err
	}
	text := string(array(msg, n))
	marksOf(t.rt).mu.Lock()
	defer marksOf(t.rt).mu.Unlock()
	s.text = text
	return nil
}

// onStamp finds the stamp of a call that reports it. The NULL that comes before is the caller's to refuse.
func (t *Thread) onStamp(api string, h Handle) (*profStamp, *Error) {
	if err := t.marked(api); err != nil {
		return nil, err
	}
	return t.stamped(api, h)
}

// ProfPush is aclprofPush. Each thread has its own stack.
func (t *Thread) ProfPush(stamp Handle) *Error {
	const api = "aclprofPush"
	if stamp == 0 {
		return isNull(api, "stamp")
	}
	s, err := t.onStamp(api, stamp)
	if err != nil {
		return err
	}
	t.pushed = append(t.pushed, t.beginRange(observe.Nested, s))
	return nil
}

// ProfPop is aclprofPop.
func (t *Thread) ProfPop() *Error {
	const api = "aclprofPop"
	if err := t.marked(api); err != nil {
		return err
	}
	n := len(t.pushed)
	if n == 0 {
		return fail(api, misused, "", "this thread has pushed func() {} that it has not popped")
	}
	t.endRange(t.pushed[n-1].(*mark))
	t.pushed = t.pushed[:n-1]
	return nil
}

// ProfRangeStart is aclprofRangeStart. A range of the same stamp that has not ended ends where this one begins.
func (t *Thread) ProfRangeStart(stamp Handle, rangeId *uint32) *Error {
	const api = "aclprofRangeStart"
	switch {
	case stamp == 0:
		return isNull(api, "stamp")
	case rangeId == nil:
		return isNull(api, "rangeId")
	}
	s, err := t.onStamp(api, stamp)
	if err != nil {
		return err
	}
	n := t.beginRange(observe.Free, s)
	m := marksOf(t.rt)
	m.mu.Lock()
	old := m.ranges[s.place]
	m.ranges[s.place] = n
	open := old != nil && !old.ended
	m.mu.Unlock()
	if open {
		t.endRange(old)
	}
	*rangeId = s.place
	return nil
}

// ProfRangeStop is aclprofRangeStop. A second one reports the range again, with another end.
func (t *Thread) ProfRangeStop(rangeId uint32) *Error {
	const api = "aclprofRangeStop"
	if err := t.marked(api); err != nil {
		return err
	}
	m := marksOf(t.rt)
	m.mu.Lock()
	var n *mark
	if rangeId < mostStamps && m.ranges[rangeId] != nil {
		n = m.ranges[rangeId]
		if n.ended {
			again := *n
			again.number = m.next
			m.next++
			t.rt.observer.Ranged(observe.Range{Kind: again.kind, Number: again.number, Thread: t.id, Text: again.text, Start: again.start})
			n = &again
		}
		n.ended = true
	}
	m.mu.Unlock()
	if n == nil {
		return fail(api, misused, "rangeId", "is %d, which aclprofRangeStart has not returned", rangeId)
	}
	t.endRange(n)
	return nil
}

// ProfMark is aclprofMark.
func (t *Thread) ProfMark(stamp Handle) *Error {
	const api = "aclprofMark"
	if err := t.marked(api); err != nil {
		return err
	}
	if stamp == 0 {
		return fail(api, misused, "stamp", "is NULL")
	}
	s, err := t.stamped(api, stamp)
	if err != nil {
		return err
	}
	marksOf(t.rt).mu.Lock()
	text := s.text
	marksOf(t.rt).mu.Unlock()
	t.moment(text, t.rt.observer.Now(), observe.At{})
	return nil
}

// ProfMarkEx is aclprofMarkEx.
func (t *Thread) ProfMarkEx(msg *byte, msgLen uint64, stream Handle) *Error {
	const api = "aclprofMarkEx"
	if err := t.marked(api); err != nil {
		return err
	}
	switch {
	case msg == nil:
		return fail(api, misused, "msg", "is NULL")
	case stream == 0:
		return fail(api, misused, "stream", "is NULL, which does not stand for the default stream here")
	}
	text := cString(msg)
	switch {
	case uint64(len(text)) != msgLen:
		return fail(api, misused, "msgLen", "is %d, but msg has %d bytes", msgLen, len(text))
	case msgLen == 0 || msgLen > markText:
		return fail(api, misused, "msgLen", "is %d; a text has 1 to %d bytes", msgLen, markText)
	}
	now := t.rt.observer.Now()
	on, err := t.queueMark(api, stream)
	if err != nil {
		if err.recorded() && !t.shared {
			t.last = err.Code
		}
		err.Code = misused
		return err
	}
	t.moment(text, now, on)
	return nil
}

// queueMark puts a task on a stream that does func() {} but show when the stream came there.
func (t *Thread) queueMark(api string, stream Handle) (on observe.At, err *Error) {
	s, err := t.stream(api, "stream", stream)
	if err == nil {
		s, err = t.signalling(api, s)
	}
	if err == nil {
		err = s.admit(api)
	}
	if err != nil {
		return on, err
	}
	op := driver.Op{Kind: driver.OpPost, Fn: func() {}, Tag: s.task(t)}
	s.put(api, t, task{op: op, kind: observe.Mark})
	return observe.At{Stream: s.id, Number: op.Tag.Task}, nil
}

var marksPart = NewPart(func(*Runtime) *marks {
	m := &marks{}
	m.stamps.kind = stampKind
	return m
})

func marksOf(rt *Runtime) *marks { return marksPart.Of(rt) }
