package modeltest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/kernel"
)

// image is a binary with the kernel mix for the devices that the tests run on: see drivertest.Kernels.
var image = sync.OnceValue(func() []byte {
	if coretest.OnGPU {
		return []byte(drivertest.PTX)
	}
	return kernel.Functions(map[string]kernel.Func{"mix": func(b *kernel.Block) error {
		args := view(core.Addr(b.Args), 32)
		arg := func(i int) uint64 { return binary.LittleEndian.Uint64(args[8*i:]) }
		to, from := view(core.Addr(arg(0)), int(arg(2))), view(core.Addr(arg(1)), int(arg(2)))
		for i := int(b.Index); i < len(to); i += int(b.Num) {
			to[i] += from[i]*byte(arg(3)) + byte(i)
		}
		return nil
	}})
})

// kernel is mix, for launches in a context.
func (c *settings) kernel(t *rapid.T) core.Handle {
	if c.mix == 0 {
		var b core.Handle
		must(t, launch.BinaryLoadFromData(c.Thread, addrOf(image()), uint64(len(image())), nil, &b))
		must(t, launch.BinaryGetFunction(c.Thread, b, &append([]byte("mix"), 0)[0], &c.mix))
	}
	return c.mix
}

// step is a task that a stream can run by itself, at once or captured.
type step struct {
	what   string
	call   func(h core.Handle) *core.Error
	effect func()
	uses   []use
	beside bool // it is captured on the second stream
}

// graph is a model that was captured.
type graph struct {
	h     core.Handle
	ctx   *settings
	steps []step
	uses  []use // of all steps
}

func (g *graph) String() string { return fmt.Sprintf("model %#x of %s", g.h, g.ctx.name) }

func (g *graph) touches(b *buffer) bool {
	return slices.ContainsFunc(g.uses, func(u use) bool { return u.b == b })
}

// near are buffers that kernels and copies of a device use without a peer.
func (w *world) near(dev int, kinds ...place) []*buffer {
	return slices.DeleteFunc(w.some(kinds...), func(b *buffer) bool { return b.kind == onDevice && b.dev != dev })
}

// step draws a task for a stream of ctx.
func (w *world) step(t *rapid.T, ctx *settings) step {
	switch rapid.SampledFrom([]string{"copy", "copy", "fill", "kernel", "kernel"}).Draw(t, "task") {
	case "fill":
		b := pick(t, w.near(ctx.dev, onDevice), "device buffer")
		off, n := some(t, b, len(b.want), "bytes")
		v := rapid.Byte().Draw(t, "value")
		return step{
			what: fmt.Sprintf("fill %v [%d,%d) with %#x", b, off, off+n, v),
			call: func(h core.Handle) *core.Error {
				return transfer.MemsetAsync(ctx.Thread, b.at(off), uint64(n), int32(v), uint64(n), h)
			},
			effect: func() {
				for i := range n {
					b.want[off+i] = v
				}
			},
			uses: []use{writes(b, off, n)},
		}
	case "kernel":
		return w.mix(t, ctx)
	}
	dst := pick(t, w.near(ctx.dev, onDevice, pinned, registered), "destination")
	sources := []place{onDevice}
	if dst.kind == onDevice {
		sources = append(sources, pinned, registered)
	}
	src := pick(t, w.near(ctx.dev, sources...), "source")
	to, n := some(t, dst, len(src.want), "destination")
	from := rapid.IntRange(0, len(src.want)-n).Draw(t, "source offset")
	return step{
		what: fmt.Sprintf("copy %v+%d <- %v+%d, %d bytes", dst, to, src, from, n),
		call: func(h core.Handle) *core.Error {
			return transfer.MemcpyAsync(ctx.Thread, dst.at(to), uint64(n), src.at(from), uint64(n), abi.MemcpyDefault,
				h)
		},
		effect: move(dst, to, src, from, n),
		uses:   []use{writes(dst, to, n), reads(src, from, n)},
	}
}

// some is part with one byte or more.
func some(t *rapid.T, b *buffer, most int, label string) (off, n int) {
	off, n = part(t, b, most, label)
	if n == 0 {
		t.Skip("nothing")
	}
	return off, n
}

// mix draws a launch. Threads run in any order: where the kernel reads what it writes, it reads the same bytes.
func (w *world) mix(t *rapid.T, ctx *settings) step {
	dst := pick(t, w.near(ctx.dev, onDevice, pinned), "destination")
	src := pick(t, w.near(ctx.dev, onDevice, pinned), "source")
	to, n := some(t, dst, min(len(src.want), 5000), "destination")
	from := to
	if dst != src {
		from = rapid.IntRange(0, len(src.want)-n).Draw(t, "source offset")
	}
	v, blocks := rapid.Byte().Draw(t, "factor"), rapid.Uint32Range(1, 5).Draw(t, "blocks")
	f := ctx.kernel(t)
	w.staged = true // for the arguments
	return step{
		what: fmt.Sprintf("mix %v+%d <- %v+%d, %d bytes, times %d, %d blocks", dst, to, src, from, n, v, blocks),
		call: func(h core.Handle) *core.Error {
			var args []byte
			for _, a := range []uint64{uint64(dst.at(to)), uint64(src.at(from)), uint64(n), uint64(v)} {
				args = binary.LittleEndian.AppendUint64(args, a)
			}
			return launch.LaunchKernelWithHostArgs(ctx.Thread, f, blocks, h, nil, addrOf(args), uint64(len(args)), nil,
				0)
		},
		effect: func() {
			for i := range n {
				dst.want[to+i] += src.want[from+i]*v + byte(i)
			}
		},
		uses: []use{writes(dst, to, n), reads(src, from, n)},
	}
}

// capture makes a model of a few tasks on one stream or two.
func (w *world) capture(t *rapid.T) {
	list := slices.DeleteFunc(slices.Clone(w.streams), func(s *stream) bool { return s.h == 0 || s.failed != nil })
	s := pick(t, list, "stream")
	list = slices.DeleteFunc(list, func(o *stream) bool { return o == s || o.ctx != s.ctx })
	g := &graph{ctx: s.ctx}
	for range rapid.IntRange(1, 8).Draw(t, "tasks") {
		x := w.step(t, s.ctx)
		x.beside = len(list) > 0 && rapid.IntRange(0, 2).Draw(t, "beside") == 0
		g.steps, g.uses = append(g.steps, x), append(g.uses, x.uses...)
	}
	var e core.Handle
	must(t, s.ctx.CreateEventExWithFlag(&e, abi.EventSync))
	hop := func(from, to core.Handle) {
		must(t, s.ctx.RecordEvent(e, from))
		must(t, s.ctx.StreamWaitEvent(to, e))
	}
	w.logf(t, "capture %v", s)
	must(t, model.MdlRICaptureBegin(s.ctx.Thread, s.h, abi.ModelRiCaptureModeRelaxed))
	on, beside := s.h, core.Handle(0)
	for i := range g.steps {
		x := &g.steps[i]
		next := s.h
		if x.beside {
			if beside == 0 {
				beside = pick(t, list, "second stream").h
			}
			next = beside
		}
		if next != on {
			hop(on, next)
			on = next
		}
		w.logf(t, "  %s on %#x", x.what, on)
		must(t, x.call(on))
	}
	if on != s.h {
		hop(on, s.h)
	}
	must(t, model.MdlRICaptureEnd(s.ctx.Thread, s.h, &g.h))
	must(t, s.ctx.DestroyEvent(e))
	w.logf(t, "is %v", g)
	w.graphs = append(w.graphs, g)
}

func (w *world) destroyGraph(t *rapid.T, g *graph) {
	w.logf(t, "destroy %v", g)
	must(t, model.MdlRIDestroy(g.ctx.Thread, g.h))
	w.graphs = slices.DeleteFunc(w.graphs, func(o *graph) bool { return o == g })
}

// destroyGraphsOf destroys the models that use b.
func (w *world) destroyGraphsOf(t *rapid.T, b *buffer) {
	for _, g := range slices.Clone(w.graphs) {
		if g.touches(b) {
			w.destroyGraph(t, g)
		}
	}
}

// modelsRun reports whether an execution may still give tasks to the driver: those of several streams do so while they
// run.
func (w *world) modelsRun() bool {
	w.runs = slices.DeleteFunc(w.runs, func(a access) bool { return w.host.at(a.stream.index) >= a.task })
	return len(w.runs) > 0
}

// graphActions are what programs do with kernels and models.
func (w *world) graphActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"launch": func(t *rapid.T) {
			s := pick(t, w.streams, "stream")
			x := w.mix(t, s.ctx)
			w.order(t, s, x.uses...)
			fails := w.inject(t)
			w.logf(t, "%s on %v", x.what, s)
			must(t, x.call(s.h))
			w.queued(s, fails, x.effect, x.uses...)
		},
		"capture": func(t *rapid.T) {
			if len(w.graphs) > 4 {
				t.Skip("enough")
			}
			w.capture(t)
		},
		"run model": func(t *rapid.T) {
			g := pick(t, w.graphs, "model")
			s := pick(t, slices.DeleteFunc(slices.Clone(w.streams), func(s *stream) bool { return s.ctx != g.ctx }),
				"stream")
			for range rapid.IntRange(1, 3).Draw(t, "runs") {
				w.order(t, s, g.uses...)
				w.logf(t, "run %v on %v", g, s)
				must(t, model.MdlRIExecuteAsync(g.ctx.Thread, g.h, s.h))
				w.queued(s, 0, func() {
					for i := range g.steps {
						g.steps[i].effect()
					}
				}, g.uses...)
				w.runs = append(w.runs, access{stream: s, task: s.tasks})
			}
		},
		"destroy model": func(t *rapid.T) { w.destroyGraph(t, pick(t, w.graphs, "model")) },
	}
}
