package recorder

import (
	"ropeway/internal/observe"
)

var (
	_ observe.Tracer     = (*Recorder)(nil)
	_ observe.PartTracer = (*Recorder)(nil)
)

// Submitted implements observe.Tracer.
func (r *Recorder) Submitted(t observe.Task) {
	of := half(t.Stream)
	if t.Kind == observe.Kernel {
		t.Bytes = uint64(t.Name)
	}
	r.put(t.Thread, &line{
		uint64(TaskType) | uint64(t.Kind)<<8 | uint64(t.Direction)<<16 | uint64(t.Memory)<<24 | of,
		uint64(t.Number) | uint64(t.Thread)<<32,
		uint64(t.Submit),
		t.Bytes&(1<<48-1) | uint64(t.Device)<<48,
	})
	if t.Segments != 0 || t.Call != t.Submit {
		r.put(t.Thread, &line{uint64(MoreType) | of, uint64(t.Number) | uint64(t.Segments)<<32, uint64(t.Call)})
	}
	if t.Event != 0 {
		r.put(t.Thread, &line{uint64(EventType) | of, uint64(t.Number) | uint64(t.After.Number)<<32, t.Event,
			uint64(uint32(t.After.Stream))})
	}
}

// Ran implements observe.Tracer. Streams and threads start at different shards.
func (r *Recorder) Ran(stream int32, number uint32, began, ended int64, how observe.Result) {
	result := Done
	switch {
	case how.Dropped:
		result = Dropped
	case how.Code != 0:
		result = Failed
	}
	r.put(uint32(stream)+shards/2, &line{
		uint64(RanType) | uint64(result)<<8 | half(stream),
		uint64(number) | half(how.Code),
		uint64(began),
		uint64(ended),
	})
}

var _ observe.CoreTracer = (*Recorder)(nil)

// Worked implements observe.CoreTracer. Cores start at different shards.
func (r *Recorder) Worked(w observe.CoreWork) {
	r.put(uint32(w.Core)+shards/2, &line{
		uint64(CoreType) | uint64(w.Core)<<8 | half(w.Task.Stream),
		uint64(w.Task.Number) | uint64(w.First)<<32,
		uint64(w.Began),
		uint64(min(max(w.Ended-w.Began, 0), MostTicks)) | uint64(min(w.Blocks, MostBlocks))<<40,
	})
	if w.InModel {
		r.put(uint32(w.Core)+shards/2, &line{uint64(KernelType) | uint64(w.Core)<<8 | half(w.Task.Stream),
			uint64(w.Task.Number) | uint64(w.Name)<<32, uint64(w.Began)})
	}
}

// Called implements observe.Tracer.
func (r *Recorder) Called(c observe.Call) {
	last := uint64(c.End)
	if c.State == observe.Waiting {
		last = uint64(c.After.Number) | half(c.After.Stream)
	}
	r.put(c.Thread, &line{
		uint64(CallType) | uint64(c.State)<<8 | uint64(c.Function)<<16 | half(c.Stream),
		uint64(c.Thread) | half(c.Code),
		uint64(c.Start),
		last,
	})
	if c.Blocked != 0 {
		r.put(c.Thread, &line{uint64(BlockedType) | half(c.Stream), uint64(c.Thread), uint64(c.Start),
			uint64(c.Blocked)})
	}
}

// Copied implements observe.Tracer. It writes a single record if all values fit.
func (r *Recorder) Copied(c observe.Call, t observe.Task) {
	ticks := c.End - c.Start
	if t.Bytes >= 1<<32 || ticks < 0 || ticks >= 1<<32 || t.Submit != c.Start || t.Thread != c.Thread ||
		t.Stream != c.Stream ||
		t.Kind != observe.Copy || c.Code != 0 || c.Blocked != 0 || c.State != observe.Returned {
		r.Submitted(t)
		r.Ran(t.Stream, t.Number, 0, c.End, observe.Result{})
		r.Called(c)
		return
	}
	r.put(t.Thread, &line{
		uint64(CopiedType) | uint64(t.Direction&0xf)<<8 | uint64(t.Memory)<<12 | uint64(
			c.Function)<<16 | half(t.Stream),
		uint64(t.Number) | uint64(t.Thread)<<32,
		uint64(c.Start),
		t.Bytes | uint64(ticks)<<32,
	})
}

// Modelled implements observe.Tracer.
func (r *Recorder) Modelled(m *observe.ModelGraph) {
	list := m.Tasks[:min(len(m.Tasks), MostNodes)]
	of := uint64(m.Number) << 32
	r.put(m.Number, &line{uint64(ModelType) | of, uint64(len(m.Tasks)) | uint64(len(list))<<32, uint64(m.Version)})
	for i := range list {
		k := &list[i]
		what := min(k.Bytes, 1<<NodeBytes-1)
		if k.Kind == observe.Kernel {
			what = uint64(k.Name)
		}
		if k.Piece < 1<<24-1 {
			what |= uint64(k.Piece+1) << NodeBytes
		}
		r.put(m.Number, &line{
			uint64(NodeType) | uint64(k.Kind)<<8 | uint64(k.Direction)<<16 | uint64(k.Memory)<<24 | of,
			uint64(uint32(i)) | half(k.Stream),
			what,
			uint64(uint32(k.After+1)) | uint64(k.Segments)<<32,
		})
	}
}

// Part implements observe.PartTracer.
func (r *Recorder) Part(p observe.Part) {
	ticks := uint64(min(max(p.Ended-p.Began, 0), 1<<PartTicks-1))
	r.put(uint32(p.Stream)+shards/2, &line{
		uint64(PartType) | uint64(p.Count&(1<<24-1))<<8 | half(p.Stream),
		uint64(p.Number) | uint64(p.First)<<32,
		uint64(p.Began),
		ticks | uint64(p.Model)<<PartTicks,
	})
}

// Stream implements observe.Tracer.
func (r *Recorder) Stream(stream, device int32, isDefault bool) {
	var d uint64
	if isDefault {
		d = 1
	}
	r.put(uint32(stream), &line{uint64(StreamType) | d<<8 | half(stream), uint64(uint32(device))})
}

// Device implements observe.Tracer.
func (r *Recorder) Device(device int32, name string) { r.text(TextDevice, uint32(device), name) }

// half returns n in the upper half of a word.
func half(n int32) uint64 { return uint64(uint32(n)) << 32 }

// text records a text in up to 256 parts, more than any name needs.
func (r *Recorder) text(what uint8, number uint32, s string) {
	for part := uint64(0); part < 256; part++ {
		n := min(len(s), textBytes)
		l := line{uint64(TextType) | uint64(what)<<8 | uint64(n)<<16 | part<<24 | uint64(number)<<32}
		for i := range n {
			l[1+i/8] |= uint64(s[i]) << (i % 8 * 8)
		}
		r.put(number, &l)
		if s = s[n:]; n < textBytes {
			return
		}
	}
}

// Ranged implements observe.Tracer.
func (r *Recorder) Ranged(n observe.Range) {
	last := uint64(n.End)
	if n.End == 0 || n.Kind == observe.Moment {
		r.text(TextRange, n.Number, n.Text)
	}
	if n.Kind == observe.Moment {
		last = uint64(n.Marker.Number)
	}
	r.put(n.Thread, &line{uint64(RangeType) | uint64(n.Kind)<<8 | half(n.Marker.Stream),
		uint64(n.Thread) | uint64(n.Number)<<32, uint64(n.Start), last})
}
