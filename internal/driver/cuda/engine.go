package cuda

import (
	"errors"
	"sync"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
)

// engine is what copies and launches on the GPU of a device: kernels, tables for them, lanes, modules and graphs.
type engine struct {
	gpu.GPU
	d *Driver // immutable

	// runners are those of its queues. A queue may be seen to be quiet, by a flag say, a moment before its runner has
	// gone: closing waits for that, because events and streams go then.
	runners sync.WaitGroup

	mu          sync.Mutex               // before GPU.mu
	tables      tables                   // guarded by mu
	program     *program                 // guarded by mu; nil until needed
	noProgram   bool                     // guarded by mu; there is none, or it is there
	modules     map[*module]struct{}     // guarded by mu; of programs, on the GPU
	lanes       []*lane                  // guarded by mu; not in use
	executables map[*executable]struct{} // guarded by mu; all there are
	repeats     map[uintptr]*repeats     // guarded by mu; by stream

	// For copies that the device judges, see indirect.go. All guarded by mu.
	reads        *readers            // nil until needed
	noReads      bool                // there are none, or they are there
	live         *liveTable          // the latest
	spareLives   []*liveTable        // that no kernel reads
	words        []uintptr           // not in use
	founds       map[uintptr]uintptr // by stream
	spareFounds  []uintptr
	deviceBlocks []uintptr // what these are cut from
}

// limit is how many blocks a kernel may have that copies that way; 0 leaves it to the planner. It is the share of the
// multiprocessors that the user allows: blocks go to different ones as long as there are any.
func (c *engine) limit(way kernels.Direction) int {
	percent := c.d.percent
	if percent == 0 || percent == 100 && way == kernels.OnDevice {
		return 0
	}
	return max(1, c.SMs*percent/100)
}

// stop releases everything that the GPU has. Nothing uses it any more.
func (c *engine) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Context() == 0 {
		return nil
	}
	var errs []error
	note := func(call string, r libcuda.Result) { errs = append(errs, libcuda.Failed(c.d.lib, call, r)) }
	c.Enter()
	for _, l := range c.lanes {
		note("cuMemFreeHost", l.free())
	}
	for _, t := range c.tables.all() {
		note("cuMemFreeHost", c.FreeInner(t.addr))
	}
	for _, b := range c.deviceBlocks {
		note("cuMemFree", c.d.lib.MemFree(b))
	}
	for x := range c.executables {
		note("cuGraphExecDestroy", c.dropLocked(x))
	}
	for m := range c.modules { // what is left is held by launches that never ran
		note("cuModuleUnload", c.d.lib.ModuleUnload(m.handle))
	}
	if c.program != nil {
		note("cuModuleUnload", c.d.lib.ModuleUnload(c.program.module))
	}
	c.Leave()
	c.tables, c.lanes, c.program, c.noProgram, c.modules = tables{}, nil, nil, false, nil
	c.executables, c.repeats = nil, nil
	c.reads, c.noReads, c.live, c.spareLives, c.words = nil, false, nil, nil, nil
	c.founds, c.spareFounds, c.deviceBlocks = nil, nil, nil
	if err := c.GPU.Stop(); err != nil {
		errs = append(errs, err)
	}
	if c.Lost() {
		return nil // what is broken cannot be tidied up
	}
	return errors.Join(errs...)
}
