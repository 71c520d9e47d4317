package trace

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ropeway/internal/finding"
	"ropeway/internal/observe"
	"ropeway/internal/recorder"
	"ropeway/internal/timeline"
)

// called returns the indexes of the function and the site of calls with a number; the site may be None.
func (t *part) called(number uint16) (function, index int) {
	s, ok := t.p.sites[number]
	if !ok {
		return t.function(number), timeline.None
	}
	index, known := t.siteOf[number]
	if !known {
		index = t.site(number, s)
		t.siteOf[number] = index
	}
	return t.function(s.function), index
}

// same reports whether calls with two numbers are of the same function.
func (t *part) same(a, b uint16) bool { return t.p.base(a) == t.p.base(b) }

// base returns the number of the function of calls with a number.
func (p *process) base(number uint16) uint16 {
	if s, ok := p.sites[number]; ok {
		return s.function
	}
	return number
}

// site returns the index of a site; sites on one known line share it.
func (t *part) site(number uint16, s site) int {
	out := timeline.Site{
		File: t.p.texts[textKey{recorder.TextFile, uint32(number)}], Function: t.p.texts[textKey{recorder.TextIn,
			uint32(number)}], Line: int(s.line),
	}
	if s.module != 0 {
		module := t.p.texts[textKey{recorder.TextModule, s.module - 1}]
		out = timeline.Site{Module: module, Inside: s.offset}
		if f := callerIn(t.symbols.InBuild(module, t.p.texts[textKey{recorder.TextBuild, s.module - 1}],
			s.offset)); f != nil {
			out.File, out.Line, out.Function, out.Inside = f.File, f.Line, f.Function, cmp.Or(f.Inside, s.offset)
		}
		if out.File != "" {
			out.Module, out.Inside = "", 0
		}
	}
	if out == (timeline.Site{}) {
		return timeline.None
	}
	i, ok := t.sites[out]
	if !ok {
		i = len(t.run.Sites)
		t.sites[out] = i
		t.run.Sites = append(t.run.Sites, out)
	}
	return i
}

// ownHeaders is part of the path of our headers, whose inlined functions call the API for the program.
const ownHeaders = "/include/acl/"

// callerIn returns the innermost function of the program itself; nil if there is none.
func callerIn(frames []finding.Frame) *finding.Frame {
	for i := range frames {
		if f := &frames[i]; !strings.Contains(f.File, ownHeaders) || i == len(frames)-1 {
			return f
		}
	}
	return nil
}

// ranges adds the named ranges of the program; index has the process's tasks by their keys.
func (t *part) ranges(index map[taskKey]int) {
	for _, number := range slices.Sorted(maps.Keys(t.p.ranges)) {
		r := t.p.ranges[number]
		out := r.Range
		out.Text = t.p.texts[textKey{recorder.TextRange, number}]
		out.Task, out.Start, out.End = timeline.None, t.time(r.Start), timeline.None
		if r.End != 0 {
			out.End = max(t.time(r.End), out.Start)
		}
		if task, ok := index[r.mark]; ok && r.mark.number != 0 && r.Kind == observe.Moment {
			out.Task = task
		}
		out.Thread = t.thread(r.thread)
		t.run.Ranges = append(t.run.Ranges, out)
	}
}
