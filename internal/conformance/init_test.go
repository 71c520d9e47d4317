package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/testenv"
)

// configFile is the path of a file with text in it, as aclInit takes it.
func configFile(e *env, text string) *byte {
	e.Helper()
	path := filepath.Join(e.TempDir(), "acl.json")
	testenv.OK(e, os.WriteFile(path, []byte(text), 0o644))
	return cText(path)
}

// calls notes which callbacks ran, with what.
type calls struct {
	log  []string
	code map[string]abi.Code // what a callback answers, 0 unless it is here
}

// onInit and onFinalize are callbacks that note their call as name; different names are different functions.
func (c *calls) onInit(name string) core.Func[process.InitFunc] {
	return core.Func[process.InitFunc]{Key: uintptr(name[0]), Call: func(config string, _ core.Addr) abi.Code {
		c.log = append(c.log, name+config)
		return c.code[name]
	}}
}

func (c *calls) onFinalize(name string) core.Func[process.FinalizeFunc] {
	return core.Func[process.FinalizeFunc]{Key: uintptr(name[0]), Call: func(core.Addr) abi.Code {
		c.log = append(c.log, name)
		return c.code[name]
	}}
}

// ran checks which callbacks ran since the last time.
func (c *calls) ran(e *env, want ...string) {
	e.Helper()
	if !slices.Equal(c.log, want) {
		e.Errorf("callbacks: got %q, want %q", c.log, want)
	}
	c.log = nil
}

// references is the reference count of aclInit, found out by taking one.
func references(e *env) uint64 {
	e.Helper()
	e.want(process.Init(e.th, nil), abi.ErrRepeatInitialize)
	n := uint64(777)
	e.ok(process.FinalizeReference(e.th, &n))
	return n
}

// initFails is aclInit with a configuration that it refuses. The library must not be initialised afterwards, and a
// good configuration must still be taken.
func initFails(e *env, text string, code abi.Code) *core.Error {
	e.Helper()
	err := process.Init(e.th, configFile(e, text))
	e.want(err, code)
	e.want(process.FinalizeReference(e.th, nil), abi.ErrRepeatFinalize)
	e.ok(process.Init(e.th, nil))
	e.ok(process.Finalize(e.th))
	return err
}

// What a configuration has wrong from each rule on; joined they break all of them.
const (
	badMessages = `"err_msg_mode": 1`
	badDump     = `"dump": 1`
	badStack    = `"StackSize": {"aicore_stack_size": "1"}`
	badDevice   = `"defaultDevice": {"default_device": 0}`
	noSuchOne   = `"defaultDevice": {"default_device": "4"}`
	badPrintf   = `"simd_printf_fifo_size_per_core": "1"`
	smallPrintf = `"simd_printf_fifo_size_per_core": 1`
	badEvents   = `"acl_graph": {"event_mode": 2}`
	events      = `"acl_graph": {"event_mode": 1}`
	badProfiler = `"profiler": 1`
)

func object(entries ...string) string { return "{" + strings.Join(entries, ",") + "}" }

func init() {
	prove("aclInit", "initialised", func(e *env) *core.Error {
		e.ok(process.Init(e.th, nil))
		err := process.Init(e.th, cText("/no such file"))
		is(e, "count", references(e), 2)
		return err
	})
	prove("aclInit", "unreadable", func(e *env) *core.Error {
		e.ok(process.Init(e.th, nil)) // and another content than the first time
		e.ok(process.Finalize(e.th))
		e.want(process.Init(e.th, cText(e.TempDir())), abi.ErrInvalidFile)
		return process.Init(e.th, cText("/no such file"))
	})
	prove("aclInit", "other-configuration", func(e *env) *core.Error {
		e.ok(process.Init(e.th, configFile(e, `{}`)))
		e.ok(process.Finalize(e.th))
		e.want(process.Init(e.th, nil), abi.ErrInvalidParam)
		err := process.Init(e.th, configFile(e, `{ broken`))
		e.ok(process.Init(e.th, configFile(e, `{}`)))
		return err
	})
	prove("aclInit", "not-json", func(e *env) *core.Error {
		for _, text := range []string{
			``, `{`, `{"err_msg_mode": 1,}`, object(badMessages) + `x`,
			strings.Repeat("[", 11) + strings.Repeat("]", 11),
			strings.Repeat(`{"a":`, 11) + "1" + strings.Repeat("}", 11),
		} {
			initFails(e.on(machine{}), text, abi.ErrParseFile)
		}
		deep := strings.Repeat(`{"a":[`, 10) + strings.Repeat("]}", 10)
		e.ok(process.Init(e.on(machine{}).th, configFile(e, deep)))
		return initFails(e, `{"err_msg_mode": 1`, abi.ErrParseFile)
	})
	prove("aclInit", "err-msg-mode", func(e *env) *core.Error {
		for _, v := range []string{`"2"`, `""`, `0`, `null`, `{}`} {
			initFails(e.on(machine{}), `{"err_msg_mode":`+v+`}`, abi.ErrInvalidParam)
		}
		return initFails(e, object(badMessages, badDump, badStack, badDevice), abi.ErrInvalidParam)
	})
	prove("aclInit", "dump-section", func(e *env) *core.Error {
		return initFails(e, object(badDump, badStack, badDevice, badPrintf), abi.ErrInvalidDumpConfig)
	})
	prove("aclInit", "stack-size", func(e *env) *core.Error {
		err := initFails(e, object(badStack, badDevice, badPrintf, badEvents), abi.ErrFailure)
		if !strings.Contains(err.Text, "aicore_stack_size") {
			e.Errorf("blames something else: %v", err)
		}
		return err
	})
	prove("aclInit", "default-device-text", func(e *env) *core.Error {
		for _, v := range []string{`0`, `"01"`, `""`, `"-1"`, `"1a"`, `" 1"`} {
			initFails(e.on(machine{}), `{"defaultDevice": {"default_device": `+v+`}}`, abi.ErrFailure)
		}
		err := initFails(e, object(badDevice, badPrintf, badEvents), abi.ErrFailure)
		if !strings.Contains(err.Text, "default_device") {
			e.Errorf("blames something else: %v", err)
		}
		return err
	})
	prove("aclInit", "default-device-unusable", func(e *env) *core.Error {
		initFails(e.on(visible("0")), `{"defaultDevice": {"default_device": "1"}}`, abi.ErrRTInvalidDeviceid)
		return initFails(e, object(noSuchOne, badPrintf, badEvents), abi.ErrRTInvalidDeviceid)
	})
	prove("aclInit", "printf-size-type", func(e *env) *core.Error {
		return initFails(e, object(`"simt_printf_fifo_size": 1`, badPrintf, badEvents), abi.ErrFailure)
	})
	prove("aclInit", "printf-size-range", func(e *env) *core.Error {
		initFails(e.on(machine{product: "950"}), `{"simt_printf_fifo_size": 67108865}`, abi.ErrRTParamInvalid)
		err := initFails(e, object(smallPrintf, badEvents), abi.ErrRTParamInvalid)
		is(e, "limit afterwards", limitOf(e, abi.DevLimitSimdPrintfFifoSizePerCore), 32<<10)
		return err
	})
	prove("aclInit", "event-mode", func(e *env) *core.Error {
		for _, p := range []string{"310B", "310P", "910"} {
			initFails(e.on(machine{product: p}), object(badEvents), abi.ErrInvalidParam)
		}
		return initFails(e, object(badEvents, badProfiler), abi.ErrInvalidParam)
	})
	prove("aclInit", "event-mode-not-offered", func(e *env) *core.Error {
		var last *core.Error
		for _, p := range []string{"310B", "310P", "910"} {
			last = initFails(e.on(machine{product: p}), object(events, badProfiler), abi.ErrRTFeatureNotSupport)
		}
		return last
	})
	prove("aclInit", "event-mode-set", func(e *env) *core.Error {
		e.ok(process.Init(e.th, configFile(e, object(events)))) // so that no other content would be taken either
		e.ok(process.Finalize(e.th))
		return process.Init(e.th, configFile(e, object(events)))
	})
	prove("aclInit", "profiling-section", func(e *env) *core.Error {
		c := &calls{code: map[string]abi.Code{"other": 5}}
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeOther, c.onInit("other"), 0))
		file := configFile(e, object(events, `"defaultDevice": {"default_device": "1"}`, badProfiler))
		err := process.Init(e.th, file)
		c.ran(e)
		is(e, "a refused configuration leaves nothing behind", current(e, e.stranger()), -1)
		return err
	})
	prove("aclInit", "callback-fails", func(e *env) *core.Error {
		// MODEL comes before the dump section, OP_EXECUTOR behind it, the others at the end.
		for kind, config := range map[abi.RegisterCallbackType]string{
			abi.RegTypeAclModel: object(badDump), abi.RegTypeAclOpExecutor: object(badStack),
			abi.RegTypeAclDvpp: "{}", abi.RegTypeOther: "{}",
		} {
			o := e.on(machine{})
			c := &calls{code: map[string]abi.Code{"x": 4711}}
			o.ok(process.InitCallbackRegister(o.th, kind, c.onInit("x"), 0))
			o.want(process.Init(o.th, configFile(o, config)), 4711)
			o.want(process.FinalizeReference(o.th, nil), abi.ErrRepeatFinalize)
			delete(c.code, "x")
			o.ok(process.Init(o.th, nil)) // it was not initialised, so another configuration will do
		}
		c := &calls{code: map[string]abi.Code{"b": 4711}}
		for _, name := range []string{"a", "b", "c"} {
			e.ok(process.InitCallbackRegister(e.th, abi.RegTypeOther, c.onInit(name), 0))
		}
		err := process.Init(e.th, nil)
		e.want(err, 4711)
		c.ran(e, "a", "b") // the rest does not run
		return err
	})
	behaves("aclInit", func(e *env) {
		c := &calls{}
		for kind, name := range map[abi.RegisterCallbackType]string{
			abi.RegTypeOther: "z", abi.RegTypeAclOpExecutor: "e", abi.RegTypeAclDvpp: "d", abi.RegTypeAclModel: "m",
			abi.RegTypeAclTdtQueue: "q",
		} {
			e.ok(process.InitCallbackRegister(e.th, kind, c.onInit(name), 0))
		}
		e.ok(process.Init(e.th, nil)) // without a configuration OP_EXECUTOR is left out
		c.ran(e, "m", "q", "d", "z")
		is(e, "count", references(e), 1)
		e.ok(process.Finalize(e.th))
		e.ok(process.Init(e.th, cText(""))) // the same content

		o := e.on(machine{product: "950"})
		text := `{"defaultDevice": {"default_device": "2"}, "err_msg_mode": "1", "dump": {}, "profiler": {},
			"max_opqueue_num": "5",
			"StackSize": {"aicore_stack_size": 40000, "simt_stack_size": 100},
			"simd_printf_fifo_size_per_core": 2000, ` + events + `}`
		c = &calls{}
		for kind, name := range map[abi.RegisterCallbackType]string{abi.RegTypeOther: "z",
			abi.RegTypeAclOpExecutor: "e", abi.RegTypeAclModel: "m"} {
			o.ok(process.InitCallbackRegister(o.th, kind, c.onInit(name), 0))
		}
		o.ok(process.Init(o.stranger(), configFile(o, text)))
		c.ran(e, "m"+text, "e"+text, "z"+text)
		is(e, "AI Core stack", limitOf(o, abi.DevLimitSimdStackSize), 48<<10)
		is(e, "SIMT stack", limitOf(o, abi.DevLimitSimtStackSize), 128*32)
		is(e, "printf buffer", limitOf(o, abi.DevLimitSimdPrintfFifoSizePerCore), 2000)
		is(e, "default device", current(o, o.stranger()), 2)
		o.ok(process.Finalize(o.th))
		is(e, "default device after finalizing", current(o, o.stranger()), -1)

		many := e.on(machine{}) // of several at once, one initialises
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { process.Init(many.rt.NewThread(4), nil) })
		}
		all.Wait()
		is(e, "count", references(many), 8)
	})

	prove("aclFinalize", "finalised", func(e *env) *core.Error {
		c := &calls{code: map[string]abi.Code{"x": 4711}}
		e.ok(process.Finalize(e.th)) // the first succeeds without aclInit
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize("x"), 0))
		err := process.Finalize(e.th)
		c.ran(e)
		return err
	})
	prove("aclFinalize", "callback-fails", func(e *env) *core.Error {
		c := &calls{code: map[string]abi.Code{"b": 4711}}
		for _, name := range []string{"a", "b", "c"} {
			e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize(name), 0))
		}
		e.ok(process.Init(e.th, nil))
		e.want(process.Init(e.th, nil), abi.ErrRepeatInitialize)
		err := process.Finalize(e.th)
		e.want(err, 4711)
		c.ran(e, "a", "b")
		is(e, "count", references(e), 2)
		return err
	})
	behaves("aclFinalize", func(e *env) {
		c := &calls{}
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onFinalize("x"), 0))
		e.ok(process.Init(e.th, nil))
		for range 3 {
			e.want(process.Init(e.th, nil), abi.ErrRepeatInitialize)
		}
		e.ok(process.Finalize(e.stranger())) // whatever the count
		c.ran(e, "x")
		e.want(process.Finalize(e.th), abi.ErrRepeatFinalize)
		e.want(process.FinalizeReference(e.th, nil), abi.ErrRepeatFinalize)
		e.ok(process.Init(e.th, nil))
		is(e, "count", references(e), 1)
		e.ok(e.th.SynchronizeDevice()) // devices stay as they are
	})

	prove("aclFinalizeReference", "count-0", func(e *env) *core.Error {
		c := &calls{code: map[string]abi.Code{"x": 4711}}
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize("x"), 0))
		e.want(process.FinalizeReference(e.th, nil), abi.ErrRepeatFinalize)
		n := uint64(7)
		err := process.FinalizeReference(e.th, &n)
		is(e, "refCount", n, 0)
		c.ran(e)
		return err
	})
	prove("aclFinalizeReference", "callback-fails", func(e *env) *core.Error {
		c := &calls{code: map[string]abi.Code{"x": 4711}}
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize("x"), 0))
		e.ok(process.Init(e.th, nil))
		n := uint64(7)
		err := process.FinalizeReference(e.th, &n)
		e.want(err, 4711)
		is(e, "refCount", n, 1)
		c.ran(e, "x")
		is(e, "count", references(e), 1)
		return err
	})
	behaves("aclFinalizeReference", func(e *env) {
		c := &calls{}
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize("x"), 0))
		e.ok(process.Init(e.th, nil))
		e.want(process.Init(e.th, nil), abi.ErrRepeatInitialize)
		e.want(process.Init(e.th, nil), abi.ErrRepeatInitialize)
		n := uint64(7)
		e.ok(process.FinalizeReference(e.th, &n))
		is(e, "refCount", n, 2)
		e.ok(process.FinalizeReference(e.stranger(), nil))
		c.ran(e) // only counted so far
		e.ok(process.FinalizeReference(e.th, &n))
		is(e, "refCount", n, 0)
		c.ran(e, "x")
		e.want(process.Finalize(e.th), abi.ErrRepeatFinalize)
	})

	prove("aclInitCallbackRegister", "registered", func(e *env) *core.Error {
		c := &calls{}
		e.ok(process.Init(e.th, nil))
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onInit("x"), 0))
		c.ran(e, "x")
		err := process.InitCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onInit("y"), 0)
		c.ran(e) // not called either
		return err
	})
	behaves("aclInitCallbackRegister", func(e *env) {
		c := &calls{code: map[string]abi.Code{"late": 5}}
		var got core.Addr
		fn := c.onInit("early")
		call := fn.Call
		fn.Call = func(config string, userData core.Addr) abi.Code { got = userData; return call(config, userData) }
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeOther, fn, 0x1234))
		c.ran(e)
		e.ok(process.Init(e.th, configFile(e, `{"a": 1}`)))
		c.ran(e, `early{"a": 1}`)
		is(e, "userData", got, 0x1234)
		// a second one of OTHER; called at once, the answer is ignored
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeOther, c.onInit("late"), 0))
		c.ran(e, `late{"a": 1}`)
	})

	prove("aclInitCallbackUnRegister", "not-registered", func(e *env) *core.Error {
		c := &calls{}
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onInit("x"), 0))
		e.want(process.InitCallbackUnRegister(e.th, abi.RegTypeAclModel, c.onInit("x")), abi.ErrInternalError)
		return process.InitCallbackUnRegister(e.th, abi.RegTypeAclDvpp, c.onInit("y"))
	})
	behaves("aclInitCallbackUnRegister", func(e *env) {
		c := &calls{}
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onInit("x"), 0))
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeOther, c.onInit("y"), 0))
		e.ok(process.InitCallbackUnRegister(e.th, abi.RegTypeAclDvpp, c.onInit("x")))
		e.want(process.InitCallbackUnRegister(e.th, abi.RegTypeAclDvpp, c.onInit("x")), abi.ErrInternalError)
		e.ok(process.InitCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onInit("z"), 0)) // the type is free again
		e.ok(process.Init(e.th, nil))
		c.ran(e, "z", "y")
	})

	prove("aclFinalizeCallbackRegister", "registered", func(e *env) *core.Error {
		c := &calls{}
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onFinalize("x"), 0))
		err := process.FinalizeCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onFinalize("y"), 0)
		e.ok(process.Finalize(e.th))
		c.ran(e, "x")
		return err
	})
	behaves("aclFinalizeCallbackRegister", func(e *env) {
		c := &calls{}
		var got core.Addr
		fn := c.onFinalize("x")
		fn.Call = func(userData core.Addr) abi.Code { got = userData; return 0 }
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, fn, 0x1234))
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize("y"), 0))
		e.ok(process.Init(e.th, nil))
		c.ran(e)
		e.ok(process.Finalize(e.th))
		c.ran(e, "y")
		is(e, "userData", got, 0x1234)
	})

	prove("aclFinalizeCallbackUnRegister", "not-registered", func(e *env) *core.Error {
		c := &calls{}
		e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeAclDvpp, c.onFinalize("x"), 0))
		e.want(process.FinalizeCallbackUnRegister(e.th, abi.RegTypeOther, c.onFinalize("x")), abi.ErrInternalError)
		return process.FinalizeCallbackUnRegister(e.th, abi.RegTypeAclDvpp, c.onFinalize("y"))
	})
	behaves("aclFinalizeCallbackUnRegister", func(e *env) {
		c := &calls{}
		for _, name := range []string{"x", "y"} {
			e.ok(process.FinalizeCallbackRegister(e.th, abi.RegTypeOther, c.onFinalize(name), 0))
		}
		e.ok(process.FinalizeCallbackUnRegister(e.th, abi.RegTypeOther, c.onFinalize("x")))
		e.ok(process.Finalize(e.th))
		c.ran(e, "y")
	})
}
