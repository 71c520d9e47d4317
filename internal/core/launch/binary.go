package launch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// description is what aclrtCreateBinary makes.
type description struct {
	data Addr
	size uint64
}

// Addr is an address of the program.
type Addr = core.Addr

// binary is a loaded binary.
type binary struct {
	handle  core.Handle    // immutable once it is known
	name    string         // immutable; for people
	stand   string         // immutable; the file that stands in for the program's binary; "": none does
	image   []byte         // immutable
	table   *kernel.Table  // immutable
	options kernel.Options // immutable; with which it was read
	lazy    bool           // immutable; its code goes to a device when it is used there
	old     bool           // immutable; of aclrtBinaryLoad: on one device, found by names only
	sync    bool           // immutable; all kernels take the synchronisation address
	mode    int32          // immutable; CPU_KERNEL_MODE: see cpu.go
	folder  string         // immutable; where the list of an AI CPU binary is

	mu        sync.Mutex
	functions map[*kernel.Kernel]*function // guarded by mu; those that were looked up
	names     map[string]*kernel.Kernel    // guarded by mu; kernels that are not in the table
	on        map[*core.Device]*placed     // guarded by mu; where functions were looked up
	gone      bool                         // guarded by mu; unloaded
	parts     map[string]*binary           // guarded by mu; shared objects of a list, by name
	callback  OpExceptionFunc              // guarded by mu; aclrtBinarySetExceptionCallback
	data      Addr                         // guarded by mu; for the callback
}

// placed is a binary on a device.
type placed struct {
	dev    *core.OpenDevice // another if the device was closed and opened again
	module driver.Module    // nil: the code is not there yet
}

func newBinary(name string, image []byte) *binary {
	return &binary{name: name, image: image, mode: noCPU, functions: map[*kernel.Kernel]*function{},
		names: map[string]*kernel.Kernel{}, on: map[*core.Device]*placed{}}
}

// findBinary finds the binary that a handle names.
func findBinary(t *core.Thread, api, arg string, h core.Handle) (*binary, *core.Error) {
	if b := stateOf(t.Runtime).binaries.Get(h); b != nil {
		return b, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no binary, or one that was unloaded",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// CreateBinary is aclrtCreateBinary.
func CreateBinary(t *core.Thread, data Addr, dataLen uint64) core.Handle {
	if data == 0 {
		return 0
	}
	return stateOf(t.Runtime).objects.Add(&description{data, dataLen})
}

// DestroyBinary is aclrtDestroyBinary.
func DestroyBinary(t *core.Thread, object core.Handle) *core.Error {
	if err := checkDestroyBinary(t, object); err != nil {
		return err
	}
	if stateOf(t.Runtime).objects.Remove(object) == nil {
		return notDescribed("aclrtDestroyBinary", object)
	}
	return nil
}

// notDescribed refuses what is no description of a binary, which the table leaves undefined.
func notDescribed(api string, object core.Handle) *core.Error {
	return core.Invalid(api, "binary", "%#x is not from aclrtCreateBinary, or was destroyed",
		uintptr(object)).Because(core.Gone, uintptr(object))
}

// BinaryLoad is aclrtBinaryLoad, the older way: it needs a context, and the code goes to its device at once.
func BinaryLoad(t *core.Thread, object core.Handle, handle *core.Handle) *core.Error {
	const api = "aclrtBinaryLoad"
	if err := checkBinaryLoad(t, object, handle); err != nil {
		return err
	}
	o := stateOf(t.Runtime).objects.Get(object)
	if o == nil {
		return notDescribed(api, object)
	}
	if o.size == 0 {
		return core.Refused(api, "binary", "has length 0")
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	image := bytes.Clone(core.ArrayOf(t, core.Pointer[byte](o.data), o.size))
	s := stateOf(t.Runtime)
	b := newBinary("kernel", image)
	b.old = true
	if err := s.read(api, "binary", b, 0, ""); err != nil {
		return err
	}
	if _, err := b.place(api, c, true); err != nil {
		return err
	}
	return s.add(api, b, handle)
}

// options are those of a load.
type options struct {
	lazy  bool
	magic uint32
	mode  int32 // CPU_KERNEL_MODE; noCPU: not given
}

// readOptions reads the options of a load. FromFile takes no magic, and modes 0 and 1; FromData takes mode 2.
func readOptions(t *core.Thread, api string, o *abi.BinaryLoadOptions, file bool) (options, *core.Error) {
	got := options{mode: noCPU}
	if o == nil {
		return got, nil
	}
	if o.Options == 0 {
		return got, core.Refused(api, "options", "has no list")
	}
	for i, x := range core.ArrayOf(t, core.Pointer[abi.BinaryLoadOption](o.Options), o.NumOpt) {
		value := *x.Value.Magic()
		switch x.Type {
		case abi.BinaryLoadOptLazyLoad:
			if value > 1 {
				return got, core.Refused(api, "options", "LAZY_LOAD is %d, not 0 or 1", value).At(i)
			}
			got.lazy = value == 1
		case abi.BinaryLoadOptMagic:
			if file {
				return got, core.Refused(api, "options", "MAGIC is for aclrtBinaryLoadFromData").At(i)
			}
			if value != kernel.MagicELF && value != kernel.MagicAICube && value != kernel.MagicAIVec {
				return got, core.Refused(api, "options", "MAGIC %#x is not known", value).At(i)
			}
			got.magic = value
		case abi.BinaryLoadOptCpuKernelMode:
			mode := int32(value)
			if file && mode != 0 && mode != 1 || !file && mode != 2 {
				return got, core.Refused(api, "options", "CPU_KERNEL_MODE %d is not for this call", mode).At(i)
			}
			got.mode = mode
		default:
			return got, core.Refused(api, "options", "type %d is not known", x.Type).At(i)
		}
	}
	return got, nil
}

// BinaryLoadFromFile is aclrtBinaryLoadFromFile.
func BinaryLoadFromFile(t *core.Thread, binPath *byte, o *abi.BinaryLoadOptions, handle *core.Handle) *core.Error {
	const api = "aclrtBinaryLoadFromFile"
	if err := checkBinaryLoadFromFile(t, binPath, o, handle); err != nil {
		return err
	}
	got, err := readOptions(t, api, o, true)
	if err != nil {
		return err
	}
	*handle = 0
	path := core.CString(binPath)
	if got.mode != noCPU {
		return stateOf(t.Runtime).loadCPUFile(api, path, got.mode, handle)
	}
	real, e := filepath.EvalSymlinks(path)
	if e != nil {
		return core.Refused(api, "binPath", "%s: %v", path, e)
	}
	image, e := os.ReadFile(real)
	switch {
	case e != nil:
		return core.Refused(api, "binPath", "%v", e)
	case len(image) == 0:
		return core.Refused(api, "binPath", "%s is empty", path)
	}
	var side kernel.Side
	if text, e := os.ReadFile(kernel.SideName(real, ".json")); e == nil {
		if side, e = kernel.ReadSide(text); e != nil {
			return core.Refused(api, "binPath", "%s: %v", path, e)
		}
	}
	b := newBinary(filepath.Base(real), image)
	b.lazy, b.sync = got.lazy, side.Sync
	return stateOf(t.Runtime).load(api, "binPath", b, side.MagicNumber(), real, handle)
}

// BinaryLoadFromData is aclrtBinaryLoadFromData.
func BinaryLoadFromData(t *core.Thread, data Addr, length uint64, o *abi.BinaryLoadOptions,
	handle *core.Handle) *core.Error {
	const api = "aclrtBinaryLoadFromData"
	if err := checkBinaryLoadFromData(t, data, length, o, handle); err != nil {
		return err
	}
	got, err := readOptions(t, api, o, false)
	if err != nil {
		return err
	}
	*handle = 0
	image := core.ArrayOf(t, core.Pointer[byte](data), length)
	if got.mode != noCPU {
		return stateOf(t.Runtime).loadCPUData(api, image, handle)
	}
	image = bytes.Clone(image)
	b := newBinary("kernel", image)
	b.lazy = got.lazy
	return stateOf(t.Runtime).load(api, "data", b, got.magic, "", handle)
}

// load reads a binary in the newer way and gives it a handle.
func (s *state) load(api, arg string, b *binary, magic uint32, path string, handle *core.Handle) *core.Error {
	if err := s.read(api, arg, b, magic, path); err != nil {
		return err
	}
	return s.add(api, b, handle)
}

// add gives a binary its handle.
func (s *state) add(api string, b *binary, handle *core.Handle) *core.Error {
	if b.handle = s.binaries.Add(b); b.handle == 0 {
		if b.old {
			return core.Fail(api, abi.ErrRTProgramUseOut, "",
				"the process has as many binaries as there are handles; unload some")
		}
		return core.Refused(api, "", "the process has as many binaries as there are handles; unload some")
	}
	core.Locked(&s.mu, func() { s.loaded[b] = struct{}{} })
	*handle = b.handle
	return nil
}

// BinaryUnLoad is aclrtBinaryUnLoad. It does not wait: launches that are queued keep their code.
func BinaryUnLoad(t *core.Thread, handle core.Handle) *core.Error {
	const api = "aclrtBinaryUnLoad"
	b, err := checkBinaryUnLoad(t, handle)
	if err != nil {
		return err
	}
	if b.old && t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	s := stateOf(t.Runtime)
	if s.binaries.Remove(handle) == nil {
		return core.Fail(api, abi.ErrRTInvalidHandle, "binHandle", "%#x was unloaded by another thread meanwhile",
			uintptr(handle)).Because(core.Gone, uintptr(handle))
	}
	t.Unloading(b.modules())
	core.Locked(&s.mu, func() { delete(s.loaded, b) })
	kernel.Forget(b.image)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gone = true
	for _, f := range b.functions {
		s.functions.Remove(f.handle)
	}
	b.takeAway()
	return nil
}

// modules are what devices have of the binary.
func (b *binary) modules() (list []driver.Module) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.on {
		if p.module != nil {
			list = append(list, p.module)
		}
	}
	for _, part := range b.parts {
		list = append(list, part.modules()...)
	}
	return list
}

// takeAway takes the code away from all devices. mu is held.
func (b *binary) takeAway() {
	for _, p := range b.on {
		if p.module != nil {
			p.module.Unload()
		}
	}
	b.on = nil
	for _, part := range b.parts {
		core.Locked(&part.mu, func() {
			part.gone = true
			part.takeAway()
		})
	}
}

// place makes the binary known on the device of c, and puts its code there if code is set.
func (b *binary) place(api string, c *core.Context, code bool) (*placed, *core.Error) {
	dev := c.Device.Opened.Load()
	if dev == nil { // the device was reset meanwhile
		return nil, core.NoCurrentContext(api)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil, core.Fail(api, abi.ErrRTInvalidHandle, "", "the binary was unloaded meanwhile").Because(core.Gone,
			uintptr(b.handle))
	}
	p := b.on[c.Device]
	if p == nil || p.dev != dev {
		p = &placed{dev: dev}
		b.on[c.Device] = p
	}
	if !code || p.module != nil || b.mode == installed {
		return p, nil
	}
	m, err := stateOf(c.Runtime).launcher().LoadModule(int(c.Device.Phys), b.name, b.image)
	if err != nil {
		e := core.FromDriver(api, "", err)
		if errors.Is(err, kernel.ErrImage) {
			e.Code = abi.ErrRTParamInvalid
		}
		e.Text = "the binary cannot be put on device " + core.DeviceName(c.Device)
		return nil, e
	}
	p.module = m
	return p, nil
}

// here is the binary on the device of c, if a function of it was looked up there.
func (b *binary) here(c *core.Context) *placed {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.on[c.Device]; p != nil && p.dev == c.Device.Opened.Load() {
		return p
	}
	return nil
}

// BinaryGetDevAddress is aclrtBinaryGetDevAddress. The address is that of the first kernel by name: on a CPU, code
// has no place of its own in device memory.
func BinaryGetDevAddress(t *core.Thread, handle core.Handle, binAddr *Addr, binSize *uint64) *core.Error {
	const api = "aclrtBinaryGetDevAddress"
	b, c, err := checkBinaryGetDevAddress(t, handle, binAddr, binSize)
	if err != nil {
		return err
	}
	p, err := b.place(api, c, !b.lazy && !b.old)
	if err != nil {
		return err
	}
	*binAddr = 0
	if b.forCPU() {
		*binSize = b.table.Loaded
		return nil
	}
	if all := b.table.Kernels(); p.module != nil && len(all) > 0 {
		f := &function{b: b, k: all[0]}
		code, err := f.codeIn(api, p.module)
		if err != nil {
			return err
		}
		*binAddr = max(code[0], code[1])
	}
	*binSize = b.table.Loaded
	return nil
}

// OpExceptionFunc is a function that is called when a kernel has failed; info is good until it returns.
type OpExceptionFunc func(info, data Addr)

// BinarySetExceptionCallback is aclrtBinarySetExceptionCallback. The last call counts.
func BinarySetExceptionCallback(t *core.Thread, handle core.Handle, callback OpExceptionFunc,
	userData Addr) *core.Error {
	b, err := checkBinarySetExceptionCallback(t, handle, callback, userData)
	if err != nil {
		return err
	}
	core.Locked(&b.mu, func() { b.callback, b.data = callback, userData })
	return nil
}
