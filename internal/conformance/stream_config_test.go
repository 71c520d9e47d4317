package conformance

import (
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
)

// What only the IPV350 has: streams made from a configuration.

// configuration is one of aclrtCreateStreamConfigHandle.
func (e *env) configuration() *abi.StreamConfigHandle {
	e.Helper()
	h := process.CreateStreamConfigHandle(e.th)
	if h == 0 {
		e.Fatal("there is no configuration")
	}
	return core.Pointer[abi.StreamConfigHandle](h)
}

// option sets one field of a configuration, which has so many bytes.
func (e *env) option(c *abi.StreamConfigHandle, attr abi.StreamConfigAttr, value, size uint64) *core.Error {
	e.Helper()
	p := e.pageable(8)
	*core.Pointer[uint64](p) = value
	return process.SetStreamConfigOpt(e.th, c, attr, p, size)
}

// configured is a stream that a configuration describes, with its priority and flags.
func (e *env) configured(c *abi.StreamConfigHandle) (s core.Handle, priority, flags uint32) {
	e.Helper()
	e.ok(process.CreateStreamV2(e.th, &s, c))
	e.ok(e.th.StreamGetPriority(s, &priority))
	e.ok(e.th.StreamGetFlags(s, &flags))
	return s, priority, flags
}

func init() {
	behaves("aclrtCreateStreamConfigHandle", func(e *env) {
		is(e, "on another product", process.CreateStreamConfigHandle(e.th), 0)
		e = e.small()
		a, b := e.configuration(), e.configuration()
		is(e, "another one", a != b, true)
		is(e, "its fields", *a, abi.StreamConfigHandle{})
		// No context is needed, and one that is made where another one was starts with zeros, too.
		for range 3 {
			p := core.Pointer[abi.StreamConfigHandle](process.CreateStreamConfigHandle(e.stranger()))
			is(e, "its fields", *p, abi.StreamConfigHandle{})
			e.ok(e.option(p, abi.StreamFlag, math.MaxUint64, 8))
			e.ok(process.DestroyStreamConfigHandle(e.th, p))
		}
	})
	prove("aclrtDestroyStreamConfigHandle", 3, func(e *env) *core.Error {
		e = e.small()
		own, c := new(abi.StreamConfigHandle), e.configuration()
		e.want(process.DestroyStreamConfigHandle(e.th, own), abi.ErrRTInvalidHandle)
		e.ok(process.DestroyStreamConfigHandle(e.th, c))
		return process.DestroyStreamConfigHandle(e.th, c)
	})
	behaves("aclrtDestroyStreamConfigHandle", func(e *env) {
		e = e.small()
		c := e.configuration()
		e.ok(e.option(c, abi.StreamPriority, 3, 4))
		s, _, _ := e.configured(c)
		e.ok(process.DestroyStreamConfigHandle(e.stranger(), c))
		var priority uint32
		e.ok(e.th.StreamGetPriority(s, &priority)) // the stream stays as it is
		is(e, "priority", priority, 3)
	})
	prove("aclrtSetStreamConfigOpt", 6, func(e *env) *core.Error {
		e = e.small()
		c := e.configuration()
		e.ok(e.option(c, abi.StreamPriority, 7, 4))
		err := e.option(c, abi.StreamPriority, 8, 4)
		is(e, "priority", c.Priority, 7)
		return err
	})
	behaves("aclrtSetStreamConfigOpt", func(e *env) {
		e = e.small()
		for _, c := range []*abi.StreamConfigHandle{e.configuration(), new(abi.StreamConfigHandle)} {
			e.ok(e.option(c, abi.StreamWorkAddrPtr, 0x1234_5678_9ABC, 8))
			e.ok(e.option(c, abi.StreamWorkSize, 4096, 8))
			e.ok(e.option(c, abi.StreamFlag, abi.StreamFastSync, 8))
			e.ok(e.option(c, abi.StreamPriority, 1<<32|5, 4)) // no more than 4 bytes are read
			is(e, "the configuration", *c, abi.StreamConfigHandle{Workptr: 0x1234_5678_9ABC, WorkSize: 4096,
				Flag: abi.StreamFastSync, Priority: 5})
		}
	})
	prove("aclrtCreateStreamV2", 3, func(e *env) *core.Error {
		e = e.small()
		s, c := core.Handle(7), abi.StreamConfigHandle{Flag: abi.StreamHuge | abi.StreamDeviceUseOnly}
		err := process.CreateStreamV2(e.stranger(), &s, &c)
		is(e, "the handle", s, 7)
		return err
	})
	prove("aclrtCreateStreamV2", 4, func(e *env) *core.Error {
		e = e.small()
		var s core.Handle
		return process.CreateStreamV2(e.stranger(), &s, &abi.StreamConfigHandle{
			Flag: abi.StreamFastLaunch | abi.StreamDeviceUseOnly})
	})
	prove("aclrtCreateStreamV2", 5, func(e *env) *core.Error {
		e = e.small()
		var s core.Handle
		return process.CreateStreamV2(e.stranger(), &s, nil)
	})
	prove("aclrtCreateStreamV2", 6, func(e *env) *core.Error {
		e = e.small()
		var s core.Handle
		var left uint32
		e.ok(e.th.GetStreamAvailableNum(&left))
		for range left {
			e.ok(process.CreateStreamV2(e.th, &s, nil))
		}
		return process.CreateStreamV2(e.th, &s, nil)
	})
	behaves("aclrtCreateStreamV2", func(e *env) {
		e = e.small()
		_, priority, flags := e.configured(nil)
		is(e, "priority of NULL", priority, 0)
		is(e, "flags of NULL", flags, 0)
		c := e.configuration()
		e.ok(e.option(c, abi.StreamFlag, abi.StreamFastLaunch|abi.StreamFastSync, 8))
		e.ok(e.option(c, abi.StreamPriority, 6, 4))
		s, priority, flags := e.configured(c)
		is(e, "priority", priority, 6)
		is(e, "flags", flags, uint32(abi.StreamFastLaunch|abi.StreamFastSync))
		// A struct of the program does as well. Its priority is clamped, as elsewhere, and its high bits are ignored.
		_, priority, flags = e.configured(&abi.StreamConfigHandle{Priority: 99, Flag: 1<<40 | abi.StreamFastSync})
		is(e, "priority", priority, 7)
		is(e, "flags", flags, uint32(abi.StreamFastSync))
		ran := false
		e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
		e.ok(e.th.SynchronizeStream(s))
		is(e, "the stream works", ran, true)
		e.ok(e.th.DestroyStream(s))
	})
}
