package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

// The entries of a description, as addresses that nobody follows.
const (
	allocObject core.Addr = 0x1000 + iota
	allocFunc
	freeFunc
	adviseFunc
	addressFunc
)

// setters put an entry into a description.
var setters = map[string]func(th *core.Thread, desc core.Handle, value core.Addr) *core.Error{
	"obj": memory.AllocatorSetObjToDesc, "alloc": memory.AllocatorSetAllocFuncToDesc,
	"free":   memory.AllocatorSetFreeFuncToDesc,
	"advise": memory.AllocatorSetAllocAdviseFuncToDesc, "address": memory.AllocatorSetGetAddrFromBlockFuncToDesc,
}

var entries = map[string]core.Addr{"obj": allocObject, "alloc": allocFunc, "free": freeFunc, "advise": adviseFunc,
	"address": addressFunc}

// described is a description with all entries but some.
func described(e *env, but ...string) core.Handle {
	e.Helper()
	desc := memory.AllocatorCreateDesc(e.th)
	if desc == 0 {
		e.Fatal("no description")
	}
next:
	for name, set := range setters {
		for _, no := range but {
			if no == name {
				continue next
			}
		}
		e.ok(set(e.th, desc, entries[name]))
	}
	return desc
}

// setsEntry is the behaviour of a setter: what it sets is what a registration takes, and it can be set again.
func setsEntry(name string) func(e *env) {
	return func(e *env) {
		desc := described(e)
		e.ok(setters[name](e.stranger(), desc, 0x7777)) // without a context
		e.ok(memory.AllocatorRegister(e.th, 5, desc))
		want := map[string]core.Addr{}
		for k, v := range entries {
			want[k] = v
		}
		want[name] = 0x7777
		registered(e, 5, desc, want)
	}
}

// registered checks what is registered for a stream.
func registered(e *env, stream, desc core.Handle, want map[string]core.Addr) {
	e.Helper()
	var h core.Handle
	var obj, alloc, free, advise, address core.Addr
	e.ok(memory.AllocatorGetByStream(e.th, stream, &h, &obj, &alloc, &free, &advise, &address))
	got := map[string]core.Addr{"obj": obj, "alloc": alloc, "free": free, "advise": advise, "address": address}
	for k := range entries {
		if got[k] != want[k] {
			e.Errorf("%s of stream %d is %#x, want %#x", k, stream, got[k], want[k])
		}
	}
	if h != desc {
		e.Errorf("the description of stream %d is %#x, want %#x", stream, h, desc)
	}
}

func init() {
	behaves("aclrtAllocatorCreateDesc", func(e *env) {
		a, b := memory.AllocatorCreateDesc(e.stranger()), memory.AllocatorCreateDesc(e.th)
		if a == 0 || a == b {
			e.Errorf("%#x and %#x", a, b)
		}
	})
	behaves("aclrtAllocatorDestroyDesc", func(e *env) {
		desc := described(e)
		e.ok(memory.AllocatorRegister(e.th, 5, desc))
		e.ok(memory.AllocatorDestroyDesc(e.stranger(), desc))
		registered(e, 5, desc, entries) // what was registered stays
	})

	behaves("aclrtAllocatorSetObjToDesc", setsEntry("obj"))
	behaves("aclrtAllocatorSetAllocFuncToDesc", setsEntry("alloc"))
	behaves("aclrtAllocatorSetFreeFuncToDesc", setsEntry("free"))
	behaves("aclrtAllocatorSetAllocAdviseFuncToDesc", setsEntry("advise"))
	behaves("aclrtAllocatorSetGetAddrFromBlockFuncToDesc", setsEntry("address"))

	prove("aclrtAllocatorRegister", "entry-missing", func(e *env) (err *core.Error) {
		for _, name := range []string{"obj", "alloc", "free", "address"} {
			err = memory.AllocatorRegister(e.th, 5, described(e, name))
			e.want(err, abi.ErrInvalidParam)
			e.want(memory.AllocatorGetByStream(e.th, 5, new(core.Handle), nil, nil, nil, nil, nil), abi.ErrInvalidParam)
		}
		return err
	})
	behaves("aclrtAllocatorRegister", func(e *env) {
		desc := described(e, "advise") // the one that may be missing
		e.ok(memory.AllocatorRegister(e.stranger(), garbage, desc))
		e.ok(memory.AllocatorSetFreeFuncToDesc(e.th, desc, 9)) // too late
		want := map[string]core.Addr{"obj": allocObject, "alloc": allocFunc, "free": freeFunc, "address": addressFunc}
		registered(e, garbage, desc, want)
		last := described(e)
		e.ok(memory.AllocatorRegister(e.th, garbage, last))
		registered(e, garbage, last, entries)
		s := e.stream()
		e.ok(memory.AllocatorRegister(e.th, s, desc))
		e.ok(e.th.DestroyStream(s))
		want["free"] = 9
		registered(e, s, desc, want) // a stream is but a key
	})

	prove("aclrtAllocatorGetByStream", "not-registered", func(e *env) *core.Error {
		desc, obj := core.Handle(3), core.Addr(4)
		err := memory.AllocatorGetByStream(e.th, e.stream(), &desc, &obj, nil, nil, nil, nil)
		if desc != 3 || obj != 4 {
			e.Error("something was written")
		}
		return err
	})
	behaves("aclrtAllocatorGetByStream", func(e *env) {
		desc := described(e)
		e.ok(memory.AllocatorRegister(e.th, 5, desc))
		registered(e, 5, desc, entries)
		var h core.Handle
		e.ok(memory.AllocatorGetByStream(e.stranger(), 5, &h, nil, nil, nil, nil, nil)) // all but one may be NULL
		if h != desc {
			e.Errorf("%#x, want %#x", h, desc)
		}
	})

	behaves("aclrtAllocatorUnregister", func(e *env) {
		e.ok(memory.AllocatorUnregister(e.th, 5)) // nothing is fine
		e.ok(memory.AllocatorRegister(e.th, 5, described(e)))
		e.ok(memory.AllocatorRegister(e.th, 6, described(e)))
		e.ok(memory.AllocatorUnregister(e.stranger(), 5))
		e.want(memory.AllocatorGetByStream(e.th, 5, new(core.Handle), nil, nil, nil, nil, nil), abi.ErrInvalidParam)
		e.ok(memory.AllocatorGetByStream(e.th, 6, new(core.Handle), nil, nil, nil, nil, nil))
	})
}
