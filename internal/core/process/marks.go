package process

import (
	"encoding/binary"
	"fmt"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Marks are the part of the vendor's profiling for annotations of a program: moments, nested ranges and free ranges,
// each with a text. They are on while there is a tracer, as the vendor's are under its profiler; only the tracer
// receives them.

// marks holds the marks of the process.
type marks struct {
	stamps core.Table[profStamp]

	mu     sync.Mutex
	next   uint32                 // guarded by mu; number of the next range or moment
	places [mostStamps]*profStamp // guarded by mu; stamps in use
	ranges [mostStamps]*mark      // guarded by mu; ranges of aclprofRangeStart, by its result
}

const (
	mostStamps = 100
	stampText  = 127 // most bytes of a stamp's text, with the terminator
	markText   = 155 // most bytes of the text of aclprofMarkEx
	misused    = abi.Code(-1)
)

// profStamp is a stamp, for which a program sets a text before it reports it. Guarded by marks.mu.
type profStamp struct {
	handle core.Handle
	place  uint32
	text   string
}

// mark is a range that has begun. Immutable, except for ended.
type mark struct {
	kind   observe.RangeKind
	number uint32
	text   string
	start  int64
	ended  bool // guarded by marks.mu
}

// marked reports whether marks are on.
func marked(t *core.Thread, api string) *core.Error {
	if t.Runtime.Tracer() == nil {
		return core.Fail(api, misused, "", "nothing records the program: start it with ropeway trace")
	}
	return nil
}

// stamped returns the stamp of a handle.
func stamped(t *core.Thread, api string, h core.Handle) (*profStamp, *core.Error) {
	if s := marksOf(t.Runtime).stamps.Get(h); s != nil {
		return s, nil
	}
	return nil, core.Fail(api, misused, "stamp", "%#x is no stamp, or one that was destroyed",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// beginRange begins a range with a stamp's text and reports it to the tracer.
func beginRange(t *core.Thread, kind observe.RangeKind, s *profStamp) *mark {
	m, o := marksOf(t.Runtime), t.Runtime.Tracer()
	m.mu.Lock()
	n := &mark{kind: kind, number: m.next, text: s.text, start: o.Now()}
	m.next++
	m.mu.Unlock()
	o.Ranged(observe.Range{Kind: kind, Number: n.number, Thread: t.ID(), Text: n.text, Start: n.start})
	return n
}

// endRange reports to the tracer that a range has ended, in this thread.
func endRange(t *core.Thread, n *mark) {
	o := t.Runtime.Tracer()
	o.Ranged(observe.Range{Kind: n.kind, Number: n.number, Thread: t.ID(), Start: n.start,
		End: max(o.Now(), n.start+1)})
}

// moment reports a moment to the tracer.
func moment(t *core.Thread, text string, at int64, on observe.At) {
	m := marksOf(t.Runtime)
	m.mu.Lock()
	number := m.next
	m.next++
	m.mu.Unlock()
	t.Runtime.Tracer().Ranged(observe.Range{Kind: observe.Moment, Number: number, Thread: t.ID(), Text: text, Start: at,
		End: at, Marker: on})
}

// ProfCreateStamp is aclprofCreateStamp.
func ProfCreateStamp(t *core.Thread) core.Handle {
	if t.Runtime.Tracer() == nil {
		return 0
	}
	m := marksOf(t.Runtime)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.places {
		if m.places[i] == nil {
			s := &profStamp{place: uint32(i)}
			s.handle = m.stamps.Add(s)
			m.places[i] = s
			return s.handle
		}
	}
	return 0
}

// ProfDestroyStamp is aclprofDestroyStamp. It ignores an invalid handle.
func ProfDestroyStamp(t *core.Thread, stamp core.Handle) {
	m := marksOf(t.Runtime)
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.stamps.Remove(stamp); s != nil {
		m.places[s.place] = nil
	}
}

// ProfSetStampTraceMessage is aclprofSetStampTraceMessage.
func ProfSetStampTraceMessage(t *core.Thread, stamp core.Handle, msg *byte, msgLen uint32) *core.Error {
	s, text, err := checkProfSetStampTraceMessage(t, stamp, msg, msgLen)
	if err != nil {
		return err
	}
	marksOf(t.Runtime).mu.Lock()
	defer marksOf(t.Runtime).mu.Unlock()
	s.text = text
	return nil
}

// messageOf reads the program's text for a stamp.
func messageOf(_ *core.Thread, api string, msg *byte, msgLen uint32) (string, *core.Error) {
	n := uint64(0)
	for n < uint64(msgLen) && core.Array(msg, n+1)[n] != 0 {
		n++
	}
	if n >= stampText {
		return "", core.Fail(api, misused, "msg", "has %d bytes; the most are %d", n, stampText-1)
	}
	return string(core.Array(msg, n)), nil
}

// ProfPush is aclprofPush. Each thread has its own stack.
func ProfPush(t *core.Thread, stamp core.Handle) *core.Error {
	s, err := checkProfPush(t, stamp)
	if err != nil {
		return err
	}
	t.Pushed = append(t.Pushed, beginRange(t, observe.Nested, s))
	return nil
}

// ProfPop is aclprofPop.
func ProfPop(t *core.Thread) *core.Error {
	if err := checkProfPop(t); err != nil {
		return err
	}
	n := len(t.Pushed)
	if n == 0 {
		return core.Fail("aclprofPop", misused, "", "this thread has pushed nothing that it has not popped")
	}
	endRange(t, t.Pushed[n-1].(*mark))
	t.Pushed = t.Pushed[:n-1]
	return nil
}

// ProfRangeStart is aclprofRangeStart. It ends an open range of the same stamp.
func ProfRangeStart(t *core.Thread, stamp core.Handle, rangeId *uint32) *core.Error {
	s, err := checkProfRangeStart(t, stamp, rangeId)
	if err != nil {
		return err
	}
	n := beginRange(t, observe.Free, s)
	m := marksOf(t.Runtime)
	m.mu.Lock()
	old := m.ranges[s.place]
	m.ranges[s.place] = n
	open := old != nil && !old.ended
	m.mu.Unlock()
	if open {
		endRange(t, old)
	}
	*rangeId = s.place
	return nil
}

// ProfRangeStop is aclprofRangeStop. A second one reports the range again, with another end.
func ProfRangeStop(t *core.Thread, rangeId uint32) *core.Error {
	if err := checkProfRangeStop(t, rangeId); err != nil {
		return err
	}
	m := marksOf(t.Runtime)
	m.mu.Lock()
	var n *mark
	if rangeId < mostStamps && m.ranges[rangeId] != nil {
		n = m.ranges[rangeId]
		if n.ended {
			again := *n
			again.number = m.next
			m.next++
			t.Runtime.Tracer().Ranged(observe.Range{Kind: again.kind, Number: again.number, Thread: t.ID(),
				Text: again.text, Start: again.start})
			n = &again
		}
		n.ended = true
	}
	m.mu.Unlock()
	if n == nil {
		return core.Fail("aclprofRangeStop", misused, "rangeId", "is %d, which aclprofRangeStart has not returned",
			rangeId)
	}
	endRange(t, n)
	return nil
}

// ProfMark is aclprofMark.
func ProfMark(t *core.Thread, stamp core.Handle) *core.Error {
	s, err := checkProfMark(t, stamp)
	if err != nil {
		return err
	}
	marksOf(t.Runtime).mu.Lock()
	text := s.text
	marksOf(t.Runtime).mu.Unlock()
	moment(t, text, t.Runtime.Tracer().Now(), observe.At{})
	return nil
}

// ProfMarkEx is aclprofMarkEx.
func ProfMarkEx(t *core.Thread, msg *byte, msgLen uint64, stream core.Handle) *core.Error {
	const api = "aclprofMarkEx"
	if err := checkProfMarkEx(t, msg, msgLen, stream); err != nil {
		return err
	}
	switch {
	case msg == nil:
		return core.Fail(api, misused, "msg", "is NULL")
	case stream == 0:
		return core.Fail(api, misused, "stream", "is NULL, which does not stand for the default stream here")
	}
	text := core.CString(msg)
	switch {
	case uint64(len(text)) != msgLen:
		return core.Fail(api, misused, "msgLen", "is %d, but msg has %d bytes", msgLen, len(text))
	case msgLen == 0 || msgLen > markText:
		return core.Fail(api, misused, "msgLen", "is %d; a text has 1 to %d bytes", msgLen, markText)
	}
	now := t.Runtime.Tracer().Now()
	on, err := queueMark(t, api, stream)
	if err != nil {
		if err.Recorded() && !t.Shared {
			t.Last = err.Code
		}
		err.Code = misused
		return err
	}
	moment(t, text, now, on)
	return nil
}

// ProfTrace is aclrtProfTrace: a mark with numbers. Without a tracer, the task does nothing.
func ProfTrace(t *core.Thread, userdata core.Addr, length int32, stream core.Handle) *core.Error {
	const api = "aclrtProfTrace"
	s, _, err := checkProfTrace(t, userdata, length, stream)
	if err != nil {
		return err
	}
	var data [18]byte // id, model id, tag; missing ones are 0
	copy(data[:], core.ArrayOf(t, core.Pointer[byte](userdata), uint64(length)))
	o := t.Runtime.Tracer()
	var now int64
	if o != nil {
		now = o.Now()
	}
	on, err := queueMarkOn(t, api, s)
	if err == nil && o != nil {
		moment(t, fmt.Sprintf("trace %d, model %d, tag %d", binary.LittleEndian.Uint64(data[:]),
			binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint16(data[16:])), now, on)
	}
	return err
}

// queueMark submits an empty task, which shows when the stream reaches it.
func queueMark(t *core.Thread, api string, stream core.Handle) (on observe.At, err *core.Error) {
	s, err := t.Stream(api, "stream", stream)
	if err == nil {
		s, err = t.StreamOfCurrent(api, s)
	}
	if err != nil {
		return on, err
	}
	return queueMarkOn(t, api, s)
}

func queueMarkOn(t *core.Thread, api string, s *core.Stream) (on observe.At, err *core.Error) {
	if err := s.Admit(api); err != nil {
		return on, err
	}
	op := driver.Op{Kind: driver.OpFunc, Fn: func() {}, Tag: s.NextTag(t, nil)}
	s.Put(api, t, core.Task{Op: op, Kind: observe.Mark})
	return observe.At{Stream: s.ID, Number: op.Tag.Task}, nil
}

func marksOf(rt *core.Runtime) *marks { return &processOf(rt).marks }
