package check

import (
	"encoding/binary"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// started is ACL_MODEL_STREAM_FLAG_DEFAULT: another stream starts the stream.
const started = 0x7FFFFFFF

// built is a model that was built by hand.
type built struct {
	*program
	m core.Handle
}

func (p *program) build() *built {
	b := &built{program: p}
	p.ok(models.MdlRIBuildBegin(p.Thread, &b.m, 0))
	p.later(uintptr(b.m), func() *core.Error { return models.MdlRIDestroy(p.Thread, b.m) })
	return b
}

// bind adds a new stream to the model.
func (b *built) bind(flag uint32) (s core.Handle) {
	b.ok(b.CreateStreamWithConfig(&s, 0, abi.StreamPersistent))
	b.ok(models.MdlRIBindStream(b.Thread, b.m, s, flag))
	b.later(uintptr(s), func() *core.Error {
		b.ok(models.MdlRIUnbindStream(b.Thread, b.m, s))
		return b.DestroyStream(s)
	})
	return s
}

// end ends the model at s.
func (b *built) end(s core.Handle) {
	b.ok(models.MdlRIEndTask(b.Thread, b.m, s))
	b.ok(models.MdlRIBuildEnd(b.Thread, b.m, 0))
}

// TestBuilt proves that tasks of models built by hand are judged like captured ones: against the host, freed memory,
// each other, and a former execution. A finding names the execution and the call that submitted the task.
func TestBuilt(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		run        func(p *program, b *built)
	}{
		{"the host writes before it has run", "host-write-in-flight", func(p *program, b *built) {
			s, host, dev := b.bind(0), p.pinned(64), p.dev(64)
			p.here("captured")
			p.up(dev, host, 64, s)
			b.end(s)
			on := p.stream()
			p.here("submitted")
			p.execute(b.m, on)
			p.sync(on)
			p.writes(host+8, 8)
		}},
		{"the host writes after it has run", "host-write-in-flight", func(p *program, b *built) {
			s, host, dev := b.bind(0), p.pinned(64), p.dev(64)
			p.here("captured")
			p.up(dev, host, 64, s)
			b.end(s)
			on := p.stream()
			p.here("submitted")
			p.execute(b.m, on)
			p.c.Quiesce()
			p.sync(on)
			p.writes(host+8, 8)
		}},
		{"memory is freed", "free-in-flight", func(p *program, b *built) {
			s, host, dev := b.bind(0), p.pinned(64), p.dev(64)
			p.here("captured")
			p.up(dev, host, 64, s)
			b.end(s)
			on := p.stream()
			p.here("submitted")
			p.execute(b.m, on)
			p.sync(on)
			p.ok(memory.FreeHost(p.Thread, p.gone(host)))
		}},
		{"another stream uses its memory", "stream-race", func(p *program, b *built) {
			s, host, dev := b.bind(0), p.pinned(64), p.dev(64)
			p.here("captured")
			p.up(dev, host, 64, s)
			b.end(s)
			on, other := p.stream(), p.stream()
			p.here("submitted")
			p.execute(b.m, on)
			p.c.Quiesce()
			p.sync(on)
			p.down(host+0, dev, 64, other)
		}},
		{"two of its streams", "stream-race", func(p *program, b *built) {
			s, two, host, dev := b.bind(0), b.bind(0), p.pinned(64), p.dev(64)
			p.here("captured")
			p.up(dev, host, 64, s)
			if p.fixed {
				e := p.event(state)
				p.ok(p.RecordEvent(e, s))
				p.ok(p.StreamWaitEvent(two, e))
				p.ok(p.ResetEvent(e, two))
			}
			p.up(dev, host, 64, two)
			b.end(s)
			on := p.stream()
			p.here("submitted")
			p.execute(b.m, on)
			p.ok(p.SynchronizeStream(on))
		}},
		{"two runs", "stream-race", func(p *program, b *built) {
			s, host, dev := b.bind(0), p.pinned(64), p.dev(64)
			p.here("captured")
			p.up(dev, host, 64, s)
			b.end(s)
			one, two := p.stream(), p.stream()
			p.here("submitted")
			p.execute(b.m, one)
			p.sync(one)
			p.execute(b.m, two)
			p.ok(p.SynchronizeStream(one))
		}},
	} {
		for _, fixed := range []bool{false, true} {
			name := map[bool]string{false: "wrong", true: "right"}[fixed]
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				p := begin(t)
				p.fixed = fixed
				tt.run(p, p.build())
				if fixed {
					p.silent()
					return
				}
				p.c.Quiesce()
				f := p.only(tt.rule)
				if tt.name == "two of its streams" {
					p.has(f, f.Offence, "captured", "captured")
					p.has(f, f.Others[1], "submitted", "submitted")
				} else {
					p.has(f, f.Others[0], "submitted", "submitted")
					p.has(f, f.Others[1], "captured", "captured")
				}
				if again := strings.Contains(f.Advice, "Execute a model again"); again != (tt.name == "two runs") {
					t.Errorf("the advice is %s", f.Advice)
				}
			})
		}
	}
}

// TestBuiltStale proves that the execution of a model built by hand that refers to freed memory is reported with the
// call that submitted the task, and that tasks of a stream that was unbound do not count.
func TestBuiltStale(t *testing.T) {
	p := begin(t)
	b := p.build()
	s, host, dev := b.bind(0), p.pinned(64), p.dev(64)
	p.here("captured")
	p.up(dev, host, 64, s)
	b.end(s)
	p.ok(memory.Free(p.Thread, p.gone(dev)))
	p.refused(models.MdlRIExecuteAsync(p.Thread, b.m, p.stream()))
	f := p.only("stale-model")
	p.has(f, f.Others[0], "captured", "captured")
}

// TestDecided proves that a model whose branches depend on memory is judged by the branch taken: the host may write
// memory that only the other branch reads, but not memory that this one reads.
func TestDecided(t *testing.T) {
	for _, taken := range []bool{false, true} {
		p := begin(t)
		b := p.build()
		s, other := b.bind(0), b.bind(started)
		host, dev, value, zero := p.pinned(128), p.dev(128), p.dev(64), p.dev(64)
		set := int32(0)
		if taken {
			set = 1
		}
		p.ok(transfer.Memset(p.Thread, value, 64, set, 64))
		p.ok(transfer.Memset(p.Thread, zero, 64, 0, 64))
		p.ok(models.SwitchStream(p.Thread, value, abi.ConditionNotEqual, zero, abi.SwitchInt32, other, 0, s))
		p.up(dev, host, 64, s)
		p.ok(models.MdlRIEndTask(p.Thread, b.m, s))
		p.up(dev+64, host+64, 64, other)
		b.end(other)
		on := p.stream()
		p.execute(b.m, on)
		free, busy := host, host+64
		if !taken {
			free, busy = busy, free
		}
		p.writes(free, 8)
		p.silent()
		p.writes(busy, 8)
		p.only("host-write-in-flight")
	}
}

// TestOrderInModel proves that tasks of two streams of a captured model are judged by the events between them, and not
// by the order of the calls.
func TestOrderInModel(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		p := begin(t)
		s, side, host, dev := p.stream(), p.stream(), p.pinned(64), p.dev(64)
		p.capture(s, relaxed)
		p.after(side, s)
		p.here("captured")
		p.up(dev, host, 64, side)
		if fixed {
			p.after(s, side)
		}
		p.up(dev, host, 64, s)
		p.after(s, side)
		m := p.model(s)
		for range 2 {
			p.execute(m, s)
			p.up(dev, host, 64, s) // after the whole model
		}
		p.ok(p.SynchronizeStream(s))
		if fixed {
			p.silent()
			continue
		}
		p.only("stream-race")
	}
}

// subModels gets the handles of two sub-models; it is not on a stack, which moves.
var subModels [16]byte

// TestSubModel proves that tasks in sub-models of condition tasks are judged. Tasks that ran are in flight, those of
// other branches are not, freed memory is reported, and findings name the captured call.
func TestSubModel(t *testing.T) {
	for name, lanes := range map[string]bool{"one program": false, "with streams": true} {
		t.Run(name, func(t *testing.T) {
			p := begin(t)
			s, host, dev := p.stream(), p.pinned(192), p.dev(192)
			var m, h core.Handle
			subs := [2]core.Handle{}
			p.capture(s, relaxed)
			p.ok(models.MdlRICaptureGetInfo(p.Thread, s, nil, &m))
			p.ok(models.MdlRICondHandleCreate(p.Thread, m, 1, abi.ModelRiCondHandleAssignDefault, &h))
			params := abi.MdlRICondTaskParams{Handle: uintptr(h), Type: abi.ModelRiCondTypeIf, Size: 2,
				ModelRIArray: core.AddrOf(subModels[:])}
			p.ok(models.MdlRIAddCondTask(p.Thread, &params, s, 0))
			for i := range subs {
				subs[i] = core.Handle(binary.NativeEndian.Uint64(subModels[8*i:]))
			}
			p.up(dev, host, 64, s)
			for i, sub := range subs {
				inner := p.stream()
				p.ok(models.MdlRICaptureToModelRIBegin(p.Thread, inner, sub, relaxed))
				if lanes {
					p.ok(p.LaunchHostFunc(inner, func(core.Addr) {}, 0))
				}
				at := core.Addr(64 * (i + 1))
				p.here("captured")
				p.up(dev+at, host+at, 64, inner)
				p.ok(models.MdlRICaptureEnd(p.Thread, inner, &sub))
			}
			m = p.model(s)
			p.here("submitted")
			p.execute(m, s)
			p.writes(host+128, 8) // of the model that is not chosen
			p.silent()
			p.writes(host+64, 8)
			f := p.only("host-write-in-flight")
			p.has(f, f.Others[0], "submitted", "submitted")
			p.has(f, f.Others[1], "captured", "captured")
		})
	}
}
