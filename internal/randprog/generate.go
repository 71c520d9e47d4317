package randprog

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// features are what a program may have. Each program has about half of them, so that some have a lot of the others.
var features = []string{"ex", "timed", "state", "notify", "value", "count", "function", "report", "batch", "plane",
	"desc", "offset", "pool", "pinned", "registered", "aliased", "pageable", "managed", "mapped", "churn", "graph",
	"kernel", "late", "large", "devices", "contexts", "refuse", "buffered", "shared"}

// In programs with the feature "shared", threads submit to one stream at the same time. A task then waits only for what
// was queued before it, lest two streams wait for each other. In the others a thread hands a stream over to the next,
// and waits may be queued before what they wait for.

// Generate returns the program of a seed. If fails is set, some tasks of programs with one thread fail; the interpreter
// must know "fail".
func Generate(seed uint64, steps int, fails bool) *Program {
	g := &gen{Rand: rand.New(rand.NewPCG(seed, 1)), on: map[string]bool{},
		p: &Program{Seed: seed, Devices: 1, Slots: 1}}
	g.p.Product = pick(g, []string{"A2", "A2", "A3", "950"})
	for _, f := range features {
		g.on[f] = g.IntN(5) < 3
	}
	for f, product := range map[string]string{"count": "950", "pool": "A2"} {
		g.on[f] = g.on[f] && g.p.Product == product
	}
	if g.on["shared"] = g.on["shared"] && g.IntN(2) == 0; g.on["shared"] {
		for _, f := range []string{"state", "notify", "value", "count", "late"} {
			g.on[f] = false
		}
	}
	g.on["managed"] = g.on["managed"] && g.p.Product != "950"
	if g.on["devices"] {
		g.p.Devices = 2
	}
	g.p.Threads = 1 + g.IntN(maxThreads)*g.IntN(2)
	g.on["fail"] = fails && g.p.Threads == 1 && !g.on["graph"] && g.IntN(2) == 0
	g.start()
	for range steps {
		g.step()
	}
	g.end(g.threads[0])
	return g.p
}

// start sets up contexts, threads, streams, signals and some memory.
func (g *gen) start() {
	for i := range g.p.Threads {
		g.threads = append(g.threads, &thread{id: i, scratch: g.slot(), status: g.slot()})
	}
	t := g.threads[0]
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for dev := range g.p.Devices {
		c := &context{slot: g.slot(), dev: dev}
		add("aclrtSetDevice %d", dev)
		add("aclrtGetCurrentContext &%d", c.slot)
		for peer := range g.p.Devices {
			if peer != dev {
				add("aclrtDeviceEnablePeerAccess %d 0", peer)
			}
		}
		g.ctxs = append(g.ctxs, c)
	}
	if g.on["contexts"] {
		c := &context{slot: g.slot()}
		add("aclrtCreateContext &%d 0", c.slot)
		g.ctxs = append(g.ctxs, c)
	}
	for _, c := range g.ctxs {
		add("aclrtSetCurrentContext #%d", c.slot)
		if g.on["kernel"] {
			binary := g.slot()
			c.kernel = g.slot()
			add("load &%d", binary)
			add(`aclrtBinaryGetFunction #%d "mix" &%d`, binary, c.kernel)
		}
		if g.on["pool"] && c.dev == 0 && c == g.ctxs[0] {
			c.pool = g.slot()
			add("aclrtMemPoolCreate &%d [ 0 %d 0 0 0 0 0 ]", c.pool, 1<<32|c.dev)
		}
	}
	for _, t := range g.threads {
		add("malloc &%d %d", t.scratch, 4<<20)
	}
	add("aclrtSetCurrentContext #%d", g.ctxs[0].slot)
	const words = 4
	if g.on["value"] {
		g.words = g.slot()
		add("aclrtMalloc &%d %d 0", g.words, 8*words)
		add("aclrtMemset #%d %d 0 %d", g.words, 8*words, 8*words)
	}
	for _, way := range []string{"ex", "timed", "state", "notify", "value", "count"} {
		if !g.on[way] && !(way == "ex" && !g.on["timed"]) {
			continue
		}
		for i := range words {
			c := &cell{way: way}
			c.slot = g.slot()
			switch flags := 3 + 8*g.IntN(2); way {
			case "ex":
				add("aclrtCreateEventExWithFlag &%d %d", c.slot, flags)
			case "timed":
				add("aclrtCreateEvent &%d", c.slot)
			case "state":
				add("aclrtCreateEventWithFlag &%d %d", c.slot, flags)
			case "notify":
				add("aclrtCreateNotify &%d 0", c.slot)
			case "count":
				add("aclrtCntNotifyCreate &%d 0", c.slot)
			case "value":
				add("set &%d #%d+%d", c.slot, g.words, 8*i)
			}
			g.cells = append(g.cells, c)
		}
	}
	first := &op{thread: t, text: strings.Join(lines, "\n")}
	g.do(first)
	t.ctx = g.ctxs[0]
	for _, u := range g.threads[1:] {
		g.handOver(u, first)
	}
	for _, c := range g.ctxs {
		s := &stream{index: len(g.p.streams), ctx: c, tasks: map[*thread][]*op{}}
		s.slot = -1
		g.streams, g.p.streams = append(g.streams, s), append(g.p.streams, s)
		for range 1 + g.IntN(3) {
			g.newStream(pick(g, g.threads), c)
		}
	}
	g.alloc(t, "device")
	for range 6 {
		g.step()
		g.allocate(pick(g, g.threads))
	}
}

func (g *gen) allocate(t *thread) {
	kinds := []string{"device", "device"}
	for _, k := range []string{"pinned", "registered", "aliased", "pageable", "managed", "mapped", "pool"} {
		if g.on[k] {
			kinds = append(kinds, k)
		}
	}
	if len(g.buffers) < 10 {
		g.alloc(t, pick(g, kinds))
	}
}

// step adds one random action.
func (g *gen) step() {
	t, s := pick(g, g.threads), pick(g, g.streams)
	queue := func(x step, ok bool) {
		if ok && !(s.reports && x.function) {
			g.queue(t, s, x)
		}
	}
	switch n := g.IntN(100); {
	case n < 30:
		queue(g.copy(nil))
	case n < 36:
		queue(g.fill(nil))
	case n < 40 && g.on["plane"]:
		queue(g.plane())
	case n < 45 && g.on["function"]:
		if !s.reports || s.slot >= 0 {
			queue(g.function(s), true)
		}
	case n < 49 && g.on["batch"]:
		if x, pageable, ok := g.batch(); ok && !pageable {
			g.queue(t, s, x)
		} else if ok {
			g.do(&op{thread: t, stream: s, text: x.text(s), effect: x.effect, uses: x.uses, reads: x.reads})
		}
	case n < 53 && (g.on["desc"] || g.on["offset"]):
		g.useDescriptor(t, s)
	case n < 56 && g.on["kernel"]:
		queue(g.mix(s.ctx))
	case n < 62 && g.on["graph"]:
		g.runGraph(t)
	case n < 66: // a signal that nothing needs
		from := pick(g, g.streams)
		u := pick(g, g.threads)
		if tasks := from.tasks[u]; from != s && len(tasks) > 0 {
			g.signal(tasks[len(tasks)-1], t, s)
		}
	case n < 69:
		g.pageableCopy(t, s)
	case n < 71 && g.on["buffered"]:
		g.bufferedCopy(t, s)
	case n < 74:
		g.hostCopy(t)
	case n < 77:
		if b := g.some((*buffer).onHost, (*buffer).pageable, (*buffer).managed); b != nil {
			off, n := g.part(b, len(b.want))
			g.hostWrites(t, b, off, n)
		}
	case n < 82:
		b := g.some(func(*buffer) bool { return true })
		off, n := g.part(b, len(b.want))
		g.check(t, b, off, n)
	case n < 85:
		g.syncStream(t, s)
	case n < 87:
		g.syncEvent(t, s)
	case n < 91:
		g.allocate(t)
	case n < 93:
		if len(g.buffers) > 4 {
			g.release(t, pick(g, g.buffers))
		}
	case n < 94:
		g.register(t)
	case n < 96 && g.on["churn"]:
		if s.slot >= 0 && len(g.streams) > 2 {
			g.destroyStream(t, s)
		}
	case n < 98 && g.on["churn"]:
		if len(g.streams) < 8 && len(g.p.streams) < 60 {
			g.newStream(t, s.ctx)
		}
	case g.on["refuse"]:
		g.refuse(t, s)
	}
}
