package checktest

import (
	"math/rand/v2"
	"slices"
)

// maker makes one program.
type maker struct {
	*rand.Rand
	p      *program
	host   clock
	lines  []*line
	stream []int // line of a stream
	events []*eventState
	bufs   []*bufferState
	thread int
}

// generate makes the correct program with a number.
func generate(seed uint64) *program {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 5)), p: &program{seed: seed}}
	p := m.p
	p.product = []string{"A2", "A3", "950"}[m.IntN(3)]
	p.descSize = map[string]int{"A2": 32, "A3": 32, "950": 64}[p.product]
	p.devices, p.threads = 1+m.IntN(2), []int{1, 1, 2, 3}[m.IntN(4)]
	for dev := range p.devices {
		if dev == 0 || m.chance(30) {
			m.addStream(streamPlan{dev: dev, isDefault: true, service: m.service()})
		}
	}
	for range 1 + m.IntN(5) {
		m.addStream(streamPlan{dev: m.IntN(p.devices), service: m.service()})
	}
	for dev := range p.devices {
		m.alloc(bufferPlan{onDevice, dev, m.size()})
		m.alloc(bufferPlan{onDevice, dev, m.size()})
	}
	m.alloc(bufferPlan{pinned, 0, m.size()})
	m.alloc(bufferPlan{pinned, 0, m.size()})
	if m.chance(20) {
		m.alloc(bufferPlan{registered, 0, 4096})
	}
	if m.chance(20) {
		m.alloc(bufferPlan{pageable, 0, m.size()})
	}
	for n := 8 + m.IntN(25); n > 0; n-- {
		m.act()
	}
	m.end()
	return p
}

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

func (m *maker) service() service {
	return []service{noFunctions, noFunctions, hostFunctions, callbacks}[m.IntN(4)]
}

func (m *maker) size() int { return []int{192, 256, 500, 1024, 4096}[m.IntN(5)] }

// emit appends a step and notes what it does to the clocks. The caller has put what it needs before it.
func (m *maker) emit(s step) int {
	if m.chance(20) {
		m.thread = m.IntN(m.p.threads)
	}
	s.thread = m.thread
	i := len(m.p.steps)
	m.p.steps = append(m.p.steps, s)
	if !m.p.queued(&s) {
		return i
	}
	l := m.of(s.stream)
	at := m.advance(l, m.stream[s.stream])
	if s.op == post {
		after := l.clock
		if l.posted >= 0 {
			after = join(after, m.lines[l.posted].clock)
		}
		l.posted = len(m.lines)
		c := &line{clock: after, stream: s.stream, step: i, posted: -1}
		m.lines = append(m.lines, c)
		at = m.advance(c, l.posted)
	}
	for _, u := range m.p.uses(&s) {
		m.bufs[u.buf].busy = append(m.bufs[u.buf].busy, pending{u, at})
	}
	return i
}

// advance puts a task on a line.
func (m *maker) advance(l *line, number int) mark {
	l.tasks++
	at := mark{number, l.tasks}
	l.clock = join(l.clock, m.host).with(at)
	return at
}

// of is the line of a stream.
func (m *maker) of(stream int) *line { return m.lines[m.stream[stream]] }

// now is what the next task of a stream is after.
func (m *maker) now(stream int) clock { return join(m.of(stream).clock, m.host) }

// learn adds to what the host knows.
func (m *maker) learn(c clock) {
	m.host = join(m.host, c)
	for _, b := range m.bufs {
		b.busy = slices.DeleteFunc(b.busy, func(a pending) bool { return m.host.covers(a.mark) })
	}
}

func (m *maker) addStream(plan streamPlan) {
	m.p.streams = append(m.p.streams, plan)
	m.stream = append(m.stream, len(m.lines))
	m.lines = append(m.lines, &line{stream: len(m.p.streams) - 1, step: -1, posted: -1, live: true})
	m.emit(step{op: newStream, stream: len(m.p.streams) - 1, dev: plan.dev})
}

// streams are the numbers of live streams.
func (m *maker) streams() (list []int) {
	for i := range m.p.streams {
		if m.of(i).live {
			list = append(list, i)
		}
	}
	return list
}

// pick is one of a list.
func pick[T any](m *maker, list []T) T { return list[m.IntN(len(list))] }

func (m *maker) anyStream() int { return pick(m, m.streams()) }

// alloc makes a buffer and writes all of it.
func (m *maker) alloc(plan bufferPlan) int {
	b := len(m.p.buffers)
	m.p.buffers = append(m.p.buffers, plan)
	m.bufs = append(m.bufs, &bufferState{live: true})
	m.emit(step{op: alloc, buf: b, dev: plan.dev})
	switch {
	case plan.place == table:
		m.bufs[b].slots = make([]move, plan.size/64)
		m.bufs[b].cells = slices.Repeat([]int{-1}, plan.size/64)
	case plan.onHost():
		m.emit(step{op: touchHost, touches: []touch{{b, 0, plan.size, true, byte(m.Uint32())}}})
	case m.chance(50):
		m.emit(step{op: fillNow, dev: plan.dev, buf: b, n: plan.size, value: m.Uint32()})
	default:
		s := m.streamOn(plan.dev)
		if s < 0 {
			s = m.anyStream()
		}
		m.emit(step{op: fillAsync, stream: s, buf: b, n: plan.size, value: m.Uint32()})
	}
	return b
}

// streamOn is a stream of a device, or -1.
func (m *maker) streamOn(dev int) int {
	list := slices.DeleteFunc(m.streams(), func(s int) bool { return m.p.streams[s].dev != dev })
	if len(list) == 0 {
		return -1
	}
	return pick(m, list)
}

// some are the live buffers in the given places.
func (m *maker) some(places ...place) (list []int) {
	for i, b := range m.bufs {
		if b.live && slices.Contains(places, m.p.buffers[i].place) {
			list = append(list, i)
		}
	}
	return list
}

// part is a range of a buffer, at a multiple of 64.
func (m *maker) part(b, most int) (off, n int) {
	size := m.p.buffers[b].size
	off = m.IntN((size+63)/64) * 64
	n = min(most, size-off)
	switch m.IntN(4) {
	case 0:
	case 1:
		n = min(n, 64)
	default:
		n = 1 + m.IntN(n)
	}
	return off, n
}

// plain is a copy between two buffers, or false.
func (m *maker) plain(dst, src int) (move, bool) {
	from, most := m.part(src, 1<<20)
	to, n := m.part(dst, most)
	return move{dst: dst, to: to, src: src, from: from, n: n}, dst != src || to+n <= from || from+n <= to
}

// ends are two buffers to copy between, not both on the host.
func (m *maker) ends() (dst, src int) {
	all := m.some(onDevice, pinned, registered)
	for {
		dst, src = pick(m, all), pick(m, all)
		if !m.p.buffers[dst].onHost() || !m.p.buffers[src].onHost() {
			return dst, src
		}
	}
}

// submit orders and emits a task, or a call if s is not queued.
func (m *maker) submit(s step) {
	if m.p.queued(&s) {
		m.order(s.stream, m.p.uses(&s))
	} else {
		m.orderHost(m.p.uses(&s))
	}
	m.emit(s)
}

// act adds something the program does.
func (m *maker) act() {
	switch n := m.IntN(100); {
	case n < 26:
		m.copies(copyAsync)
	case n < 31:
		m.copies(copyNow)
	case n < 38:
		m.fill()
	case n < 43:
		m.copy2D()
	case n < 51:
		m.batch()
	case n < 54:
		m.descriptor()
	case n < 57:
		m.offset()
	case n < 72:
		m.submit(step{op: touchHost, touches: []touch{m.touch()}})
	case n < 78:
		m.function()
	case n < 81:
		if len(m.some(onDevice, pinned)) < 9 {
			m.alloc(bufferPlan{pick(m, []place{onDevice, pinned}), m.IntN(m.p.devices), m.size()})
		}
	case n < 84:
		m.freeSome()
	case n < 89:
		s := m.anyStream()
		m.record(m.eventFor(s), s)
	case n < 92:
		m.waitSome()
	case n < 94:
		m.resetSome()
	case n < 97:
		m.meet(pick(m, m.streams()))
	case n < 98:
		m.addStream(streamPlan{dev: m.IntN(m.p.devices), service: m.service()})
	case n < 99:
		m.endStream(m.anyStream())
	default:
		m.endEvent()
	}
}

func (m *maker) copies(o op) {
	dst, src := m.ends()
	if o == copyNow && m.chance(30) { // this one may go from host to host, and pageable memory will do
		dst, src = pick(m, m.some(pinned, registered, pageable)),
			pick(m, m.some(onDevice, pinned, registered, pageable))
		if m.chance(50) {
			dst, src = src, dst
		}
	}
	if mv, ok := m.plain(dst, src); ok {
		m.submit(step{op: o, stream: m.anyStream(), dev: m.IntN(m.p.devices), moves: []move{mv}})
	}
}

func (m *maker) fill() {
	s := step{op: pick(m, []op{fillAsync, fillAsync, fillNow, wordsAsync, wordsNow}), stream: m.anyStream(),
		dev: m.IntN(m.p.devices), value: m.Uint32()}
	places := []place{onDevice}
	if m.chance(15) {
		places = []place{pinned}
	}
	list := m.some(places...)
	if len(list) == 0 {
		return
	}
	s.buf = pick(m, list)
	if s.off, s.n = m.part(s.buf, 1<<20); s.op == wordsAsync || s.op == wordsNow {
		s.n = s.n &^ 3
	}
	if s.n > 0 {
		m.submit(s)
	}
}

func (m *maker) copy2D() {
	o := pick(m, []op{copy2DAsync, copy2DAsync, copy2DNow})
	dst, src := m.ends()
	if dst == src || o == copy2DNow && m.p.buffers[dst].onHost() == m.p.buffers[src].onHost() {
		return
	}
	mv := move{dst: dst, src: src, rows: 1 + m.IntN(4), dpitch: 64 * (1 + m.IntN(3)), spitch: 64 * (1 + m.IntN(3))}
	mv.n = 1 + m.IntN(min(mv.dpitch, mv.spitch))
	room := func(b, pitch int) int { return m.p.buffers[b].size - (mv.rows-1)*pitch - mv.n }
	if room(dst, mv.dpitch) < 0 || room(src, mv.spitch) < 0 {
		return
	}
	mv.to, mv.from = m.IntN(room(dst, mv.dpitch)/64+1)*64, m.IntN(room(src, mv.spitch)/64+1)*64
	m.submit(step{op: o, stream: m.anyStream(), dev: m.IntN(m.p.devices), moves: []move{mv}})
}

func (m *maker) batch() {
	s := step{op: pick(m, []op{batchAsync, batchAsync, batchNow}), stream: m.anyStream(), dev: m.IntN(m.p.devices),
		v2: m.chance(50)}
	devs, hosts, down := m.some(onDevice), m.some(pinned, registered), m.chance(50)
	if len(devs) == 0 || len(hosts) == 0 {
		return
	}
	for range 1 + m.IntN(5) {
		dst, src := pick(m, devs), pick(m, hosts)
		if down {
			dst, src = src, dst
		}
		mv, _ := m.plain(dst, src)
		if !slices.ContainsFunc(s.moves, func(o move) bool { // segments are unordered
			return o.dst == mv.dst && o.to < mv.to+mv.n && mv.to < o.to+o.n
		}) {
			s.moves = append(s.moves, mv)
		}
	}
	m.submit(s)
}

// table is a table on a device.
func (m *maker) table(dev int) int {
	for _, b := range m.some(table) {
		if m.p.buffers[b].dev == dev {
			return b
		}
	}
	return m.alloc(bufferPlan{table, dev, 256})
}

// onDev are the plain buffers of a device.
func (m *maker) onDev(dev int) []int {
	return slices.DeleteFunc(m.some(onDevice), func(b int) bool { return m.p.buffers[b].dev != dev })
}

// descriptor copies by a descriptor: one that is set already, or a new one.
func (m *maker) descriptor() {
	stream := m.anyStream()
	plan := m.p.streams[stream]
	list := m.onDev(plan.dev)
	if plan.isDefault || len(list) == 0 {
		return
	}
	t := m.table(plan.dev)
	slot := m.IntN(2) // the others are for cells
	if m.bufs[t].slots[slot].n == 0 || m.chance(50) {
		mv, ok := m.plain(pick(m, list), pick(m, list))
		if !ok {
			return
		}
		m.submit(step{op: setDescriptor, dev: plan.dev, buf: t, off: slot * 64, moves: []move{mv}})
		m.bufs[t].slots[slot] = mv
	}
	m.submit(step{op: copyDescriptor, stream: stream, buf: t, off: slot * 64, moves: []move{m.bufs[t].slots[slot]}})
}

// offset copies by two cells.
func (m *maker) offset() {
	stream := m.anyStream()
	dev := m.p.streams[stream].dev
	list := m.onDev(dev)
	if len(list) == 0 {
		return
	}
	t := m.table(dev)
	cells := m.bufs[t].cells
	for slot := 2; slot < 4; slot++ {
		if cells[slot] < 0 || m.chance(30) {
			b := pick(m, list)
			m.submit(step{op: setCell, dev: dev, buf: t, off: slot * 64, target: b})
			cells[slot] = b
		}
	}
	if mv, ok := m.plain(cells[2], cells[3]); ok {
		m.submit(step{op: copyOffset, stream: stream, buf: t, off: 128, off2: 192, moves: []move{mv}})
	}
}

// touch is an access of the program, to any byte.
func (m *maker) touch() touch {
	b := pick(m, m.some(pinned, registered))
	size := m.p.buffers[b].size
	off := m.IntN(size)
	return touch{b, off, 1 + m.IntN(min(size-off, 200)), m.chance(50), byte(m.Uint32())}
}

// function launches a function of the program, which touches memory.
func (m *maker) function() {
	list := slices.DeleteFunc(m.streams(), func(s int) bool { return m.p.streams[s].service == noFunctions })
	if len(list) == 0 {
		return
	}
	s := step{op: launch, stream: pick(m, list), touches: []touch{m.touch()}}
	if m.p.streams[s.stream].service == callbacks && m.chance(40) {
		s.op = post
	}
	m.submit(s)
}

// freeSome frees a buffer, if others like it are left.
func (m *maker) freeSome() {
	b := pick(m, m.some(onDevice, pinned))
	plan := m.p.buffers[b]
	rest := slices.DeleteFunc(m.some(plan.place), func(o int) bool { return m.p.buffers[o].dev != plan.dev })
	if len(rest) > 1 {
		m.free(b)
	}
}

func (m *maker) free(b int) {
	m.submit(step{op: free, buf: b, dev: m.p.buffers[b].dev})
	m.bufs[b].live = false
	for _, o := range m.bufs { // nothing may name it any more
		for i := range o.slots {
			if o.slots[i].dst == b || o.slots[i].src == b {
				o.slots[i] = move{}
			}
			if o.cells[i] == b {
				o.cells[i] = -1
			}
		}
	}
}

// end makes the host see the end of everything, and releases everything.
func (m *maker) end() {
	m.p.ending = len(m.p.steps)
	for i := 0; i < len(m.lines); i++ {
		m.meet(m.lines[i].stream)
		if m.lines[i].step >= 0 {
			m.awaitLine(i)
		}
	}
	for e, state := range m.events {
		if state.live {
			m.emit(step{op: destroyEvent, event: e, dev: m.p.events[e].dev})
		}
	}
	for b, state := range m.bufs {
		if state.live {
			m.free(b)
		}
	}
	for _, s := range m.streams() {
		m.emit(step{op: destroyStream, stream: s, dev: m.p.streams[s].dev})
	}
}
