package launch

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// TaskOf is the launch that a model makes instead of a kernel it had. It belongs to the caller, which returns it.
func TaskOf(t *core.Thread, api string, c *core.Context, k *abi.MdlRIKernelTaskParams) (*driver.Launch, *core.Error) {
	if k.FuncHandle == 0 || k.Args == 0 || k.ArgsSize == 0 {
		return nil, core.Refused(api, "params", "funcHandle or args is NULL, or argsSize is 0")
	}
	f, err := findFunction(t, api, "params", core.Handle(k.FuncHandle))
	if err != nil {
		return nil, err
	}
	r := &request{api: api, f: f, c: c, blocks: blocksOf(k.NumBlocks)}
	var cfg *abi.LaunchKernelCfg
	if k.Cfg != 0 {
		cfg = core.Pointer[abi.LaunchKernelCfg](k.Cfg)
	}
	if r.config, err = readConfig(t, api, f, cfg, false); err != nil {
		return nil, err
	}
	size := k.ArgsSize
	if k.IsHostArgs == 0 {
		size = 0
	}
	p, e := stateOf(t.Runtime).memory.alloc(size)
	if e != nil {
		return nil, core.FromDriver(api, "", e)
	}
	p.Args, p.Size, p.Copied = k.Args, k.ArgsSize, false
	if k.IsHostArgs != 0 {
		copy(p.bytes(size), core.ArrayOf(t, core.Pointer[byte](k.Args), size))
		p.Args, p.Copied = p.room, true
	}
	if err := r.complete(t, p); err != nil {
		p.LaunchOver(nil)
		return nil, err
	}
	return &p.Launch, nil
}
