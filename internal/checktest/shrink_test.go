package checktest

import "slices"

// shrink makes a program smaller as long as it stays bad, so that a person can read it.
func shrink(p *program, bad func(*program) bool) *program {
	for smaller := true; smaller; {
		smaller = false
		for i := len(p.steps) - 1; i >= 0; i-- {
			for _, gone := range p.parts(min(i, len(p.steps)-1)) {
				if q := p.less(gone); q != nil && bad(q) {
					p, smaller = q, true
					break
				}
			}
			i = min(i, len(p.steps))
		}
	}
	return p
}

// parts are the steps that can go together, given one of them.
func (p *program) parts(i int) [][]int {
	s := &p.steps[i]
	same := func(ok func(o *step) bool) (list []int) {
		for k := range p.steps {
			if ok(&p.steps[k]) {
				list = append(list, k)
			}
		}
		return list
	}
	switch s.op {
	case alloc: // the buffer and all that is done with it
		return [][]int{same(func(o *step) bool { return p.mentions(o, s.buf) })}
	case newStream:
		return [][]int{same(func(o *step) bool {
			return o.stream == s.stream && (p.queued(o) || o.op == newStream || o.op == destroyStream ||
				o.op == syncStream || o.op == queryStream)
		})}
	case newEvent:
		return [][]int{same(func(o *step) bool { return o.event == s.event && ofEvent(o.op) })}
	case post:
		return [][]int{append(same(func(o *step) bool { return o.op == await && o.target == i }), i)}
	case free, destroyStream, destroyEvent, setDescriptor, setCell:
		return nil
	case fillAsync, fillNow, touchHost:
		if i > 0 && p.steps[i-1].op == alloc { // this is how the buffer got its contents
			return nil
		}
	}
	return [][]int{{i}}
}

func ofEvent(o op) bool {
	return slices.Contains([]op{newEvent, destroyEvent, record, wait, reset, syncEvent, queryEvent}, o)
}

// mentions reports whether a step names a buffer.
func (p *program) mentions(s *step, buf int) bool {
	named := slices.ContainsFunc(s.moves, func(m move) bool { return m.dst == buf || m.src == buf }) ||
		slices.ContainsFunc(s.touches, func(t touch) bool { return t.buf == buf })
	switch s.op {
	case alloc, free, fillAsync, fillNow, wordsAsync, wordsNow, setDescriptor, copyDescriptor, copyOffset:
		return named || s.buf == buf
	case setCell:
		return s.buf == buf || s.target == buf
	}
	return named
}

// less is the program without some steps; nil if what is left makes no sense.
func (p *program) less(gone []int) *program {
	slices.Sort(gone)
	q := p
	for _, i := range slices.Backward(gone) {
		for k := range q.steps {
			if s := &q.steps[k]; s.op == await && s.target == i {
				return nil
			}
		}
		q = q.without(i)
	}
	if len(gone) == 0 || len(q.steps) == 0 {
		return nil
	}
	return q
}
