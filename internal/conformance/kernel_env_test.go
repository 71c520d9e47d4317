package conformance

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/kernel/kerneltest"
)

// kernelSource has the kernels of these tests. put has meta data: two parameters, of 8 and 4 bytes, and SIMT
// functions; fat uses all of the unified buffer, idle does nothing, duo is a mix, and bare is a SIMT kernel that does
// not say its parameters.
const kernelSource = kerneltest.Source + `
#define META(name, ub0, ub1, ub2) __attribute__((section(".ascend.meta." #name), used)) \
	static const unsigned char meta_##name[] = { \
	16,0,12,0, 2,0,0,0, 12,0,0,0,0,0,0,0, \
	17,0,36,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 8,0,0,0, 8,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0, \
	17,0,36,0, 1,0,0,0, 1,0,0,0, 8,0,0,0, 4,0,0,0, 4,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0, \
	7,0,4,0, ub0,ub1,ub2,0, 12,0,4,0, 3,0,0,0 };
META(put, 0, 1, 0)
META(fat, 1, 128, 3)
void put(uint32_t *p, uint32_t v) { __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }
void fat(uint32_t *p, uint32_t v) { }
META(idle, 0, 0, 0)
void idle(void) { }
META(duo_mix_aic, 0, 0, 0)
void duo_mix_aic(uint32_t *p) { __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST); }
void duo_mix_aiv(uint32_t *p) { __atomic_fetch_add(p, 256, __ATOMIC_SEQ_CST); }
__attribute__((section(".ascend.meta.bare"), used)) static const unsigned char meta_bare[] = {12,0,4,0, 3,0,0,0};
void bare(void) { }
`

// launches prepares e for kernels; only software devices run shared objects.
func (e *env) launches() *env {
	e.Helper()
	if onGPU {
		e.Skip("a GPU runs no shared objects")
	}
	kerneltest.Support(e.T)
	return e
}

// binary loads C source.
func (e *env) binary(source string) (h core.Handle) {
	e.Helper()
	image := kerneltest.Compile(e.launches().T, source)
	e.ok(launch.BinaryLoadFromData(e.th, core.AddrOf(image), uint64(len(image)), nil, &h))
	return h
}

func ctext(s string) *byte { return &append([]byte(s), 0)[0] }

// kernel is a function of kernelSource.
func (e *env) kernel(name string) (f core.Handle) {
	e.Helper()
	e.ok(launch.BinaryGetFunction(e.th, e.binary(kernelSource), ctext(name), &f))
	return f
}

// words is device memory with n words of a value.
func (e *env) words(n uint64, value uint32) (p core.Addr) {
	e.Helper()
	e.ok(memory.Malloc(e.th, &p, 4*n, abi.MemMallocHugeFirst))
	b := make([]byte, 0, 4*n)
	for range n {
		b = binary.LittleEndian.AppendUint32(b, value)
	}
	e.ok(transfer.Memcpy(e.th, p, 4*n, core.AddrOf(b), 4*n, abi.MemcpyHostToDevice))
	return p
}

// number is the first word of device memory, when the default stream is done.
func (e *env) number(p core.Addr) uint32 {
	e.Helper()
	e.ok(e.th.SynchronizeDevice())
	return binary.LittleEndian.Uint32(e.read(p, 4))
}

// launchArgs are the arguments of a launch, whatever its form. The zero value is no good call; goodLaunch makes one.
type launchArgs struct {
	th          *core.Thread
	f           core.Handle
	blocks      uint32
	stream      core.Handle
	cfg         *abi.LaunchKernelCfg
	target      uint64 // first parameter
	value       uint32 // second
	array       []core.Addr
	noArray     bool
	builder     core.Handle
	places      *abi.PlaceHolderInfo
	placeNum    uint64
	size        uint64
	grid, block abi.Dim3
	dynamic     uint64
	kept        []byte
	device      core.Addr // the parameters, in device memory
}

// launchForm is a form of a launch.
type launchForm struct {
	function string
	product  string // where it is good
	call     func(e *env, a *launchArgs) *core.Error
}

func (a *launchArgs) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(nil, a.target)
	return binary.LittleEndian.AppendUint32(b, a.value)
}

var (
	formPlain = launchForm{"aclrtLaunchKernel", "A2", func(e *env, a *launchArgs) *core.Error {
		return launch.LaunchKernel(a.th, a.f, a.blocks, a.device, 12, a.stream)
	}}
	formV2 = launchForm{"aclrtLaunchKernelV2", "A2", func(e *env, a *launchArgs) *core.Error {
		return launch.LaunchKernelV2(a.th, a.f, a.blocks, a.device, 12, a.cfg, a.stream)
	}}
	formConfig = launchForm{"aclrtLaunchKernelWithConfig", "A2", func(e *env, a *launchArgs) *core.Error {
		return launch.LaunchKernelWithConfig(a.th, a.f, a.blocks, a.stream, a.cfg, a.builder, 0)
	}}
	formHost = launchForm{"aclrtLaunchKernelWithHostArgs", "A2", func(e *env, a *launchArgs) *core.Error {
		a.kept = a.bytes()
		return launch.LaunchKernelWithHostArgs(a.th, a.f, a.blocks, a.stream, a.cfg, core.AddrOf(a.kept), a.size,
			a.places, a.placeNum)
	}}
	formArray = launchForm{"aclrtLaunchKernelWithArgsArray", "A2", func(e *env, a *launchArgs) *core.Error {
		return launch.LaunchKernelWithArgsArray(a.th, core.Addr(a.f), a.blocks, a.stream, a.cfg, a.list())
	}}
	formSIMTArray = launchForm{"aclrtLaunchSIMTKernelWithArgsArray", "950", func(e *env, a *launchArgs) *core.Error {
		return launch.LaunchSIMTKernelWithArgsArray(a.th, core.Addr(a.f), a.grid, a.block, a.dynamic, a.stream, a.cfg,
			a.list())
	}}
	formSIMTHost = launchForm{"aclrtLaunchSIMTKernelWithHostArgs", "950", func(e *env, a *launchArgs) *core.Error {
		a.kept = a.bytes()
		return launch.LaunchSIMTKernelWithHostArgs(a.th, core.Addr(a.f), a.grid, a.block, a.dynamic, a.stream, a.cfg,
			core.AddrOf(a.kept), a.size, a.places, a.placeNum)
	}}
)

var launchForms = []launchForm{formPlain, formV2, formConfig, formHost, formArray, formSIMTArray, formSIMTHost}

func (a *launchArgs) list() *core.Addr {
	if a.noArray {
		return nil
	}
	return &a.array[0]
}

// goodLaunch is a call of put that nothing refuses.
func goodLaunch(e *env) *launchArgs {
	e.Helper()
	a := &launchArgs{
		th: e.th, f: e.kernel("put"), blocks: 1, target: uint64(e.words(1, 0)), value: 1, size: 12,
		grid: abi.Dim3{X: 1, Y: 1, Z: 1}, block: abi.Dim3{X: 1, Y: 1, Z: 1},
	}
	a.array = []core.Addr{core.Addr(unsafe.Pointer(&a.target)), core.Addr(unsafe.Pointer(&a.value))}
	a.builder = built(e, a.f, a.bytes())
	a.device = e.words(3, 0)
	b := a.bytes()
	e.ok(transfer.Memcpy(e.th, a.device, 12, core.AddrOf(b), 12, abi.MemcpyHostToDevice))
	return a
}

// built is a builder with one parameter, final.
func built(e *env, f core.Handle, args []byte) (h core.Handle) {
	e.Helper()
	var p core.Handle
	e.ok(launch.KernelArgsInit(e.th, f, &h))
	e.ok(launch.KernelArgsAppend(e.th, h, core.AddrOf(args), uint64(len(args)), &p))
	e.ok(launch.KernelArgsFinalize(e.th, h))
	return h
}

// launchAttrs is a configuration: pairs of an id and a number.
func launchAttrs(e *env, pairs ...uint32) *abi.LaunchKernelCfg {
	list := make([]abi.LaunchKernelAttr, len(pairs)/2)
	for i := range list {
		list[i].ID = abi.LaunchKernelAttrId(pairs[2*i])
		binary.LittleEndian.PutUint32(list[i].Value.Raw[:], pairs[2*i+1])
	}
	e.Cleanup(func() { _ = list[0] })
	return &abi.LaunchKernelCfg{Attrs: uintptr(unsafe.Pointer(&list[0])), NumAttrs: uint64(len(list))}
}

// launchRule is a proof of a rule for a form of a launch.
type launchRule func(e *env, f launchForm) *core.Error

// by makes the proof of a rule for a form.
func (f launchForm) by(rule launchRule) proof { return func(e *env) *core.Error { return rule(e, f) } }

// change is a rule that one changed argument breaks, and nothing else.
func change(how func(e *env, a *launchArgs)) launchRule { return changeOn("", how) }

// changeOn is change on a product.
func changeOn(product string, how func(e *env, a *launchArgs)) launchRule {
	return func(e *env, f launchForm) *core.Error {
		p := product
		if p == "" {
			p = f.product
		}
		o := e.on(machine{product: p}).launches()
		a := goodLaunch(o)
		how(o, a)
		return f.call(o, a)
	}
}

var (
	mix310PBare = changeOn("310P", func(e *env, a *launchArgs) { a.f = e.kernel("duo"); a.cfg = nil })
	mix310PHalf = changeOn("310P", func(e *env, a *launchArgs) {
		a.f = e.kernel("duo")
		a.cfg = launchAttrs(e, 3, 0, 1,
			0, 77, 0)
	})
	noAttributes = change(func(e *env, a *launchArgs) { a.cfg = &abi.LaunchKernelCfg{} })
	twoTimeouts  = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 7, 1, 8, 1, 1, 9) })
	badMode      = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 1, 0, 1, 2, 5, 3) })
	badPrefetch  = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 5, 2, 6, 3) })
	badDumping   = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 6, 2, 9, 3) })
	badProfile   = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 9, 2, 77, 0) })
	badAttr      = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 10, 0); a.th = e.stranger() })
	badAttrHere  = change(func(e *env, a *launchArgs) { a.cfg = launchAttrs(e, 10, 0) })
	noParamData  = change(func(e *env,
		a *launchArgs) {
		a.f = e.kernel("times")
		a.noArray = true
		a.cfg = &abi.LaunchKernelCfg{}
	})
	noSIMTData  = change(func(e *env, a *launchArgs) { a.f = e.kernel("bare"); a.grid.X, a.size = 0, 1<<32 })
	noSIMT      = change(func(e *env, a *launchArgs) { a.f = e.kernel("times"); a.grid.X = 0 })
	noFunction  = change(func(e *env, a *launchArgs) { a.f = garbage; a.cfg = &abi.LaunchKernelCfg{} })
	nullElement = change(func(e *env, a *launchArgs) { a.array[1] = 0 })
	elementOf   = func(product string) launchRule {
		return changeOn(product, func(e *env, a *launchArgs) { a.array[1] = 0 })
	}
	noArgs  = change(func(e *env, a *launchArgs) { a.noArray = true; a.cfg = &abi.LaunchKernelCfg{} })
	noGrid  = change(func(e *env, a *launchArgs) { a.grid.Y = 0; a.block.Z = 0 })
	noBlock = change(func(e *env, a *launchArgs) { a.block.Z = 0; a.noArray, a.placeNum = true, 1 })
	wrapped = change(func(e *env, a *launchArgs) {
		a.grid = abi.Dim3{X: 1 << 16, Y: 1 << 16, Z: 1}
		a.cfg = &abi.LaunchKernelCfg{}
	})
	noLowSize = change(func(e *env, a *launchArgs) { a.size = 1 << 32; a.grid.X = 0 })
	noPlaces  = change(func(e *env, a *launchArgs) {
		a.placeNum = 1
		a.blocks = 0
		a.grid = abi.Dim3{X: 1 << 16, Y: 1 << 16, Z: 1}
	})
	badPlace = change(func(e *env, a *launchArgs) {
		a.places, a.placeNum, a.blocks = &abi.PlaceHolderInfo{AddrOffset: 0, DataOffset: 12}, 1, 0
		a.grid = abi.Dim3{X: 1 << 16, Y: 1 << 16, Z: 1}
	})
	unfinished = change(func(e *env, a *launchArgs) {
		var p core.Handle
		e.ok(launch.KernelArgsInit(e.th, a.f, &a.builder))
		e.ok(launch.KernelArgsAppend(e.th, a.builder, core.Addr(unsafe.Pointer(&a.target)), 8, &p))
		a.cfg = &abi.LaunchKernelCfg{}
	})
	// A binary of which no function was looked up since the device was reset.
	notHere = func(e *env, f launchForm) *core.Error {
		o := e.on(machine{product: f.product}).launches()
		a := goodLaunch(o)
		o.ok(o.th.ResetDevice(0))
		o.ok(o.th.SetDevice(0))
		a.stream = 0
		return f.call(o, a)
	}
	// A binary that is read but cannot be loaded: it wants a function that nothing has.
	notLoaded = func(e *env, f launchForm) *core.Error {
		o := e.on(machine{product: f.product}).launches()
		a := goodLaunch(o)
		a.f = lazy(o, unloadable)
		err := f.call(o, a)
		if err == nil {
			o.Fatal("a binary that cannot be loaded is launched")
		}
		return err
	}
	symbolNotLoaded = func(e *env, f launchForm) *core.Error {
		o := e.on(machine{product: f.product}).launches()
		a := goodLaunch(o)
		var symbol byte
		o.ok(launch.RegisterFuncSymbol(o.th, o.binary(unloadable), core.Addr(unsafe.Pointer(&symbol)), ctext("put"), 0))
		a.f = core.Handle(unsafe.Pointer(&symbol))
		err := f.call(o, a)
		if err == nil {
			o.Fatal("a binary that cannot be loaded is launched")
		}
		return err
	}
	// noHostMemory is a launch when the program has taken all pinned memory; with some it works.
	noHostMemory = func(e *env, f launchForm) *core.Error {
		o := e.on(machine{product: f.product}).launches()
		a := goodLaunch(o)
		var taken []core.Addr
		for size := uint64(64 << 30); size >= 4096; {
			var p core.Addr
			if memory.MallocHost(o.th, &p, size) != nil {
				size /= 2
				continue
			}
			taken = append(taken, p)
		}
		err := f.call(o, a)
		for _, p := range taken {
			o.ok(memory.FreeHost(o.th, p))
		}
		o.ok(f.call(o, a))
		if got := o.number(core.Addr(a.target)); got != 1 {
			o.Errorf("the kernel ran %d times, want 1", got)
		}
		return err
	}
	bigBuffer = changeOn("950", func(e *env, a *launchArgs) { a.f = e.kernel("fat"); a.cfg = nil })
	abortOn   = func(product string) launchRule {
		return func(e *env, f launchForm) *core.Error {
			o := e.on(machine{product: product}).launches()
			a := goodLaunch(o)
			return o.whileAborting(func() *core.Error { return f.call(o, a) })
		}
	}
	// A context that stops on failures, after one.
	stoppedOn = func(product string) launchRule {
		return func(e *env, f launchForm) *core.Error {
			o := e.on(machine{product: product}).launches()
			a := goodLaunch(o)
			stopAfterFailure(o)
			err := f.call(o, a)
			o.want(err, abi.ErrRTAicoreException)
			return err
		}
	}
)

// unloadable has the kernel put, as kernelSource does, and cannot be loaded.
const unloadable = kernelSource + "void nothing_has_this(void);\nvoid needs(void) { nothing_has_this(); }\n"

// lazy is the function put of a binary whose code goes to a device when it is launched.
func lazy(e *env, source string) (f core.Handle) {
	e.Helper()
	image := kerneltest.Compile(e.T, source)
	option := abi.BinaryLoadOption{Type: abi.BinaryLoadOptLazyLoad}
	*option.Value.IsLazyLoad() = 1
	var h core.Handle
	e.ok(launch.BinaryLoadFromData(e.th, core.AddrOf(image), uint64(len(image)),
		&abi.BinaryLoadOptions{Options: uintptr(unsafe.Pointer(&option)), NumOpt: 1}, &h))
	e.ok(launch.BinaryGetFunction(e.th, h, ctext("put"), &f))
	return f
}

// stopAfterFailure makes the context stop on failures and lets a kernel fail.
func stopAfterFailure(e *env) {
	e.Helper()
	s := e.stream()
	e.ok(e.th.SetStreamFailureMode(s, uint64(abi.StopOnFailure)))
	args := make([]byte, 8)
	args[0] = 64
	e.ok(launch.LaunchKernelWithHostArgs(e.th, e.kernel("wild"), 1, s, nil, core.AddrOf(args), 8, nil, 0))
	e.want(e.th.SynchronizeStream(s), abi.ErrRTAicoreException)
}

// unloadKernel unloads the binary of a function.
func unloadKernel(t *core.Thread, f core.Handle) *core.Error {
	var b core.Handle
	if err := launch.FunctionGetBinary(t, f, &b); err != nil {
		return err
	}
	return launch.BinaryUnLoad(t, b)
}

var (
	argThreadsMu sync.Mutex
	argThreads   = map[core.Handle]*core.Thread{} // guarded by argThreadsMu; whose builders tests have
)

// argsOfThread is a final builder of a thread of its own, with the arguments 0 and 0 of times.
func argsOfThread(e *env) core.Handle {
	e.Helper()
	o := *e
	o.th = e.rt.NewThread(7)
	e.ok(o.th.SetDevice(0))
	h := built(&o, o.kernel("times"), make([]byte, 16))
	argThreadsMu.Lock()
	defer argThreadsMu.Unlock()
	argThreads[h] = o.th
	return h
}

// endArgs ends the thread of a builder.
func endArgs(_ *core.Thread, h core.Handle) *core.Error {
	argThreadsMu.Lock()
	th := argThreads[h]
	delete(argThreads, h)
	argThreadsMu.Unlock()
	if th != nil {
		th.Close()
	}
	return nil
}
