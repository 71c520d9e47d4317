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
func into(e *env, sub core.Handle, f func(s core.Handle)) {
	e.Helper()
	s := e.stream()
	e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
	f(s)
	e.ok(model.MdlRICaptureEnd(e.th, s, nil))
	e.ok(e.th.DestroyStream(s))
}

// addCond is aclmdlRIAddCondTask with room for two sub-models.
func addCond(e *env, c, s core.Handle, typ abi.MdlRICondTaskType, size uint32) *core.Error {
	var list [2]core.Handle
	return model.MdlRIAddCondTask(e.th, &abi.MdlRICondTaskParams{Handle: uintptr(c), Type: typ, Size: size,
		ModelRIArray: uintptr(unsafe.Pointer(&list[0]))}, s, 0)
}

// writes are value writes of a number.
func writes(e *env, s core.Handle, p core.Addr, n uint64) {
	e.Helper()
	e.ok(signal.ValueWrite(e.th, p, n, 0, s))
}

func valueOf(e *env, c core.Handle) (p core.Addr) {
	e.Helper()
	e.ok(model.MdlRICondHandleGetCondPtr(e.th, c, &p))
	return p
}

// long is the 8 bytes at p.
func long(e *env, p core.Addr) (n uint64) {
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
		m, s := conditional(e)
		var c core.Handle
		err := model.MdlRICondHandleCreate(e.elsewhere(), m, 0, 0, &c)
		condition(e, m, s, 0, 0)
		return err
	})
	prove("aclmdlRICondHandleCreate", "out-of-memory", func(e *env) *core.Error {
		m, s := conditional(e)
		e.faults.Fail(faulty.Alloc, 1, driver.ErrNoMemory)
		var c core.Handle
		err := model.MdlRICondHandleCreate(e.th, m, 0, 0, &c)
		condition(e, m, s, 0, 0)
		return err
	})
	prove("aclmdlRIAddCondTask", "condition-not-live", func(e *env) *core.Error {
		_, s := conditional(e)
		return addCond(e, garbage, s, condIf, 1)
	})
	prove("aclmdlRIAddCondTask", "condition-used", func(e *env) *core.Error {
		m, s := conditional(e)
		c := condition(e, m, s, 0, 0)
		branches(e, c, s, condIf, 1)
		return addCond(e, c, s, condIf, 1)
	})
	prove("aclmdlRIAddCondTask", "stream-of-other-capture", func(e *env) *core.Error {
		m, s := conditional(e)
		_, other := conditional(e)
		return addCond(e, condition(e, m, s, 0, 0), other, condIf, 1)
	})
	prove("aclmdlRIAddCondTask", "params-size", func(e *env) *core.Error {
		m, s := conditional(e)
		c := condition(e, m, s, 0, 0)
		for _, tt := range []struct {
			typ  abi.MdlRICondTaskType
			size uint32
		}{{condIf, 0}, {condIf, 3}, {condWhile, 0}, {condSwitch, 0}} {
			e.want(addCond(e, c, s, tt.typ, tt.size), abi.ErrRTParamInvalid)
		}
		err := addCond(e, c, s, condWhile, 2)
		branches(e, c, s, condIf, 2) // nothing of these is left
		return err
	})
	prove("aclmdlRIAddCondTask", "no-resource-left", func(e *env) *core.Error {
		m, s := conditional(e)
		c := condition(e, m, s, 0, 0)
		list := make([]core.Handle, 1<<16+1)
		list[0] = garbage
		p := abi.MdlRICondTaskParams{Handle: uintptr(c), Type: condSwitch, Size: uint32(len(list)),
			ModelRIArray: uintptr(unsafe.Pointer(&list[0]))}
		err := model.MdlRIAddCondTask(e.th, &p, s, 0)
		is(e, "first entry", list[0], core.Handle(0))
		branches(e, c, s, condIf, 2)
		return err
	})
}

func proveSubModels() {
	prove("aclmdlRICaptureToModelRIBegin", "flags-forbid-capture", func(e *env) *core.Error {
		return model.MdlRICaptureToModelRIBegin(e.th, withFlags(e, abi.StreamCpuSchedule), sub(e), relaxed)
	})
	prove("aclmdlRICaptureToModelRIBegin", "default-stream", func(e *env) *core.Error {
		return model.MdlRICaptureToModelRIBegin(e.th, defaultStream(e), sub(e), relaxed)
	})
	prove("aclmdlRICaptureToModelRIBegin", "captured-before", func(e *env) *core.Error {
		sub := sub(e)
		s := e.stream()
		e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
		e.want(model.MdlRICaptureToModelRIBegin(e.th, e.stream(), sub, relaxed), abi.ErrRTModelCaptured)
		e.ok(model.MdlRICaptureEnd(e.th, s, nil))
		return model.MdlRICaptureToModelRIBegin(e.th, e.stream(), sub, relaxed)
	})
	unfinished := func(e *env, leave func(sub core.Handle)) *core.Error {
		m, s := conditional(e)
		leave(branches(e, condition(e, m, s, 0, 0), s, condIf, 1)[0])
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
			first, second, ev := e.stream(), e.stream(), exWith(e, abi.EventSync)
			e.ok(model.MdlRICaptureToModelRIBegin(e.th, first, sub, relaxed))
			e.ok(e.th.RecordEvent(ev, first))
			e.ok(e.th.StreamWaitEvent(second, ev))
			e.want(model.MdlRICaptureEnd(e.th, first, nil), abi.ErrRTStreamUnjoined)
		}), abi.ErrRTSubAclgraphIsCapturing)
		return unfinished(e, func(sub core.Handle) { // one deeper
			s := e.stream()
			e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub, relaxed))
			branches(e, condition(e, sub, s, 0, 0), s, condIf, 1)
			e.want(model.MdlRICaptureEnd(e.th, s, nil), abi.ErrRTSubAclgraphIsCapturing)
		})
	})
	prove("aclmdlRIExecuteAsync", "too-many-streams", func(e *env) *core.Error {
		many := func(n int) core.Handle {
			m, s := conditional(e)
			for _, sub := range branches(e, condition(e, m, s, 0, 0), s, condSwitch, n) {
				into(e, sub, func(core.Handle) {})
			}
			return endsIn(e, s)
		}
		e.ok(model.MdlRIExecuteAsync(e.th, many(1023), 0))
		return model.MdlRIExecuteAsync(e.th, many(1024), 0)
	})
	inSub := func(e *env) (ev, s core.Handle) {
		s = e.stream()
		e.ok(model.MdlRICaptureToModelRIBegin(e.th, s, sub(e), relaxed))
		return exWith(e, abi.EventSync), s
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
			m, s := conditional(e)
			c := condition(e, m, s, 0, 0)
			writes(e, s, valueOf(e, c), tt.value)
			for i, sub := range branches(e, c, s, tt.typ, tt.size) {
				into(e, sub, func(s core.Handle) { writes(e, s, p, uint64(100+i)) })
			}
			done := endsIn(e, s)
			is(e, "before it runs", long(e, p), 0)
			e.ok(model.MdlRIExecuteAsync(e.th, done, 0))
			e.ok(e.th.SynchronizeStream(0))
			is(e, "what ran", long(e, p), tt.want)
		}
	})
	behaves("aclmdlRICondHandleCreate", func(e *env) {
		m, s := conditional(e)
		one, other := condition(e, m, s, 5, 1), condition(e, m, s, 6, 0)
		unused := condition(e, m, s, 7, 1)
		for _, c := range []core.Handle{one, other} {
			into(e, branches(e, c, s, condIf, 1)[0], func(core.Handle) {})
		}
		e.ok(model.MdlRIExecuteAsync(e.th, endsIn(e, s), 0))
		e.ok(e.th.SynchronizeStream(0))
		is(e, "value with a default", long(e, valueOf(e, one)), 5)
		is(e, "value without", long(e, valueOf(e, other)), 0)
		is(e, "value that no task uses", long(e, valueOf(e, unused)), 0)
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
		m, s := conditional(e)
		outer := condition(e, m, s, 3, 1)
		sub := branches(e, outer, s, condWhile, 1)[0]
		into(e, sub, func(s core.Handle) {
			inner := condition(e, sub, s, 0, 0)
			writes(e, s, valueOf(e, inner), 2)
			into(e, branches(e, inner, s, condWhile, 1)[0], func(s core.Handle) {
				add(s, p, five)
				add(s, valueOf(e, inner), minus)
			})
			add(s, valueOf(e, outer), minus)
		})
		done := endsIn(e, s)
		for range 2 {
			e.ok(model.MdlRIExecuteAsync(e.th, done, 0))
		}
		e.ok(e.th.SynchronizeStream(0))
		is(e, "sum", long(e, p), 2*3*2*5)
		e.ok(model.MdlRIDestroy(e.th, done))
	})
}

func proveKernelAttributes() {
	get := func(e *env, task core.Handle, id abi.LaunchKernelAttrId) (v abi.LaunchKernelAttrValue, err *core.Error) {
		err = model.MdlRIKernelTaskGetAttribute(e.th, task, id, &v)
		return v, err
	}
	prove("aclmdlRIKernelTaskGetAttribute", "task-not-kernel", func(e *env) *core.Error {
		_, task := copyTask(e)
		_, err := get(e, task, abi.LaunchKernelAttrSchemMode)
		e.want(err, abi.ErrRTParamInvalid)
		_, err = get(e, garbage, abi.LaunchKernelAttrSchemMode)
		return err
	})
	prove("aclmdlRIKernelTaskGetAttribute", "attribute-unknown", func(e *env) *core.Error {
		_, task := kernelTask(e)
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
		m := capturing(e, func(s core.Handle) {
			e.ok(launch.LaunchKernelWithHostArgs(e.th, f, 1, s, cfg, core.AddrOf(args), uint64(len(args)), nil, 0))
		})
		task := tasksOf(e, m)[0]
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
