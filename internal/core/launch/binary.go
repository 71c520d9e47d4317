package launch

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/readfile"
)

// description is a result of aclrtCreateBinary.
type description struct {
	data Addr
	size uint64
}

// Addr is an address of the program.
type Addr = core.Addr

// binary is a loaded binary.
type binary struct {
	handle  core.Handle    // immutable once it is set
	name    string         // immutable; for messages
	stand   string         // immutable; file that stands in for the program's binary, or ""
	image   []byte         // immutable
	table   *kernel.Table  // immutable
	options kernel.Options // immutable; options of reading it
	lazy    bool           // immutable; its code is loaded on a device when it is first used there
	old     bool           // immutable; from aclrtBinaryLoad: on one device, with lookup by name only
	sync    bool           // immutable; all kernels take the synchronisation address
	mode    int32          // immutable; CPU_KERNEL_MODE: see cpu.go
	folder  string         // immutable; folder of the list of an AI CPU binary

	mu        sync.Mutex
	functions map[*kernel.Kernel]*function // guarded by mu; functions that were looked up
	names     map[string]*kernel.Kernel    // guarded by mu; kernels that are not in the table
	on        map[*core.Device]*placed     // guarded by mu; devices on which functions were looked up
	gone      bool                         // guarded by mu; unloaded
	parts     map[string]*binary           // guarded by mu; shared objects of a list, by name
	callback  OpExceptionFunc              // guarded by mu; aclrtBinarySetExceptionCallback
	data      Addr                         // guarded by mu; for the callback
}

// placed is a binary on a device.
type placed struct {
	dev    *core.OpenDevice // changes if the device is closed and opened again
	module driver.Module    // nil: the code is not loaded yet
}

func newBinary(name string, image []byte) *binary {
	return &binary{name: name, image: image, mode: noCPU, functions: map[*kernel.Kernel]*function{},
		names: map[string]*kernel.Kernel{}, on: map[*core.Device]*placed{}}
}

// findBinary returns the binary of a handle.
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

// notDescribed refuses a handle that is not a description of a binary; the table leaves that undefined.
func notDescribed(api string, object core.Handle) *core.Error {
	return core.Invalid(api, "binary", "%#x is not from aclrtCreateBinary, or was destroyed",
		uintptr(object)).Because(core.Gone, uintptr(object))
}

// BinaryLoad is aclrtBinaryLoad, the older way: it needs a context, and loads the code on its device at once.
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
	if err := tooLong(api, "binary", o.size); err != nil {
		return err
	}
	image := core.Copy(t, o.data, o.size)
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

// mostBytes is the most bytes of a binary.
const mostBytes = 1 << 30

// tooLong refuses a length above mostBytes.
func tooLong(api, arg string, n uint64) *core.Error {
	if n <= mostBytes {
		return nil
	}
	return core.Refused(api, arg, "%d bytes are more than a binary may have, %d", n, mostBytes)
}

// options has the options of a load.
type options struct {
	lazy  bool
	magic uint32
	mode  int32 // CPU_KERNEL_MODE; noCPU: not given
}

// readOptions reads the options of a load. FromFile accepts no magic, and modes 0 and 1; FromData accepts mode 2.
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
	switch {
	case errors.Is(e, fs.ErrNotExist):
		return stateOf(t.Runtime).loadMissing(api, path, e, got.lazy, handle)
	case e != nil:
		return core.Refused(api, "binPath", "%s: %v", path, e)
	}
	image, e := readfile.Regular(real, mostBytes)
	switch {
	case e != nil:
		return core.Refused(api, "binPath", "%v", e)
	case len(image) == 0:
		return core.Refused(api, "binPath", "%s is empty", path)
	}
	var side kernel.Side
	if text, e := readfile.Regular(kernel.SideName(real, ".json"), readfile.Text); e == nil {
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
	if err := tooLong(api, "length", length); err != nil {
		return err
	}
	image := core.Copy(t, data, length)
	if got.mode != noCPU {
		return stateOf(t.Runtime).loadCPUData(api, image, handle)
	}
	b := newBinary("kernel", image)
	b.lazy = got.lazy
	return stateOf(t.Runtime).load(api, "data", b, got.magic, "", handle)
}

// load loads a binary in the newer way and returns its handle to the program.
func (s *state) load(api, arg string, b *binary, magic uint32, path string, handle *core.Handle) *core.Error {
	if err := s.read(api, arg, b, magic, path); err != nil {
		return err
	}
	return s.add(api, b, handle)
}

// add creates the handle of a binary and returns it to the program.
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

// BinaryUnLoad is aclrtBinaryUnLoad. It does not wait: queued launches keep their code.
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
	t.Unloading(b.modules(), b.handles())
	core.Locked(&s.mu, func() {
		delete(s.loaded, b)
		maps.DeleteFunc(s.keys, func(_ Addr, f *function) bool { return f.b == b })
	})
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

// modules returns the binary's modules on devices.
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

// handles returns the handles that are freed with the binary.
func (b *binary) handles() []core.Resource {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []core.Resource{{Kind: core.BinaryHandle, Name: uintptr(b.handle)}}
	for _, f := range b.functions {
		list = append(list, core.Resource{Kind: core.FunctionHandle, Name: uintptr(f.handle)})
	}
	return list
}

// takeAway unloads the code from all devices. mu is held.
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

// place registers the binary on the device of c, and loads its code there if code is set.
func (b *binary) place(api string, c *core.Context, code bool) (*placed, *core.Error) {
	dev := c.Device.Opened.Load()
	if dev == nil { // the device was reset since
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

// here returns the binary on the device of c, or nil if no function of it was looked up there.
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

// OpExceptionFunc is called when a kernel has failed; info is valid until it returns.
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
