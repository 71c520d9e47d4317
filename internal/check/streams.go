package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// A call that finds no stream left is caused by the calls that took the streams. Most of these come from a few lines of
// the program.

// deviceOf returns the device of a thread's current context, -1 if it has none.
func deviceOf(t *core.Thread) int32 {
	if t == nil || t.Current() == nil {
		return -1
	}
	return t.Current().Device.User
}

// usedUp makes a finding of a call that found no stream left, and returns false for other calls. It names the lines
// that took the streams, the most frequent first. Checker.mu is held.
func (l *ledger) usedUp(d *draft, t *core.Thread, err *core.Error) bool {
	if err.Injected {
		return false
	}
	var taken []other
	var what string
	switch err.Code {
	case abi.ErrRTNoStreamResource:
		device := deviceOf(t)
		taken = l.streamsOf(device)
		made := len(taken)
		what = fmt.Sprintf("device %d has no stream left: the program has made %d", device, made)
		if !t.Runtime.Product.Modern { // else streams of captures have queues in software
			taken = append(taken, l.capturedIf(func(m *model) bool { return m.device == device })...)
			if n := len(taken) - made; n > 0 {
				what += fmt.Sprintf(", and models hold %d for streams that were captured", n)
			}
		}
	case abi.ErrRTResourceAllocFail:
		taken = l.capturedIf(func(m *model) bool { return m.within(err.Model) })
		what = fmt.Sprintf("%d streams were captured into model %d, more than an execution takes", len(taken),
			err.Model)
		d.advice = "Capture fewer streams: let pieces of work share one, and conditions have fewer branches."
	}
	if len(taken) == 0 {
		return false
	}
	d.rule, d.code, d.detail = "streams-used-up", err.Code, fmt.Sprint(err.API, int(err.Code))
	d.summary = fmt.Sprintf("%s returned %d%s: %s", err.API, err.Code, codeName(err.Code), what)
	lines := l.report.byLine(taken)
	if n := len(lines) - mostNamed; n > 0 {
		d.summary += fmt.Sprintf("; %s more took some", finding.Plural(n, "line"))
	}
	for _, line := range lines[:min(len(lines), mostNamed)] {
		d.others, d.times = append(d.others, line.call), append(d.times, line.n)
	}
	return true
}

// streamsOf returns the calls that made the live streams of a device, oldest first. Checker.mu is held.
func (l *ledger) streamsOf(device int32) (list []other) {
	for _, h := range l.unreleased(func(h *handle) bool {
		return h.r.Kind == core.StreamHandle && h.r.Device == device
	}) {
		list = append(list, other{"made", h.by})
	}
	return list
}

// capturedIf returns the calls by which streams joined the captures of the models selected by ok, oldest first.
// Checker.mu is held.
func (l *ledger) capturedIf(ok func(*model) bool) (list []other) {
	for _, id := range slices.Sorted(maps.Keys(l.models)) {
		m := l.models[id]
		if m.built || !ok(m) {
			continue
		}
		for _, s := range m.streams {
			list = append(list, other{"captured", s.joined})
		}
	}
	return list
}

// taker is a line of the program that took streams.
type taker struct {
	call  other // with the most frequent stack
	calls map[*stack]int
	n     int
}

// byLine sorts calls by the line that they are in, the most frequent first. Checker.mu is held.
func (r *report) byLine(calls []other) (lines []*taker) {
	type key struct {
		role  string
		stack *stack
		line  string // used instead of the stack
	}
	known := map[key]*taker{}
	for _, o := range calls {
		from := key{role: o.role, stack: stackOf(o.from)}
		l := known[from]
		if l == nil {
			site := r.at(o.role, o.from)
			line := key{role: o.role, line: finding.Layout{}.Place(&site)}
			if l = known[line]; l == nil {
				l = &taker{call: o, calls: map[*stack]int{}}
				known[line] = l
				lines = append(lines, l)
			}
			known[from] = l
		}
		l.n++
		l.calls[from.stack]++
		if l.calls[from.stack] > l.calls[stackOf(l.call.from)] {
			l.call = o
		}
	}
	slices.SortStableFunc(lines, func(a, b *taker) int { return cmp.Compare(b.n, a.n) })
	return lines
}
