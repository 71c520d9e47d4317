package conformance

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/model"
	"ropeway/internal/core/process"
	"ropeway/internal/core/signal"
	"ropeway/internal/kernel/kerneltest"
)

// makers make what the arguments of rule cases stand for. What they return is destroyed after the call, unless it was
// before.
var makers = map[string]func(e *env) core.Handle{
	"stream":           func(e *env) core.Handle { return e.stream() },
	"stream.elsewhere": func(e *env) core.Handle { return e.foreign() },
	"stream.unwaited": func(e *env) (s core.Handle) {
		e.ok(e.th.CreateStreamWithConfig(&s, 0, abi.StreamPersistent))
		return s
	},
	"stream.captured":           func(e *env) core.Handle { return capturedStream(e, e.th) },
	"stream.captured.elsewhere": func(e *env) core.Handle { return capturedStream(e, e.elsewhere()) },
	"model":                     func(e *env) core.Handle { return emptyModel(e) },
	"model.captured": func(e *env) core.Handle {
		m, _ := conditional(e)
		return m
	},
	"model.built":            func(e *env) core.Handle { return manual(e) },
	"stream.bound":           func(e *env) core.Handle { return boundStream(e, e.th) },
	"stream.bound.elsewhere": func(e *env) core.Handle { return boundStream(e, e.elsewhere()) },
	"label": func(e *env) (l core.Handle) {
		e.ok(model.CreateLabel(e.th, &l))
		return l
	},
	"model.sub": func(e *env) core.Handle { return sub(e) },
	"condition": func(e *env) core.Handle {
		m, s := conditional(e)
		return condition(e, m, s, 0, 0)
	},
	"event":            func(e *env) core.Handle { return eventWith(e, abi.EventSync|abi.EventTimeLine) },
	"event.deviceOnly": func(e *env) core.Handle { return eventWith(e, abi.EventDeviceUseOnly) },
	"event.external":   func(e *env) core.Handle { return eventWith(e, abi.EventExternal) },
	"event.unwaitable": func(e *env) core.Handle { return eventWith(e, abi.EventTimeLine) },
	"event.ipc":        func(e *env) core.Handle { return exWith(e, abi.EventIpc) },
	"event.ex":         func(e *env) core.Handle { return exWith(e, abi.EventSync) },
	"event.captured": func(e *env) core.Handle {
		ev := exWith(e, abi.EventSync|abi.EventTimeLine)
		e.ok(e.th.RecordEvent(ev, capturedStream(e, e.th)))
		return ev
	},
	"event.recorded": func(e *env) core.Handle {
		ev := eventWith(e, abi.EventSync|abi.EventTimeLine)
		s := e.stream()
		e.ok(e.th.RecordEvent(ev, s))
		e.ok(e.th.SynchronizeStream(s))
		return ev
	},
	"context": func(e *env) (c core.Handle) {
		var home core.Handle
		e.ok(e.th.GetCurrentContext(&home))
		e.ok(e.th.CreateContext(&c, 0))
		e.ok(e.th.SetCurrentContext(home))
		return c
	},
	"notify": func(e *env) (n core.Handle) {
		e.ok(signal.CreateNotify(e.th, &n, 0))
		return n
	},
	"image":       func(e *env) core.Handle { return imageOf(e, kerneltest.Compile(e.launches().T, kernelSource)) },
	"binary":      func(e *env) core.Handle { return e.binary(kernelSource) },
	"kernel":      func(e *env) core.Handle { return e.kernel("times") },
	"kernel.idle": func(e *env) core.Handle { return e.kernel("idle") },
	"args":        func(e *env) core.Handle { return argsOfThread(e) },
	"cntNotify": func(e *env) (n core.Handle) {
		e.ok(signal.CntNotifyCreate(e.th, &n, 0))
		return n
	},
}

// destroyers destroy what makers make, by the first word of the symbol.
var destroyers = map[string]func(t *core.Thread, h core.Handle) *core.Error{
	"context":   (*core.Thread).DestroyContext,
	"stream":    endCapture,
	"model":     endModel,
	"condition": endCondition,
	"label":     model.DestroyLabel,
	"event":     (*core.Thread).DestroyEvent,
	"notify":    signal.DestroyNotify,
	"cntNotify": signal.CntNotifyDestroy,
	"image":     launch.DestroyBinary,
	"binary":    launch.BinaryUnLoad,
	"kernel":    unloadKernel,
	"args":      endArgs,
}

// capturedStream is a stream that is being captured, in a mode that is in nobody's way.
func capturedStream(e *env, th *core.Thread) (s core.Handle) {
	e.Helper()
	e.ok(th.CreateStream(&s))
	e.ok(model.MdlRICaptureBegin(th, s, abi.ModelRiCaptureModeRelaxed))
	e.Cleanup(func() { endCapture(th, s) })
	return s
}

// emptyModel is a captured model without tasks.
func emptyModel(e *env) (m core.Handle) {
	e.Helper()
	s := e.stream()
	e.ok(model.MdlRICaptureBegin(e.th, s, abi.ModelRiCaptureModeRelaxed))
	e.ok(model.MdlRICaptureEnd(e.th, s, &m))
	return m
}

// manual is a model that is built by hand, without streams.
func manual(e *env) (m core.Handle) {
	e.Helper()
	e.ok(model.MdlRIBuildBegin(e.th, &m, 0))
	return m
}

// boundStream is a stream that is bound to a model of its own.
func boundStream(e *env, th *core.Thread) (s core.Handle) {
	e.Helper()
	var m core.Handle
	e.ok(th.CreateStreamWithConfig(&s, 0, abi.StreamPersistent))
	e.ok(model.MdlRIBuildBegin(th, &m, 0))
	e.ok(model.MdlRIBindStream(th, m, s, 0))
	e.Cleanup(func() {
		model.MdlRIDestroy(th, m)
		th.DestroyStreamForce(s)
	})
	return s
}

// conditional is a model that is being captured, and its stream.
func conditional(e *env) (m, s core.Handle) {
	e.Helper()
	s = capturedStream(e, e.th)
	e.ok(model.MdlRICaptureGetInfo(e.th, s, nil, &m))
	return m, s
}

// captureOf are the streams whose captures have conditions, by condition.
var captureOf sync.Map

// condition is a condition of a model that is being captured on s.
func condition(e *env, m, s core.Handle, value uint32, flag abi.MdlRICondHandleFlag) (c core.Handle) {
	e.Helper()
	e.ok(model.MdlRICondHandleCreate(e.th, m, value, flag, &c))
	captureOf.Store(c, s)
	return c
}

// endCondition destroys a condition, with its model.
func endCondition(t *core.Thread, c core.Handle) *core.Error {
	s, _ := captureOf.LoadAndDelete(c)
	return endCapture(t, s.(core.Handle))
}

// branches adds a condition task to a capture, and returns its sub-models.
func branches(e *env, c, s core.Handle, typ abi.MdlRICondTaskType, size int) []core.Handle {
	e.Helper()
	list := make([]core.Handle, size)
	p := abi.MdlRICondTaskParams{Handle: uintptr(c), Type: typ, Size: uint32(size),
		ModelRIArray: uintptr(unsafe.Pointer(&list[0]))}
	e.ok(model.MdlRIAddCondTask(e.th, &p, s, 0))
	return list
}

// sub is a sub-model of a condition task that nothing was captured into.
func sub(e *env) core.Handle {
	e.Helper()
	m, s := conditional(e)
	return branches(e, condition(e, m, s, 0, 0), s, abi.ModelRiCondTypeIf, 1)[0]
}

// endModel destroys a model. A sub-model, and one that is being captured, goes with the capture.
func endModel(t *core.Thread, m core.Handle) *core.Error {
	err := model.MdlRIDestroy(t, m)
	if err != nil && (err.Code == abi.ErrRTFeatureNotSupport || err.Code == abi.ErrRTModelCaptured) {
		return nil
	}
	return err
}

// endCapture destroys a stream that may be captured.
func endCapture(t *core.Thread, s core.Handle) *core.Error {
	var m core.Handle
	if model.MdlRICaptureEnd(t, s, &m) == nil {
		model.MdlRIDestroy(t, m)
	}
	return t.DestroyStreamForce(s)
}

func eventWith(e *env, flag uint32) (ev core.Handle) {
	e.Helper()
	e.ok(e.th.CreateEventWithFlag(&ev, flag))
	return ev
}

func exWith(e *env, flag uint32) (ev core.Handle) {
	e.Helper()
	e.ok(e.th.CreateEventExWithFlag(&ev, flag))
	return ev
}

// argument is the slot that the text of a case stands for: NULL, a number, self (this process), function, an object
// of makers, one that was destroyed ("stream.dead"), unmade (a handle that nothing has), room for results, or memory
// with arguments in it ("memory 8:4:7": 7 in four bytes at offset 8).
func argument(e *env, text string) uint64 {
	e.Helper()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return uint64(n)
	}
	word, fields, _ := strings.Cut(text, " ")
	symbol, kind, _ := strings.Cut(word, ".")
	switch {
	case word == "NULL":
		return 0
	case word == "self":
		return uint64(os.Getpid())
	case word == "unmade", word == "function":
		return uint64(garbage)
	case word == "memory":
		return filledPage(e, fields)
	case word == "room":
		p := e.pageable(roomBytes)
		copy(bytes(p, roomBytes), untouched)
		return uint64(p)
	case word == "device":
		p := e.device(4096)
		e.Cleanup(func() { memory.Free(e.th, p) })
		return uint64(p)
	case word == "pinned":
		p := e.pinned(4096)
		e.Cleanup(func() { memory.FreeHost(e.th, p) })
		return uint64(p)
	case kind == "dead":
		h := makers[symbol](e)
		e.ok(destroyers[symbol](e.th, h))
		return uint64(h)
	case makers[word] == nil:
		e.Fatalf("nothing makes %q", text)
	}
	h := makers[word](e)
	e.Cleanup(func() { destroyers[symbol](e.th, h) })
	return uint64(h)
}

// roomBytes is how much room results have; untouched is what is there before.
const roomBytes = 64

var untouched = slices.Repeat([]byte{0x5A}, roomBytes)

// filledPage is a page with numbers in it.
func filledPage(e *env, fields string) uint64 {
	p := e.pageable(4096)
	page := bytes(p, 4096)
	for _, f := range strings.Fields(fields) {
		var n [3]uint64
		for i, text := range strings.SplitN(f, ":", 3) {
			n[i] = argument(e, text)
		}
		for i := range n[1] {
			page[n[0]+i] = byte(n[2] >> (8 * i))
		}
	}
	return uint64(p)
}

// pointer is a slot that is an address, as Go.
func pointer[T any](slot uint64) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&slot))) }

// worlds are envs that cases share, by what they are like.
type worlds struct {
	t    *testing.T
	made map[machine]*env
}

// at is an env for the test t; form RC is on software devices, also beside GPUs. A call that no rule refuses changes
// what it likes: it gets an env of its own.
func (w *worlds) at(t *testing.T, c ruleCase) *env {
	m := machine{product: c.product, form: c.form, strict: c.strict}
	if c.rule == "" {
		return makeEnv(t, m)
	}
	e := w.made[m]
	if e == nil {
		e = makeEnv(w.t, m)
		w.made[m] = e
	}
	own := *e
	own.T = t
	return &own
}

// run makes the call of a case.
func (c ruleCase) run(e *env) *core.Error {
	var args []uint64
	for _, text := range c.args {
		args = append(args, argument(e, text))
	}
	th := e.th
	if !c.context {
		th = e.stranger()
	}
	call := ruleCalls[c.function]
	if call == nil {
		return th.NotBuilt(c.function, args)
	}
	err := call(th, args)
	for i, text := range c.args {
		if err == nil || text != "room" {
			continue
		}
		room := bytes(core.Addr(args[i]), roomBytes)
		if c.rule == "" && binary.LittleEndian.Uint64(room) == 0 {
			room = append(slices.Clone(untouched[:8]), room[8:]...) // the work set the result to NULL before it failed
		}
		if !slices.Equal(room, untouched) {
			e.Errorf("%v: %v refuses the call, and argument %d was written", c, err, i)
		}
	}
	return err
}

// Functions of the program that do nothing.

func deviceStateFunc(slot uint64) core.DeviceStateFunc {
	if slot == 0 {
		return nil
	}
	return func(int32, abi.DeviceState, core.Addr) {}
}

func streamStateFunc(slot uint64) core.StreamStateFunc {
	if slot == 0 {
		return nil
	}
	return func(core.Handle, abi.StreamState, core.Addr) {}
}

func opExceptionFunc(slot uint64) launch.OpExceptionFunc {
	if slot == 0 {
		return nil
	}
	return func(core.Addr, core.Addr) {}
}

func taskAbortFunc(slot uint64) core.TaskAbortFunc {
	if slot == 0 {
		return nil
	}
	return func(int32, abi.DeviceTaskAbortStage, uint32, core.Addr) int32 { return 0 }
}

func exceptionFunc(slot uint64) core.Func[core.ExceptionFunc] {
	return core.Func[core.ExceptionFunc]{Key: uintptr(slot), Call: hostFunc(slot)}
}

func modelFunc(slot uint64) core.Func[model.ModelFunc] {
	return core.Func[model.ModelFunc]{Key: uintptr(slot), Call: hostFunc(slot)}
}

func initFunc(slot uint64) (f core.Func[process.InitFunc]) {
	if slot != 0 {
		f.Key, f.Call = uintptr(slot), func(string, core.Addr) abi.Code { return abi.Success }
	}
	return f
}

func finalizeFunc(slot uint64) (f core.Func[process.FinalizeFunc]) {
	if slot != 0 {
		f.Key, f.Call = uintptr(slot), func(core.Addr) abi.Code { return abi.Success }
	}
	return f
}

func hostFunc(slot uint64) func(core.Addr) {
	if slot == 0 {
		return nil
	}
	return func(core.Addr) {}
}
