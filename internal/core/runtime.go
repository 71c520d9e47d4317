// Package core implements the semantics of AscendCL: threads, devices, contexts, streams and events, with the vendor's
// checks in the vendor's order and the vendor's codes. The packages below it have the rest: memory, transfer, signal,
// process, launch and model. Their state of a runtime is a [Part] of it.
//
// A front end (the Go API, the C library) makes one [Runtime] and a [Thread] for each thread of the program. Every C
// function is a method of Thread with the same parameters, or a function of a package below with a Thread before them:
// void* is Addr, void** is *Addr, size_t is uint64, handles are Handle, output pointers are Go pointers that may be
// nil. The front end passes the *Error to [Thread.Done], which records it the way the vendor does and returns the code.
//
// # Objects
//
// A Runtime is a process: a driver, a product, the visible devices and the tables of handles. A Thread has the current
// context, the last error and the error text. A Device is open while it has a context; a Context has streams of one
// device. A [Stream] adds to a driver's queue what AscendCL promises: task numbers, the first failure, aborts, failure
// modes. An [Event] is a history of driver flags: each record has one of its own, so that a wait queued for an earlier
// record is not released by a later one. Handles are numbers (kind, generation, slot); looking one up takes no lock.
//
// # Ownership
//
// A Device's fields are guarded by Device.mu, a Context's by Context.mu, a Stream's and an Event's by their own mu,
// unless they are immutable or atomic, as said there. A Thread belongs to one goroutine at a time, unless it was made
// by [Runtime.ThreadIn]: then it is never written.
//
// Lock order: Device.mu → Context.mu → Stream.mu → Event.mu, Reports.mu of package callback → tables; for pools
// Device.mu → Pool.mu → poolState.mu; for virtual memory Device.mu → vmm.mu → tables; Device.mu → mappedHosts.mu.
// Callbacks are called with none of them held. Drivers are, with these exceptions, none of which can call back:
//
//   - Device.mu: opening and closing a device; making memory without an address (Mapper.Create);
//   - Context.mu: making a queue;
//   - Stream.mu: opening a queue again, and putting the task on it that holds a persistent stream;
//   - vmm.mu: Mapper's Reserve, Map and Unmap, and Memory.Free; not Release, which may wait for work. Sharer.Share and
//     Fabric.ExportFar, which may wait for queues too: no operation of a queue takes vmm.mu;
//   - any of them: Locate, Describe, Epoch and Device.Memory, which take no lock that work is done with.
package core

import (
	"cmp"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/core/handles"
	"ropeway/internal/driver"
	"ropeway/internal/product"
	"ropeway/internal/share"
)

// Addr is an address of the program: host or device.
type Addr = uintptr

// MaxDevices is the most devices of a process.
const MaxDevices = 64

// Options configures the machine of a Runtime.
type Options struct {
	Driver  driver.Driver
	Product *product.Product
	Visible *string // ASCEND_RT_VISIBLE_DEVICES, nil if it is not set
	Home    string  // ASCEND_HOME_PATH: root of the package versions

	// Strict refuses on every product whatever the documents of any product forbid (the strict rules of spec/).
	Strict bool

	// Blocking is ASCEND_LAUNCH_BLOCKING: copies, fills and host functions return when they are done, with their error.
	Blocking bool

	// Patience is the longest wait of aclmdlRIDestroy for executions; 0 is 10 seconds.
	Patience time.Duration

	// Log gets aclAppLog's lines, the errors returned to the program, and changes of devices; nil discards them.
	Log *slog.Logger

	// Probe has the observers of the program; the zero value has none.
	Probe Probe
}

// Runtime is the state of a process. Methods may be called concurrently.
type Runtime struct {
	Driver    driver.Driver    // immutable
	Caps      driver.Caps      // immutable; of Driver
	Epoch     *atomic.Uint64   // immutable; the driver's, which writes it
	Product   *product.Product // immutable
	Devices   []*Device        // immutable; by user id
	Visible   bool             // immutable; ASCEND_RT_VISIBLE_DEVICES is set
	Home      string           // immutable
	log       *slog.Logger     // immutable; may be nil
	OneMemory bool             // immutable; host and device memory are the same (RC form)
	blocking  bool             // immutable; see Options.Blocking
	Strict    bool             // immutable; see Options.Strict
	// immutable; by the product or Strict: addresses of asynchronous copies must be multiples of 64
	Aligned  bool
	Patience time.Duration // immutable; see Options.Patience
	Probe    *Probe        // immutable; nil: no observers

	contexts Table[Context]
	Streams  Table[Stream]
	Events   Table[Event]

	parts          []any                                                      // immutable; see Part
	onSynchronized atomic.Pointer[func()]                                     // see OnSynchronized
	callHostFunc   atomic.Pointer[func(c *Context, fn func(Addr), data Addr)] // see CallHostFuncs

	DefaultDevice atomic.Int32    // user id + 1 from aclInit's configuration; 0: none
	eventIDs      atomic.Uint32   // last event number given
	streamIDs     atomic.Int32    // last stream number given
	opWaitSeconds atomic.Uint32   // aclrtSetOpWaitTimeout
	Params        [4]atomic.Int64 // system parameters of the process
	SharedTexts   atomic.Bool     // aclInit's err_msg_mode "1": error texts are kept per process, not per thread

	captures atomic.Int32 // number of open captures

	callbacks callbackState
	Broker    share.Broker // exports to other processes
}

// New returns a runtime for a driver.
func New(o Options) *Runtime {
	rt := &Runtime{Driver: o.Driver, Caps: o.Driver.Caps(), Epoch: o.Driver.Epoch(),
		Product: o.Product, Home: o.Home, log: o.Log,
		OneMemory: o.Product.RC, blocking: o.Blocking, Strict: o.Strict, Aligned: o.Strict ||
			o.Product.Aligned, Probe: o.Probe.attach(o.Driver)}
	rt.Patience = cmp.Or(o.Patience, 10*time.Second)
	rt.contexts.Kind, rt.Streams.Kind, rt.Events.Kind = handles.Context, handles.Stream, handles.Event
	rt.makeParts()
	n := min(o.Driver.Devices(), MaxDevices)
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	if f := o.Driver.Caps().Fabric; f != nil { // processes of other servers are not on this machine
		server, _ := f.Server()
		rt.Broker.Realm = uint32(server) + 1
	}
	if o.Visible != nil {
		rt.Visible = true
		ids = VisibleDevices(*o.Visible, n)
	}
	for user, phys := range ids {
		d := &Device{Runtime: rt, User: int32(user), Phys: int32(phys)}
		d.events.Store(new(atomic.Int32))
		d.Notifies.Store(new(atomic.Int32))
		rt.Devices = append(rt.Devices, d)
	}
	return rt
}

// VisibleDevices parses ASCEND_RT_VISIBLE_DEVICES for n devices: ascending numbers separated by commas. It stops at the
// first entry that is not a number, not a device, or not larger than the one before; later devices stay hidden.
func VisibleDevices(list string, n int) []int {
	ids := []int{}
	last := -1
	for _, word := range strings.Split(list, ",") {
		id, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || id <= last || id >= n {
			break
		}
		ids = append(ids, id)
		last = id
	}
	return ids
}

// Device returns the device with a user id, or nil.
func (rt *Runtime) Device(user int32) *Device {
	if user < 0 || int(user) >= len(rt.Devices) {
		return nil
	}
	return rt.Devices[user]
}

// ByPhys returns the visible device with a physical number, or nil.
func (rt *Runtime) ByPhys(phys int32) *Device {
	for _, d := range rt.Devices {
		if d.Phys == phys {
			return d
		}
	}
	return nil
}

// Close ends all work and releases everything: contexts, devices, the driver. No call may be running or follow.
func (rt *Runtime) Close() error {
	rt.Ending(nil)
	for _, d := range rt.Devices {
		d.destroyAll()
	}
	rt.Finalize()
	rt.Broker.Close()
	rt.callbacks.reports.Close()
	return rt.closeProbe(rt.Driver.Close())
}

// Live counts objects that the program has not destroyed, for leak reports.
type Live struct{ Contexts, Streams, Events int }

// Live returns the current counts.
func (rt *Runtime) Live() Live {
	return Live{rt.contexts.Count(), rt.Streams.Count(), rt.Events.Count()}
}

// Locked runs f with mu held.
func Locked(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

// Under returns the result of f, called with mu held. The caller then writes it to the program's memory without the
// lock, since such a write may fault.
func Under[T any](mu *sync.Mutex, f func() (T, *Error)) (T, *Error) {
	mu.Lock()
	defer mu.Unlock()
	return f()
}
