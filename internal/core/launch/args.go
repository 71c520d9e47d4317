package launch

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/kernel"
)

// builder builds the arguments of a launch. A thread has one; others are in memory of the program. One thread uses it
// at a time.
type builder struct {
	kernel.Builder
	handle core.Handle   // immutable; 0 if it is in memory of the program
	room   []byte        // buffer of a thread's builder
	params []core.Handle // handles of its parameters
}

// parameter is one entry of a builder.
type parameter struct {
	of *builder
	i  int
}

// start makes b an empty builder for f; handles of earlier parameters become invalid.
func (b *builder) start(s *state, f *function, buf []byte, most int) {
	for _, h := range b.params {
		s.params.Remove(h)
	}
	b.params = b.params[:0]
	k := f.k
	if f.b.sync && !k.Sync {
		with := *k
		with.Sync, k = true, &with
	}
	b.Start(k, buf, s.rt.Product.Name == "A2" || s.rt.Product.Name == "A3", most)
}

// findBuilder returns the builder of a handle or of an address of the program.
func findBuilder(t *core.Thread, api, arg string, h core.Handle) (*builder, *core.Error) {
	s := stateOf(t.Runtime)
	if b := s.builders.Get(h); b != nil {
		return b, nil
	}
	s.mu.Lock()
	b := s.ofUser[Addr(h)]
	s.mu.Unlock()
	if b != nil {
		return b, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, arg, "%#x is no argument builder",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

func findParam(t *core.Thread, api string, h core.Handle) (*parameter, *core.Error) {
	if p := stateOf(t.Runtime).params.Get(h); p != nil {
		return p, nil
	}
	return nil, core.Fail(api, abi.ErrRTInvalidHandle, "paramHandle",
		"%#x is no parameter, or one of a builder that was started over", uintptr(h)).Because(core.Gone, uintptr(h))
}

// KernelArgsInit is aclrtKernelArgsInit: it resets the builder of the thread.
func KernelArgsInit(t *core.Thread, funcHandle core.Handle, argsHandle *core.Handle) *core.Error {
	const api = "aclrtKernelArgsInit"
	f, err := checkKernelArgsInit(t, funcHandle, argsHandle)
	if err != nil {
		return err
	}
	s := stateOf(t.Runtime)
	s.mu.Lock()
	b := s.threads[t]
	if b == nil {
		b = &builder{room: make([]byte, kernel.BuilderBytes)}
		s.threads[t] = b
	}
	s.mu.Unlock()
	if b.handle == 0 {
		if b.handle = s.builders.Add(b); b.handle == 0 {
			return core.Fail(api, abi.ErrRTMemoryAllocation, "", "there are no handles left")
		}
	}
	b.start(s, f, b.room, kernel.MostParams())
	*argsHandle = b.handle
	return nil
}

// ThreadClosed implements core.ThreadCloser: it removes the builder of the thread.
func (s *state) ThreadClosed(t *core.Thread) {
	s.mu.Lock()
	b := s.threads[t]
	delete(s.threads, t)
	s.mu.Unlock()
	if b != nil {
		s.builders.Remove(b.handle)
		for _, h := range b.params {
			s.params.Remove(h)
		}
	}
}

// KernelArgsInitByUserMem is aclrtKernelArgsInitByUserMem: the handle is the address of the caller's memory.
func KernelArgsInitByUserMem(t *core.Thread, funcHandle, argsHandle core.Handle, userHostMem Addr,
	actualArgsSize uint64) *core.Error {
	f, err := checkKernelArgsInitByUserMem(t, funcHandle, argsHandle, userHostMem, actualArgsSize)
	if err != nil {
		return err
	}
	s := stateOf(t.Runtime)
	s.mu.Lock()
	b := s.ofUser[Addr(argsHandle)]
	if b == nil {
		b = &builder{}
		s.ofUser[Addr(argsHandle)] = b
	}
	s.mu.Unlock()
	b.start(s, f, core.Array(core.Pointer[byte](userHostMem), actualArgsSize), f.k.Takes)
	return nil
}

// KernelArgsGetMemSize is aclrtKernelArgsGetMemSize.
func KernelArgsGetMemSize(t *core.Thread, funcHandle core.Handle, userArgsSize uint64,
	actualArgsSize *uint64) *core.Error {
	f, err := checkKernelArgsGetMemSize(t, funcHandle, userArgsSize, actualArgsSize)
	if err != nil {
		return err
	}
	*actualArgsSize = kernel.UserBytes(f.k, userArgsSize)
	return nil
}

// KernelArgsGetHandleMemSize is aclrtKernelArgsGetHandleMemSize.
func KernelArgsGetHandleMemSize(t *core.Thread, funcHandle core.Handle, memSize *uint64) *core.Error {
	f, err := checkKernelArgsGetHandleMemSize(t, funcHandle, memSize)
	if err != nil {
		return err
	}
	*memSize = kernel.HandleBytes(f.k)
	return nil
}

// named returns a handle of parameter i of b to the program.
func (b *builder) named(t *core.Thread, api string, i int, paramHandle *core.Handle) *core.Error {
	h := stateOf(t.Runtime).params.Add(&parameter{b, i})
	if h == 0 {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "", "there are no handles left")
	}
	b.params = append(b.params, h)
	*paramHandle = h
	return nil
}

// KernelArgsAppend is aclrtKernelArgsAppend.
func KernelArgsAppend(t *core.Thread, argsHandle core.Handle, param Addr, paramSize uint64,
	paramHandle *core.Handle) *core.Error {
	const api = "aclrtKernelArgsAppend"
	b, err := checkKernelArgsAppend(t, argsHandle, param, paramSize, paramHandle)
	if err != nil {
		return err
	}
	i, r := b.Append(core.Array(core.Pointer[byte](param), paramSize))
	if r != nil {
		return refused(api, r)
	}
	return b.named(t, api, i, paramHandle)
}

// KernelArgsAppendPlaceHolder is aclrtKernelArgsAppendPlaceHolder.
func KernelArgsAppendPlaceHolder(t *core.Thread, argsHandle core.Handle, paramHandle *core.Handle) *core.Error {
	const api = "aclrtKernelArgsAppendPlaceHolder"
	b, err := checkKernelArgsAppendPlaceHolder(t, argsHandle, paramHandle)
	if err != nil {
		return err
	}
	i, r := b.AppendPlaceholder()
	if r != nil {
		return refused(api, r)
	}
	return b.named(t, api, i, paramHandle)
}

// overflow returns a function for the last argument: the address of the context's overflow status.
func overflow(t *core.Thread) func() (uintptr, *kernel.Refusal) {
	return func() (uintptr, *kernel.Refusal) {
		var addr Addr
		if err := t.CtxGetFloatOverflowAddr(&addr); err != nil {
			return 0, &kernel.Refusal{Code: err.Code, Param: err.Arg, Text: err.Text}
		}
		return addr, nil
	}
}

// KernelArgsGetPlaceHolderBuffer is aclrtKernelArgsGetPlaceHolderBuffer.
func KernelArgsGetPlaceHolderBuffer(t *core.Thread, argsHandle, paramHandle core.Handle, dataSize uint64,
	bufferAddr *Addr) *core.Error {
	const api = "aclrtKernelArgsGetPlaceHolderBuffer"
	b, err := checkKernelArgsGetPlaceHolderBuffer(t, argsHandle, paramHandle, dataSize, bufferAddr)
	if err != nil {
		return err
	}
	p, err := findParam(t, api, paramHandle)
	if err != nil {
		return err
	}
	if p.of != b {
		return core.Refused(api, "paramHandle", "is a parameter of another builder")
	}
	room, r := b.Take(p.i, dataSize, overflow(t))
	if r != nil {
		return refused(api, r)
	}
	*bufferAddr = core.AddrOf(room)
	return nil
}

// KernelArgsParaUpdate is aclrtKernelArgsParaUpdate. It does not check that the parameter belongs to argsHandle.
func KernelArgsParaUpdate(t *core.Thread, argsHandle, paramHandle core.Handle, param Addr,
	paramSize uint64) *core.Error {
	const api = "aclrtKernelArgsParaUpdate"
	if _, err := checkKernelArgsParaUpdate(t, argsHandle, paramHandle, param, paramSize); err != nil {
		return err
	}
	p, err := findParam(t, api, paramHandle)
	if err != nil {
		return err
	}
	return refused(api, p.of.Update(p.i, core.Array(core.Pointer[byte](param), paramSize)))
}

// KernelArgsFinalize is aclrtKernelArgsFinalize.
func KernelArgsFinalize(t *core.Thread, argsHandle core.Handle) *core.Error {
	const api = "aclrtKernelArgsFinalize"
	b, err := checkKernelArgsFinalize(t, argsHandle)
	if err != nil {
		return err
	}
	if r := b.Finalize(overflow(t), syncAddr(t)); r != nil {
		return refused(api, r)
	}
	if t.Current() == nil { // the overflow address was set before
		b.Unfinish()
		return core.NoCurrentContext(api)
	}
	return nil
}

// syncAddr returns a function for the first argument on some products: the address of the synchronisation area.
func syncAddr(t *core.Thread) func() (uintptr, *kernel.Refusal) {
	return func() (uintptr, *kernel.Refusal) {
		var addr Addr
		if err := GetHardwareSyncAddr(t, &addr); err != nil {
			return 0, &kernel.Refusal{Code: err.Code, Param: err.Arg, Text: err.Text}
		}
		return addr, nil
	}
}
