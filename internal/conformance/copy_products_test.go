package conformance

import (
	"slices"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/product"
)

// family is every call that copies or fills, made so that it moves noise(64, 1) from a.src to a.dst or fills a.dst.
var family = []struct {
	name string
	does func(e *env, a *copyArgs) *core.Error
	have []string // products that have it; nil: all
	inRC bool     // and whether their RC forms do
	fill []byte   // what it leaves, if it is a fill
}{
	{name: "aclrtMemcpy", does: memcpy, inRC: true},
	{name: "aclrtMemcpyAsync", does: memcpyAsync, inRC: true},
	{name: "aclrtMemcpyAsyncWithCondition", does: memcpyAsyncWithCondition, inRC: true},
	{name: "aclrtMemcpy2d", does: func(e *env, a *copyArgs) *core.Error {
		return transfer.Memcpy2d(a.th, a.dst, 16, a.src, 16, 16, 4, a.kind)
	}},
	{name: "aclrtMemcpy2dAsync", does: memcpy2dAsync},
	{name: "aclrtMemcpyBatch", have: modern, does: segment(batchNow)},
	{name: "aclrtMemcpyBatchV2", have: modern, does: segment(batchNowV2)},
	{name: "aclrtMemcpyBatchAsync", have: modern, does: segment(batchAsync)},
	{name: "aclrtMemcpyBatchAsyncV2", have: modern, does: segment(batchAsyncV2)},
	{name: "aclrtMemcpyAsyncWithDesc", have: append([]string{"310B"}, modern...), inRC: true, does: byDescriptor},
	{name: "aclrtMemcpyAsyncWithOffset", have: append([]string{"910"}, modern...), does: byOffset},
	{name: "aclrtMemset", inRC: true, fill: repeat(7, 64), does: func(e *env, a *copyArgs) *core.Error {
		return transfer.Memset(a.th, a.dst, 64, 7, 64)
	}},
	{name: "aclrtMemsetAsync", inRC: true, fill: repeat(7, 64), does: func(e *env, a *copyArgs) *core.Error {
		return transfer.MemsetAsync(a.th, a.dst, 64, 7, 64, a.stream)
	}},
	{name: "aclrtMemsetD32", have: modern, fill: repeat(7, 64), does: func(e *env, a *copyArgs) *core.Error {
		return transfer.MemsetD32(a.th, a.dst, 64, 0x07070707, 16)
	}},
	{name: "aclrtMemsetD32Async", have: modern, fill: repeat(7, 64), does: func(e *env, a *copyArgs) *core.Error {
		return transfer.MemsetD32Async(a.th, a.dst, 64, 0x07070707, 16, a.stream)
	}},
}

var modern = []string{"950", "A3", "A2"}

// segment makes the copy as a batch of one.
func segment(call batchCall) copyCall {
	return func(e *env, a *copyArgs) *core.Error {
		index := uint64(notWritten)
		return call(e, &batchArgs{
			th: a.th, n: 1, numAttrs: 1, indexes: []uint64{0}, stream: a.stream, failIndex: &index,
			dsts: []core.Addr{a.dst}, srcs: []core.Addr{a.src}, sizes: []uint64{64}, destMaxs: []uint64{64},
			attrs: []abi.MemcpyBatchAttr{{DstLoc: location(dev), SrcLoc: location(host)}},
		})
	}
}

// byDescriptor and byOffset bring the bytes up first: they copy inside a device.
func byDescriptor(e *env, a *copyArgs) *core.Error {
	p, desc := e.device(64), e.device(64)
	e.write(p, noise(64, 1))
	var n uint64
	if err := transfer.GetMemcpyDescSize(a.th, inner, &n); err != nil {
		e.want(transfer.SetMemcpyDesc(a.th, desc, inner, p, a.dst, 64, 0), err.Code)
		e.want(transfer.MemcpyAsyncWithDesc(a.th, desc, inner, a.stream), err.Code)
		return err
	}
	e.ok(transfer.SetMemcpyDesc(a.th, desc, inner, p, a.dst, 64, 0))
	return transfer.MemcpyAsyncWithDesc(a.th, desc, inner, a.stream)
}

func byOffset(e *env, a *copyArgs) *core.Error {
	p, from, to := e.device(64), e.device(8), e.device(8)
	e.write(p, noise(64, 1))
	e.write(from, cell(p))
	e.write(to, cell(a.dst))
	return transfer.MemcpyAsyncWithOffset(a.th, to, 64, 0, from, 64, 0, inner, a.stream)
}

// TestEveryProduct makes every call of the family on every product and form: what it has works, what it lacks says so.
func TestEveryProduct(t *testing.T) {
	for _, name := range product.Names() {
		forms := []string{"EP"}
		if slices.Contains(product.RCForms(), name) {
			forms = append(forms, "RC")
		}
		for _, form := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				e := newEnv(t, machine{product: name, form: form})
				for _, f := range family {
					t.Run(f.name, func(t *testing.T) {
						e := &env{T: t, rt: e.rt, th: e.th, faults: e.faults}
						a := upload(e)
						err := f.does(e, a)
						if f.have != nil && !slices.Contains(f.have, name) || form == "RC" && !f.inRC {
							e.want(err, abi.ErrRTFeatureNotSupport)
							e.ok(e.th.SynchronizeStream(a.stream))
							a.isOld(e)
							return
						}
						e.ok(err)
						e.ok(e.th.SynchronizeStream(a.stream))
						if f.fill != nil {
							e.holds(a.dst, f.fill)
						} else {
							a.arrived(e)
						}
					})
				}
			})
		}
	}
}
