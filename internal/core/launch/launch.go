package launch

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/observe"
)

// request is a launch whose C arguments were checked.
type request struct {
	api    string
	f      *function
	c      *core.Context
	s      *core.Stream
	blocks uint32
	config config

	grid, threads [3]uint32 // of a SIMT launch

	plain bool // without attributes, placeholders or threads
}

// with reads the configuration of a launch, and then finds the context and the stream: all forms with a configuration
// have these rules after their own.
func (r *request) with(t *core.Thread, cfg *abi.LaunchKernelCfg, simt bool, s *core.Stream) (err *core.Error) {
	if r.config, err = readConfig(t, r.api, r.f, cfg, simt); err != nil {
		return err
	}
	if r.c == nil {
		if r.c = t.Current(); r.c == nil {
			return core.NoCurrentContext(r.api)
		}
	}
	if r.s, err = r.c.On(r.api, s); err != nil {
		return err
	}
	if err := r.here(); err != nil {
		return err
	}
	return r.runsOnCPU(t)
}

// here refuses a launch if the binary is not on the device.
func (r *request) here() *core.Error {
	if ready := r.f.ready.Load(); ready != nil && ready.dev == r.c.Device.Opened.Load() {
		return nil
	}
	if !r.f.b.old && r.f.b.here(r.c) == nil {
		return core.Fail(r.api, abi.ErrRTInvalidHandle, "",
			"no function of the binary was looked up on device %s yet; aclrtBinaryGetFunction does",
			core.DeviceName(r.c.Device)).NotRecorded()
	}
	return nil
}

// submit queues the launch with arguments in p, or in memory of the program.
func (r *request) submit(t *core.Thread, p *pending) *core.Error {
	admit := r.s.AdmitKernel
	if r.f.k.Type == kernel.AICPU {
		admit = r.s.Admit
	}
	if err := admit(r.api); err != nil {
		p.LaunchOver(nil)
		return err
	}
	if err := r.complete(t, p); err != nil {
		p.LaunchOver(nil)
		return err
	}
	if u := r.s.Updater(); u != nil {
		return u.Replace(r.api, t, r.s, &p.Launch)
	}
	if r.config.empty {
		n := 8
		if t.Product("310P") {
			n = 10
		}
		for range n {
			r.s.Put(r.api, t, core.Task{Op: driver.Op{Kind: driver.OpFunc, Fn: func() {}}, Kind: observe.Function})
		}
	}
	if r.plain {
		r.f.remember(&p.Launch)
	}
	return r.s.Launch(r.api, t, core.Task{Op: driver.Op{Kind: driver.OpLaunch, Launch: &p.Launch}})
}

// complete completes p, which has arguments, to a launch for the driver.
func (r *request) complete(t *core.Thread, p *pending) *core.Error {
	code, err := r.f.resolve(r.api, r.c)
	if err == nil {
		err = checkBuffer(t, r.api, r.f, &r.config)
	}
	if err != nil {
		return err
	}
	p.f, p.class = r.f, r.f.k.Type
	p.ByAddress = p.class == kernel.AICPU
	p.Module, p.Code, p.Over = code.module, code.code, p
	p.Blocks, p.First, p.Grid, p.Threads = r.blocks, r.config.offset, r.grid, r.threads
	p.Per = r.per()
	p.dumps = r.config.dumps
	p.Together, p.Shared, p.Limit = r.config.batch, r.config.dynamic, r.config.limit
	if !r.config.limited {
		p.Limit = process.OpLimit(t.Runtime)
	}
	p.Module.Hold()
	return nil
}

// per returns the calls of each half per block: one each for a mix without numbers.
func (r *request) per() (per [2]uint32) {
	k := r.f.k
	for i, c := range k.Code {
		if c.Symbol != "" {
			per[i] = 1
		}
	}
	if per[0]+per[1] < 2 {
		return per
	}
	if r.c.Runtime.Product.Name == "310P" { // one launch, one half
		per = [2]uint32{}
		per[min(r.config.engine, 1)] = 1
		return per
	}
	if k.Ratio != [2]uint16{} {
		per = [2]uint32{uint32(k.Ratio[0]), uint32(k.Ratio[1])}
	}
	return per
}

// blocksOf returns the number of blocks that the device runs: it has 16 bits there.
func blocksOf(n uint32) uint32 { return n & 0xFFFF }

// LaunchKernel is aclrtLaunchKernel: the arguments are in device memory, and stay there.
func LaunchKernel(t *core.Thread, funcHandle core.Handle, numBlocks uint32, argsData Addr, argsSize uint64,
	stream core.Handle) *core.Error {
	const api = "aclrtLaunchKernel"
	f, s, c, err := checkLaunchKernel(t, funcHandle, numBlocks, argsData, argsSize, stream)
	if err != nil {
		return err
	}
	if s, as := f.repeatable(c, s); as != nil {
		return repeatLaunch(t, f, s, as, numBlocks, argsData, uint64(uint32(argsSize)))
	}
	r := &request{api: api, f: f, c: c, s: s, blocks: blocksOf(numBlocks), plain: true}
	r.config.batch = f.k.Batch || f.b.table.Barrier
	if err := r.here(); err != nil {
		return err
	}
	return r.onDevice(t, argsData, argsSize)
}

// onDevice queues a launch whose arguments are in device memory.
func (r *request) onDevice(t *core.Thread, args Addr, size uint64) *core.Error {
	p, e := stateOf(t.Runtime).memory.alloc(0)
	if e != nil {
		return core.FromDriver(r.api, "", e)
	}
	p.Args, p.Size, p.Copied = args, uint64(uint32(size)), false
	return r.submit(t, p)
}

// LaunchKernelV2 is aclrtLaunchKernelV2.
func LaunchKernelV2(t *core.Thread, funcHandle core.Handle, numBlocks uint32, argsData Addr, argsSize uint64,
	cfg *abi.LaunchKernelCfg, stream core.Handle) *core.Error {
	const api = "aclrtLaunchKernelV2"
	f, s, err := checkLaunchKernelV2(t, funcHandle, numBlocks, argsData, argsSize, cfg, stream)
	if err != nil {
		return err
	}
	r := &request{api: api, f: f, blocks: blocksOf(numBlocks)}
	if err := r.with(t, cfg, false, s); err != nil {
		return err
	}
	return r.onDevice(t, argsData, argsSize)
}

// LaunchKernelWithConfig is aclrtLaunchKernelWithConfig: the arguments come from a builder.
func LaunchKernelWithConfig(t *core.Thread, funcHandle core.Handle, numBlocks uint32, stream core.Handle,
	cfg *abi.LaunchKernelCfg, argsHandle core.Handle, reserve Addr) *core.Error {
	const api = "aclrtLaunchKernelWithConfig"
	f, s, b, err := checkLaunchKernelWithConfig(t, funcHandle, numBlocks, stream, cfg, argsHandle, reserve)
	switch {
	case err != nil:
		return err
	case !b.Ready():
		return core.Refused(api, "argsHandle", "the arguments were not finalized, or changed since")
	case len(b.Bytes()) == 0:
		return core.Refused(api, "argsHandle", "there are no arguments")
	}
	r := &request{api: api, f: f, blocks: blocksOf(numBlocks)}
	if err := r.with(t, cfg, false, s); err != nil {
		return err
	}
	return r.copied(t, b.Bytes(), b.Placeholders(nil), 0)
}

// copied queues a launch with a copy of arguments after head bytes that the kernel does not see. It also writes
// placeholders into args.
func (r *request) copied(t *core.Thread, args []byte, list []kernel.Placeholder, head uint64) *core.Error {
	n := head + uint64(len(args))
	p, e := stateOf(t.Runtime).memory.alloc(n)
	if e != nil {
		return core.FromDriver(r.api, "", e)
	}
	room := p.bytes(n)
	at := p.room + Addr(head)
	if head > 0 {
		kernel.PutSIMTHead(room, r.grid, r.threads)
		copy(room[head:], args)
		kernel.Fill(room[head:], at, list)
	} else {
		kernel.Fill(args, at, list)
		copy(room, args)
	}
	p.Args, p.Size, p.Copied, p.Within = at, uint64(len(args)), true, len(list) > 0
	return r.submit(t, p)
}

// LaunchKernelWithHostArgs is aclrtLaunchKernelWithHostArgs: the arguments are in host memory, and copied. It first
// writes the addresses of placeholders into the caller's buffer, as on hardware.
func LaunchKernelWithHostArgs(t *core.Thread, funcHandle core.Handle, numBlocks uint32, stream core.Handle,
	cfg *abi.LaunchKernelCfg, hostArgs Addr, argsSize uint64, placeHolderArray *abi.PlaceHolderInfo,
	placeHolderNum uint64) *core.Error {
	const api = "aclrtLaunchKernelWithHostArgs"
	f, s, err := checkLaunchKernelWithHostArgs(t, funcHandle, numBlocks, stream, cfg, hostArgs, argsSize,
		placeHolderArray, placeHolderNum)
	if err != nil {
		return err
	}
	size := uint64(uint32(argsSize))
	plain := cfg == nil && placeHolderNum&0xFFFF == 0
	if plain && numBlocks != 0 {
		if s, as := f.repeatable(t.Current(), s); as != nil {
			return repeatCopied(t, f, s, as, numBlocks, core.ArrayOf(t, core.Pointer[byte](hostArgs), size))
		}
	}
	list, err := placeholders(t, api, placeHolderArray, placeHolderNum&0xFFFF, size)
	if err != nil {
		return err
	}
	if numBlocks == 0 {
		return core.Refused(api, "numBlocks", "is 0")
	}
	r := &request{api: api, f: f, blocks: blocksOf(numBlocks), plain: plain}
	if err := r.with(t, cfg, false, s); err != nil {
		return err
	}
	return r.copied(t, core.ArrayOf(t, core.Pointer[byte](hostArgs), size), list, 0)
}

// placeholders reads n placeholders of arguments of size bytes.
func placeholders(t *core.Thread, api string, array *abi.PlaceHolderInfo, n, size uint64) ([]kernel.Placeholder,
	*core.Error) {
	if n == 0 {
		return nil, nil
	}
	list := make([]kernel.Placeholder, 0, n)
	for i, p := range core.ArrayOf(t, array, n) {
		if uint64(p.AddrOffset) >= size || uint64(p.DataOffset) >= size {
			return nil, core.Refused(api, "placeHolderArray",
				"offsets %d and %d are not both inside the %d bytes of arguments", p.AddrOffset, p.DataOffset, size).
				At(i)
		}
		list = append(list, kernel.Placeholder{Addr: p.AddrOffset, Data: p.DataOffset})
	}
	return list, nil
}

// either returns a function by its registered address of the program, or by its handle.
func either(t *core.Thread, api string, c *core.Context, fn Addr) (*function, *core.Error) {
	if f := stateOf(t.Runtime).bySymbol(fn); f != nil {
		if _, err := f.b.place(api, c, !f.b.lazy); err != nil {
			return nil, err
		}
		return f, nil
	}
	return findFunction(t, api, "func", core.Handle(fn))
}

// LaunchKernelWithArgsArray is aclrtLaunchKernelWithArgsArray: each element points to one parameter, whose size is in
// the binary.
func LaunchKernelWithArgsArray(t *core.Thread, fn Addr, numBlocks uint32, stream core.Handle, cfg *abi.LaunchKernelCfg,
	args *Addr) *core.Error {
	const api = "aclrtLaunchKernelWithArgsArray"
	s, c, err := checkLaunchKernelWithArgsArray(t, fn, numBlocks, stream, cfg, args)
	if err != nil {
		return err
	}
	f, err := either(t, api, c, fn)
	if err == nil {
		err = noCPUParams(api, f)
	}
	switch {
	case err != nil:
		return err
	case !f.k.HasParams:
		return noParams(api, f)
	case args == nil && len(f.k.Params) > 0:
		return core.Refused(api, "args", "is NULL, and %s has %d parameters", f.k.Name, len(f.k.Params))
	}
	r := &request{api: api, f: f, c: c, blocks: blocksOf(numBlocks)}
	if err := r.with(t, cfg, false, s); err != nil {
		return err
	}
	return r.gathered(t, args, 0)
}

// gathered is copied with the parameters that an array points to.
func (r *request) gathered(t *core.Thread, args *Addr, head uint64) *core.Error {
	buffer, err := r.gather(t, args)
	if err != nil {
		return err
	}
	return r.copied(t, buffer, nil, head)
}

// gather reads the parameters that an array points to.
func (r *request) gather(t *core.Thread, args *Addr) ([]byte, *core.Error) {
	k := r.f.k
	buffer := make([]byte, k.ArgsSize)
	if len(k.Params) == 0 {
		return buffer[:0], nil
	}
	for i, from := range core.Array(args, uint64(len(k.Params))) {
		p := k.Params[i]
		switch {
		case from == 0:
			return nil, core.Refused(r.api, "args", "is NULL").At(i)
		case uint64(p.Offset)+uint64(p.Size) > k.ArgsSize:
			return nil, core.Refused(r.api, "func", "parameter %d of %s lies outside of the %d bytes of its arguments",
				i, k.Name, k.ArgsSize)
		}
		copy(buffer[p.Offset:], core.ArrayOf(t, core.Pointer[byte](from), uint64(p.Size)))
	}
	return buffer, nil
}

// shape checks the sizes of a SIMT launch.
func (r *request) shape(grid, block abi.Dim3) *core.Error {
	r.grid, r.threads = [3]uint32{grid.X, grid.Y, grid.Z}, [3]uint32{block.X, block.Y, block.Z}
	switch {
	case grid.X == 0 || grid.Y == 0 || grid.Z == 0:
		return core.Refused(r.api, "gridDim", "has a size of 0")
	case block.X == 0 || block.Y == 0 || block.Z == 0:
		return core.Refused(r.api, "blockDim", "has a size of 0")
	}
	return nil
}

// simtOf checks the rules of SIMT launches for the kernel.
func simtOf(api string, f *function) *core.Error {
	switch {
	case !f.simt():
		return core.Refused(api, "func", "%s is no SIMT kernel", f.k.Name)
	case !f.k.HasParams:
		return noParams(api, f)
	}
	return nil
}

// finish checks the rules of SIMT launches after those for the arguments.
func (r *request) finish(t *core.Thread, s *core.Stream, cfg *abi.LaunchKernelCfg, dynamic uint64) *core.Error {
	if r.blocks = r.grid[0] * r.grid[1] * r.grid[2]; r.blocks == 0 {
		return core.Refused(r.api, "gridDim", "has more blocks than 32 bits count")
	}
	if err := r.with(t, cfg, true, s); err != nil {
		return err
	}
	r.config.dynamic, r.config.sized = uint32(dynamic), "dynUbufSize"
	if !t.Product("950") {
		return core.Refused(r.api, "", "%s has no SIMT kernels", t.Runtime.Product.Name)
	}
	return nil
}

// LaunchSIMTKernelWithArgsArray is aclrtLaunchSIMTKernelWithArgsArray.
func LaunchSIMTKernelWithArgsArray(t *core.Thread, fn Addr, gridDim, blockDim abi.Dim3, dynUbufSize uint64,
	stream core.Handle, cfg *abi.LaunchKernelCfg, args *Addr) *core.Error {
	const api = "aclrtLaunchSIMTKernelWithArgsArray"
	c, err := checkLaunchSIMTKernelWithArgsArray(t, fn, gridDim, blockDim, dynUbufSize, stream, cfg, args)
	if err != nil {
		return err
	}
	f, err := either(t, api, c, fn)
	if err != nil {
		return err
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if err := simtOf(api, f); err != nil {
		return err
	}
	r := &request{api: api, f: f, c: c}
	if err := r.shape(gridDim, blockDim); err != nil {
		return err
	}
	if args == nil {
		return core.Refused(api, "args", "is NULL")
	}
	if err := r.finish(t, s, cfg, dynUbufSize); err != nil {
		return err
	}
	return r.gathered(t, args, kernel.SIMTHead)
}

// LaunchSIMTKernelWithHostArgs is aclrtLaunchSIMTKernelWithHostArgs. It does not change the caller's buffer.
func LaunchSIMTKernelWithHostArgs(t *core.Thread, fn Addr, gridDim, blockDim abi.Dim3, dynUbufSize uint64,
	stream core.Handle, cfg *abi.LaunchKernelCfg, hostArgs Addr, argsSize uint64,
	placeHolderArray *abi.PlaceHolderInfo, placeHolderNum uint64) *core.Error {
	const api = "aclrtLaunchSIMTKernelWithHostArgs"
	s, c, err := checkLaunchSIMTKernelWithHostArgs(t, fn, gridDim, blockDim, dynUbufSize, stream, cfg, hostArgs,
		argsSize, placeHolderArray, placeHolderNum)
	if err != nil {
		return err
	}
	f, err := either(t, api, c, fn)
	if err == nil {
		err = simtOf(api, f)
	}
	if err != nil {
		return err
	}
	size := uint64(uint32(argsSize))
	if size == 0 {
		return core.Refused(api, "argsSize", "%d is 0 in its low 32 bits", argsSize)
	}
	r := &request{api: api, f: f, c: c}
	if err := r.shape(gridDim, blockDim); err != nil {
		return err
	}
	places := uint64(uint32(placeHolderNum))
	if places > 0 && placeHolderArray == nil {
		return core.Refused(api, "placeHolderArray", "is NULL, and placeHolderNum is %d", places)
	}
	list, err := placeholders(t, api, placeHolderArray, places, size)
	if err != nil {
		return err
	}
	if err := r.finish(t, s, cfg, dynUbufSize); err != nil {
		return err
	}
	list = list[:min(uint64(len(list)), placeHolderNum&0xFFFF)]
	return r.copied(t, core.ArrayOf(t, core.Pointer[byte](hostArgs), size), list, kernel.SIMTHead)
}
