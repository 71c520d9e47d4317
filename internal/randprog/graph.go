package randprog

import (
	"fmt"
	"slices"
	"strings"
)

// graph is a captured model.
type graph struct {
	object
	ctx   *context
	steps []step
	uses  []use
	reads []*object
}

func (x *graph) touches(b *buffer) bool { return slices.Contains(x.reads, &b.object) }

// capture makes a model of a few tasks on one stream or two.
func (g *gen) capture(t *thread) {
	s, beside := pick(g, g.streams), pick(g, g.streams)
	if s.slot < 0 || s.reports || len(g.graphs) > 4 {
		return
	}
	if beside.slot < 0 || beside.ctx != s.ctx || beside.reports {
		beside = s
	}
	x := &graph{ctx: s.ctx}
	x.slot = g.slot()
	event := g.slot()
	lines := []string{fmt.Sprintf("aclrtCreateEventExWithFlag &%d 1", event),
		fmt.Sprintf("aclmdlRICaptureBegin %s 2", s.ref())}
	on := s
	move := func(to *stream) {
		if to != on {
			lines = append(lines, fmt.Sprintf("aclrtRecordEvent #%d %s", event, on.ref()),
				fmt.Sprintf("aclrtStreamWaitEvent %s #%d", to.ref(), event))
			on = to
		}
	}
	near := func(b *buffer) bool {
		return b.kind == "device" && b.dev == s.ctx.dev || b.kind == "pinned" || b.kind == "registered"
	}
	for range 1 + g.IntN(8) {
		var y step
		var ok bool
		switch n := g.IntN(5); {
		case n == 0:
			y, ok = g.fill(near)
		case n == 1 && g.on["kernel"]:
			y, ok = g.mix(s.ctx)
		default:
			y, ok = g.copy(near)
		}
		if !ok {
			continue
		}
		move(pick(g, []*stream{s, s, beside}))
		lines = append(lines, y.text(on))
		x.steps, x.uses, x.reads = append(x.steps, y), append(x.uses, y.uses...), append(x.reads, y.reads...)
	}
	move(s)
	lines = append(lines, fmt.Sprintf("aclmdlRICaptureEnd %s &%d", s.ref(), x.slot),
		fmt.Sprintf("aclrtDestroyEvent #%d", event))
	if len(x.steps) == 0 {
		return
	}
	g.do(&op{thread: t, ctx: s.ctx, text: strings.Join(lines, "\n"), reads: x.reads,
		changes: []*object{&x.object, &s.object, &beside.object}})
	g.graphs = append(g.graphs, x)
}

func (g *gen) runGraph(t *thread) {
	if len(g.graphs) == 0 {
		g.capture(t)
		return
	}
	x, s := pick(g, g.graphs), pick(g, g.streams)
	if s.ctx != x.ctx {
		return
	}
	g.do(&op{thread: t, stream: s, text: fmt.Sprintf("aclmdlRIExecuteAsync %s %s", x.ref(), s.ref()),
		reads: append([]*object{&x.object}, x.reads...), uses: x.uses, effect: func() {
			for _, y := range x.steps {
				y.effect()
			}
		}})
}

// destroyGraph waits for executions, for the time limit of the call is short.
func (g *gen) destroyGraph(t *thread, x *graph) {
	host := slices.Clone(x.uses)
	g.do(&op{thread: t, ctx: x.ctx, text: "aclmdlRIDestroy " + x.ref(), changes: []*object{&x.object}, uses: host})
	g.graphs = slices.DeleteFunc(g.graphs, func(o *graph) bool { return o == x })
}

func (g *gen) newStream(t *thread, ctx *context) *stream {
	s := &stream{index: len(g.p.streams), ctx: ctx, tasks: map[*thread][]*op{}}
	s.reports = g.on["report"] && g.IntN(3) == 0
	s.slot = g.slot()
	text := fmt.Sprintf("aclrtCreateStream &%d", s.slot)
	if g.IntN(2) == 0 {
		text = fmt.Sprintf("aclrtCreateStreamWithConfig &%d %d %d", s.slot, g.IntN(8), g.IntN(4))
	}
	if s.reports = s.reports && ctx.dev == 0; s.reports {
		text += fmt.Sprintf("\naclrtSubscribeReport @r %s", s.ref())
	}
	g.do(&op{thread: t, ctx: ctx, text: text, changes: []*object{&s.object}})
	g.streams, g.p.streams = append(g.streams, s), append(g.p.streams, s)
	return s
}

func (g *gen) destroyStream(t *thread, s *stream) {
	o := &op{thread: t, ctx: s.ctx, text: "aclrtDestroyStream " + s.ref(), changes: []*object{&s.object}}
	if s.reports {
		g.syncStream(t, s)
		o.text = fmt.Sprintf("aclrtUnSubscribeReport @r %s\n%s", s.ref(), o.text)
	}
	o.syncs = []*stream{s}
	g.do(o)
	s.end = o
	g.streams = slices.DeleteFunc(g.streams, func(o *stream) bool { return o == s })
}
