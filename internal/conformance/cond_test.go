package conformance

import (
	"encoding/binary"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

const (
	condIf     = abi.ModelRiCondTypeIf
	condWhile  = abi.ModelRiCondTypeWhile
	condSwitch = abi.ModelRiCondTypeSwitch
)

// into captures what f submits into a sub-model.
func (e *env) into(sub core.Handle, f func(s core.Handle)) {
	e.Helper()
	s := e.stream()
	e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
	f(s)
	e.ok(model.MdlRICaptureEnd(e.th, s, nil))
	e.ok(e.th.DestroyStream(s))
}

// addCond is aclmdlRIAddCondTask with room for two sub-models.
func (e *env) addCond(c, s core.Handle, typ abi.MdlRICondTaskType, size uint32) *core.Error {
	var list [2]core.Handle
	return model.MdlRIAddCondTask(e.th, &abi.MdlRICondTaskParams{Handle: uintptr(c), Type: typ, Size: size,
		ModelRIArray: uintptr(unsafe.Pointer(&list[0]))}, s, 0)
}

// writes are value writes of a number.
func (e *env) writes(s core.Handle, p core.Addr, n uint64) {
	e.Helper()
	e.ok(signal.ValueWrite(e.th, p, n, 0, s))
}

func (e *env) valueOf(c core.Handle) (p core.Addr) {
	e.Helper()
	e.ok(model.MdlRICondHandleGetCondPtr(e.th, c, &p))
	return p
}

// long is the 8 bytes at p.
func (e *env) long(p core.Addr) (n uint64) {
	e.Helper()
	b := e.pinned(8)
	e.ok(transfer.Memcpy(e.th, b, 8, p, 8, abi.MemcpyDeviceToHost))
	for i, v := range bytes(b, 8) {
		n |= uint64(v) << (8 * i)
	}
	return n
}

func init() {
	proveKernelAttributes()
	proveConditions()
	proveSubModels()
	behaveConditions()
}

func proveConditions() {
	prove("aclmdlRICondHandleCreate", "model-of-other-context", func(e *env) *core.Error {
		m, s := e.conditional()
		var c core.Handle
		err := model.MdlRICondHandleCreate(e.elsewhere(), m, 0, 0, &c)
		e.condition(m, s, 0, 0)
		return err
	})
	prove("aclmdlRICondHandleCreate", "out-of-memory", func(e *env) *core.Error {
		m, s := e.conditional()
		e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
		var c core.Handle
		err := model.MdlRICondHandleCreate(e.th, m, 0, 0, &c)
		e.condition(m, s, 0, 0)
		return err
	})
	prove("aclmdlRIAddCondTask", "condition-not-live", func(e *env) *core.Error {
		_, s := e.conditional()
		return e.addCond(garbage, s, condIf, 1)
	})
	prove("aclmdlRIAddCondTask", "condition-used", func(e *env) *core.Error {
		m, s := e.conditional()
		c := e.condition(m, s, 0, 0)
		e.branches(c, s, condIf, 1)
		return e.addCond(c, s, condIf, 1)
	})
	prove("aclmdlRIAddCondTask", "stream-of-other-capture", func(e *env) *core.Error {
		m, s := e.conditional()
		_, other := e.conditional()
		return e.addCond(e.condition(m, s, 0, 0), other, condIf, 1)
	})
	prove("aclmdlRIAddCondTask", "params-size", func(e *env) *core.Error {
		m, s := e.conditional()
		c := e.condition(m, s, 0, 0)
		for _, tt := range []struct {
			typ  abi.MdlRICondTaskType
			size uint32
		}{{condIf, 0}, {condIf, 3}, {condWhile, 0}, {condSwitch, 0}} {
			e.want(e.addCond(c, s, tt.typ, tt.size), abi.ErrRTParamInvalid)
		}
		err := e.addCond(c, s, condWhile, 2)
		e.branches(c, s, condIf, 2) // nothing of these is left
		return err
	})
	prove("aclmdlRIAddCondTask", "no-resource-left", func(e *env) *core.Error {
		m, s := e.conditional()
		c := e.condition(m, s, 0, 0)
		list := make([]core.Handle, 1<<16+1)
		list[0] = garbage
		p := abi.MdlRICondTaskParams{Handle: uintptr(c), Type: condSwitch, Size: uint32(len(list)),
			ModelRIArray: uintptr(unsafe.Pointer(&list[0]))}
		err := model.MdlRIAddCondTask(e.th, &p, s, 0)
		is(e, "first entry", list[0], core.Handle(0))
		e.branches(c, s, condIf, 2)
		return err
	})
}

func proveSubModels() {
	prove("aclmdlRICaptureToModelRIBegin", "flags-forbid-capture", func(e *env) *core.Error {
		return model.MdlRICaptureToModelRIBegin(e.th, e.withFlags(abi.StreamCpuSchedule), e.sub(), relaxed)
	})
	prove("aclmdlRICaptureToModelRIBegin", "default-stream", func(e *env) *core.Error {
		return model.MdlRICaptureToModelRIBegin(e.th, e.defaultStream(), e.sub(), relaxed)
	})
	prove("aclmdlRICaptureToModelRIBegin", "captured-before", func(e *env) *core.Error {
		sub := e.sub()
		s := e.stream()
		e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
		e.want(model.MdlRICaptureToModelRIBegin(e.th, e.stream(), sub, relaxed), abi.ErrRTModelCaptured)
		e.ok(model.MdlRICaptureEnd(e.th, s, nil))
		return model.MdlRICaptureToModelRIBegin(e.th, e.stream(), sub, relaxed)
	})
	unfinished := func(e *env, leave func(sub core.Handle)) *core.Error {
		m, s := e.conditional()
		leave(e.branches(e.condition(m, s, 0, 0), s, condIf, 1)[0])
		end := core.Handle(garbage)
		err := model.MdlRICaptureEnd(e.th, s, &end)
		is(e, "model", end, core.Handle(0))
		e.ok(model.MdlRICaptureBegin(e.th, s, relaxed)) // the stream is free again
		return err
	}
	prove("aclmdlRICaptureEnd", "sub-model-open", func(e *env) *core.Error {
		e.want(unfinished(e, func(core.Handle) {}), abi.ErrRTSubAclgraphIsCapturing)
		s := e.stream()
		e.want(unfinished(e, func(sub core.Handle) { // one that is being captured
			e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
		}), abi.ErrRTSubAclgraphIsCapturing)
		e.ok(model.MdlRICaptureBegin(e.th, s, relaxed))
		e.want(unfinished(e, func(sub core.Handle) { // one that failed
			first, second, ev := e.stream(), e.stream(), e.exWith(abi.EventSync)
			e.ok(model.MdlRICaptureToModelRIBegin(e.th, first, sub, relaxed))
			e.ok(e.th.RecordEvent(ev, first))
			e.ok(e.th.StreamWaitEvent(second, ev))
			e.want(model.MdlRICaptureEnd(e.th, first, nil), abi.ErrRTStreamUnjoined)
		}), abi.ErrRTSubAclgraphIsCapturing)
		return unfinished(e, func(sub core.Handle) { // one deeper
			s := e.stream()
			e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
			e.branches(e.condition(sub, s, 0, 0), s, condIf, 1)
			e.want(model.MdlRICaptureEnd(e.th, s, nil), abi.ErrRTSubAclgraphIsCapturing)
		})
	})
	prove("aclmdlRIExecuteAsync", "too-many-streams", func(e *env) *core.Error {
		many := func(n int) core.Handle {
			m, s := e.conditional()
			for _, sub := range e.branches(e.condition(m, s, 0, 0), s, condSwitch, n) {
				e.into(sub, func(core.Handle) {})
			}
			return e.endsIn(s)
		}
		e.ok(model.MdlRIExecuteAsync(e.th, many(1023), 0))
		return model.MdlRIExecuteAsync(e.th, many(1024), 0)
	})
	inSub := func(e *env) (ev, s core.Handle) {
		s = e.stream()
		e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, e.sub(), relaxed))
		return e.exWith(abi.EventSync), s
	}
	prove("aclrtRecordEventWithFlag", "external-in-sub-model", func(e *env) *core.Error {
		ev, s := inSub(e)
		return e.th.RecordEventWithFlag(ev, s, 1)
	})
	prove("aclrtStreamWaitEventWithFlag", "external-in-sub-model", func(e *env) *core.Error {
		ev, s := inSub(e)
		return e.th.StreamWaitEventWithFlag(s, ev, 0, 1)
	})
}

func behaveConditions() {
	behaves("aclmdlRIAddCondTask", func(e *env) {
		p := e.device(64)
		for _, tt := range []struct {
			typ   abi.MdlRICondTaskType
			size  int
			value uint64
			want  uint64
		}{
			{condIf, 1, 0, 0}, {condIf, 1, 7, 100}, {condIf, 2, 0, 101}, {condIf, 2, 1, 100},
			{condSwitch, 3, 0, 100}, {condSwitch, 3, 2, 102}, {condSwitch, 3, 3, 0}, {condSwitch, 1, 1 << 40, 0},
			{condWhile, 1, 0, 0},
		} {
			e.ok(transfer.Memset(e.th, p, 64, 0, 64))
			m, s := e.conditional()
			c := e.condition(m, s, 0, 0)
			e.writes(s, e.valueOf(c), tt.value)
			for i, sub := range e.branches(c, s, tt.typ, tt.size) {
				e.into(sub, func(s core.Handle) { e.writes(s, p, uint64(100+i)) })
			}
			done := e.endsIn(s)
			is(e, "before it runs", e.long(p), 0)
			e.ok(model.MdlRIExecuteAsync(e.th, done, 0))
			e.ok(e.th.SynchronizeStream(0))
			is(e, "what ran", e.long(p), tt.want)
		}
	})
	behaves("aclmdlRICondHandleCreate", func(e *env) {
		m, s := e.conditional()
		one, other := e.condition(m, s, 5, 1), e.condition(m, s, 6, 0)
		unused := e.condition(m, s, 7, 1)
		for _, c := range []core.Handle{one, other} {
			e.into(e.branches(c, s, condIf, 1)[0], func(core.Handle) {})
		}
		e.ok(model.MdlRIExecuteAsync(e.th, e.endsIn(s), 0))
		e.ok(e.th.SynchronizeStream(0))
		is(e, "value with a default", e.long(e.valueOf(one)), 5)
		is(e, "value without", e.long(e.valueOf(other)), 0)
		is(e, "value that no task uses", e.long(e.valueOf(unused)), 0)
	})
	behaves("aclmdlRICaptureToModelRIBegin", func(e *env) {
		// A loop with a loop in it: 3 rounds, 2 in each. Every round of the inner one adds 5.
		p, five := e.device(64), e.device(64)
		e.ok(transfer.Memset(e.th, p, 64, 0, 64))
		e.ok(transfer.MemsetD32(e.th, five, 64, 5, 1))
		minus := e.device(64)
		e.ok(transfer.MemsetD32(e.th, minus, 64, 0xFFFFFFFF, 1))
		add := func(s core.Handle, to, what core.Addr) {
			e.ok(transfer.ReduceAsync(e.th, to, what, 4, abi.MemcpySdmaAutomaticSum, abi.DataTypeInt32, s, 0))
		}
		m, s := e.conditional()
		outer := e.condition(m, s, 3, 1)
		sub := e.branches(outer, s, condWhile, 1)[0]
		e.into(sub, func(s core.Handle) {
			inner := e.condition(sub, s, 0, 0)
			e.writes(s, e.valueOf(inner), 2)
			e.into(e.branches(inner, s, condWhile, 1)[0], func(s core.Handle) {
				add(s, p, five)
				add(s, e.valueOf(inner), minus)
			})
			add(s, e.valueOf(outer), minus)
		})
		done := e.endsIn(s)
		for range 2 {
			e.ok(model.MdlRIExecuteAsync(e.th, done, 0))
		}
		e.ok(e.th.SynchronizeStream(0))
		is(e, "sum", e.long(p), 2*3*2*5)
		e.ok(model.MdlRIDestroy(e.th, done))
	})
}

func proveKernelAttributes() {
	get := func(e *env, task core.Handle, id abi.LaunchKernelAttrId) (v abi.LaunchKernelAttrValue, err *core.Error) {
		err = model.MdlRIKernelTaskGetAttribute(e.th, task, id, &v)
		return v, err
	}
	prove("aclmdlRIKernelTaskGetAttribute", "task-not-kernel", func(e *env) *core.Error {
		_, task := e.copyTask()
		_, err := get(e, task, abi.LaunchKernelAttrSchemMode)
		e.want(err, abi.ErrRTParamInvalid)
		_, err = get(e, garbage, abi.LaunchKernelAttrSchemMode)
		return err
	})
	prove("aclmdlRIKernelTaskGetAttribute", "attribute-unknown", func(e *env) *core.Error {
		_, task := e.kernelTask()
		for _, id := range []abi.LaunchKernelAttrId{0, abi.LaunchKernelAttrEngineType,
			abi.LaunchKernelAttrBlockdimOffset, 10} {
			_, err := get(e, task, id)
			e.want(err, abi.ErrRTParamInvalid)
		}
		_, err := get(e, task, abi.LaunchKernelAttrBlockTaskPrefetch)
		return err
	})
	behaves("aclmdlRIKernelTaskGetAttribute", func(e *env) {
		f, p := e.kernel("times"), e.words(1, 1)
		var attrs [4]abi.LaunchKernelAttr
		for i, id := range []abi.LaunchKernelAttrId{abi.LaunchKernelAttrSchemMode, abi.LaunchKernelAttrDynUbufSize,
			abi.LaunchKernelAttrDataDump, abi.LaunchKernelAttrTimeout} {
			attrs[i].ID = id
		}
		*attrs[0].Value.SchemMode() = 1
		*attrs[1].Value.DynUBufSize() = 128
		*attrs[2].Value.IsDataDump() = 1
		*attrs[3].Value.Timeout() = 90
		cfg := &abi.LaunchKernelCfg{Attrs: uintptr(unsafe.Pointer(&attrs[0])), NumAttrs: 4}
		args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(p)), 1)
		m := e.capturing(func(s core.Handle) {
			e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 1, s, cfg, core.AddrOf(args), uint64(len(args)), nil, 0))
		})
		task := e.tasksOf(m)[0]
		for i := range attrs {
			v, err := get(e, task, attrs[i].ID)
			e.ok(err)
			is(e, "attribute", v, attrs[i].Value)
		}
		v, err := get(e, task, abi.LaunchKernelAttrTimeoutUs)
		e.ok(err)
		is(e, "microseconds", v.TimeoutUs().TimeoutLow, 90_000_000)
	})
}
