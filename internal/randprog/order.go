package randprog

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Vector clocks tell which operations are ordered. Component t counts the operations of thread t that have returned.
// The others count the finished tasks of one thread on one stream: tasks of two threads on one stream are ordered only
// if the threads have handed over.
type clock []int

func (c clock) at(i int) int {
	if i < len(c) {
		return c[i]
	}
	return 0
}

func (c *clock) raise(i, n int) {
	for len(*c) <= i {
		*c = append(*c, 0)
	}
	(*c)[i] = max((*c)[i], n)
}

func (c *clock) join(o clock) {
	for i, n := range o {
		c.raise(i, n)
	}
}

// thread is a thread of the program.
type thread struct {
	id    int
	known clock
	ops   []*op // in the order in which they were drawn
	lines int
	ctx   *context // current after its last line
	held  int      // operations that have no line yet

	scratch, status int // slots
}

// context is a context of the program.
type context struct{ slot, dev, kernel, pool int }

// object is what a handle or an address names.
type object struct {
	slot   int
	writer *op // that made it, or changed it last
	users  map[*thread]*op
}

func (o *object) ref() string {
	if o.slot < 0 { // default stream
		return "0"
	}
	return fmt.Sprintf("#%d", o.slot)
}

// stream is a stream of the program.
type stream struct {
	object
	index   int
	ctx     *context
	tasks   map[*thread][]*op
	end     *op // that destroyed it
	reports bool
	held    []*op // submitted later than drawn; see gen.flush
	holds   bool
}

// op is an operation of one thread: one line, or a few that belong together.
type op struct {
	thread  *thread
	stream  *stream // of its task; nil: it queues none
	text    string
	ctx     *context // that it needs; nil: that of the stream, or any
	reads   []*object
	changes []*object
	uses    []use
	syncs   []*stream // the host waits for them
	learns  *op       // the host waits for this task
	source  *op       // the task waits for this one
	later   bool      // it only queues a task: no other call depends on when it is made
	effect  func()

	index, line, count int
	known, done        clock
}

// use is what an operation does with bytes, in its task or, if host is set, in the call.
type use struct {
	b           *bytesOf
	lo, hi      int
	write, host bool
}

// bytesOf is memory and who uses it.
type bytesOf struct{ busy []access }

type access struct {
	use
	op *op
}

func (a access) isOver(c clock) bool {
	if a.host || a.op.stream == nil {
		return c.at(a.op.thread.id) >= a.op.index
	}
	return a.op.isOver(c)
}

func (o *op) isOver(c clock) bool { return c.at(o.chain()) >= o.count }

// chain is the component that counts the operation's task.
func (o *op) chain() int { return maxThreads*(o.stream.index+1) + o.thread.id }

const maxThreads = 6

type gen struct {
	*rand.Rand
	p       *Program
	on      map[string]bool // features
	threads []*thread
	ctxs    []*context
	streams []*stream // live
	buffers []*buffer
	cells   []*cell
	descs   []*descriptor
	graphs  []*graph
	words   int // slot of the words for values
	seeds   uint64
}

func (g *gen) slot() int { g.p.Slots++; return g.p.Slots - 1 }

// drawer draws numbers: a gen, or a rand.Rand.
type drawer interface{ IntN(n int) int }

func pick[T any](r drawer, list []T) T { return list[r.IntN(len(list))] }

// before returns what is over when the next task of t on s begins, or when t has synchronised s.
func (g *gen) before(t *thread, s *stream) clock {
	c := slices.Clone(t.known)
	for u, tasks := range s.tasks {
		for i := len(tasks) - 1; i >= 0; i-- {
			if u == t || tasks[i].index <= t.known.at(u.id) {
				c.join(tasks[i].done)
				break
			}
		}
	}
	return c
}

// do adds an operation, after whatever orders it.
func (g *gen) do(o *op) *op {
	t := o.thread
	if s := o.stream; s != nil {
		if o.ctx = s.ctx; g.on["shared"] {
			o.reads = append(o.reads, &s.object)
		} else {
			o.changes = append(o.changes, &s.object)
		}
	}
	for _, s := range o.syncs {
		o.reads = append(o.reads, &s.object)
	}
	for _, x := range o.reads {
		g.handOver(t, x.writer)
	}
	for _, x := range o.changes {
		g.handOver(t, x.writer)
		for _, u := range g.threads {
			g.handOver(t, x.users[u])
		}
	}
	for {
		a, host := g.conflict(o)
		if a == nil {
			break
		}
		if host {
			g.learn(t, a)
		} else {
			g.order(t, o.stream, a)
		}
	}
	g.put(o)
	if o.effect != nil {
		o.effect()
	}
	return o
}

// conflict returns an access that o must come after and does not, and whether its call must.
func (g *gen) conflict(o *op) (*access, bool) {
	var task clock
	if o.stream != nil {
		task = g.before(o.thread, o.stream)
	}
	for _, u := range o.uses {
		host := u.host || o.stream == nil
		c := task
		if host {
			c = o.thread.known
		}
		for i := range u.b.busy {
			a := &u.b.busy[i]
			if a.lo < u.hi && u.lo < a.hi && (a.write || u.write) && !a.isOver(c) {
				return a, host
			}
		}
	}
	return nil, false
}

// put adds an operation that needs no more order.
func (g *gen) put(o *op) {
	t := o.thread
	if !o.later {
		g.flush()
	}
	t.ops = append(t.ops, o)
	o.index = len(t.ops)
	if s := o.stream; s != nil {
		o.done = g.before(t, s)
		if o.source != nil {
			o.done.join(o.source.done)
		}
		o.count = len(s.tasks[t]) + 1
		o.done.raise(o.chain(), o.count)
		s.tasks[t] = append(s.tasks[t], o)
	}
	if s := o.stream; o.later && s.holds {
		s.held = append(s.held, o)
		t.held++
	} else {
		g.write(o)
	}
	if t.held == 0 {
		t.known.raise(t.id, o.index)
	}
	for _, s := range o.syncs {
		t.known.join(g.before(t, s))
	}
	if o.learns != nil {
		t.known.join(o.learns.done)
	}
	o.known = slices.Clone(t.known)
	for _, x := range o.reads {
		if x.users == nil {
			x.users = map[*thread]*op{}
		}
		x.users[t] = o
	}
	for _, x := range o.changes {
		x.writer, x.users = o, nil
	}
	for _, u := range o.uses {
		if u.write { // what is inside comes before it
			u.b.busy = slices.DeleteFunc(u.b.busy, func(a access) bool {
				return a.op != o && u.lo <= a.lo && a.hi <= u.hi
			})
		}
		u.b.busy = append(u.b.busy, access{u, o})
	}
}

// write gives the operation its lines.
func (g *gen) write(o *op) {
	t, ctx := o.thread, o.ctx
	if ctx != nil && t.ctx != ctx {
		g.line(t, fmt.Sprintf("aclrtSetCurrentContext #%d", ctx.slot), nil)
		t.ctx = ctx
	}
	for text := range strings.SplitSeq(o.text, "\n") {
		g.line(t, text, o)
	}
	o.line = t.lines
}

func (g *gen) line(t *thread, text string, o *op) {
	t.lines++
	g.p.Lines = append(g.p.Lines, Line{t.id, text, o})
}

// flush gives lines to the operations on streams that are submitted to late: what they signal is waited for before it
// is queued. It comes before every call that waits, so that this depends on earlier lines only.
func (g *gen) flush() {
	for {
		late := slices.DeleteFunc(slices.Clone(g.streams), func(s *stream) bool { return len(s.held) == 0 })
		if len(late) == 0 {
			break
		}
		s := pick(g, late)
		g.write(s.held[0])
		s.held = s.held[1:]
	}
	for _, t := range g.threads {
		t.held = 0
		t.known.raise(t.id, len(t.ops))
	}
	for _, s := range g.streams {
		s.holds = g.on["late"] && g.IntN(4) == 0
	}
}

// handOver makes t wait until o has returned, perhaps also those that its thread has called since.
func (g *gen) handOver(t *thread, o *op) {
	if o == nil || o.thread == t || t.known.at(o.thread.id) >= o.index {
		return
	}
	g.flush()
	u, n := o.thread, o.index
	if g.IntN(2) == 0 {
		n = len(u.ops)
	}
	line := 0
	for _, o := range u.ops[:n] {
		line = max(line, o.line)
	}
	g.line(t, fmt.Sprintf("after %d %d", u.id, line), nil)
	t.known.join(u.ops[n-1].known)
	t.known.raise(u.id, n)
}

// learn makes t wait until an access is over.
func (g *gen) learn(t *thread, a *access) {
	if a.host || a.op.stream == nil {
		g.handOver(t, a.op)
		return
	}
	s := a.op.stream
	if s.end != nil {
		g.handOver(t, s.end)
		return
	}
	if g.handOver(t, a.op); a.isOver(t.known) {
		return
	}
	switch n := g.IntN(6); {
	case n == 0:
		g.syncEvent(t, s)
	case n == 1 && (len(g.threads) == 1 || g.on["shared"] && !g.on["graph"]):
		// Another thread may capture, which refuses it, or queue a wait for what this thread does afterwards.
		streams := slices.DeleteFunc(slices.Clone(g.streams), func(o *stream) bool { return o.ctx != s.ctx })
		g.do(&op{thread: t, ctx: s.ctx, text: "aclrtSynchronizeDevice", syncs: streams})
	default:
		g.syncStream(t, s)
	}
}

func (g *gen) syncStream(t *thread, s *stream) {
	text := fmt.Sprintf(pick(g, []string{"aclrtSynchronizeStream %s", "aclrtSynchronizeStream %s",
		"aclrtSynchronizeStreamWithTimeout %s 600000", "until 0 aclrtStreamQuery %s &%d"}), s.ref(), t.status)
	text, _, _ = strings.Cut(text, "%!")
	g.do(&op{thread: t, ctx: s.ctx, text: text, syncs: []*stream{s}})
}

// syncEvent makes the host wait for an event that it records on s.
func (g *gen) syncEvent(t *thread, s *stream) {
	e := g.event()
	record := g.record(t, s, e)
	text := "aclrtSynchronizeEvent " + e.ref()
	if g.IntN(2) == 0 {
		text = fmt.Sprintf("until 1 aclrtQueryEventStatus %s &%d", e.ref(), t.status)
	}
	g.do(&op{thread: t, ctx: s.ctx, text: text, reads: []*object{&e.object}, learns: record})
}

// order makes what t submits to s next wait until an access is over.
func (g *gen) order(t *thread, s *stream, a *access) {
	switch o := a.op; {
	case a.host || o.stream == nil || o.stream.end != nil || g.IntN(6) == 0:
		g.learn(t, a)
	case o.stream == s:
		g.handOver(t, o)
	default:
		g.signal(o, t, s)
	}
}

// cell is a signal between streams: an event, a notify, a count notify or a word.
type cell struct {
	object
	way   string
	dev   int
	value uint64
	last  []*op // tasks that the next use comes after
}

// event returns an event that the host can wait for: one that waits for its latest record.
func (g *gen) event() *cell {
	var list []*cell
	for _, c := range g.cells {
		if c.way == "ex" || c.way == "timed" {
			list = append(list, c)
		}
	}
	return pick(g, list)
}

func (g *gen) record(t *thread, s *stream, e *cell) *op {
	return g.do(&op{thread: t, stream: s, text: fmt.Sprintf("aclrtRecordEvent %s %s", e.ref(), s.ref()),
		changes: []*object{&e.object}})
}

// signal makes what t submits to s next wait for the task o of another stream.
func (g *gen) signal(o *op, t *thread, s *stream) {
	u, from := o.thread, o.stream
	for range 8 { // cells that are free
		c := pick(g, g.cells)
		if c.way == "ex" || c.way == "timed" {
			break
		}
		free := func(v clock) bool {
			return !slices.ContainsFunc(c.last, func(o *op) bool { return !o.isOver(v) })
		}
		ordered := c.way == "value" || c.way == "count" // they grow
		if !free(g.before(u, from)) || !ordered && !free(g.before(t, s)) || c.way == "notify" && c.dev != s.ctx.dev {
			continue
		}
		g.send(c, u, from, t, s)
		return
	}
	e := g.event()
	if g.IntN(2) == 0 {
		g.handOver(t, o)
		u = t
	}
	record := g.record(u, from, e)
	text := pick(g, []string{"aclrtStreamWaitEvent %s %s", "aclrtStreamWaitEvent %s %s",
		"aclrtStreamWaitEventWithTimeout %s %s 600"})
	g.do(&op{thread: t, stream: s, text: fmt.Sprintf(text, s.ref(), e.ref()), reads: []*object{&e.object},
		source: record})
	if e.way == "timed" && g.IntN(3) == 0 {
		g.do(&op{thread: t, stream: s, text: fmt.Sprintf("aclrtResetEvent %s %s", e.ref(), s.ref()),
			changes: []*object{&e.object}})
	}
}

// send uses a cell whose wait may be queued before its record.
func (g *gen) send(c *cell, u *thread, from *stream, t *thread, to *stream) {
	var record, wait, reset string
	keeps := false // the next record may not come before the wait is over
	c.value++
	switch c.way {
	case "state":
		record = fmt.Sprintf("aclrtRecordEvent %s %s", c.ref(), from.ref())
		wait = fmt.Sprintf("aclrtStreamWaitEvent %s %s", to.ref(), c.ref())
		reset = fmt.Sprintf("aclrtResetEvent %s %s", c.ref(), to.ref())
		keeps = true
	case "notify":
		record = fmt.Sprintf("aclrtRecordNotify %s %s", c.ref(), from.ref())
		wait = fmt.Sprintf("aclrtWaitAndResetNotify %s %s %d", c.ref(), to.ref(), 600*g.IntN(2))
		keeps = true
	case "value":
		flag := g.IntN(2) // at least, or equal
		record = fmt.Sprintf("aclrtValueWrite %s %d 0 %s", c.ref(), c.value, from.ref())
		wait = fmt.Sprintf("aclrtValueWait %s %d %d %s", c.ref(), c.value, flag, to.ref())
		keeps = flag == 1
	case "count":
		record = fmt.Sprintf("aclrtCntNotifyRecord %s %s [ %d ]", c.ref(), from.ref(), c.value<<32)
		wait = fmt.Sprintf("aclrtCntNotifyWaitWithTimeout %s %s [ %d 0 ]", c.ref(), to.ref(), c.value<<32|3)
	}
	object := []*object{&c.object}
	sent := g.do(&op{thread: u, stream: from, text: record, reads: object, later: true})
	got := g.do(&op{thread: t, stream: to, text: wait, reads: object, later: true, source: sent})
	if reset != "" {
		got = g.do(&op{thread: t, stream: to, text: reset, reads: object, later: true})
	}
	c.last = []*op{sent}
	if keeps {
		c.last = append(c.last, got)
	}
}
