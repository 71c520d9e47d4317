package conformance

import (
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

func init() {
	prove("aclrtMemFlush", "aborting", func(e *env) *core.Error {
		return e.whileAborting(func() *core.Error { return memory.MemFlush(e.th, 12345, 1) })
	})
	behaves("aclrtMemFlush", func(e *env) {
		leavesUntouched(e, func(p core.Addr, size uint64) *core.Error { return memory.MemFlush(e.th, p, size) })
	})

	behaves("aclrtMemInvalidate", func(e *env) {
		leavesUntouched(e, func(p core.Addr, size uint64) *core.Error { return memory.MemInvalidate(e.th, p, size) })
		err := e.whileAborting(func() *core.Error {
			err := memory.MemFlush(e.th, 12345, 1)
			e.ok(memory.MemInvalidate(e.th, 12345, 1)) // an abort does not matter here
			return err
		})
		e.want(err, abi.ErrRTDeviceTaskAbort)
	})

	prove("aclrtGetMemInfo", "attr-outside-0-to-17", func(e *env) *core.Error {
		e.want(memory.GetMemInfo(e.stranger(), 18, new(uint64), new(uint64)), abi.ErrRTInvalidMemoryType)
		return memory.GetMemInfo(e.stranger(), -1, new(uint64), new(uint64))
	})
	prove("aclrtGetMemInfo", "no-1g-pages", func(e *env) (err *core.Error) {
		o := e.on(machine{product: "910"})
		for _, attr := range []abi.MemAttr{10, 11, 14, 17} {
			free := uint64(7)
			err = memory.GetMemInfo(o.th, attr, &free, new(uint64))
			o.want(err, abi.ErrRTFeatureNotSupport)
			if free != 7 {
				e.Error("free was written")
			}
		}
		return err
	})
	behaves("aclrtGetMemInfo", func(e *env) {
		for _, name := range []string{"A2", "A3", "950", "910"} {
			hbmAddsUp(e.on(machine{product: name}))
		}
		for _, m := range []machine{{product: "310P"}, {product: "310B"}, {product: "310"},
			{product: "310B", form: "RC"}} {
			ddrAddsUp(e.on(m))
		}
	})

	proveMore("aclrtGetMemUsageInfo", "not-listed", func(e *env) *core.Error {
		return noUsage(e, e.on(machine{product: "950"}).th, 0,
			1)
	})
	behaves("aclrtGetMemUsageInfo", func(e *env) {
		usage(e, 0, 0)
		p := e.device(1 << 20)
		usage(e, 0, 1<<20+32)
		usage(e, 1, 0) // a device nobody has set
		e.ok(e.th.SetDevice(1))
		e.device(64)
		usage(e, 0, 1<<20+32) // the current context may be of another device
		usage(e, 1, 96)
		e.ok(memory.Free(e.th, p))
		usage(e, 0, 0)
		var info abi.MemUsageInfo
		var n uint64
		e.ok(memory.GetMemUsageInfo(e.th, 0, &info, 1, &n))
		if info.MemPeakSize != 1<<20+32 {
			e.Errorf("the peak is %d after %d bytes were in use", info.MemPeakSize, 1<<20+32)
		}
	})

	prove("aclrtCheckMemType", "memType-bits", blames("memType", func(e *env) *core.Error {
		for _, bits := range []uint32{0x1, 0x4, 0x10, 0x12, 0x40, 1 << 31} {
			e.want(wrongType(e, e.stranger(), 1, bits, 0), abi.ErrRTParamInvalid)
		}
		return wrongType(e, e.stranger(), 1, 0x10, 0)
	}))
	behaves("aclrtCheckMemType", func(e *env) {
		d, host, malloced := e.device(4096), e.pinned(4096), e.pageable(4096)
		freed := e.device(64)
		e.ok(memory.Free(e.th, freed))
		for _, tt := range []struct {
			want, memType uint32
			list          []core.Addr
		}{
			{1, abi.MemTypeDev, []core.Addr{d}},
			{1, abi.MemTypeDev, []core.Addr{d, d + 100, d + 4095}},
			{1, abi.MemTypeDev | abi.MemTypeDvpp | 0x20, []core.Addr{d, d}},
			{0, abi.MemTypeDev, []core.Addr{d, host}},
			{0, abi.MemTypeDev, []core.Addr{malloced, d}},
			{0, abi.MemTypeDev, []core.Addr{freed}},
			{0, abi.MemTypeDev, []core.Addr{0}},
			{0, abi.MemTypeDvpp, []core.Addr{d}},
			{0, 0, []core.Addr{d}},
		} {
			got := uint32(7)
			e.ok(memory.CheckMemType(e.th, &tt.list[0], uint32(len(tt.list)), tt.memType, &got, 0))
			if got != tt.want {
				e.Errorf("%#x of type %#x: %d, want %d", tt.list, tt.memType, got, tt.want)
			}
		}
	})
}

// leavesUntouched checks that a call of the cache succeeds for any address and changes nothing.
func leavesUntouched(e *env, call func(p core.Addr, n uint64) *core.Error) {
	e.Helper()
	d, h := e.device(4096), e.pinned(4096)
	e.ok(transfer.Memset(e.th, d, 4096, 0x5a, 4096))
	e.ok(call(d, 4096))
	e.ok(call(12345, 1<<60)) // the address is not looked at
	e.ok(transfer.Memcpy(e.th, h, 4096, d, 4096, abi.MemcpyDeviceToHost))
	for i, b := range bytes(h, 4096) {
		if b != 0x5a {
			e.Fatalf("byte %d is %#x", i, b)
		}
	}
}

// hbmAddsUp checks the numbers of a product with HBM, before and after an allocation.
func hbmAddsUp(e *env) {
	e.Helper()
	name := e.rt.Product.Name
	for range 2 {
		free, total := e.memInfo(abi.MemAttrHBMMem)
		if free > total || total < 64<<20 {
			e.Errorf("%s: %d of %d free", name, free, total)
		}
		for _, parts := range [][2]abi.MemAttr{
			{abi.MemAttrHBMMemHuge, abi.MemAttrHBMMemNormal}, {abi.MemAttrHBMMemP2PHuge, abi.MemAttrHBMMemP2PNormal},
			{abi.MemAttrMemHuge, abi.MemAttrMemNormal}, {abi.MemAttrMemP2PHuge, abi.MemAttrMemP2PNormal},
		} {
			huge, hugeTotal := e.memInfo(parts[0])
			normal, normalTotal := e.memInfo(parts[1])
			if huge+normal != free || hugeTotal+normalTotal != total || huge > hugeTotal || normal > normalTotal ||
				hugeTotal == 0 || normalTotal == 0 {
				e.Errorf("%s: %v: %d of %d and %d of %d are not %d of %d", name, parts, huge, hugeTotal, normal,
					normalTotal, free, total)
			}
		}
		for _, attr := range []abi.MemAttr{abi.MemAttrDDRMem, abi.MemAttrDDRMemHuge, abi.MemAttrDDRMemNormal,
			abi.MemAttrDDRMemP2PHuge, abi.MemAttrDDRMemP2PNormal} {
			if f, n := e.memInfo(attr); f != 0 || n != 0 {
				e.Errorf("%s: %v: %d of %d, but there is no DDR", name, attr, f, n)
			}
		}
		if name != "910" {
			for _, attr := range []abi.MemAttr{10, 11, 14, 17} {
				if f, n := e.memInfo(attr); f > n || n > total || n%(1<<30) != 0 {
					e.Errorf("%s: %v: %d of %d, which are no pages of 1 GiB of a device of %d", name, attr, f, n, total)
				}
			}
		}
		e.device(32<<20 - 32)
		now, same := e.memInfo(abi.MemAttrHBMMem)
		if free-now != 32<<20 && name != "950" || same != total {
			e.Errorf("%s: 32 MiB took %d", name, free-now)
		}
	}
}

// ddrAddsUp does so for DDR: all other questions are answered with it.
func ddrAddsUp(e *env) {
	e.Helper()
	name := e.rt.Product.Name
	e.device(32 << 20)
	free, total := e.memInfo(abi.MemAttrDDRMem)
	if total-free != 32<<20+32 {
		e.Errorf("%s: 32 MiB took %d", name, total-free)
	}
	for _, attr := range []abi.MemAttr{1, 10, 11, 12, 13, 14, 15, 16, 17} {
		if f, n := e.memInfo(attr); f != free || n != total {
			e.Errorf("%s: %v: %d of %d, want %d of %d", name, attr, f, n, free, total)
		}
	}
	for _, pair := range [][4]abi.MemAttr{{2, 3, 4, 5}, {6, 7, 8, 9}} { // huge and normal DDR, huge and normal HBM
		var f, n [4]uint64
		for i, attr := range pair {
			f[i], n[i] = e.memInfo(attr)
		}
		if f[0]+f[1] != free || n[0]+n[1] != total || f[0] != f[2] || f[1] != f[3] || n[0] != n[2] || n[1] != n[3] {
			e.Errorf("%s: %v: %d of %d, in all %d of %d", name, pair, f, n, free, total)
		}
	}
}

// noUsage makes a call that is refused after the NULL checks and makes sure that it says it wrote nothing.
func noUsage(e *env, th *core.Thread, device int32, inputNum uint64) *core.Error {
	e.Helper()
	info, n := abi.MemUsageInfo{CurMemSize: 7}, uint64(7)
	err := memory.GetMemUsageInfo(th, device, &info, inputNum, &n)
	if n != 0 || info != (abi.MemUsageInfo{CurMemSize: 7}) {
		e.Errorf("%d entries, %+v", n, info)
	}
	return err
}

// usage checks how much memory of a device is in use.
func usage(e *env, device int32, want uint64) {
	e.Helper()
	var info [3]abi.MemUsageInfo
	var n uint64
	e.ok(memory.GetMemUsageInfo(e.th, device, &info[0], 3, &n))
	if n != 1 || info[0].CurMemSize != want || info[0].MemPeakSize < want || info[1] != (abi.MemUsageInfo{}) {
		e.Errorf("device %d: %d entries, %+v, want %d bytes", device, n, info, want)
	}
	if name, _, _ := strings.Cut(string(info[0].Name[:]), "\x00"); name != "ropeway" {
		e.Errorf("the module is %q", name)
	}
}

// wrongType makes a call that is refused after the NULL checks and makes sure that the result is 0.
func wrongType(e *env, th *core.Thread, size, memType, reserve uint32) *core.Error {
	e.Helper()
	list, result := e.device(64), uint32(7)
	err := memory.CheckMemType(th, &list, size, memType, &result, reserve)
	if result != 0 {
		e.Errorf("the result is %d", result)
	}
	return err
}
