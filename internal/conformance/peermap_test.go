package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// mapArgs are the arguments of aclrtMemP2PMap.
type mapArgs struct {
	th    *core.Thread
	p     core.Addr
	size  uint64
	dst   int32
	flags uint64
}

func peerMap(_ *env, a *mapArgs) *core.Error {
	return memory.MemP2PMap(a.th, a.p, a.size, a.dst, a.flags)
}

// map64 maps 64 bytes of device 0 for device 1, which is its peer.
func map64(e *env) *mapArgs {
	e.ok(memory.DeviceEnablePeerAccess(e.th, 1, 0))
	return &mapArgs{th: e.th, p: e.device(64), size: 64, dst: 1}
}

func init() {
	b := breakers[mapArgs]{
		{"devPtr-null", func(e *env, a *mapArgs) { a.p = 0 }},
		{"size-0", func(e *env, a *mapArgs) { a.size = 0 }},
		{"flags-not-0", func(e *env, a *mapArgs) { a.flags = 1 << 32 }},
		{"dstDevId-unusable", func(e *env, a *mapArgs) { a.dst = 4 }},
		{"no-context", func(e *env, a *mapArgs) { a.th = e.stranger() }},
		{"driver-refuses-range", func(e *env, a *mapArgs) { a.p = e.freed(dev, 64) }},
	}
	prove("aclrtMemP2PMap", "driver-refuses-range", func(e *env) *core.Error {
		for what, spoil := range map[string]func(a *mapArgs){
			"pinned memory":      func(a *mapArgs) { a.p = e.pinned(64) },
			"pageable memory":    func(a *mapArgs) { a.p = e.pageable(64) },
			"past the end":       func(a *mapArgs) { a.size = 1 << 20 },
			"another device's":   func(a *mapArgs) { a.p = deviceOf(e, 1, 64) },
			"no access to reach": func(a *mapArgs) { a.dst = 2 },
		} {
			a := map64(e)
			spoil(a)
			if err := peerMap(e, a); codeOf(err) != abi.ErrRTParamInvalid {
				e.Errorf("%s: %v", what, err)
			}
		}
		for _, m := range []machine{{product: "310B"}, {product: "310"}, {product: "310P", form: "RC"}} {
			o := e.on(m)
			o.want(memory.MemP2PMap(o.th, o.device(64), 64, 1, 0), abi.ErrRTFeatureNotSupport)
		}
		return b.from("driver-refuses-range", map64, peerMap)(e)
	})
	behaves("aclrtMemP2PMap", func(e *env) {
		a := map64(e)
		e.ok(peerMap(e, a))
		a.dst = 0 // the device itself
		e.ok(peerMap(e, a))
		e.write(a.p, noise(64, 1))
		o := e.rt.NewThread(5)
		e.ok(o.SetDevice(1))
		e.ok(memory.DeviceEnablePeerAccess(o, 0, 0))
		var p core.Addr
		e.ok(memory.Malloc(o, &p, 64, abi.MemMallocHugeFirst))
		e.ok(transfer.Memcpy(o, p, 64, a.p, 64, d2d)) // device 1 reads it
		e.holds(p, noise(64, 1))
		third := e.on(machine{product: "A3"}) // where access need not be enabled
		third.ok(memory.MemP2PMap(third.th, third.device(64), 64, 3, 0))
	})
}
