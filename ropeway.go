// Package ropeway runs AscendCL memory copies, streams and events on any Linux machine, for real.
//
// [Open] a [Runtime], take a [Device], make a [Stream], allocate memory, queue copies, wait:
//
//	rt, err := ropeway.Open()
//	defer rt.Close()
//	dev, err := rt.Device(0)
//	host, err := ropeway.AllocPinned[float32](dev, 1024) // pinned host memory
//	mem, err := ropeway.Alloc[float32](dev, 1024)        // device memory
//	s, err := dev.NewStream()
//	host.Values()[0] = 1
//	err = s.Copy(mem.All(), host.All())                  // queued; returns at once
//	err = s.Synchronize(ctx)                             // the bytes are there, or the error is
//
// The software device is the default; its memory is real memory, its copies are asynchronous, and the rules and error
// codes are those of Ascend hardware.
//
// # Memory
//
// A [Buffer] is bytes: device memory ([Device.Alloc]), pinned host memory ([Device.AllocPinned]), memory of the
// program that is registered ([Device.Register]), or managed memory ([Device.AllocManaged]). An [Array] is a buffer
// of numbers. Copies take a [Span]: a part of a buffer. Buffers are io.ReaderAt and io.WriterAt, too.
//
// # What blocks
//
// A method that waits for a stream has a context and returns its error when the context ends first. Methods of a
// [Stream] without one queue their work and return. Methods of a [Device] or a [Buffer] that copy return when the
// bytes are there; they do not wait for streams. Close waits only for the operations that are running at that moment.
//
// # Ownership
//
// Everything that is opened, allocated or created has a method Close; closing it twice is an error. Closing a device
// closes all objects created on it, closing the runtime closes everything.
//
// A copy that is queued owns its source and destination until the stream was synchronised, or an event recorded after
// it is done: do not touch or close them before.
//
// A [Ptr] is a device address. It faults if the host touches it, as on hardware.
//
// # Errors
//
// Every error of a call is an [*Error] with the [Code] that a C program gets. Errors of work that is queued come with
// the next synchronisation.
//
// No state is bound to threads: the receiver determines the device of a method. All methods may be called
// concurrently.
//
// # More
//
// Streams can wait for a [Notify] and for words of memory; a [Reservation] grows without moving; a [Pool] allocates
// memory in stream order; other processes open memory by a [Key], and other servers by a [FabricHandle]. Package
// ascend has the features of only some products: reductions, random numbers, counters, advice for managed memory.
// Package check finds mistakes, package metrics counts work, package pod accesses other servers, package driver/cuda
// runs everything on NVIDIA GPUs, and package ropewaytest is for tests. A program links only those that it imports.
package ropeway

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/product"
	"ropeway/internal/setup"
)

// Ptr is an address of device or pinned memory.
type Ptr uintptr

// String returns the address in hexadecimal.
func (p Ptr) String() string { return fmt.Sprintf("%#x", uintptr(p)) }

// Runtime is an open machine: a product with a number of devices.
type Runtime struct {
	rt     *core.Runtime
	prod   *product.Product
	t      *core.Thread // for calls that concern no device
	closed atomic.Bool

	// registered keeps registered memory alive, by address: copies may use it until it is unregistered, even if the
	// program no longer refers to it.
	registered sync.Map

	imports imports
}

// Open opens the devices. Settings without an option come from the environment (docs/environment.md); a variable with a
// bad value is an error that names it.
func Open(opts ...Option) (*Runtime, error) {
	var o options
	for _, opt := range opts {
		if opt.apply != nil {
			opt.apply(&o)
		}
	}
	s, err := setup.Read(o.lookup)
	if err != nil {
		return nil, opening(err)
	}
	for _, change := range o.changes {
		if err := change(&s); err != nil {
			return nil, opening(err)
		}
	}
	rt, err := s.Open(os.Stderr)
	if err != nil {
		return nil, opening(err)
	}
	if c, ok := rt.Checker().(interface{ SpeakGo() }); ok { // makes a checker name calls as in Go
		c.SpeakGo()
	}
	return &Runtime{rt: rt, prod: s.Product, t: rt.NewThread(0)}, nil
}

// opening converts an error of Open.
func opening(err error) error {
	if e, ok := errors.AsType[*setup.Error](err); ok {
		return &openError{e}
	}
	return &openError{&setup.Error{Code: abi.ErrInvalidParam, Lines: []string{err.Error()}, Err: err}}
}

// Close ends all work, drops queued operations and frees all memory. No other method may be running.
func (r *Runtime) Close() error {
	if r.closed.Swap(true) {
		return misuse("aclFinalize", "", "the runtime was closed already")
	}
	return r.rt.Close()
}

// Product returns the product and the form of the devices.
func (r *Runtime) Product() (Product, Form) {
	if r.prod.RC {
		return Product(r.prod.Name), RC
	}
	return Product(r.prod.Name), EP
}

// Chip returns the name of the chip, as aclrtGetSocName does.
func (r *Runtime) Chip() string { return r.prod.Chip }

// Driver returns the name of the driver: "soft" or "cuda".
func (r *Runtime) Driver() string { return r.rt.Driver.Name() }

// DeviceCount returns the number of devices.
func (r *Runtime) DeviceCount() int {
	var n uint32
	if process.GetDeviceCount(r.rt.NewThread(0), &n) != nil {
		return 0
	}
	return int(n)
}

// Device opens a device. It stays open until it is closed as often as it was opened.
func (r *Runtime) Device(i int) (*Device, error) {
	if i < math.MinInt32 || i > math.MaxInt32 {
		i = -1
	}
	t := r.rt.NewThread(0)
	defer t.Close()
	if err := t.SetDevice(int32(i)); err != nil {
		return nil, r.failed(err)
	}
	var c core.Handle
	if err := t.GetCurrentContext(&c); err != nil {
		return nil, r.failed(err)
	}
	return &Device{r: r, id: i, t: r.rt.ThreadIn(c)}, nil
}

// Devices opens one device after another, starting with 0, and ends after the first error. A device stays open until
// it is closed:
//
//	for dev, err := range rt.Devices() {
//		if err != nil {
//			return err
//		}
//		defer dev.Close()
//		…
//	}
func (r *Runtime) Devices() iter.Seq2[*Device, error] {
	return func(yield func(*Device, error) bool) {
		for i := range r.DeviceCount() {
			d, err := r.Device(i)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}
