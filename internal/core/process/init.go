package process

import (
	"log/slog"
	"slices"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/readfile"
)

// initState is the state of aclInit and aclFinalize.
type initState struct {
	calls sync.Mutex // held while aclInit or a finalize runs, callbacks included: those must not call either

	mu        sync.Mutex
	count     uint64               // guarded by mu; aclInit minus aclFinalizeReference
	finalized bool                 // guarded by mu; the last action was to finalize
	text      string               // guarded by mu; configuration of the first aclInit
	known     bool                 // guarded by mu; there was a first aclInit
	graphs    bool                 // guarded by mu; a configuration set acl_graph.event_mode
	inits     []hook[InitFunc]     // guarded by mu; in order of registration
	finalizes []hook[FinalizeFunc] // guarded by mu; in order of registration
}

// InitFunc is an aclInitCallbackFunc; config is the text of the configuration file.
type InitFunc = func(config string, userData core.Addr) abi.Code

// FinalizeFunc is an aclFinalizeCallbackFunc.
type FinalizeFunc = func(userData core.Addr) abi.Code

// hook is a registered callback.
type hook[F any] struct {
	kind     abi.RegisterCallbackType
	fn       core.Func[F]
	userData core.Addr
}

// Init is aclInit. configPath names a JSON file; NULL and "" mean no configuration.
func Init(t *core.Thread, configPath *byte) *core.Error {
	const api = "aclInit"
	path := core.CString(configPath)
	in := &processOf(t.Runtime).init
	in.calls.Lock()
	defer in.calls.Unlock()

	if in.retain() {
		return core.Fail(api, abi.ErrRepeatInitialize, "",
			"the library is initialised already; only the reference count has grown")
	}
	text, err := readConfig(api, path)
	if err != nil {
		return err
	}
	if in.differs(text) {
		return core.Invalid(api, "configPath",
			"the configuration differs from that of the first aclInit in this process, which stays in force")
	}
	conf := noConfig(api)
	if path != "" {
		if conf, err = parseConfig(api, text); err != nil {
			return err
		}
	}
	if err := conf.checkMessages(); err != nil {
		return err
	}
	if err := runInits(t, text, only(abi.RegTypeAclModel)); err != nil {
		return err
	}
	if err := conf.checkDump(); err != nil {
		return err
	}
	if path != "" {
		if err := runInits(t, text, only(abi.RegTypeAclOpExecutor)); err != nil {
			return err
		}
	}
	if err := conf.checkRest(t); err != nil {
		return err
	}
	configure(t.Runtime, conf)
	if err := runInits(t, text, isLate); err != nil {
		return err
	}
	in.done(text, conf)
	t.LogInfo(api, "the library is initialised", slog.String("config", path))
	return nil
}

// isLate reports whether callbacks of a type run at the end of aclInit. The sources list DVPP and OTHER; by ropeway's
// choice others do, too, except those of MODEL and OP_EXECUTOR.
func isLate(kind abi.RegisterCallbackType) bool {
	return kind != abi.RegTypeAclModel && kind != abi.RegTypeAclOpExecutor
}

// only returns a function that picks one type.
func only(kind abi.RegisterCallbackType) func(abi.RegisterCallbackType) bool {
	return func(k abi.RegisterCallbackType) bool { return k == kind }
}

// readConfig returns the content of the configuration file; "" without a path.
func readConfig(api, path string) (string, *core.Error) {
	if path == "" {
		return "", nil
	}
	text, err := readfile.Regular(path, readfile.Text)
	if err != nil {
		e := core.Fail(api, abi.ErrInvalidFile, "configPath", "cannot be read")
		e.Err = err
		return "", e
	}
	return string(text), nil
}

// retain counts another aclInit, and returns false if the library is not initialised.
func (in *initState) retain() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.count > 0 {
		in.count++
	}
	return in.count > 0
}

// differs reports whether an earlier initialisation had another configuration.
func (in *initState) differs(text string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.known && in.text != text
}

// done records that the library is initialised.
func (in *initState) done(text string, conf *initConfig) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.count, in.finalized = 1, false
	in.text, in.known = text, true
	in.graphs = in.graphs || conf.eventMode >= 0
}

// runInits runs the init callbacks of the types picked, by type and then in order of registration, until one fails.
func runInits(t *core.Thread, text string, pick func(abi.RegisterCallbackType) bool) *core.Error {
	in := &processOf(t.Runtime).init
	var hooks []hook[InitFunc]
	core.Locked(&in.mu, func() { hooks = slices.Clone(in.inits) })
	slices.SortStableFunc(hooks, func(a, b hook[InitFunc]) int { return int(a.kind) - int(b.kind) })
	for _, h := range hooks {
		if !pick(h.kind) {
			continue
		}
		if code := h.fn.Call(text, h.userData); code != abi.Success {
			return core.Fail("aclInit", code, "", "an init callback of type %v failed", h.kind)
		}
	}
	return nil
}

// Finalize is aclFinalize.
func Finalize(t *core.Thread) *core.Error {
	const api = "aclFinalize"
	in := &processOf(t.Runtime).init
	in.calls.Lock()
	defer in.calls.Unlock()
	var finalized bool
	core.Locked(&in.mu, func() { finalized = in.finalized })
	if finalized {
		return finalizedAlready(api)
	}
	return finalize(t, api)
}

// FinalizeReference is aclFinalizeReference.
func FinalizeReference(t *core.Thread, refCount *uint64) *core.Error {
	left, err := finalizeReference(t)
	if refCount != nil {
		*refCount = left
	}
	return err
}

// finalizeReference ends one initialisation, and returns the number left.
func finalizeReference(t *core.Thread) (left uint64, err *core.Error) {
	const api = "aclFinalizeReference"
	in := &processOf(t.Runtime).init
	in.calls.Lock()
	defer in.calls.Unlock()
	last, none := false, false
	core.Locked(&in.mu, func() {
		last, none = in.count == 1, in.count == 0
		if in.count > 1 {
			in.count--
		}
		left = in.count
	})
	switch {
	case none:
		err = finalizedAlready(api)
	case last:
		if err = finalize(t, api); err == nil {
			left = 0
		}
	}
	return left, err
}

func finalizedAlready(api string) *core.Error {
	return core.Fail(api, abi.ErrRepeatFinalize, "", "the library is not initialised; each aclInit is finalized once")
}

// finalize runs the finalize callbacks, in order of registration, and undoes aclInit's settings. If a callback fails,
// it changes nothing. in.calls is held.
func finalize(t *core.Thread, api string) *core.Error {
	t.Runtime.Ending(t)
	in := &processOf(t.Runtime).init
	var hooks []hook[FinalizeFunc]
	core.Locked(&in.mu, func() { hooks = slices.Clone(in.finalizes) })
	for _, h := range hooks {
		if code := h.fn.Call(h.userData); code != abi.Success {
			return core.Fail(api, code, "", "a finalize callback of type %v failed; the library stays initialised",
				h.kind)
		}
	}
	t.Runtime.Finalize()
	t.Runtime.DefaultDevice.Store(0)
	t.Runtime.SharedTexts.Store(false)
	core.Locked(&in.mu, func() { in.count, in.finalized = 0, true })
	t.LogInfo(api, "the library is finalised")
	return nil
}

// InitCallbackRegister is aclInitCallbackRegister. If the library is initialised, it calls cb at once and ignores the
// result.
func InitCallbackRegister(t *core.Thread, kind abi.RegisterCallbackType, cb core.Func[InitFunc],
	userData core.Addr) *core.Error {
	if err := checkInitCallbackRegister(t, kind, cb, userData); err != nil {
		return err
	}
	in := &processOf(t.Runtime).init
	if err := addHook("aclInitCallbackRegister", in, &in.inits, hook[InitFunc]{kind, cb, userData}); err != nil {
		return err
	}
	var text string
	running := false
	core.Locked(&in.mu, func() { text, running = in.text, in.count > 0 })
	if running {
		cb.Call(text, userData)
	}
	return nil
}

// InitCallbackUnRegister is aclInitCallbackUnRegister.
func InitCallbackUnRegister(t *core.Thread, kind abi.RegisterCallbackType, cb core.Func[InitFunc]) *core.Error {
	if err := checkInitCallbackUnRegister(t, kind, cb); err != nil {
		return err
	}
	in := &processOf(t.Runtime).init
	return removeHook("aclInitCallbackUnRegister", in, &in.inits, kind, cb)
}

// FinalizeCallbackRegister is aclFinalizeCallbackRegister.
func FinalizeCallbackRegister(t *core.Thread, kind abi.RegisterCallbackType, cb core.Func[FinalizeFunc],
	userData core.Addr) *core.Error {
	if err := checkFinalizeCallbackRegister(t, kind, cb, userData); err != nil {
		return err
	}
	in := &processOf(t.Runtime).init
	return addHook("aclFinalizeCallbackRegister", in, &in.finalizes, hook[FinalizeFunc]{kind, cb, userData})
}

// FinalizeCallbackUnRegister is aclFinalizeCallbackUnRegister.
func FinalizeCallbackUnRegister(t *core.Thread, kind abi.RegisterCallbackType, cb core.Func[FinalizeFunc]) *core.Error {
	if err := checkFinalizeCallbackUnRegister(t, kind, cb); err != nil {
		return err
	}
	in := &processOf(t.Runtime).init
	return removeHook("aclFinalizeCallbackUnRegister", in, &in.finalizes, kind, cb)
}

// addHook adds a callback to a list of in. Only ACL_REG_TYPE_OTHER may have several.
func addHook[F any](api string, in *initState, list *[]hook[F], h hook[F]) *core.Error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if h.kind != abi.RegTypeOther && slices.ContainsFunc(*list, func(o hook[F]) bool { return o.kind == h.kind }) {
		return core.Fail(api, abi.ErrInternalError, "type", "%v has a callback already; unregister that first", h.kind)
	}
	*list = append(*list, h)
	return nil
}

// removeHook removes the first registration of a callback for a type from a list of in.
func removeHook[F any](api string, in *initState, list *[]hook[F], kind abi.RegisterCallbackType,
	fn core.Func[F]) *core.Error {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.IndexFunc(*list, func(h hook[F]) bool { return h.kind == kind && h.fn.Key == fn.Key })
	if i < 0 {
		return core.Fail(api, abi.ErrInternalError, "cbFunc", "%#x is not registered for %v", fn.Key, kind)
	}
	*list = slices.Delete(*list, i, i+1)
	return nil
}
