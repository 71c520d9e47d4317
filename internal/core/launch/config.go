package launch

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/kernel"
)

// config has the attributes of a launch.
type config struct {
	batch   bool
	dynamic uint32 // bytes of unified buffer
	sized   string // the argument with that size, or ""
	engine  abi.EngineType
	offset  uint32 // first block
	limit   time.Duration
	limited bool
	empty   bool // empty tasks precede it
	dumps   bool // its data has to be dumped
}

// mixed reports whether the 310P needs a configuration that selects the half to run.
func (f *function) mixed() bool { return f.k.Halves }

// readConfig reads the attributes of a launch of f, in the order of the table. simt means a SIMT launch, which has no
// engines.
func readConfig(t *core.Thread, api string, f *function, cfg *abi.LaunchKernelCfg, simt bool) (config, *core.Error) {
	c := config{batch: f.k.Batch || f.b.table.Barrier}
	halves := !simt && t.Product("310P") && f.mixed()
	if halves && (cfg == nil || cfg.Attrs == 0 || cfg.NumAttrs == 0) {
		return c, core.Refused(api, "cfg", "a mix kernel needs ENGINE_TYPE and BLOCKDIM_OFFSET on a 310P")
	}
	if cfg == nil {
		return c, nil
	}
	if cfg.Attrs == 0 {
		return c, core.Refused(api, "cfg", "has no attributes")
	}
	var last [10]*abi.LaunchKernelAttrValue // by id; the last of an id counts
	unknown := -1
	attrs := core.ArrayOf(t, core.Pointer[abi.LaunchKernelAttr](cfg.Attrs), cfg.NumAttrs)
	for i := range attrs {
		if id := uint32(attrs[i].ID); id >= 1 && id <= 9 {
			last[id] = &attrs[i].Value
		} else if unknown < 0 {
			unknown = i
		}
	}
	if last[7] != nil && last[8] != nil {
		return c, core.Refused(api, "cfg", "has both TIMEOUT and TIMEOUT_US")
	}
	for _, a := range []struct {
		id   int
		name string
	}{{1, "SCHEM_MODE"}, {5, "BLOCK_TASK_PREFETCH"}, {6, "DATA_DUMP"}, {9, "ENABLE_PROFILING"}} {
		if v := last[a.id]; v != nil && *v.SchemMode() > 1 {
			return c, core.Refused(api, "cfg", "%s is %d, not 0 or 1", a.name, *v.SchemMode())
		}
	}
	if halves && (last[3] == nil || last[4] == nil) {
		return c, core.Refused(api, "cfg", "a mix kernel needs ENGINE_TYPE and BLOCKDIM_OFFSET on a 310P")
	}
	if unknown >= 0 {
		return c, core.Refused(api, "cfg", "attribute %d is not 1 to 9", attrs[unknown].ID)
	}
	if v := last[1]; v != nil {
		c.batch = *v.SchemMode() == 1 || f.b.table.Barrier
	}
	if v := last[2]; v != nil {
		c.dynamic, c.sized = *v.DynUBufSize(), "cfg"
	}
	if v := last[3]; v != nil && halves {
		c.engine = *v.EngineType()
	}
	if v := last[4]; v != nil && halves {
		c.offset = *v.BlockDimOffset()
	}
	c.dumps = last[6] != nil && *last[6].IsDataDump() == 1
	c.empty = last[5] != nil && *last[5].IsBlockTaskPrefetch() == 1
	if v := last[7]; v != nil {
		c.limit, c.limited = time.Duration(*v.Timeout())*time.Second, true
	}
	if v := last[8]; v != nil {
		us := *v.TimeoutUs()
		c.limit, c.limited = time.Duration(uint64(us.TimeoutHigh)<<32|uint64(us.TimeoutLow))*time.Microsecond, true
	}
	return c, nil
}

// checkBuffer refuses more unified buffer than a 950 has.
func checkBuffer(t *core.Thread, api string, f *function, c *config) *core.Error {
	if !t.Product("950") || f.k.Type == kernel.AICPU {
		return nil
	}
	const simdUB, unit = 262144, 128
	sum := uint64(f.k.UB) + uint64(c.dynamic)
	limit := uint64(0)
	switch {
	case f.simt():
		sum, limit = (sum+unit-1)/unit*unit, simtUB
	case f.k.Vector != kernel.NoKind:
		limit = simdUB
	}
	if sum > limit {
		return core.Refused(api, c.sized, "%d bytes of unified buffer are more than the %d that %s can have", sum,
			limit, f.k.Name)
	}
	return nil
}
