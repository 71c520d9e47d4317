package conformance

import (
	"slices"
	"strings"
	"sync"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/observe"
)

// Proofs of the part of profiling that names moments and ranges.

// marksSeen is a tracer that keeps ranges and the tasks that mark moments.
type marksSeen struct {
	mu     sync.Mutex
	ranges []observe.Range
	tasks  []observe.Task
}

func (m *marksSeen) Now() int64 { return time.Now().UnixNano() }
func (m *marksSeen) Submitted(t observe.Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tasks = append(m.tasks, t)
}
func (m *marksSeen) Ranged(r observe.Range) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ranges = append(m.ranges, r)
}
func (m *marksSeen) Modelled(*observe.ModelGraph)                    {}
func (m *marksSeen) Ran(int32, uint32, int64, int64, observe.Result) {}
func (m *marksSeen) Called(observe.Call)                             {}
func (m *marksSeen) Copied(observe.Call, observe.Task)               {}
func (m *marksSeen) Function(string) uint16                          { return 0 }
func (m *marksSeen) From(f uint16, _ observe.Site) uint16            { return f }
func (m *marksSeen) Sites() bool                                     { return false }
func (m *marksSeen) Device(int32, string)                            {}
func (m *marksSeen) Stream(int32, int32, bool)                       {}
func (m *marksSeen) Thread(uint32)                                   {}
func (m *marksSeen) Left(uint32)                                     {}
func (m *marksSeen) Ended()                                          {}
func (m *marksSeen) Close() error                                    { return nil }

// recorded is another env, with a recorder.
func recorded(e *env) (*env, *marksSeen) {
	e.Helper()
	seen := &marksSeen{}
	return e.on(machine{tracer: seen}), seen
}

// stamp makes a stamp with a text.
func stamp(e *env, text string) core.Handle {
	e.Helper()
	s := process.ProfCreateStamp(e.th)
	if s == 0 {
		e.Fatal("no stamp")
	}
	e.ok(process.ProfSetStampTraceMessage(e.th, s, cText(text), uint32(len(text))))
	return s
}

// goneStamp is the handle of a stamp that was destroyed.
func goneStamp(e *env) core.Handle {
	e.Helper()
	s := stamp(e, "gone")
	process.ProfDestroyStamp(e.th, s)
	return s
}

// dead calls f with handles that name no stamp.
func dead(e *env, f func(th *core.Thread, stamp core.Handle) *core.Error) *core.Error {
	e.Helper()
	o, _ := recorded(e)
	return o.each(misused, []core.Handle{garbage, goneStamp(o), o.stream()},
		func(s core.Handle) *core.Error { return f(o.th, s) })
}

const misused = abi.Code(-1)

func init() {
	proveStamps()
	proveRanges()
	proveMarks()
}

func proveStamps() {
	prove("aclprofCreateStamp", "tx-off", func(e *env) *core.Error {
		is(e, "a stamp with nothing that records", process.ProfCreateStamp(e.th), 0)
		return nil
	})
	prove("aclprofCreateStamp", "no-stamp-left", func(e *env) *core.Error {
		o, _ := recorded(e)
		var all []core.Handle
		for range 100 {
			all = append(all, stamp(o, "one"))
		}
		is(e, "the stamp after a hundred", process.ProfCreateStamp(o.th), 0)
		process.ProfDestroyStamp(o.th, all[50])
		if again := stamp(o, "two"); again == all[50] || slices.Contains(all, again) {
			e.Errorf("a stamp has the handle of another: %#x", again)
		}
		return nil
	})
	behaves("aclprofCreateStamp", func(e *env) {
		o, _ := recorded(e)
		if a, b := stamp(o, "a"), stamp(o, "b"); a == b {
			e.Errorf("two stamps are one: %#x", a)
		}
	})
	behaves("aclprofDestroyStamp", func(e *env) {
		o, _ := recorded(e)
		for _, s := range []core.Handle{0, garbage, goneStamp(o)} {
			process.ProfDestroyStamp(o.th, s) // ignored
		}
		process.ProfDestroyStamp(e.th, garbage)
	})

	set := func(th *core.Thread, s core.Handle) *core.Error {
		return process.ProfSetStampTraceMessage(th, s, cText("x"), 1)
	}
	prove("aclprofSetStampTraceMessage", "text-too-long", func(e *env) *core.Error {
		return e.blames("msg", process.ProfSetStampTraceMessage(e.th, garbage, cText(strings.Repeat("x", 127)), 127))
	})
	prove("aclprofSetStampTraceMessage", "stamp-unknown", func(e *env) *core.Error { return dead(e, set) })
	behaves("aclprofSetStampTraceMessage", func(e *env) {
		o, seen := recorded(e)
		s := stamp(o, "first")
		long := strings.Repeat("x", 126)
		for _, c := range []struct {
			text string
			n    uint32
			want string
		}{{"shorter", 5, "short"}, {"ends", 100, "ends"}, {long, 127, long}, {"none", 0, ""}} {
			o.ok(process.ProfSetStampTraceMessage(o.th, s, cText(c.text), c.n))
			o.ok(process.ProfMark(o.th, s))
			is(e, "text", seen.ranges[len(seen.ranges)-1].Text, c.want)
		}
	})
}

func proveRanges() {
	prove("aclprofPush", "tx-off", func(e *env) *core.Error { return process.ProfPush(e.th, garbage) })
	prove("aclprofPush", "stamp-unknown", func(e *env) *core.Error { return dead(e, process.ProfPush) })
	prove("aclprofPop", "tx-off", func(e *env) *core.Error { return process.ProfPop(e.th) })
	prove("aclprofPop", "nothing-pushed", func(e *env) *core.Error {
		o, _ := recorded(e)
		s := stamp(o, "x")
		o.ok(process.ProfPush(o.th, s))
		o.want(process.ProfPop(o.stranger()), misused) // each thread has its own
		o.ok(process.ProfPop(o.th))
		return process.ProfPop(o.th)
	})
	nested := func(e *env) {
		o, seen := recorded(e)
		outer, inner := stamp(o, "outer"), stamp(o, "inner")
		o.ok(process.ProfPush(o.th, outer))
		o.ok(process.ProfPush(o.th, inner))
		process.ProfDestroyStamp(o.th, inner) // the range goes on
		o.ok(process.ProfPop(o.th))
		o.ok(process.ProfPop(o.th))
		r := seen.ranges
		if len(r) != 4 || r[0].Text != "outer" || r[1].Text != "inner" || r[0].End != 0 || r[1].End != 0 ||
			r[2].Number != r[1].Number || r[3].Number != r[0].Number ||
			r[0].Number == r[1].Number || r[2].Start != r[1].Start || r[2].End <= r[2].Start || r[3].End < r[2].End ||
			r[3].Kind != observe.Nested || r[3].Thread != 1 {
			e.Errorf("%+v", r)
		}
	}
	behaves("aclprofPush", nested)
	behaves("aclprofPop", nested)

	var id uint32
	prove("aclprofRangeStart", "tx-off", func(e *env) *core.Error { return process.ProfRangeStart(e.th, garbage, &id) })
	prove("aclprofRangeStart", "stamp-unknown", func(e *env) *core.Error {
		return dead(e, func(th *core.Thread, s core.Handle) *core.Error { return process.ProfRangeStart(th, s, &id) })
	})
	prove("aclprofRangeStop", "tx-off", func(e *env) *core.Error { return process.ProfRangeStop(e.th, 0) })
	prove("aclprofRangeStop", "rangeId-unknown", func(e *env) *core.Error {
		o, _ := recorded(e)
		for _, n := range []uint32{0, 99, 1 << 31} {
			o.want(process.ProfRangeStop(o.th, n), misused)
		}
		return o.blames("rangeId", process.ProfRangeStop(o.th, 100))
	})
	free := func(e *env) {
		o, seen := recorded(e)
		a, b := stamp(o, "a"), stamp(o, "b")
		var first, second uint32
		o.ok(process.ProfRangeStart(o.th, a, &first))
		o.ok(process.ProfRangeStart(o.th, b, &second))
		o.ok(process.ProfRangeStop(o.stranger(), first)) // they overlap, and end in any thread
		o.ok(process.ProfRangeStop(o.th, second))
		r := seen.ranges
		if len(r) != 4 || first == second || r[2].Number != r[0].Number || r[2].Thread != 2 || r[0].Thread != 1 ||
			r[3].Number != r[1].Number || r[3].Kind != observe.Free {
			e.Errorf("%d, %d: %+v", first, second, r)
		}
		o.ok(process.ProfRangeStop(o.th, second)) // reported once more
		if r := seen.ranges; len(r) != 6 || r[4].Number == r[1].Number || r[4].Text != "b" ||
			r[5].Start != r[1].Start || r[5].End < r[3].End {
			e.Errorf("%+v", r)
		}
		o.ok(process.ProfRangeStart(o.th, a, &first))
		o.ok(process.ProfRangeStart(o.th, a, &first)) // ends the one before
		if r := seen.ranges; len(r) != 9 || r[8].Number != r[6].Number || r[8].End < r[7].Start {
			e.Errorf("%+v", r)
		}
	}
	behaves("aclprofRangeStart", free)
	behaves("aclprofRangeStop", free)
}

func proveMarks() {
	prove("aclprofMark", "tx-off", func(e *env) *core.Error { return process.ProfMark(e.th, 0) })
	prove("aclprofMark", "stamp-null", func(e *env) *core.Error {
		o, _ := recorded(e)
		return o.blames("stamp", process.ProfMark(o.th, 0))
	})
	prove("aclprofMark", "stamp-unknown", func(e *env) *core.Error { return dead(e, process.ProfMark) })
	behaves("aclprofMark", func(e *env) {
		o, seen := recorded(e)
		s := stamp(o, "here")
		o.ok(process.ProfMark(o.th, s))
		if r := seen.ranges; len(r) != 1 || r[0].Kind != observe.Moment || r[0].Text != "here" || r[0].Start == 0 ||
			r[0].Marker != (observe.At{}) {
			e.Errorf("%+v", r)
		}
	})

	text := cText("here")
	prove("aclprofMarkEx", "tx-off", func(e *env) *core.Error { return process.ProfMarkEx(e.th, nil, 0, 0) })
	prove("aclprofMarkEx", "text-invalid", func(e *env) *core.Error {
		o, _ := recorded(e)
		o.blames("msg", process.ProfMarkEx(o.th, nil, 0, 0))
		o.blames("stream", process.ProfMarkEx(o.th, text, 4, 0))
		return o.blames("msgLen", process.ProfMarkEx(o.th, text, 3, garbage))
	})
	prove("aclprofMarkEx", "msgLen-range", func(e *env) *core.Error {
		o, _ := recorded(e)
		o.want(process.ProfMarkEx(o.th, cText(""), 0, garbage), misused)
		return o.blames("msgLen", process.ProfMarkEx(o.th, cText(strings.Repeat("x", 156)), 156, garbage))
	})
	prove("aclprofMarkEx", "marker-fails", func(e *env) *core.Error {
		o, _ := recorded(e)
		o.want(process.ProfMarkEx(o.th, text, 4, o.foreign()), misused)
		is(e, "last error", process.PeekAtLastError(o.th, 0), abi.ErrRTStreamContext)
		s := o.stream()
		other := o.stranger()
		o.want(process.ProfMarkEx(other, text, 4, s), misused)
		is(e, "last error", process.PeekAtLastError(other, 0), abi.ErrRTContextNull)
		err := process.ProfMarkEx(o.th, text, 4, garbage)
		is(e, "last error", process.PeekAtLastError(o.th, 0), abi.ErrRTInvalidHandle)
		return err
	})
	behaves("aclprofMarkEx", func(e *env) {
		o, seen := recorded(e)
		s := o.stream()
		long := strings.Repeat("x", 155)
		o.ok(process.ProfMarkEx(o.th, cText(long), 155, s))
		o.ok(o.th.SynchronizeStream(s))
		if r, k := seen.ranges, seen.tasks; len(r) != 1 || len(k) != 1 || k[0].Kind != observe.Mark ||
			r[0].Text != long ||
			r[0].Marker != (observe.At{Stream: k[0].Stream, Number: k[0].Number}) || r[0].Start > k[0].Submit {
			e.Errorf("%+v, %+v", r, k)
		}
	})

	behaves("aclrtProfTrace", func(e *env) {
		o, seen := recorded(e)
		s, data := o.stream(), []byte{5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0}
		o.ok(process.ProfTrace(o.th, core.AddrOf(data), 18, s))
		o.ok(process.ProfTrace(o.th, core.AddrOf(data), 9, s)) // what is missing counts as 0
		o.ok(o.th.SynchronizeStream(s))
		if r, k := seen.ranges, seen.tasks; len(r) != 2 || len(k) != 2 || k[0].Kind != observe.Mark ||
			r[0].Text != "trace 5, model 6, tag 7" || r[1].Text != "trace 5, model 6, tag 0" ||
			r[0].Marker != (observe.At{Stream: k[0].Stream, Number: k[0].Number}) {
			e.Errorf("%+v, %+v", r, k)
		}
		plain, release := e.blocked() // a task also where nobody records
		e.ok(process.ProfTrace(e.th, core.AddrOf(data), 18, plain))
		var status abi.StreamStatus
		e.ok(e.th.StreamQuery(plain, &status))
		is(e, "queued", status, abi.StreamStatusNotReady)
		release()
		e.ok(e.th.SynchronizeStream(plain))
	})
}
