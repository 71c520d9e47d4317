package model_test

import (
	"runtime/debug"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// TestWildOutput: a call that cannot write its output fails and leaves no lock behind, so that the device can be reset
// afterwards; a capture goes on.
func TestWildOutput(t *testing.T) {
	const wild core.Addr = 4096
	nowhere := core.Pointer[core.Handle](wild)
	for name, call := range map[string]func(th *core.Thread, s, m, task core.Handle){
		"aclmdlRICaptureEnd": func(th *core.Thread, s, _, _ core.Handle) { model.MdlRICaptureEnd(th, s, nowhere) },
		"aclmdlRICaptureGetInfo": func(th *core.Thread, s, _, _ core.Handle) {
			model.MdlRICaptureGetInfo(th, s, nil, nowhere)
		},
		"aclmdlRICaptureTaskGrpEnd": func(th *core.Thread, s, _, _ core.Handle) {
			model.MdlRICaptureTaskGrpBegin(th, s)
			model.MdlRICaptureTaskGrpEnd(th, s, nowhere)
		},
		"aclmdlRICondHandleCreate": func(th *core.Thread, s, _, _ core.Handle) {
			var open core.Handle
			model.MdlRICaptureGetInfo(th, s, nil, &open)
			model.MdlRICondHandleCreate(th, open, 1, 0, nowhere)
		},
		"aclmdlRIGetStreams": func(th *core.Thread, _, m, _ core.Handle) {
			n := uint32(4)
			model.MdlRIGetStreams(th, m, nowhere, &n)
		},
		"aclmdlRIGetTasksByStream": func(th *core.Thread, _, m, _ core.Handle) {
			var own core.Handle
			one, n := uint32(1), uint32(4)
			model.MdlRIGetStreams(th, m, &own, &one)
			model.MdlRIGetTasksByStream(th, own, nowhere, &n)
		},
		"aclmdlRITaskGetType": func(th *core.Thread, _, _, task core.Handle) {
			model.MdlRITaskGetType(th, task, core.Pointer[abi.MdlRITaskType](wild))
		},
		"aclmdlRITaskSetParams": func(th *core.Thread, _, _, task core.Handle) {
			model.MdlRITaskSetParams(th, task, core.Pointer[abi.MdlRITaskParams](wild))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := coretest.NewMachine(t, "A2", "")
			s := k.Stream(k.Th)
			var p, q core.Addr
			k.OK(memory.Malloc(k.Th, &p, 64, abi.MemMallocHugeFirst))
			k.OK(memory.Malloc(k.Th, &q, 64, abi.MemMallocHugeFirst))
			capture := func() {
				k.OK(model.MdlRICaptureBegin(k.Th, s, relaxed))
				k.OK(transfer.MemcpyAsync(k.Th, p, 64, q, 64, abi.MemcpyDeviceToDevice, s))
			}
			capture()
			var m core.Handle
			k.OK(model.MdlRICaptureEnd(k.Th, s, &m))
			capture()
			func() {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				defer func() {
					if recover() == nil {
						t.Error("the call returned")
					}
				}()
				call(k.Th, s, m, model.TaskHandle(k.Th, m, 0))
			}()
			k.Within("the reset after it", func() { k.OK(k.Th.ResetDeviceForce(0)) })
		})
	}
}
