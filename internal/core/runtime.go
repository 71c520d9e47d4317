// Package core is what AscendCL promises: contexts, streams, events, memory and copies, with the vendor's checks in the
// vendor's order and the vendor's codes.
//
// A face (the Go API, the C library) makes one [Runtime] and a [Thread] for each thread of the program. Every C
// function is a method of Thread with the same parameters: void* is Addr, void** is *Addr, size_t is uint64, handles
// are Handle, output pointers are Go pointers that may be nil. The face hands the *Error to [Thread.Done], which
// records it the way the vendor does and returns the code.
//
// # Who owns what
//
// A Device's fields are guarded by Device.mu, a Context's by Context.mu, a Stream's and an Event's by their own mu,
// unless they are immutable or atomic, as said there. A Thread belongs to one goroutine at a time, unless it was made
// by [Runtime.ThreadIn]: then it is never written.
//
// Lock order: Device.mu → Context.mu → Stream.mu → Event.mu, reportState.mu → tables; for pools Device.mu → Pool.mu →
// poolState.mu; for virtual memory Device.mu → vmm.mu → tables. Callbacks are called with none of them held. Drivers
// are, with these exceptions, none of which can call back:
//
//   - Device.mu: opening and closing a device; making memory without an address (Mapper.Create);
//   - Context.mu: making a queue;
//   - Stream.mu: opening a queue again, and putting the task on it that holds a persistent stream;
//   - vmm.mu: Mapper's Reserve, Map and Unmap, and Memory.Free; not Release, which may wait for work;
//   - any of them: Locate, Describe, Epoch and Device.Memory, which take no lock that work is done with.
package core

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/product"
	"ropeway/internal/share"
)

// Addr is an address of the program: host or device.
type Addr = uintptr

// maxDevices is how many devices a process can see.
const maxDevices = 64

// Options says what kind of machine a Runtime is.
type Options struct {
	Driver  driver.Driver
	Product *product.Product
	Visible *string // ASCEND_RT_VISIBLE_DEVICES, nil if it is not set
	Home    string  // ASCEND_HOME_PATH: where package versions are read

	// Strict refuses, on every product, what the documents of any product forbid (the rules of spec/ that are strict).
	Strict bool

	// Blocking is ASCEND_LAUNCH_BLOCKING: copies, fills and host functions return when they are done, with their error.
	Blocking bool

	// Log gets aclAppLog's lines, the errors the program is given, and what becomes of devices; nil discards them.
	Log *slog.Logger

	// Watch is told what the program does; nil if nobody watches.
	Watch Watcher

	// Observe is told what runs when; nil if nobody wants to know. The runtime closes it.
	Observe observe.Observer
}

// Runtime is the state of a process. Methods may be called concurrently.
type Runtime struct {
	drv      driver.Driver    // immutable
	epoch    *atomic.Uint64   // immutable; the driver's, which writes it
	prod     *product.Product // immutable
	devices  []*Device        // immutable; by user id
	visible  bool             // immutable; ASCEND_RT_VISIBLE_DEVICES is set
	home     string           // immutable
	log      *slog.Logger     // immutable; may be nil
	open     bool             // immutable; host and device memory are one (RC form)
	blocking bool             // immutable; see Options.Blocking
	strict   bool             // immutable; see Options.Strict
	aligned  bool             // immutable; the product is, or strict: addresses of asynchronous copies are multiples of 64
	watch    Watcher          // immutable; may be nil
	observer observe.Observer // immutable; may be nil

	contexts table[Context]
	streams  table[Stream]
	events   table[Event]

	parts          []any                  // immutable; see Part
	onSynchronized atomic.Pointer[func()] // see OnSynchronized

	defaultDevice atomic.Int32  // user id + 1 from aclInit's configuration; 0: none
	eventIDs      atomic.Uint32 // event numbers given
	opWaitSeconds atomic.Uint32 // aclrtSetOpWaitTimeout

	init      initState
	callbacks callbackState
	process   processState
	reports   reportState
	opTime    opTime
	observing observing
	broker    share.Broker // what other processes may have
}

// New makes a runtime over a driver.
func New(o Options) *Runtime {
	rt := &Runtime{drv: o.Driver, epoch: o.Driver.Epoch(), prod: o.Product, home: o.Home, log: o.Log, open: o.Product.RC, blocking: o.Blocking, strict: o.Strict, aligned: o.Strict || o.Product.Aligned, watch: o.Watch, observer: o.Observe}
	rt.contexts.kind, rt.streams.kind, rt.events.kind = contextKind, streamKind, eventKind
	rt.makeParts()
	n := min(o.Driver.Devices(), maxDevices)
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	if o.Visible != nil {
		rt.visible = true
		ids = VisibleDevices(*o.Visible, n)
	}
	for user, phys := range ids {
		d := &Device{rt: rt, user: int32(user), phys: int32(phys)}
		d.events.Store(new(atomic.Int32))
		d.notifies.Store(new(atomic.Int32))
		rt.devices = append(rt.devices, d)
	}
	rt.setUp()
	return rt
}

// VisibleDevices reads ASCEND_RT_VISIBLE_DEVICES where there are n devices: ascending numbers with commas between them.
// Reading stops at the first that is none, is not there, or is not larger than the one before; what follows stays hidden.
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

// Product is what the runtime pretends to be.
func (rt *Runtime) Product() *product.Product { return rt.prod }

// Driver is what it runs on.
func (rt *Runtime) Driver() driver.Driver { return rt.drv }

// device is the device with a user id, or nil.
func (rt *Runtime) device(user int32) *Device {
	if user < 0 || int(user) >= len(rt.devices) {
		return nil
	}
	return rt.devices[user]
}

// byPhys is the visible device with a physical number, or nil.
func (rt *Runtime) byPhys(phys int32) *Device {
	for _, d := range rt.devices {
		if d.phys == phys {
			return d
		}
	}
	return nil
}

// Close ends all work and gives everything back: contexts, devices, the driver. No call is under way and none may
// follow.
func (rt *Runtime) Close() error {
	rt.Ending()
	for _, d := range rt.devices {
		d.destroyAll()
	}
	rt.finalize()
	rt.broker.Close()
	rt.reports.close()
	err := rt.drv.Close()
	if rt.observer != nil {
		err = errors.Join(err, rt.observer.Close())
	}
	return err
}

// Live counts what the program has not destroyed, for leak reports.
type Live struct{ Contexts, Streams, Events int }

// Live tells what is left.
func (rt *Runtime) Live() Live {
	return Live{rt.contexts.count(), rt.streams.count(), rt.events.count()}
}

// locked runs f with mu held.
func locked(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}
