package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

// onlyStrict is the proof of a rule that is there in strict mode only: on each machine the call succeeds, and is
// refused with the same code in strict mode.
func onlyStrict(call func(e *env) *core.Error, machines ...machine) proof {
	return func(e *env) (err *core.Error) {
		e.Helper()
		for _, m := range machines {
			if first := call(e.on(m)); first != nil {
				e.Errorf("%s: refused without strict mode: %v", m.product, first)
			}
			m.strict = true
			before := err
			if err = call(e.on(m)); err == nil {
				e.Fatalf("%s: not refused in strict mode", m.product)
			}
			if before != nil && before.Code != err.Code {
				e.Errorf("%s: %v, others %v", m.product, err, before)
			}
		}
		return err
	}
}

// onEveryProduct are all products in EP form.
var onEveryProduct = []machine{{product: "A2"}, {product: "A3"}, {product: "950"}, {product: "310B"}, {product: "310P"},
	{product: "910"}, {product: "310"}}

func init() {
	oldest := machine{product: "310"}
	prove("aclrtMemcpy2dAsync", "d2d-not-offered", onlyStrict(func(e *env) *core.Error {
		a := upload(e)
		a.src, a.kind = e.device(64), d2d
		return memcpy2dAsync(e, a)
	}, machine{product: "310B"}, machine{product: "310P"}, machine{product: "910"}, oldest))
	prove("aclrtMemset", "pageable", onlyStrict(func(e *env) *core.Error {
		return transfer.Memset(e.th, e.pageable(64), 64, 7,
			64)
	}, onEveryProduct...))
	prove("aclrtMemsetAsync", "pageable", onlyStrict(func(e *env) *core.Error {
		return transfer.MemsetAsync(e.th, e.pageable(64), 64, 7, 64, e.stream())
	}, onEveryProduct...))

	old := machine{product: "910"}
	registering := []machine{{}, {product: "A3"}, {product: "950"}}
	register := func(e *env, p core.Addr) *core.Error {
		return memory.HostRegister(e.th, p, 64, abi.HostRegisterMapped, new(core.Addr))
	}
	registerV2 := func(e *env, p core.Addr) *core.Error { return memory.HostRegisterV2(e.th, p, 64, abi.HostRegPinned) }
	page := func(e *env) core.Addr { return (e.pageable(8192) + 4095) &^ 4095 }
	prove("aclrtHostRegister", "on-910", onlyStrict(func(e *env) *core.Error { return register(e, page(e)) }, old))
	prove("aclrtHostRegister", "ptr-unaligned", onlyStrict(func(e *env) *core.Error { return register(e, page(e)+64) },
		registering...))
	prove("aclrtHostRegisterV2", "on-910", onlyStrict(func(e *env) *core.Error { return registerV2(e, page(e)) }, old))
	prove("aclrtHostRegisterV2", "ptr-unaligned",
		onlyStrict(func(e *env) *core.Error { return registerV2(e, page(e)+64) },
			registering...))

	prove("aclrtMemManagedAdvise", "size-unaligned", onlyStrict(func(e *env) *core.Error {
		p := managed(e, 4<<20)
		host := abi.MemManagedLocation{Type: abi.MemManagedLocationTypeHost}
		e.ok(memory.MemManagedAdvise(e.th, p, 2<<20, abi.MemAdviseSetReadMostly, host))
		return memory.MemManagedAdvise(e.th, p, 4096, abi.MemAdviseSetReadMostly, host)
	}, machine{}))

	values := []machine{{}, {product: "A3"}, {product: "950"}}
	prove("aclrtValueWrite", "unaligned", onlyStrict(func(e *env) *core.Error {
		return signal.ValueWrite(e.th, e.device(64)+4, 1,
			0, e.stream())
	}, values...))
	prove("aclrtValueWait", "unaligned", onlyStrict(func(e *env) *core.Error {
		return signal.ValueWait(e.th, e.device(64)+4, 0, 0,
			e.stream())
	}, values...))

	prove("aclrtRecordEvent", "other-device", onlyStrict(func(e *env) *core.Error {
		var event, s core.Handle
		e.ok(e.th.CreateEvent(&event))
		return next(e, &s).RecordEvent(event, s)
	}, onEveryProduct...))
	prove("aclrtStreamWaitEvent", "other-device", onlyStrict(func(e *env) *core.Error {
		var event, s core.Handle
		e.ok(e.th.CreateEvent(&event))
		e.ok(e.th.RecordEvent(event, e.stream()))
		return next(e, &s).StreamWaitEvent(s, event)
	}, onEveryProduct...))
}

// next is a thread on the next device, with a stream there.
func next(e *env, s *core.Handle) *core.Thread {
	e.Helper()
	o := e.rt.NewThread(4)
	e.ok(o.SetDevice(1))
	e.ok(o.CreateStream(s))
	return o
}
