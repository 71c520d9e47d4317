package conformance

import (
	"math"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

const mib = 1 << 20

// poolProps asks for a pool on device 0.
func poolProps(size uint64) *abi.MemPoolProps {
	return &abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: size}
}

// pool makes a pool of size bytes.
func (e *env) pool(size uint64) core.Handle {
	e.Helper()
	var p core.Handle
	e.ok(memory.MemPoolCreate(e.th, &p, poolProps(size)))
	return p
}

// gonePool is the handle of a pool that was destroyed.
func gonePool(e *env) core.Handle {
	e.Helper()
	p := e.pool(8 * mib)
	e.ok(memory.MemPoolDestroy(e.th, p))
	return p
}

// pooled is memory of a pool on a stream.
func (e *env) pooled(pool, s core.Handle, n uint64) core.Addr {
	e.Helper()
	var p core.Addr
	e.ok(memory.MemPoolMallocAsync(e.th, &p, n, pool, s))
	return p
}

// number and flag are the addresses of an attribute's value.
func number(n uint64) core.Addr { return core.Addr(unsafe.Pointer(&n)) }
func flag(n uint32) core.Addr   { return core.Addr(unsafe.Pointer(&n)) }

// poolAttr is an attribute of 64 bits.
func poolAttr(e *env, pool core.Handle, attr abi.MemPoolAttr) uint64 {
	e.Helper()
	v := new(uint64)
	e.ok(memory.MemPoolGetAttr(e.th, pool, attr, core.Addr(unsafe.Pointer(v))))
	return *v
}

// poolHas checks how much a pool has reserved and how much of that is used.
func poolHas(e *env, pool core.Handle, reserved, used uint64) {
	e.Helper()
	r, u := poolAttr(e, pool, abi.MemPoolAttrReservedMemCurrent), poolAttr(e, pool, abi.MemPoolAttrUsedMemCurrent)
	if r != reserved || u != used {
		e.Errorf("the pool has %d bytes, %d used; want %d and %d", r, u, reserved, used)
	}
}

func allow(e *env, pool core.Handle, attr abi.MemPoolAttr) {
	e.Helper()
	e.ok(memory.MemPoolSetAttr(e.th, pool, attr, flag(1)))
}

// withoutPools are machines whose documents list no pools.
var withoutPools = []machine{{product: "A3"}, {product: "950"}, {product: "310B"}, {product: "310P"}, {product: "910"},
	{product: "310B", form: "RC"}}

func init() {
	type props = abi.MemPoolProps
	elsewhere := abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 9}
	prove("aclrtMemPoolCreate", "allocType-not-pinned", func(e *env) *core.Error {
		return memory.MemPoolCreate(e.th, new(core.Handle), &props{AllocType: 1,
			Location: abi.MemLocation{Type: abi.MemLocationTypeHost, ID: 9}})
	})
	prove("aclrtMemPoolCreate", "location-not-device", func(e *env) (err *core.Error) {
		for _, typ := range []abi.MemLocationType{abi.MemLocationTypeHost, abi.MemLocationTypeUnregistered,
			abi.MemLocationTypeManaged, abi.MemLocationTypeHostNuma, 7} {
			err = memory.MemPoolCreate(e.th, new(core.Handle),
				&props{Location: abi.MemLocation{Type: typ, ID: 9}, Reserved: [32]byte{1}})
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMemPoolCreate", "reserved-not-0", func(e *env) (err *core.Error) {
		for i := range 32 {
			p := &props{Location: elsewhere}
			p.Reserved[i] = 1
			err = memory.MemPoolCreate(e.th, new(core.Handle), p)
			e.want(err, abi.ErrInvalidParam)
		}
		return err
	})
	prove("aclrtMemPoolCreate", "device-unusable", func(e *env) *core.Error {
		return memory.MemPoolCreate(e.on(machine{product: "A3"}).th, new(core.Handle),
			&props{Location: elsewhere, MaxSize: tooBig})
	})
	prove("aclrtMemPoolCreate", "maxSize-over-device", func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		_, total := o.memInfo(abi.MemAttrHBMMem)
		for _, n := range []uint64{total + 1, math.MaxUint64} {
			o.want(memory.MemPoolCreate(o.th, new(core.Handle), poolProps(n)), abi.ErrRTParamInvalid)
		}
		return memory.MemPoolCreate(o.th, new(core.Handle), poolProps(total+2*mib))
	})
	prove("aclrtMemPoolCreate", "no-pools", func(e *env) (err *core.Error) {
		for _, m := range withoutPools {
			o, h := e.on(m), core.Handle(7)
			err = memory.MemPoolCreate(o.th, &h, poolProps(2*mib))
			o.want(err, abi.ErrRTFeatureNotSupport)
			if h != 7 {
				e.Error("the handle was written")
			}
		}
		return err
	})
	prove("aclrtMemPoolCreate", "driver-refuses", func(e *env) *core.Error {
		o := bare(e)
		err := memory.MemPoolCreate(o.th, new(core.Handle), poolProps(0))
		o.want(err, abi.ErrRTDevSetupError)
		return err
	})
	behaves("aclrtMemPoolCreate", func(e *env) {
		_, total := e.memInfo(abi.MemAttrHBMMem)
		for _, maxSize := range []uint64{0, 1, 2 * mib, 5 * mib} {
			var a, b core.Handle
			p := poolProps(maxSize)
			p.HandleType = abi.MemHandleTypePosix // nobody looks
			e.ok(memory.MemPoolCreate(e.stranger(), &a, p))
			e.ok(memory.MemPoolCreate(e.th, &b, p))
			if a == b || a == 0 {
				e.Errorf("pools %#x and %#x", a, b)
			}
			size := (maxSize + 2*mib - 1) &^ (2*mib - 1)
			if maxSize == 0 {
				size = total &^ (2*mib - 1)
			}
			e.ok(memory.MemPoolSetAttr(e.th, a, abi.MemPoolAttrReleaseThreshold, number(size)))
			e.want(memory.MemPoolSetAttr(e.th, a, abi.MemPoolAttrReleaseThreshold, number(size+1)),
				abi.ErrRTParamInvalid)
			e.ok(memory.MemPoolDestroy(e.th, a))
			e.ok(memory.MemPoolDestroy(e.th, b))
		}
		if free, _ := e.memInfo(abi.MemAttrHBMMem); free != total {
			e.Errorf("a pool took %d bytes before anything was asked of it", total-free)
		}
		// A pool of another device than the current one.
		e.ok(e.th.SetDevice(1))
		e.ok(e.th.SetDevice(0))
		var p core.Handle
		e.ok(memory.MemPoolCreate(e.th, &p, &props{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 1},
			MaxSize: 8 * mib}))
		e.at(e.pooled(p, e.stream(), 1), abi.MemLocationTypeDevice, 1, 2*mib)
		// It goes with its device.
		s := e.stream()
		e.ok(e.th.ResetDevice(1))
		e.want(memory.MemPoolMallocAsync(e.th, new(core.Addr), 1, p, s), abi.ErrRTInternalError)
	})

	prove("aclrtMemPoolDestroy", "pool-unknown", func(e *env) *core.Error {
		o := e.on(machine{product: "A3"})
		for _, h := range []core.Handle{garbage, o.stream()} {
			o.want(memory.MemPoolDestroy(o.th, h), abi.ErrRTInternalError)
		}
		return memory.MemPoolDestroy(e.th, gonePool(e))
	})
	behaves("aclrtMemPoolDestroy", func(e *env) {
		free, _ := e.memInfo(abi.MemAttrHBMMem)
		pool := e.pool(16 * mib)
		s, release := e.blocked()
		kept, pending, unused := e.pooled(pool, s, 2*mib), e.pooled(pool, s, 4*mib), e.pooled(pool, s, 6*mib)
		e.ok(memory.Free(e.th, unused))
		host := e.pinned(4 * mib)
		e.ok(transfer.MemcpyAsync(e.th, host, 4*mib, pending, 4*mib, abi.MemcpyDeviceToHost, s))
		e.ok(memory.MemPoolFreeAsync(e.th, pending, s))
		e.ok(memory.MemPoolDestroy(e.th, pool))
		e.want(memory.MemPoolMallocAsync(e.th, new(core.Addr), 1, pool, s), abi.ErrRTInternalError)
		if now, _ := e.memInfo(abi.MemAttrHBMMem); free-now != 6*mib {
			e.Errorf("%d bytes are taken: those in use, and those a stream has to read, are %d", free-now, 6*mib)
		}
		release()
		e.ok(e.th.SynchronizeStream(s)) // the copy was made, and its memory goes
		if now, _ := e.memInfo(abi.MemAttrHBMMem); free-now != 2*mib {
			e.Errorf("%d bytes are taken", free-now)
		}
		e.at(kept, abi.MemLocationTypeDevice, 0, 2*mib) // what the program has, it has
		e.ok(memory.Free(e.th, kept))
		if now, _ := e.memInfo(abi.MemAttrHBMMem); now != free {
			e.Errorf("%d bytes are taken", free-now)
		}
	})

	prove("aclrtMemPoolSetAttr", "pool-unknown", blames("memPool", func(e *env) *core.Error {
		e.want(memory.MemPoolSetAttr(e.th, gonePool(e), 5, number(1)), abi.ErrRTParamInvalid)
		return memory.MemPoolSetAttr(e.th, garbage, 5, number(1))
	}))
	prove("aclrtMemPoolSetAttr", "attr-read-only", blames("attr", func(e *env) *core.Error {
		e.want(memory.MemPoolSetAttr(e.th, e.pool(0), abi.MemPoolAttrReservedMemCurrent, number(0)),
			abi.ErrRTParamInvalid)
		return memory.MemPoolSetAttr(e.th, e.pool(0), abi.MemPoolAttrUsedMemCurrent, number(0))
	}))
	prove("aclrtMemPoolSetAttr", "attr-1-to-3", func(e *env) (err *core.Error) {
		p := e.pool(0)
		for attr := abi.MemPoolReuseFollowEventDependencies; attr <= abi.MemPoolReuseAllowInternalDependencies; attr++ {
			for _, v := range []uint32{1, 0, math.MaxUint32, 0x100} {
				err = memory.MemPoolSetAttr(e.th, p, attr, flag(v))
				e.ok(err)
				got := uint32(7)
				e.ok(memory.MemPoolGetAttr(e.th, p, attr, core.Addr(unsafe.Pointer(&got))))
				if (got != 0) != (v != 0) || got > 1 {
					e.Errorf("%v set to %d is %d", attr, v, got)
				}
			}
		}
		return err
	})
	prove("aclrtMemPoolSetAttr", "attr-unknown", blames("attr", func(e *env) *core.Error {
		for _, a := range []abi.MemPoolAttr{-1, 0, math.MaxInt32} {
			e.want(memory.MemPoolSetAttr(e.th, e.pool(0), a, number(1)), abi.ErrRTParamInvalid)
		}
		return memory.MemPoolSetAttr(e.th, e.pool(0), 9, number(1))
	}))
	prove("aclrtMemPoolSetAttr", "high-water-not-0", blames("value", func(e *env) *core.Error {
		e.want(memory.MemPoolSetAttr(e.th, e.pool(0), abi.MemPoolAttrReservedMemHigh, number(1)), abi.ErrRTParamInvalid)
		return memory.MemPoolSetAttr(e.th, e.pool(0), abi.MemPoolAttrUsedMemHigh, number(1<<63))
	}))
	prove("aclrtMemPoolSetAttr", "threshold-over-pool", blames("value", func(e *env) *core.Error {
		p := e.pool(4 * mib)
		e.ok(memory.MemPoolSetAttr(e.th, p, abi.MemPoolAttrReleaseThreshold, number(4*mib)))
		return memory.MemPoolSetAttr(e.th, p, abi.MemPoolAttrReleaseThreshold, number(4*mib+1))
	}))
	behaves("aclrtMemPoolSetAttr", func(e *env) {
		pool, s := e.pool(64*mib), e.stream()
		a, b := e.pooled(pool, s, 4*mib), e.pooled(pool, s, 8*mib)
		e.ok(memory.MemPoolFreeAsync(e.th, b, s))
		e.ok(memory.MemPoolSetAttr(e.th, pool, abi.MemPoolAttrReleaseThreshold, number(8*mib)))
		e.ok(e.th.SynchronizeStream(s))
		poolHas(e, pool, 12*mib, 4*mib) // what is unused does not exceed the threshold
		e.ok(memory.MemPoolFreeAsync(e.th, a, s))
		e.ok(e.th.SynchronizeStream(s))
		poolHas(e, pool, 4*mib, 0) // the large block went
		for _, attr := range []abi.MemPoolAttr{abi.MemPoolAttrReservedMemHigh, abi.MemPoolAttrUsedMemHigh} {
			if n := poolAttr(e, pool, attr); n != 12*mib {
				e.Errorf("%v is %d, want %d", attr, n, 12*mib)
			}
			e.ok(memory.MemPoolSetAttr(e.th, pool, attr, number(0)))
		}
		if r, u := poolAttr(e, pool, abi.MemPoolAttrReservedMemHigh), poolAttr(e, pool,
			abi.MemPoolAttrUsedMemHigh); r != 4*mib || u != 0 {
			e.Errorf("high-water marks begin anew at %d and %d, want what there is: %d and 0", r, u, 4*mib)
		}
		e.ok(memory.MemPoolSetAttr(e.th, pool, abi.MemPoolAttrReleaseThreshold, number(0)))
		poolHas(e, pool, 4*mib, 0) // nothing happens before a synchronisation
		e.ok(e.th.SynchronizeDevice())
		poolHas(e, pool, 0, 0)
	})

	prove("aclrtMemPoolGetAttr", "pool-unknown", blames("memPool", func(e *env) *core.Error {
		e.want(memory.MemPoolGetAttr(e.th, gonePool(e), 9, number(0)), abi.ErrRTParamInvalid)
		return memory.MemPoolGetAttr(e.th, garbage, 9, number(0))
	}))
	prove("aclrtMemPoolGetAttr", "attr-outside-1-to-8", blames("attr", func(e *env) *core.Error {
		for _, a := range []abi.MemPoolAttr{-1, 0, 9} {
			v := [2]uint64{7, 7}
			e.want(memory.MemPoolGetAttr(e.th, e.pool(0), a, core.Addr(unsafe.Pointer(&v))), abi.ErrRTParamInvalid)
			if v != [2]uint64{7, 7} {
				e.Error("the value was written")
			}
		}
		return memory.MemPoolGetAttr(e.th, e.pool(0), math.MaxInt32, number(0))
	}))
	behaves("aclrtMemPoolGetAttr", func(e *env) {
		p := e.pool(0)
		for attr := abi.MemPoolReuseFollowEventDependencies; attr <= abi.MemPoolAttrUsedMemHigh; attr++ {
			v := [2]uint32{7, 7}
			e.ok(memory.MemPoolGetAttr(e.stranger(), p, attr, core.Addr(unsafe.Pointer(&v))))
			want := [2]uint32{0, 7} // 32 bits
			if attr >= abi.MemPoolAttrReleaseThreshold {
				want[1] = 0
			}
			if v != want {
				e.Errorf("%v is %v, want %v", attr, v, want)
			}
		}
		s := e.stream()
		e.pooled(p, s, 3*mib)
		poolHas(e, p, 4*mib, 4*mib)
	})
}
