package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// attributes is what aclrtPointerGetAttributes says.
func (e *env) attributes(p core.Addr) (a abi.PtrAttributes) {
	e.Helper()
	e.ok(memory.PointerGetAttributes(e.stranger(), p, &a))
	return a
}

// at checks where an address is said to be.
func (e *env) at(p core.Addr, typ abi.MemLocationType, id uint32, page uint32) {
	e.Helper()
	a := e.attributes(p)
	if a.Location.Type != typ || a.PageSize != page || typ != abi.MemLocationTypeUnregistered && a.Location.ID != id {
		e.Errorf("%#x: %+v, want %v %d with pages of %d", p, a, typ, id, page)
	}
}

// strange is a driver that knows one more kind of memory.
type strange struct{ driver.Driver }

func (s strange) Describe(addr uintptr) driver.Allocation {
	return driver.Allocation{Location: driver.Location{Place: 99}}
}

func init() {
	prove("aclrtPointerGetAttributes", "memory-unknown", func(e *env) *core.Error {
		d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
		testenv.OK(e, err)
		p, err := product.Find("", "")
		testenv.OK(e, err)
		rt := core.New(core.Options{Driver: strange{d}, Product: p})
		e.Cleanup(func() { rt.Close() }) //nolint:errcheck // nothing was opened
		var a, none abi.PtrAttributes
		refused := memory.PointerGetAttributes(rt.NewThread(1), 12345, &a)
		if a != none {
			e.Error("attributes were written")
		}
		return refused
	})
	behaves("aclrtPointerGetAttributes", func(e *env) {
		e.ok(e.th.SetDevice(3))
		small, big := e.device(4096), e.device(4<<20)
		e.at(small, abi.MemLocationTypeDevice, 3, smallPage)
		e.at(small+4095, abi.MemLocationTypeDevice, 3, smallPage)
		e.at(big+2<<20, abi.MemLocationTypeDevice, 3, hugePage)
		e.ok(memory.Free(e.th, small))
		e.at(small, abi.MemLocationTypeUnregistered, 0, smallPage)

		host, malloced := e.pinned(4096), e.pageable(8192)
		e.at(host, abi.MemLocationTypeHost, 0, smallPage)
		e.at(host+100, abi.MemLocationTypeHost, 0, smallPage)
		e.at(malloced, abi.MemLocationTypeUnregistered, 0, smallPage)
		e.at(12345, abi.MemLocationTypeUnregistered, 0, smallPage)
		e.ok(memory.HostRegisterV2(e.th, malloced, 4096, abi.HostRegPinned))
		e.at(malloced, abi.MemLocationTypeHost, 0, smallPage)
		e.at(malloced+4095, abi.MemLocationTypeHost, 0, smallPage)
		e.at(malloced+4096, abi.MemLocationTypeUnregistered, 0, smallPage)
		e.ok(memory.HostUnregister(e.th, malloced))
		e.at(malloced, abi.MemLocationTypeUnregistered, 0, smallPage)

		a := abi.PtrAttributes{Rsv: [4]uint32{1, 2, 3, 4}}
		e.ok(memory.PointerGetAttributes(e.th, big, &a))
		if a.Rsv != [4]uint32{1, 2, 3, 4} {
			e.Error("rsv was written")
		}

		visible := "1,3"
		o := e.on(machine{visible: &visible})
		o.ok(o.th.SetDevice(1))
		o.at(o.device(4096), abi.MemLocationTypeDevice, 1, smallPage) // as the program counts, not as the machine does

		o = e.on(machine{product: "310P", form: "RC"})
		o.at(o.pinned(4096), abi.MemLocationTypeDevice, 0, smallPage)
	})
}
