// Package launch has what AscendCL promises of kernels: binaries, functions, arguments and launches.
//
// A binary is read when it is loaded, and put on a device when one of its functions is first looked up there; each
// device has its own code and variables. A launch queues one task (driver.OpLaunch) with arguments that are the
// caller's device memory or a copy in pinned memory, which argMemory keeps in blocks. The object that owns both comes
// back through Launch.Over and is used again. A launch like the one before it copies that one's driver.Launch
// (repeat.go).
//
//	binary → internal/kernel: table of kernels        arguments → internal/kernel: buffer
//	                    ╲                                  ╱
//	               launch: handles, devices, checks, launches
//	                              │ driver.OpLaunch
//	              soft: a job of the workers → kernel.CPU → internal/kernel/native → capi/shim/kernel.c
//	              cuda: a launch on the stream
//
// Lock order: binary.mu → tables, the driver; state.mu and argMemory.mu are taken last, and nothing is called with them
// held.
package launch

import (
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// state is the state of a runtime for kernels.
type state struct {
	rt        *core.Runtime // immutable
	binaries  core.Table[binary]
	functions core.Table[function]
	params    core.Table[parameter]
	objects   core.Table[description] // of aclrtCreateBinary
	builders  core.Table[builder]     // of threads
	memory    argMemory
	areas     areas

	mu      sync.Mutex
	ofUser  map[core.Addr]*builder    // guarded by mu; builders in memory of the program, by address
	threads map[*core.Thread]*builder // guarded by mu; one a thread
	symbols map[core.Addr]*function   // guarded by mu; registered by compiled code; entries stay when their binary goes
	keys    map[core.Addr]*function   // guarded by mu; of rtFunctionRegister
	loaded  map[*binary]struct{}      // guarded by mu; binaries that are not unloaded
	folder  string                    // guarded by mu; ROPEWAY_KERNELS
}

var part = core.NewPart(func(rt *core.Runtime) *state {
	s := &state{
		rt: rt, ofUser: map[core.Addr]*builder{}, threads: map[*core.Thread]*builder{},
		symbols: map[core.Addr]*function{}, keys: map[core.Addr]*function{},
		loaded: map[*binary]struct{}{},
	}
	s.binaries.Kind, s.functions.Kind, s.params.Kind = handles.Binary, handles.Function, handles.Param
	s.objects.Kind, s.builders.Kind = handles.BinaryObject, handles.Args
	s.memory.rt = rt
	return s
})

func stateOf(rt *core.Runtime) *state { return part.Of(rt) }

// SetFolder names the folder with the shared objects that stand in for NPU binaries.
func SetFolder(rt *core.Runtime, folder string) {
	s := stateOf(rt)
	core.Locked(&s.mu, func() { s.folder = folder })
}

// launcher is what runs kernels; nil if the driver cannot.
func (s *state) launcher() driver.Launcher {
	l := s.rt.Caps.Launch
	return l
}

// DeviceClosed implements core.DeviceCloser: all binaries are absent there. The driver has unloaded them.
func (s *state) DeviceClosed(d *core.Device, was *core.OpenDevice) {
	core.Locked(&s.areas.mu, func() { delete(s.areas.at, was) })
	var all []*binary
	core.Locked(&s.mu, func() {
		for b := range s.loaded {
			all = append(all, b)
		}
	})
	for _, b := range all {
		core.Locked(&b.mu, func() { delete(b.on, d) })
	}
}

// pairs reports whether the product has cube and vector cores.
func (s *state) pairs() bool { return s.rt.Product.Modern }

// refused is why arguments are not taken, as an error of a call.
func refused(api string, r *kernel.Refusal) *core.Error {
	if r == nil {
		return nil
	}
	if r.Code == abi.ErrRTContextNull {
		return core.NoCurrentContext(api) // with its cause
	}
	return core.Fail(api, r.Code, r.Param, "%s", r.Text)
}
