package core

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"ropeway/internal/abi"
)

// initState is what aclInit and aclFinalize have done.
type initState struct {
	calls sync.Mutex // held while aclInit or a finalize runs, callbacks included: those must not call either

	mu        sync.Mutex
	count     uint64               // guarded by mu; aclInit minus aclFinalizeReference
	finalized bool                 // guarded by mu; the last thing done was to finalize
	text      string               // guarded by mu; configuration of the first time
	known     bool                 // guarded by mu; there was a first time
	graphs    bool                 // guarded by mu; a configuration set acl_graph.event_mode
	inits     []hook[InitFunc]     // guarded by mu; in order of registration
	finalizes []hook[FinalizeFunc] // guarded by mu; in order of registration
}

// InitFunc is an aclInitCallbackFunc; config is the text of the configuration file.
type InitFunc = func(config string, userData Addr) abi.Code

// FinalizeFunc is an aclFinalizeCallbackFunc.
type FinalizeFunc = func(userData Addr) abi.Code

// hook is a registered callback.
type hook[F any] struct {
	kind     abi.RegisterCallbackType
	fn       Func[F]
	userData Addr
}

// Init is aclInit. configPath names a JSON file; NULL and "" mean no configuration.
func (t *Thread) Init(configPath *byte) *Error {
	const api = "aclInit"
	in := &t.rt.init
	in.calls.Lock()
	defer in.calls.Unlock()

	if in.again() {
		return fail(api, abi.ErrRepeatInitialize, "", "the library is initialised already; only the reference count has grown")
	}
	path := cString(configPath)
	text, err := readConfig(api, path)
	if err != nil {
		return err
	}
	if in.differs(text) {
		return invalid(api, "configPath", "the configuration differs from that of the first aclInit in this process, which stays in force")
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
	if err := t.runInits(text, only(abi.RegTypeAclModel)); err != nil {
		return err
	}
	if err := conf.checkDump(); err != nil {
		return err
	}
	if path != "" {
		if err := t.runInits(text, only(abi.RegTypeAclOpExecutor)); err != nil {
			return err
		}
	}
	if err := conf.checkRest(t); err != nil {
		return err
	}
	t.rt.configure(conf)
	if err := t.runInits(text, isLate); err != nil {
		return err
	}
	in.done(text, conf)
	t.logInfo(api, "the library is initialised", slog.String("config", path))
	return nil
}

// isLate tells whether callbacks of a type run at the end of aclInit. The sources name DVPP and OTHER; the rest has to
// run at some time too.
func isLate(kind abi.RegisterCallbackType) bool {
	return kind != abi.RegTypeAclModel && kind != abi.RegTypeAclOpExecutor
}

// only picks one type.
func only(kind abi.RegisterCallbackType) func(abi.RegisterCallbackType) bool {
	return func(k abi.RegisterCallbackType) bool { return k == kind }
}

// readConfig is the content of the configuration file; "" without a path.
func readConfig(api, path string) (string, *Error) {
	if path == "" {
		return "", nil
	}
	text, err := readFile(path)
	if err != nil {
		e := fail(api, abi.ErrInvalidFile, "configPath", "cannot be read")
		e.Err = err
		return "", e
	}
	return text, nil
}

// readFile reads a file that a person has written: not a device, and not without end.
func readFile(path string) (string, error) {
	const most = 16 << 20
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is no file", path)
	case info.Size() > most:
		return "", fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), most)
	}
	data, err := os.ReadFile(path)
	return string(data), err
}

// again counts an aclInit of a library that is initialised; false if it is not.
func (in *initState) again() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.count > 0 {
		in.count++
	}
	return in.count > 0
}

// differs tells whether an earlier initialisation had another configuration.
func (in *initState) differs(text string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.known && in.text != text
}

// done notes that the library is initialised.
func (in *initState) done(text string, conf *initConfig) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.count, in.finalized = 1, false
	in.text, in.known = text, true
	in.graphs = in.graphs || conf.eventMode >= 0
}

// runInits runs the init callbacks of the types picked, by type and then in order of registration, until one fails.
func (t *Thread) runInits(text string, pick func(abi.RegisterCallbackType) bool) *Error {
	in := &t.rt.init
	var hooks []hook[InitFunc]
	locked(&in.mu, func() { hooks = slices.Clone(in.inits) })
	slices.SortStableFunc(hooks, func(a, b hook[InitFunc]) int { return int(a.kind) - int(b.kind) })
	for _, h := range hooks {
		if !pick(h.kind) {
			continue
		}
		if code := h.fn.Call(text, h.userData); code != abi.Success {
			return fail("aclInit", code, "", "an init callback of type %v failed", h.kind)
		}
	}
	return nil
}

// Finalize is aclFinalize.
func (t *Thread) Finalize() *Error {
	const api = "aclFinalize"
	in := &t.rt.init
	in.calls.Lock()
	defer in.calls.Unlock()
	var finalized bool
	locked(&in.mu, func() { finalized = in.finalized })
	if finalized {
		return finalizedAlready(api)
	}
	return t.finalize(api)
}

// FinalizeReference is aclFinalizeReference.
func (t *Thread) FinalizeReference(refCount *uint64) *Error {
	const api = "aclFinalizeReference"
	in := &t.rt.init
	in.calls.Lock()
	defer in.calls.Unlock()
	var left uint64
	last, none := false, false
	locked(&in.mu, func() {
		last, none = in.count == 1, in.count == 0
		if in.count > 1 {
			in.count--
		}
		left = in.count
	})
	var err *Error
	switch {
	case none:
		err = finalizedAlready(api)
	case last:
		if err = t.finalize(api); err == nil {
			left = 0
		}
	}
	if refCount != nil {
		*refCount = left
	}
	return err
}

func finalizedAlready(api string) *Error {
	return fail(api, abi.ErrRepeatFinalize, "", "the library is not initialised; each aclInit is finalized once")
}

// finalize runs the finalize callbacks, in order of registration, and takes aclInit's settings back. If a callback
// fails nothing has changed. in.calls is held.
func (t *Thread) finalize(api string) *Error {
	if w := t.rt.watch; w != nil {
		w.Ending(t)
	}
	in := &t.rt.init
	var hooks []hook[FinalizeFunc]
	locked(&in.mu, func() { hooks = slices.Clone(in.finalizes) })
	for _, h := range hooks {
		if code := h.fn.Call(h.userData); code != abi.Success {
			return fail(api, code, "", "a finalize callback of type %v failed; the library stays initialised", h.kind)
		}
	}
	t.rt.finalize()
	t.rt.defaultDevice.Store(0)
	t.rt.process.texts.Store(false)
	locked(&in.mu, func() { in.count, in.finalized = 0, true })
	t.logInfo(api, "the library is finalised")
	return nil
}

// InitCallbackRegister is aclInitCallbackRegister. If the library is initialised cb is called at once, and what it
// returns does not matter.
func (t *Thread) InitCallbackRegister(kind abi.RegisterCallbackType, cb Func[InitFunc], userData Addr) *Error {
	const api = "aclInitCallbackRegister"
	in := &t.rt.init
	if err := addHook(api, in, &in.inits, hook[InitFunc]{kind, cb, userData}); err != nil {
		return err
	}
	var text string
	running := false
	locked(&in.mu, func() { text, running = in.text, in.count > 0 })
	if running {
		cb.Call(text, userData)
	}
	return nil
}

// InitCallbackUnRegister is aclInitCallbackUnRegister.
func (t *Thread) InitCallbackUnRegister(kind abi.RegisterCallbackType, cb Func[InitFunc]) *Error {
	in := &t.rt.init
	return removeHook("aclInitCallbackUnRegister", in, &in.inits, kind, cb)
}

// FinalizeCallbackRegister is aclFinalizeCallbackRegister.
func (t *Thread) FinalizeCallbackRegister(kind abi.RegisterCallbackType, cb Func[FinalizeFunc], userData Addr) *Error {
	in := &t.rt.init
	return addHook("aclFinalizeCallbackRegister", in, &in.finalizes, hook[FinalizeFunc]{kind, cb, userData})
}

// FinalizeCallbackUnRegister is aclFinalizeCallbackUnRegister.
func (t *Thread) FinalizeCallbackUnRegister(kind abi.RegisterCallbackType, cb Func[FinalizeFunc]) *Error {
	in := &t.rt.init
	return removeHook("aclFinalizeCallbackUnRegister", in, &in.finalizes, kind, cb)
}

// addHook adds a callback to a list of in. Only ACL_REG_TYPE_OTHER may have several.
func addHook[F any](api string, in *initState, list *[]hook[F], h hook[F]) *Error {
	if h.fn.Key == 0 {
		return isNull(api, "cbFunc")
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if h.kind != abi.RegTypeOther && slices.ContainsFunc(*list, func(o hook[F]) bool { return o.kind == h.kind }) {
		return fail(api, abi.ErrInternalError, "type", "%v has a callback already; unregister that first", h.kind)
	}
	*list = append(*list, h)
	return nil
}

// removeHook takes the first registration of a callback under a type out of a list of in.
func removeHook[F any](api string, in *initState, list *[]hook[F], kind abi.RegisterCallbackType, fn Func[F]) *Error {
	if fn.Key == 0 {
		return isNull(api, "cbFunc")
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.IndexFunc(*list, func(h hook[F]) bool { return h.kind == kind && h.fn.Key == fn.Key })
	if i < 0 {
		return fail(api, abi.ErrInternalError, "cbFunc", "%#x is not registered for %v", fn.Key, kind)
	}
	*list = slices.Delete(*list, i, i+1)
	return nil
}
