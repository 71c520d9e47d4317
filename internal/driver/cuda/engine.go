package cuda

import (
	"errors"
	"sync"

	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
)

// engine makes copies and launches on the GPU of a device. It has the kernels, their tables, lanes, modules and graphs.
type engine struct {
	gpu.GPU
	d *Driver // immutable

	// runners counts the runners of its queues. A queue may appear idle, by a flag for example, just before its runner
	// has ended: closing waits for the runner, because it destroys events and streams.
	runners sync.WaitGroup

	mu          sync.Mutex               // before GPU.mu
	tables      tables                   // guarded by mu
	program     *program                 // guarded by mu; nil until needed
	noProgram   bool                     // guarded by mu; loading was tried
	modules     map[*module]struct{}     // guarded by mu; the program's modules on the GPU
	lanes       []*lane                  // guarded by mu; not in use
	executables map[*executable]struct{} // guarded by mu; all of them
	repeats     map[uintptr]*repeats     // guarded by mu; by stream

	// For copies that the device checks, see indirect.go. All guarded by mu.
	reads        *readers            // nil until needed
	noReads      bool                // loading was tried
	live         *liveTable          // the current one
	spareLives   []*liveTable        // not read by any kernel
	words        []uintptr           // not in use
	founds       map[uintptr]uintptr // by stream
	spareFounds  []uintptr
	deviceBlocks []uintptr // blocks that these are cut from
}

// limit returns the most blocks of a kernel that copies in that direction; 0 leaves it to the planner. It is the share
// of the multiprocessors that the user allows, since each block gets a multiprocessor of its own while there are any.
func (c *engine) limit(way kernels.Direction) int {
	percent := c.d.percent
	if percent == 0 || percent == 100 && way == kernels.OnDevice {
		return 0
	}
	return max(1, c.SMs*percent/100)
}

// stop releases all resources on the GPU. Nothing may use them.
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
	for m := range c.modules { // the rest are held by launches that never ran
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
		return nil // resources of a lost GPU cannot be released
	}
	return errors.Join(errs...)
}
