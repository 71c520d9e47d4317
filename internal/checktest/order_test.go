package checktest

import "slices"

// conflict is a pending access that collides with uses that are after c, or nil.
func (m *maker) conflict(uses []use, c clock) *pending {
	for _, u := range uses {
		for _, a := range m.bufs[u.buf].busy {
			if a.lo < u.hi && u.lo < a.hi && (a.write || u.write) && !c.covers(a.mark) {
				return &a
			}
		}
	}
	return nil
}

// orderHost makes the host wait for whatever collides with what it does next.
func (m *maker) orderHost(uses []use) {
	for {
		a := m.conflict(uses, m.host)
		if a == nil {
			return
		}
		m.hostBehind(a.mark)
	}
}

// order makes the next task of a stream wait for whatever collides with it.
func (m *maker) order(stream int, uses []use) {
	for {
		a := m.conflict(uses, m.now(stream))
		if a == nil {
			return
		}
		if m.lines[a.line].step >= 0 || m.chance(25) {
			m.hostBehind(a.mark)
		} else {
			m.streamBehind(stream, a.mark)
		}
	}
}

// meet makes the host wait for a stream, if it has not seen its end yet.
func (m *maker) meet(stream int) {
	number := m.stream[stream]
	if at := (mark{number, m.lines[number].tasks}); at.task > 0 && !m.host.covers(at) {
		m.hostBehind(at)
	}
}

// awaitLine makes the host wait for a callback.
func (m *maker) awaitLine(number int) {
	l := m.lines[number]
	if m.host.covers(mark{number, l.tasks}) {
		return
	}
	if m.chance(90) { // else the stream goes on only when nobody has called for a while, which takes its time
		m.hostBehind(mark{m.stream[l.stream], m.of(l.stream).tasks})
	}
	m.emit(step{op: await, target: l.step})
	m.learn(l.clock)
}

// hostBehind makes the host wait for a task.
func (m *maker) hostBehind(at mark) {
	l := m.lines[at.line]
	if l.step >= 0 {
		m.awaitLine(at.line)
		return
	}
	if m.host.covers(at) {
		return
	}
	s := l.stream
	switch n := m.IntN(8); n {
	case 0, 1, 2:
		m.emit(step{op: pick(m, []op{syncStream, syncStream, queryStream}), stream: s, dev: m.p.streams[s].dev})
		m.learn(l.clock)
	case 3:
		m.syncDevice(m.p.streams[s].dev)
	default:
		e := m.covering(at, -1)
		if e < 0 || m.chance(30) {
			e = m.eventFor(s)
			m.record(e, s)
		}
		m.emit(step{op: pick(m, []op{syncEvent, syncEvent, queryEvent}), event: e, dev: m.p.events[e].dev})
		m.learn(m.events[e].clock)
	}
}

func (m *maker) syncDevice(dev int) {
	m.emit(step{op: syncDevice, dev: dev})
	for s, plan := range m.p.streams {
		if plan.dev == dev {
			m.learn(m.of(s).clock)
		}
	}
}

// streamBehind makes a stream wait for a task of another one.
func (m *maker) streamBehind(stream int, at mark) {
	from := m.lines[at.line].stream
	if m.chance(35) {
		m.signal(stream, from)
		return
	}
	e := m.covering(at, stream)
	switch {
	case e < 0 || m.chance(30):
		e = m.eventFor(from)
		if m.p.events[e].kind == stateEvent && (!m.canWait(e, stream) || m.chance(40)) {
			if !m.canWait(e, stream) {
				e = m.newEvent(stateEvent, m.p.streams[from].dev)
			}
			m.waitFirst(e, stream, from)
			break
		}
		m.record(e, from)
		fallthrough
	default:
		m.wait(e, stream)
	}
	if m.p.events[e].kind == stateEvent && m.chance(60) { // as the documents show it
		m.reset(e, stream)
	}
}

// signal makes a stream wait for another one by a notify or a value; the wait may be queued first.
func (m *maker) signal(stream, from int) {
	kind, dev := notifyEvent, m.p.streams[stream].dev
	if m.p.streams[from].dev == dev && m.chance(50) {
		kind = valueEvent
	}
	e, first := m.newEvent(kind, dev), m.chance(50)
	if first {
		m.emit(step{op: wait, event: e, stream: stream})
	}
	m.emit(step{op: record, event: e, stream: from})
	after := m.of(from).clock
	if !first {
		m.emit(step{op: wait, event: e, stream: stream})
	}
	l := m.of(stream)
	l.clock = join(l.clock, after)
}

// covering is an event whose latest record is after a task and that a stream (-1: the host) can wait for, or -1.
func (m *maker) covering(at mark, stream int) int {
	var list []int
	for i, e := range m.events {
		if e.usable() && e.clock.covers(at) && (stream < 0 || m.canWait(i, stream)) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return pick(m, list)
}

// canWait reports whether a wait of a stream can only be let go by the latest record: after a reset, if there was one.
func (m *maker) canWait(e, stream int) bool {
	state := m.events[e]
	return m.p.events[e].kind != stateEvent || state.cleared.line < 0 || m.now(stream).covers(state.cleared)
}

// eventFor is an event that can be recorded on a stream: one that is there, or a new one.
func (m *maker) eventFor(stream int) int {
	dev := m.p.streams[stream].dev
	var list []int
	for i, e := range m.events {
		kind := m.p.events[i].kind
		free := !kind.signal() && (kind != stateEvent || !e.set && m.canWait(i, stream))
		if e.live && free && m.p.events[i].dev == dev {
			list = append(list, i)
		}
	}
	if len(list) > 0 && (m.chance(50) || len(m.events) > 12) {
		return pick(m, list)
	}
	return m.newEvent(pick(m, []eventKind{timedEvent, stateEvent, exEvent}), dev)
}

func (m *maker) newEvent(kind eventKind, dev int) int {
	m.p.events = append(m.p.events, eventPlan{kind, dev})
	m.events = append(m.events, &eventState{live: true, cleared: mark{line: -1}})
	e := len(m.events) - 1
	m.emit(step{op: newEvent, event: e, dev: dev})
	return e
}

// tail is the latest task of a stream.
func (m *maker) tail(stream int) mark { return mark{m.stream[stream], m.of(stream).tasks} }

func (m *maker) record(e, stream int) {
	m.emit(step{op: record, event: e, stream: stream})
	state := m.events[e]
	state.recorded, state.reset, state.set = true, false, true
	state.clock, state.last = m.of(stream).clock, m.tail(stream)
}

// wait makes a stream wait for the latest record of an event.
func (m *maker) wait(e, stream int) {
	m.emit(step{op: wait, event: e, stream: stream})
	state, l := m.events[e], m.of(stream)
	l.clock = join(l.clock, state.clock)
	state.waits = append(state.waits, m.tail(stream))
}

// waitFirst has a stream wait for the state of an event that is recorded only then.
func (m *maker) waitFirst(e, stream, from int) {
	m.emit(step{op: wait, event: e, stream: stream})
	at := m.tail(stream)
	m.record(e, from)
	state, l := m.events[e], m.of(stream)
	l.clock = join(l.clock, state.clock)
	state.waits = append(state.waits, at)
}

// reset takes the state of an event back, if all that knows it is over by then.
func (m *maker) reset(e, stream int) {
	state, c := m.events[e], m.now(stream)
	if m.p.events[e].kind == exEvent || !state.usable() || !c.covers(state.last) ||
		slices.ContainsFunc(state.waits, func(at mark) bool { return !c.covers(at) }) {
		return
	}
	m.emit(step{op: reset, event: e, stream: stream})
	state.reset, state.set, state.waits, state.cleared = true, false, nil, m.tail(stream)
}

func (m *maker) waitSome() {
	s := m.anyStream()
	for e := range m.events {
		if m.events[e].usable() && m.canWait(e, s) && m.chance(50) {
			m.wait(e, s)
			return
		}
	}
}

func (m *maker) resetSome() {
	for e := range m.events {
		if m.events[e].usable() && m.chance(50) {
			m.reset(e, m.anyStream())
			return
		}
	}
}

// endStream destroys a stream once it is done.
func (m *maker) endStream(s int) {
	if m.p.streams[s].isDefault || len(m.streams()) < 3 {
		return
	}
	m.meet(s)
	for i := range m.lines {
		if m.lines[i].stream == s && m.lines[i].step >= 0 {
			m.awaitLine(i) // its subscription ends with it
		}
	}
	m.meet(s)
	m.emit(step{op: destroyStream, stream: s, dev: m.p.streams[s].dev})
	m.of(s).live = false
}

// endEvent destroys an event; what waits for it still does.
func (m *maker) endEvent() {
	for e, state := range m.events {
		if state.live && m.p.events[e].kind != valueEvent && m.chance(50) {
			m.emit(step{op: destroyEvent, event: e, dev: m.p.events[e].dev})
			state.live = false
			return
		}
	}
}
