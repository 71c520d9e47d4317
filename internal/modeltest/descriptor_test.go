package modeltest

import (
	"encoding/binary"
	"runtime"
	"slices"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
)

// setCell writes the address of a buffer into device memory.
func (w *world) setCell(t *rapid.T) {
	b, target := pick(t, w.some(onDevice), "cell buffer"), pick(t, w.some(onDevice), "target")
	if len(b.want) < 8 {
		t.Skip("small")
	}
	off := rapid.IntRange(0, (len(b.want)-8)/8).Draw(t, "cell") * 8
	w.orderHost(t, writes(b, off, 8))
	word := binary.LittleEndian.AppendUint64(nil, uint64(target.addr))
	w.logf(t, "cell %v+%d = address of %v", b, off, target)
	must(t, transfer.Memcpy(w.ctxs[b.dev].Thread, b.at(off), 8, addrOf(word), 8, abi.MemcpyHostToDevice))
	runtime.KeepAlive(word)
	copy(b.want[off:], word)
	w.cells = append(w.cells, cell{b, off})
}

func (w *world) copyOffset(t *rapid.T) {
	s, dc, sc := pick(t, w.streams, "stream"), pick(t, w.cells, "cell"), pick(t, w.cells, "source cell")
	n := rapid.IntRange(1, 300).Draw(t, "bytes")
	do, so := rapid.IntRange(0, 100).Draw(t, "destination offset"), rapid.IntRange(0, 100).Draw(t, "source offset")
	if dc.b.dev != s.ctx.dev || sc.b.dev != s.ctx.dev {
		t.Skip("other device")
	}
	// The cells are read when the copy runs; what is in them then is what is in the model now, once that is in order.
	uses := []use{reads(dc.b, dc.off, 8), reads(sc.b, sc.off, 8)}
	base := func(c cell) core.Addr { return core.Addr(binary.LittleEndian.Uint64(c.b.want[c.off:])) }
	call := func() *core.Error {
		w.logf(t, "copy with offset: cells %v+%d, %v+%d, offsets %d, %d, %d bytes, on %v", dc.b, dc.off, sc.b, sc.off,
			do, so, n, s)
		return transfer.MemcpyAsyncWithOffset(s.ctx.Thread, dc.b.at(dc.off), uint64(do+n), uint64(do), sc.b.at(sc.off),
			uint64(n), uint64(so), abi.MemcpyInnerDeviceToDevice, s.h)
	}
	w.indirect(t, s, call, base(dc)+core.Addr(do), base(sc)+core.Addr(so), n, uses)
}

// indirect submits a copy inside a device whose addresses are read when it runs.
func (w *world) indirect(t *rapid.T, s *stream, call func() *core.Error, to, from core.Addr, n int, uses []use) {
	dst, do, sure1 := w.find(s.ctx.dev, to, n)
	src, so, sure2 := w.find(s.ctx.dev, from, n)
	if !sure1 || !sure2 {
		t.Skip("ends at the border of a buffer")
	}
	if dst == nil || src == nil {
		w.order(t, s, uses...)
		must(t, call())
		w.queued(s, abi.ErrRTSysDma, nil, uses...)
		if w.wasMemory(to) || w.wasMemory(from) {
			w.sync(t, s) // before that memory is used again and the copy succeeds
		}
		return
	}
	uses = append(uses, writes(dst, do, n), reads(src, so, n))
	w.order(t, s, uses...)
	fails := w.inject(t)
	must(t, call())
	w.queued(s, fails, move(dst, do, src, so, n), uses...)
}

// wasMemory reports whether addr lies in device memory that was freed.
func (w *world) wasMemory(addr core.Addr) bool {
	return slices.ContainsFunc(w.freed, func(b *buffer) bool {
		return addr >= b.addr && addr < b.addr+core.Addr(len(b.want))+64
	})
}

// descriptors have their fields here.
func (w *world) layout() driver.Layout {
	if w.prod.DescSize == 64 {
		return driver.Desc64
	}
	return driver.Desc32
}

func (w *world) setDescriptor(t *rapid.T) {
	dst, src := pick(t, w.some(onDevice), "destination"), pick(t, w.some(onDevice), "source")
	if dst.dev != src.dev {
		t.Skip("other device")
	}
	var d *buffer
	if len(w.descs) < 3 {
		d = w.alloc(t, onDevice, w.ctxs[dst.dev], w.prod.DescSize)
		w.descs = append(w.descs, d)
	} else if d = pick(t, w.descs, "descriptor"); d.dev != dst.dev {
		t.Skip("other device")
	}
	to, n := part(t, dst, min(len(dst.want), len(src.want)), "destination")
	from := rapid.IntRange(0, len(src.want)-n).Draw(t, "source offset")
	if n == 0 {
		t.Skip("nothing")
	}
	w.orderHost(t, writes(d, 0, len(d.want)))
	w.logf(t, "descriptor %v = %v+%d <- %v+%d, %d bytes", d, dst, to, src, from, n)
	must(t, transfer.SetMemcpyDesc(w.ctxs[d.dev].Thread, d.addr, abi.MemcpyInnerDeviceToDevice, src.at(from),
		dst.at(to), uint64(n), 0))
	l := w.layout()
	clear(d.want)
	binary.LittleEndian.PutUint32(d.want[l.Length:], uint32(n))
	binary.LittleEndian.PutUint64(d.want[l.Src:], uint64(src.at(from)))
	binary.LittleEndian.PutUint64(d.want[l.Dst:], uint64(dst.at(to)))
}

func (w *world) copyDescriptor(t *rapid.T) {
	s, d := pick(t, w.streams, "stream"), pick(t, w.descs, "descriptor")
	if s.h == 0 || d.dev != s.ctx.dev {
		t.Skip("other device")
	}
	l := w.layout()
	n := int(binary.LittleEndian.Uint32(d.want[l.Length:]))
	from := core.Addr(binary.LittleEndian.Uint64(d.want[l.Src:]))
	to := core.Addr(binary.LittleEndian.Uint64(d.want[l.Dst:]))
	uses := []use{reads(d, int(min(l.Length, l.Src)), 20)}
	control := 0
	if w.prod.DescSize == 32 {
		control = 12 // bytes that the call itself rewrites, at once
	}
	call := func() *core.Error {
		w.logf(t, "copy by descriptor %v: %#x <- %#x, %d bytes, on %v", d, to, from, n, s)
		err := transfer.MemcpyAsyncWithDesc(s.ctx.Thread, d.addr, abi.MemcpyInnerDeviceToDevice, s.h)
		if err == nil && control > 0 {
			clear(d.want[:control])
			d.want[0] = 1
		}
		return err
	}
	w.orderHost(t, writes(d, 0, control))
	w.indirect(t, s, call, to, from, n, uses)
}
