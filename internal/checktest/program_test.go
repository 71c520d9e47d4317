package checktest

import (
	"fmt"
	"strings"
)

// program is what a program does, as data. Streams, events and buffers are planned up front, and made and destroyed by
// steps.
type program struct {
	seed     uint64
	product  string
	descSize int // bytes of a copy descriptor of the product
	devices  int
	threads  int // of the host; they take turns
	streams  []streamPlan
	events   []eventPlan
	buffers  []bufferPlan
	steps    []step
	ending   int // index of the first step that only cleans up
}

// service is how a stream runs functions of the program.
type service uint8

const (
	noFunctions   service = iota
	hostFunctions         // aclrtLaunchHostFunc
	callbacks             // aclrtLaunchCallback; a thread has subscribed
)

type streamPlan struct {
	dev       int
	isDefault bool
	service   service
}

// eventKind is how an event is made: the columns of the table in spec/semantics.md, section 7.
type eventKind string

const (
	timedEvent eventKind = "timed"
	stateEvent eventKind = "state"
	exEvent    eventKind = "ex"
	// Signals from one stream to another, each for one record and one wait, in either order.
	notifyEvent eventKind = "notify"
	valueEvent  eventKind = "value" // a word in device memory
)

// signal reports whether it is one.
func (k eventKind) signal() bool { return k == notifyEvent || k == valueEvent }

type eventPlan struct {
	kind eventKind
	dev  int
}

// place says what kind of memory a buffer is.
type place string

const (
	onDevice   place = "device"
	pinned     place = "pinned"
	registered place = "registered"
	pageable   place = "pageable" // used by synchronous calls only
	table      place = "table"    // device memory that holds descriptors and cells, one in 64 bytes
)

type bufferPlan struct {
	place place
	dev   int
	size  int
}

func (b bufferPlan) onHost() bool { return b.place != onDevice && b.place != table }

// op is what a step does.
type op uint8

const (
	newStream op = iota
	destroyStream
	newEvent
	destroyEvent
	alloc
	free
	copyAsync
	copyNow
	fillAsync
	fillNow
	wordsAsync
	wordsNow
	copy2DAsync
	copy2DNow
	batchAsync
	batchNow
	setDescriptor
	copyDescriptor
	setCell
	copyOffset
	record
	wait
	reset
	syncStream
	syncDevice
	syncEvent
	queryStream // until it is complete
	queryEvent  // until it is complete
	launch      // a host function or a callback for which the stream waits
	post        // a callback for which the stream does not wait
	await       // the host waits until a posted callback has returned, by means of its own
	touchHost   // the program itself reads or writes host memory
)

var opNames = [...]string{"new stream", "destroy stream", "new event", "destroy event", "alloc", "free", "copy",
	"copy now", "fill",
	"fill now", "fill words", "fill words now", "copy 2D", "copy 2D now", "batch", "batch now", "set descriptor",
	"copy by descriptor",
	"set cell", "copy by cells", "record", "wait", "reset", "sync stream", "sync device", "sync event",
	"query stream until complete",
	"query event until complete", "launch", "post", "await the callback of step", "host"}

func (o op) String() string { return opNames[o] }

// move is one copy, or several rows of one.
type move struct {
	dst, to, src, from, n int // buffers, offsets in them, bytes
	rows, dpitch, spitch  int // rows is 0 for a plain copy
}

// touch is an access of the program itself.
type touch struct {
	buf, off, n int
	write       bool
	value       byte // what is written: byte i becomes value+i
}

// step is one call, or one access of the host. Which fields count depends on op.
type step struct {
	op      op
	thread  int // of the host
	dev     int // in whose context the call is made, if it has no stream
	stream  int
	event   int
	buf     int // allocated, freed, filled; the table of descriptors and cells
	off, n  int // what is filled; the slot of a table
	off2    int // second slot: the cell of the source
	value   uint32
	moves   []move
	touches []touch
	target  int // step of the callback that is awaited; buffer whose address a cell gets
	v2      bool
}

// queued reports whether the step puts a task on its stream.
func (p *program) queued(s *step) bool {
	switch s.op {
	case copyAsync, copy2DAsync, batchAsync, copyDescriptor, copyOffset, record, wait, reset, launch, post:
		return true
	case fillAsync, wordsAsync:
		return !p.buffers[s.buf].onHost() // host memory is filled at once
	}
	return false
}

// use is an access of a step to bytes of a buffer.
type use struct {
	buf, lo, hi int
	write       bool
	by          actor
}

// actor is what makes an access.
type actor uint8

const (
	byTask     actor = iota // when the task runs
	byCall                  // the call, before it returns
	byHost                  // the program itself
	byFunction              // a function that a stream runs
	byFree                  // the end of the memory
)

// uses are the accesses of a step.
func (p *program) uses(s *step) (list []use) {
	by := byCall
	if p.queued(s) {
		by = byTask
	}
	add := func(buf, off, n int, write bool) { list = append(list, use{buf, off, off + n, write, by}) }
	for _, m := range s.moves {
		if s.op == setDescriptor {
			break // it only describes them
		}
		rows := func(buf, off, pitch int, write bool) {
			if pitch == m.n { // they touch each other
				add(buf, off, m.rows*m.n, write)
				return
			}
			for i := range max(1, m.rows) {
				add(buf, off+i*pitch, m.n, write)
			}
		}
		rows(m.dst, m.to, m.dpitch, true)
		rows(m.src, m.from, m.spitch, false)
	}
	switch s.op {
	case fillAsync, fillNow, wordsAsync, wordsNow:
		add(s.buf, s.off, s.n, true)
	case setDescriptor:
		add(s.buf, s.off, p.descSize, true)
	case copyDescriptor:
		first, n := 12, 20 // length, source, destination; what is before them the call itself rewrites
		if p.descSize == 64 {
			first = 32
		}
		add(s.buf, s.off+first, n, false)
	case setCell:
		add(s.buf, s.off, 8, true)
	case copyOffset:
		add(s.buf, s.off, 8, false)
		add(s.buf, s.off2, 8, false)
	case free:
		by = byFree
		add(s.buf, 0, p.buffers[s.buf].size, true)
	}
	by = byHost
	if s.op == launch || s.op == post {
		by = byFunction
	}
	for _, t := range s.touches {
		add(t.buf, t.off, t.n, t.write)
	}
	return list
}

// concurrent reports whether what the host knows can depend on timing: a callback runs beside the program.
func (p *program) concurrent() bool {
	for i := range p.steps {
		if p.steps[i].op == post {
			return true
		}
	}
	return false
}

// without is the program less one step.
func (p *program) without(i int) *program {
	q := *p
	q.steps = append(append([]step(nil), p.steps[:i]...), p.steps[i+1:]...)
	if i < p.ending {
		q.ending--
	}
	for k := range q.steps { // callbacks are named by their step
		if s := &q.steps[k]; s.op == await && s.target > i {
			s.target--
		}
	}
	return &q
}

func (p *program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, product %s, %d devices, %d threads\n", p.seed, p.product, p.devices, p.threads)
	for i := range p.steps {
		fmt.Fprintf(&b, "%4d  %s\n", i, p.line(i))
	}
	return b.String()
}

// line is a step for people.
func (p *program) line(i int) string {
	s := &p.steps[i]
	line := s.op.String()
	if p.threads > 1 {
		line = fmt.Sprintf("thread %d: %s", s.thread, line)
	}
	switch s.op {
	case alloc:
		b := p.buffers[s.buf]
		line += fmt.Sprintf(" b%d: %d bytes of %s memory", s.buf, b.size, b.place)
		if !b.onHost() {
			line += fmt.Sprintf(" on device %d", b.dev)
		}
	case free:
		line += fmt.Sprintf(" b%d", s.buf)
	case fillAsync, fillNow, wordsAsync, wordsNow:
		line += fmt.Sprintf(" b%d[%d,%d) with %#x", s.buf, s.off, s.off+s.n, s.value)
	case setDescriptor, copyDescriptor:
		line += fmt.Sprintf(" at b%d+%d:", s.buf, s.off)
	case setCell:
		line += fmt.Sprintf(" at b%d+%d to b%d", s.buf, s.off, s.target)
	case copyOffset:
		line += fmt.Sprintf(" b%d+%d, b%d+%d:", s.buf, s.off, s.buf, s.off2)
	case record, wait, reset, syncEvent, queryEvent, newEvent, destroyEvent:
		line += fmt.Sprintf(" %s event e%d", p.events[s.event].kind, s.event)
	case syncDevice:
		line += fmt.Sprintf(" %d", s.dev)
	case await:
		line += fmt.Sprintf(" %d", s.target)
	}
	for _, m := range s.moves {
		line += fmt.Sprintf(" b%d+%d <- b%d+%d, %d bytes", m.dst, m.to, m.src, m.from, m.n)
		if m.rows > 0 {
			line += fmt.Sprintf(" x %d rows, pitches %d, %d", m.rows, m.dpitch, m.spitch)
		}
	}
	for _, t := range s.touches {
		verb := "reads"
		if t.write {
			verb = "writes"
		}
		line += fmt.Sprintf(" %s b%d[%d,%d)", verb, t.buf, t.off, t.off+t.n)
	}
	switch s.op {
	case syncStream, queryStream, newStream, destroyStream, fillAsync, wordsAsync:
		line += p.streamName(s.stream)
	default:
		if p.queued(s) {
			line += p.streamName(s.stream)
		}
	}
	return line
}

func (p *program) streamName(i int) string {
	s := p.streams[i]
	name := fmt.Sprintf(" on s%d", i)
	if s.isDefault {
		name += ", the default stream"
	}
	if p.devices > 1 {
		name += fmt.Sprintf(" of device %d", s.dev)
	}
	return name
}
