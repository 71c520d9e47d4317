package conformance

import (
	"os"
	"path/filepath"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
)

func runProofs() {
	prove("aclmdlRIExecuteAsync", "stream-flags", func(e *env) *core.Error {
		o := e.on(machine{product: "950"})
		return model.MdlRIExecuteAsync(o.th, emptyModel(o), withFlags(o, abi.StreamPersistent))
	})
	prove(
		"aclmdlRIExecuteAsync",
		"model-of-other-context",
		outside(func(th *core.Thread, m core.Handle) *core.Error { return model.MdlRIExecuteAsync(th, m, 0) }),
	)
	prove("aclmdlRIExecuteAsync", "still-captured", func(e *env) *core.Error {
		var m core.Handle
		e.ok(model.MdlRICaptureGetInfo(e.th, begin(e, relaxed), nil, &m))
		return model.MdlRIExecuteAsync(e.th, m, 0)
	})
	prove("aclmdlRIExecuteAsync", "update-outstanding", func(e *env) *core.Error {
		m, task := valueTask(e)
		e.ok(model.MdlRITaskDisable(e.th, task))
		err := model.MdlRIExecuteAsync(e.th, m, 0)
		e.ok(model.MdlRIUpdate(e.th, m))
		e.ok(model.MdlRIExecuteAsync(e.th, m, 0))
		return err
	})
	prove("aclmdlRIExecuteAsync", "stream-of-other-context", func(e *env) *core.Error {
		m := emptyModel(e)
		err := model.MdlRIExecuteAsync(e.th, m, e.foreign())
		e.ok(model.MdlRIDestroy(e.th, m)) // nothing counts as queued
		return err
	})
	behaves("aclmdlRIExecuteAsync", func(e *env) {
		var ran int
		m := capturing(e, func(s core.Handle) { e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { ran++ }, 0)) })
		s := e.stream()
		for range 5 {
			e.ok(model.MdlRIExecuteAsync(e.th, m, s))
		}
		e.ok(e.th.SynchronizeStream(s))
		is(e, "functions called", ran, 5)
		p := e.device(64)
		bad := capturing(e, func(s core.Handle) { e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s)) })
		failsOn(e, s, fault)
		e.want(e.th.SynchronizeStream(s), faultCode)
		e.ok(memory.Free(e.th, p))
		e.want(
			model.MdlRIExecuteAsync(e.th, bad, s),
			abi.ErrRTParamInvalid,
		) // memory that has gone is found before it is used
	})
	prove(
		"aclmdlRIDestroy",
		"model-of-other-context",
		outside(func(th *core.Thread, m core.Handle) *core.Error { return model.MdlRIDestroy(th, m) }),
	)
	prove("aclmdlRIDestroy", "still-captured", func(e *env) *core.Error {
		var m core.Handle
		e.ok(model.MdlRICaptureGetInfo(e.th, begin(e, relaxed), nil, &m))
		return model.MdlRIDestroy(e.th, m)
	})
	prove("aclmdlRIDestroy", "still-running", func(e *env) *core.Error {
		m, release := queuedModel(e)
		err := model.MdlRIDestroy(e.th, m)
		release()
		e.ok(model.MdlRIDestroy(e.th, m))
		return err
	})
	prove(
		"aclmdlRIAbort",
		"model-of-other-context",
		outside(func(th *core.Thread, m core.Handle) *core.Error { return model.MdlRIAbort(th, m) }),
	)
	prove("aclmdlRIAbort", "not-offered", func(e *env) *core.Error {
		o := e.on(machine{product: "310"})
		return model.MdlRIAbort(o.th, emptyModel(o))
	})
	prove("aclrtSynchronizeStream", "execution-aborted", func(e *env) *core.Error {
		var n core.Handle
		e.ok(signal.CreateNotify(e.th, &n, 0))
		m := capturing(e, func(s core.Handle) { e.ok(signal.WaitAndResetNotify(e.th, n, s, 0)) })
		s := e.stream()
		e.ok(model.MdlRIExecuteAsync(e.th, m, s))
		e.held(s)
		e.ok(model.MdlRIAbort(e.th, m))
		err := e.within(func() *core.Error { return e.th.SynchronizeStream(s) })
		e.ok(signal.RecordNotify(e.th, n, 0)) // and it runs again
		e.ok(model.MdlRIExecuteAsync(e.th, m, s))
		e.passes(s)
		return err
	})
	prove(
		"aclmdlRISetName",
		"model-of-other-context",
		outside(func(th *core.Thread, m core.Handle) *core.Error { return model.MdlRISetName(th, m, cText("x")) }),
	)
	prove("aclmdlRIGetName", "model-of-other-context", outside(func(th *core.Thread, m core.Handle) *core.Error {
		return model.MdlRIGetName(th, m, 8, &make([]byte, 8)[0])
	}))
	prove("aclmdlRIGetName", "maxLen-too-small", func(e *env) *core.Error {
		m := emptyModel(e)
		e.ok(model.MdlRISetName(e.th, m, cText("step")))
		got := make([]byte, 8)
		e.ok(model.MdlRIGetName(e.th, m, 5, &got[0]))
		is(e, "name", string(got[:5]), "step\x00")
		return model.MdlRIGetName(e.th, m, 4, &got[0])
	})
	called := func(e *env, calls *int, key uintptr) core.Func[model.ModelFunc] {
		return core.Func[model.ModelFunc]{Key: key, Call: func(core.Addr) { *calls++ }}
	}
	prove("aclmdlRIDestroyRegisterCallback", "registered", func(e *env) *core.Error {
		m, n := emptyModel(e), 0
		e.ok(model.MdlRIDestroyRegisterCallback(e.th, m, called(e, &n, 1), 0))
		e.ok(model.MdlRIDestroyRegisterCallback(e.th, m, called(e, &n, 2), 0))
		err := model.MdlRIDestroyRegisterCallback(e.th, m, called(e, &n, 1), 5)
		e.ok(model.MdlRIDestroy(e.th, m))
		is(e, "functions called", n, 2)
		return err
	})
	prove("aclmdlRIDestroyUnregisterCallback", "not-registered", func(e *env) *core.Error {
		m, n := emptyModel(e), 0
		e.ok(model.MdlRIDestroyRegisterCallback(e.th, m, called(e, &n, 1), 0))
		e.ok(model.MdlRIDestroyUnregisterCallback(e.th, m, called(e, &n, 1)))
		err := model.MdlRIDestroyUnregisterCallback(e.th, m, called(e, &n, 1))
		e.ok(model.MdlRIDestroy(e.th, m))
		is(e, "functions called", n, 0)
		return err
	})
	prove(
		"aclmdlRIDebugPrint",
		"model-of-other-context",
		outside(func(th *core.Thread, m core.Handle) *core.Error { return model.MdlRIDebugPrint(th, m) }),
	)
	prove("aclmdlRIDebugJsonPrint", "model-of-other-context", func(e *env) *core.Error {
		file := cText(filepath.Join(e.TempDir(), "model.json"))
		return model.MdlRIDebugJsonPrint(e.elsewhere(), emptyModel(e), file, 0)
	})
	prove("aclmdlRIDebugJsonPrint", "not-writable", func(e *env) *core.Error {
		m, _ := copyTask(e)
		path := filepath.Join(e.TempDir(), "model.json")
		e.ok(model.MdlRIDebugJsonPrint(e.th, m, cText(path), 0))
		got, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(got), "[\n{\"name\":\"MEMCPY_ASYNC\",") ||
			!strings.HasSuffix(string(got), "}\n]") {
			e.Errorf("%s, %v", got, err)
		}
		return model.MdlRIDebugJsonPrint(e.th, m, cText(filepath.Join(path, "x")), 0)
	})
}

func changeProofs() {
	prove("aclmdlRIGetStreams", "model-of-other-context", outside(func(th *core.Thread, m core.Handle) *core.Error {
		var n uint32
		return model.MdlRIGetStreams(th, m, nil, &n)
	}))
	prove("aclmdlRIGetStreams", "too-many-streams", func(e *env) *core.Error {
		var n uint32
		var list [2]core.Handle
		return model.MdlRIGetStreams(e.th, emptyModel(e), &list[0], &n)
	})
	prove("aclmdlRIGetTasksByStream", "stream-of-no-model", func(e *env) *core.Error {
		var n uint32
		return model.MdlRIGetTasksByStream(e.th, e.stream(), nil, &n)
	})
	prove("aclmdlRIGetTasksByStream", "too-many-tasks", func(e *env) *core.Error {
		p := e.device(64)
		m := capturing(e, func(s core.Handle) {
			for range 3 {
				e.ok(transfer.MemsetAsync(e.th, p, 64, 1, 64, s))
			}
		})
		is(e, "tasks", len(tasksOf(e, m)), 3)
		n := uint32(1)
		var s core.Handle
		e.ok(model.MdlRIGetStreams(e.th, m, &s, &n))
		list := [4]core.Handle{3: garbage}
		n = 4
		e.ok(model.MdlRIGetTasksByStream(e.th, s, &list[0], &n))
		is(e, "entry after the last task", list[3], core.Handle(0))
		n = 2
		return model.MdlRIGetTasksByStream(e.th, s, &list[0], &n)
	})
	prove("aclmdlRITaskGetSeqId", "task-of-no-model", func(e *env) *core.Error {
		m, task := copyTask(e)
		var id uint32
		e.ok(model.MdlRITaskGetSeqId(e.th, task, &id))
		is(e, "place", id, uint32(0))
		e.ok(model.MdlRIDestroy(e.th, m))
		return model.MdlRITaskGetSeqId(e.th, task, &id)
	})
	prove("aclmdlRITaskGetParams", "task-default", func(e *env) *core.Error {
		_, task := valueTask(e)
		var p abi.MdlRITaskParams
		e.ok(model.MdlRITaskGetParams(e.th, task, &p))
		is(e, "type", p.Type, abi.ModelRiTaskValueWrite)
		is(e, "value", p.Union.ValueWriteTaskParams().Value, uint64(1))
		_, task = copyTask(e)
		return model.MdlRITaskGetParams(e.th, task, &p)
	})
	write := func(e *env, addr core.Addr) *abi.MdlRITaskParams {
		p := &abi.MdlRITaskParams{Type: abi.ModelRiTaskValueWrite}
		v := p.Union.ValueWriteTaskParams()
		v.DevAddr, v.Value = addr, 9
		return p
	}
	prove(
		"aclmdlRITaskSetParams",
		"task-of-no-model",
		func(e *env) *core.Error { return model.MdlRITaskSetParams(e.th, garbage, write(e, 8)) },
	)
	prove("aclmdlRITaskSetParams", "not-changeable", func(e *env) *core.Error {
		m, release := queuedModel(e)
		err := model.MdlRITaskSetParams(e.th, tasksOf(e, m)[0], write(e, e.device(64)))
		release()
		return err
	})
	spoiled := func(change func(e *env, task core.Handle) *core.Error) func(e *env) *core.Error {
		return func(e *env) *core.Error {
			m, task := valueTask(e)
			err := change(e, task)
			e.want(model.MdlRIExecuteAsync(e.th, m, 0), abi.ErrRTModelExecute)
			e.want(model.MdlRITaskDisable(e.th, task), abi.ErrRTModelUpdateFailed)
			return err
		}
	}
	prove("aclmdlRITaskSetParams", "params-type", spoiled(func(e *env, task core.Handle) *core.Error {
		return model.MdlRITaskSetParams(e.th, task, &abi.MdlRITaskParams{Type: abi.ModelRiTaskEventWait})
	}))
	prove("aclmdlRITaskSetParams", "kernel-task-other", spoiled(func(e *env, task core.Handle) *core.Error {
		return model.MdlRITaskSetParams(e.th, task, &abi.MdlRITaskParams{Type: abi.ModelRiTaskKernel})
	}))
	kernelSpoils := func(change func(p *abi.MdlRITaskParams, k *abi.MdlRIKernelTaskParams)) func(e *env) *core.Error {
		return func(e *env) *core.Error {
			m, task := kernelTask(e)
			var p abi.MdlRITaskParams
			e.ok(model.MdlRITaskGetParams(e.th, task, &p))
			change(&p, p.Union.KernelTaskParams())
			err := model.MdlRITaskSetParams(e.th, task, &p)
			e.want(model.MdlRIExecuteAsync(e.th, m, 0), abi.ErrRTModelExecute)
			return err
		}
	}
	prove("aclmdlRITaskSetParams", "kernel-group",
		kernelSpoils(func(p *abi.MdlRITaskParams, _ *abi.MdlRIKernelTaskParams) {
			p.TaskGrp = 1
		}))
	prove("aclmdlRITaskSetParams", "kernel-function-not-live",
		kernelSpoils(func(_ *abi.MdlRITaskParams, k *abi.MdlRIKernelTaskParams) {
			k.FuncHandle = uintptr(garbage)
		}))
	prove("aclmdlRITaskSetParams", "kernel-arguments",
		kernelSpoils(func(_ *abi.MdlRITaskParams, k *abi.MdlRIKernelTaskParams) {
			k.ArgsSize = 0
		}))
	prove("aclmdlRITaskSetParams", "value-task-default", func(e *env) *core.Error {
		_, task := copyTask(e)
		return model.MdlRITaskSetParams(e.th, task, write(e, e.device(64)))
	})
	prove("aclmdlRITaskSetParams", "value-group", spoiled(func(e *env, task core.Handle) *core.Error {
		p := write(e, e.device(64))
		p.OpInfoSize = 1
		return model.MdlRITaskSetParams(e.th, task, p)
	}))
	prove("aclmdlRITaskSetParams", "build-fails", spoiled(func(e *env, task core.Handle) *core.Error {
		p := &abi.MdlRITaskParams{Type: abi.ModelRiTaskValueWait}
		p.Union.ValueWaitTaskParams().Flag = 99
		return model.MdlRITaskSetParams(e.th, task, p)
	}))
	behaves("aclmdlRITaskSetParams", func(e *env) {
		m, task := valueTask(e)
		p := e.device(64)
		e.ok(model.MdlRITaskSetParams(e.th, task, write(e, p)))
		e.ok(model.MdlRIUpdate(e.th, m))
		e.ok(model.MdlRIExecuteAsync(e.th, m, 0))
		e.ok(e.th.SynchronizeStream(0))
		back := e.pinned(8)
		e.ok(transfer.Memcpy(e.th, back, 8, p, 8, abi.MemcpyDeviceToHost))
		is(e, "value", bytes(back, 8)[0], byte(9))
	})
	prove("aclmdlRITaskDisable", "task-of-no-model", func(e *env) *core.Error {
		return model.MdlRITaskDisable(e.th, garbage)
	})
	prove("aclmdlRITaskDisable", "not-changeable", func(e *env) *core.Error {
		m, release := queuedModel(e)
		err := model.MdlRITaskDisable(e.th, tasksOf(e, m)[0])
		release()
		return err
	})
	prove("aclmdlRITaskDisable", "task-default", func(e *env) *core.Error {
		_, task := copyTask(e)
		return model.MdlRITaskDisable(e.th, task)
	})
	prove("aclmdlRIUpdate", "nothing-changed", func(e *env) *core.Error {
		return model.MdlRIUpdate(e.th, emptyModel(e))
	})
	prove("aclmdlRIUpdate", "not-updatable", func(e *env) *core.Error {
		m, task := valueTask(e)
		e.want(model.MdlRITaskSetParams(e.th, task, &abi.MdlRITaskParams{}), abi.ErrRTParamInvalid)
		return model.MdlRIUpdate(e.th, m)
	})
}
