package modeltest

import (
	"slices"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// far is more than any allocation has past its end.
const far = 8 << 20

// refusals are calls that must return a code and change nothing. None may wait: streams may be held.
func (w *world) refusals() map[string]func(*rapid.T) {
	type call struct {
		what string
		code abi.Code
		f    func() *core.Error
	}
	dead := func(t *rapid.T) *buffer { // freed, and not used again since
		b := pick(t, w.freed, "freed buffer")
		if b.kind == pinned && w.staged {
			t.Skip("perhaps the runtime has it")
		}
		for _, o := range w.buffers {
			if b.addr < o.addr+core.Addr(len(o.want))+64 && o.addr < b.addr+core.Addr(len(b.want)) {
				t.Skip("used again")
			}
		}
		return b
	}
	host, dev := func(t *rapid.T) *buffer { return pick(t, w.some(pinned, registered), "host buffer") },
		func(t *rapid.T) *buffer { return pick(t, w.some(onDevice), "device buffer") }
	try := func(what string, f func(*rapid.T) (abi.Code, *core.Error)) func(*rapid.T) {
		return func(t *rapid.T) {
			w.logf(t, "refused: %s", what)
			code, err := f(t)
			expect(t, err, code, what)
		}
	}
	const (
		param   = abi.ErrRTParamInvalid
		invalid = abi.ErrInvalidParam
		missing = abi.ErrRTFeatureNotSupport
		def     = abi.MemcpyDefault
	)
	return map[string]func(*rapid.T){
		"refuse copy": func(t *rapid.T) {
			s, h, d := pick(t, w.streams, "stream"), host(t), dev(t)
			n := uint64(min(len(h.want), len(d.want)))
			if d.dev != s.ctx.dev {
				t.Skip("other device")
			}
			calls := []call{
				{"NULL destination", invalid, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, 0, n,
						h.addr, n, def, s.h)
				}},
				{"NULL source", invalid, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, d.addr, n, 0, n,
						def, s.h)
				}},
				{"NULL, synchronous", invalid, func() *core.Error {
					return transfer.Memcpy(s.ctx.Thread, 0, n, h.addr,
						n, def)
				}},
				{"unknown kind", invalid, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, d.addr, n,
						h.addr, n, 6, s.h)
				}},
				{"destMax", param, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, d.addr, n-1, h.addr,
						n, def, s.h)
				}},
				{"destMax, synchronous", param, func() *core.Error {
					return transfer.Memcpy(s.ctx.Thread, d.addr, n-1,
						h.addr, n, def)
				}},
				{"past the end", param, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, d.addr, far,
						h.addr, far, def, s.h)
				}},
				{"past the end, down", param, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, h.addr,
						far, d.addr, far, def, s.h)
				}},
				{"past the end, synchronous", param, func() *core.Error {
					return transfer.Memcpy(s.ctx.Thread, d.addr,
						far, h.addr, far, def)
				}},
				{"fill past the end", param, func() *core.Error {
					return transfer.MemsetAsync(s.ctx.Thread, d.addr, far,
						1, far, s.h)
				}},
				{"fill over maxCount", param, func() *core.Error {
					return transfer.Memset(s.ctx.Thread, d.addr, n-1, 1,
						n)
				}},
				{"words over memSize", invalid, func() *core.Error {
					return transfer.MemsetD32Async(s.ctx.Thread,
						d.addr, 7, 1, 2, s.h)
				}},
				{"words not aligned", invalid, func() *core.Error {
					return transfer.MemsetD32Async(s.ctx.Thread,
						d.addr+1, 4, 1, 1, s.h)
				}},
				{"host to host", missing, func() *core.Error {
					return transfer.MemcpyAsync(s.ctx.Thread, h.addr, n,
						h.addr, n, def, s.h)
				}},
				{"2-D pitch", invalid, func() *core.Error {
					return transfer.Memcpy2dAsync(s.ctx.Thread, d.addr, 1,
						h.addr, 2, 2, 1, def, s.h)
				}},
				{"2-D past the end", param, func() *core.Error {
					return transfer.Memcpy2dAsync(s.ctx.Thread, d.addr, far, h.addr, far, 1, 2, def, s.h)
				}},
				{"2-D host to host", param, func() *core.Error {
					return transfer.Memcpy2dAsync(s.ctx.Thread, h.addr, 1,
						h.addr, 1, 1, 1, def, s.h)
				}},
				{"descriptor, kind", missing, func() *core.Error {
					return transfer.MemcpyAsyncWithDesc(s.ctx.Thread, d.addr, abi.MemcpyHostToDevice, s.h)
				}},
				{"free host", param, func() *core.Error { return corememory.FreeHost(s.ctx.Thread, d.addr) }},
				{"free inside", param, func() *core.Error { return corememory.Free(s.ctx.Thread, d.addr+1) }},
				{"register device memory", param, func() *core.Error {
					return corememory.HostRegisterV2(s.ctx.Thread,
						d.addr, 1, abi.HostRegPinned)
				}},
				{"unregister", abi.ErrHostMemoryNotRegistered,
					func() *core.Error { return corememory.HostUnregister(s.ctx.Thread, d.addr) }},
				{"no bytes", invalid, func() *core.Error {
					var p core.Addr
					return corememory.Malloc(s.ctx.Thread, &p,
						0, 0)
				}},
			}
			if s.h == 0 {
				calls = slices.DeleteFunc(calls, func(c call) bool { return c.what == "descriptor, kind" })
			}
			c := calls[rapid.IntRange(0, len(calls)-1).Draw(t, "call")]
			w.logf(t, "refused: %s", c.what)
			expect(t, c.f(), c.code, c.what)
		},
		"refuse freed memory": try("freed memory", func(t *rapid.T) (abi.Code, *core.Error) {
			s, b, h, d := pick(t, w.streams, "stream"), dead(t), host(t), dev(t)
			switch rapid.IntRange(0, 5).Draw(t, "call") {
			case 0:
				return param, transfer.MemcpyAsync(s.ctx.Thread, b.addr, 1, h.addr, 1, def, s.h)
			case 1:
				return param, transfer.MemcpyAsync(s.ctx.Thread, d.addr, 1, b.addr, 1, def, s.h)
			case 2:
				return param, transfer.Memcpy(s.ctx.Thread, b.addr, 1, h.addr, 1, def)
			case 3:
				return param, transfer.MemsetAsync(s.ctx.Thread, b.addr, 1, 1, 1, s.h)
			case 4:
				return param, corememory.Free(s.ctx.Thread, b.addr)
			}
			n, at := uint64(1), uint64(7)
			a := abi.MemcpyBatchAttr{DstLoc: location(b), SrcLoc: abi.MemLocation{Type: abi.MemLocationTypeHost}}
			zero := uint64(0)
			err := transfer.MemcpyBatchAsync(s.ctx.Thread, &b.addr, &n, &h.addr, &n, 1, &a, &zero, 1, &at, s.h)
			if at != 0 {
				t.Fatalf("failIndex is %d", at)
			}
			return param, err
		}),
		"refuse foreign context": try("foreign context", func(t *rapid.T) (abi.Code, *core.Error) {
			s, ctx, h, d := pick(t, w.streams, "stream"), pick(t, w.ctxs, "context"), host(t), dev(t)
			if s.ctx == ctx || s.h == 0 {
				t.Skip("no")
			}
			w.reach(t, ctx, d)
			const foreign = abi.ErrRTStreamContext
			switch rapid.IntRange(0, 4).Draw(t, "call") {
			case 0:
				return foreign, transfer.MemcpyAsync(ctx.Thread, d.addr, 1, h.addr, 1, def, s.h)
			case 1:
				return foreign, transfer.MemsetAsync(ctx.Thread, d.addr, 1, 1, 1, s.h)
			case 2:
				return foreign, transfer.Memcpy2dAsync(ctx.Thread, d.addr, 1, h.addr, 1, 1, 1, def, s.h)
			case 3:
				return foreign, ctx.DestroyStream(s.h)
			}
			if len(w.events) == 0 {
				t.Skip("no event")
			}
			return foreign, ctx.RecordEvent(w.events[0].h, s.h)
		}),
		"refuse dead stream": try("dead stream", func(t *rapid.T) (abi.Code, *core.Error) {
			s, ctx, h, d := pick(t, w.gone, "dead stream"), pick(t, w.ctxs, "context"), host(t), dev(t)
			if rapid.Bool().Draw(t, "synchronise") {
				return abi.ErrRTInvalidHandle, ctx.SynchronizeStream(s)
			}
			return abi.ErrRTInvalidHandle, transfer.MemcpyAsync(ctx.Thread, d.addr, 1, h.addr, 1, def, s)
		}),
		"refuse without context": try("no context", func(t *rapid.T) (abi.Code, *core.Error) {
			th, s, h, d := w.rt.NewThread(2), pick(t, w.streams, "stream"), host(t), dev(t)
			if rapid.Bool().Draw(t, "synchronous") {
				return abi.ErrRTContextNull, transfer.Memcpy(th, d.addr, 1, h.addr, 1, def)
			}
			return abi.ErrRTContextNull, transfer.MemcpyAsync(th, d.addr, 1, h.addr, 1, def, s.h)
		}),
		"refuse peer": try("peer not enabled", func(t *rapid.T) (abi.Code, *core.Error) {
			s, a, b := pick(t, w.streams, "stream"), dev(t), dev(t)
			if a.addr == b.addr || !w.prod.PeerEnable || a.dev == s.ctx.dev || w.peers[s.ctx.dev][a.dev] {
				t.Skip("allowed")
			}
			return param, transfer.MemcpyAsync(s.ctx.Thread, a.addr, 1, b.addr, 1, def, s.h)
		}),
		"refuse batch": func(t *rapid.T) {
			s, h, d := pick(t, w.streams, "stream"), host(t), dev(t)
			if d.dev != s.ctx.dev {
				t.Skip("other device")
			}
			dsts, srcs := []core.Addr{d.addr, d.addr}, []core.Addr{h.addr, h.addr}
			sizes, maxs, starts := []uint64{1, 1}, []uint64{1, 1}, []uint64{0}
			attrs := []abi.MemcpyBatchAttr{{DstLoc: location(d), SrcLoc: location(h)}}
			const none = ^uint64(0)
			code, want := param, uint64(0)
			switch rapid.IntRange(0, 8).Draw(t, "fault") {
			case 0:
				code, want, maxs[1] = invalid, none, 0
			case 1:
				sizes[0] = 0
			case 2:
				dsts[0] = 0
			case 3:
				attrs[0].DstLoc.ID++
			case 4:
				attrs[0].SrcLoc.Type = 2
			case 5:
				starts[0], want = 1, none
			case 6:
				attrs[0].Rsv[3], code, want = 1, invalid, none
			case 7:
				sizes[0], maxs[0], want = far, far, none
			case 8:
				srcs[0], attrs[0].SrcLoc = d.addr, attrs[0].DstLoc
			}
			w.logf(t, "refused: batch %d", want)
			at := uint64(7)
			expect(t, transfer.MemcpyBatchAsync(s.ctx.Thread, &dsts[0], &maxs[0], &srcs[0], &sizes[0], 2, &attrs[0],
				&starts[0], 1, &at, s.h), code, "batch")
			if at != want {
				t.Fatalf("failIndex is %d, want %d", int64(at), int64(want))
			}
		},
		"refuse registration": try("registered twice", func(t *rapid.T) (abi.Code, *core.Error) {
			b := pick(t, w.some(registered), "registered buffer")
			return abi.ErrHostMemoryAlreadyRegistered, corememory.HostRegisterV2(w.ctxs[0].Thread, b.at(len(b.want)-1),
				5, abi.HostRegPinned)
		}),
		"refuse old query": try("old query", func(t *rapid.T) (abi.Code, *core.Error) {
			e := pick(t, w.events, "event")
			if e.kind != exEvent {
				t.Skip("allowed")
			}
			var st abi.EventStatus
			return missing, e.ctx.QueryEvent(e.h, &st)
		}),
	}
}
