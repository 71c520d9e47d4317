package driver

import "os"

// The interfaces below are optional: a driver may implement them besides Driver. The core finds them with As; calls
// that need one that is missing return 207000.

// As finds T in d, or in the driver that d stands in front of.
func As[T any](d Driver) (T, bool) {
	for {
		if t, ok := d.(T); ok {
			return t, true
		}
		w, ok := d.(interface{ Unwrap() Driver })
		if !ok {
			var none T
			return none, false
		}
		d = w.Unwrap()
	}
}

// Base is the driver that has the memory: d, or the one that d stands in front of. What is run on it is not seen by
// those in front of it.
func Base(d Driver) Driver {
	for {
		w, ok := d.(interface{ Unwrap() Driver })
		if !ok {
			return d
		}
		d = w.Unwrap()
	}
}

// Fencer is a driver that looks after what surrounds pinned memory.
type Fencer interface {
	// Fence says that a program gets size bytes of the pinned allocation at addr, which may have more: the rest is
	// not the program's. It is called before the program knows addr.
	Fence(addr uintptr, size uint64)
}

// OnHost is where memory is that belongs to no device.
const OnHost = -1

// Mapper is a driver whose memory can be had apart from its addresses.
//
// Addresses are reserved, memory is created, and a mapping puts memory behind addresses. Mappings of one reservation
// that touch, are on one device and have one kind are one range: Locate's room goes to the end of the last, so that a
// copy may go across. Memory on the host is seen by the program under its addresses; memory of a device is not, as
// always.
//
// Memory of a device that is closed goes with it, imported memory too: where it was mapped there is nothing then,
// which Unmap takes away and Release does not mind. The Memory itself can only be freed.
type Mapper interface {
	// Granularity is what sizes of memory, and places in a reservation, are multiples of. The device is a physical
	// one or OnHost.
	Granularity(device int, page Page) uint64

	// Reserve takes n bytes of addresses, a multiple of 2 MiB, at a place of the caller's choice if at is not 0;
	// ErrFault if they are not free there. Release releases them, ErrNotAllocated if no reservation starts there,
	// ErrBusy if something is still mapped. If something was, it waits until no work goes on that might use them: see
	// Sharer.
	Reserve(n uint64, at uintptr) (uintptr, error)
	Release(addr uintptr) error

	// Create makes memory on an open device, or on the host. It is not cleared.
	Create(device int, n uint64, page Page) (Memory, error)

	// Map puts all of m behind addr. ErrFault if that is not inside one reservation, ErrBusy if something is mapped
	// there. Unmap takes the mapping away that starts at addr (ErrNotAllocated if none does); it does not wait for
	// work that uses it.
	Map(addr uintptr, m Memory) error
	Unmap(addr uintptr) error
}

// Memory is memory without an address. Methods may be called concurrently.
type Memory interface {
	Size() uint64
	Device() int // physical, or OnHost
	Page() Page

	// Free frees the memory; its bytes remain until it is mapped nowhere, in this process or another.
	Free() error
}

// Sharer is a driver whose memory other processes can have, without a copy.
//
// Small allocations may have to be shared together with what lies beside them in the same page, as on hardware; an
// importer never sees what is allocated later.
//
// Share, ShareAt, Mapper.Release and ManagedAllocator.FreeManaged may wait until queues have finished the operation
// they are at (not for queues that wait themselves). So they must not be called from functions that a queue calls
// (Work, Fn, Done, Sink, Gate), nor with a lock held that such a function takes.
type Sharer interface {
	// Share makes memory, and ShareAt the allocation that starts at addr, something that Import of another process
	// takes. Work may be running on it. Calling it again returns the same. The memory stays shared until it is freed;
	// the caller closes the file.
	Share(m Memory) (*Shared, error)
	ShareAt(addr uintptr) (*Shared, error)

	// Import makes memory of what another process shared; what is not as it says is refused (ErrFault), and so is a
	// file whose bytes the other process could take away. The file stays the caller's. The memory has at least
	// Offset+Size bytes.
	Import(s *Shared) (Memory, error)
}

// Shared is what one process sends to another to share memory.
type Shared struct {
	File   *os.File // nil where the driver needs none
	Note   []byte   // what else the driver wants to know
	Offset uint64   // where in the imported memory what was shared begins
	Size   uint64   // of what was shared
	Asked  uint64   // the core's: bytes that the program asked for, of memory without an address
	Device int      // physical, or OnHost
	Page   Page
}

// Fabric is a driver that shares memory with other servers of a pod. Imported memory is mapped and freed like other
// memory; copies and fills reach it, and nothing else does. It is on the device that imported it.
type Fabric interface {
	// Server is the number of this server in its pod, and that of the pod.
	Server() (server int, pod uint32)

	// ExportFar offers memory to other servers: to all their processes if open, else to those that are named. asked is
	// what the program asked for, m.Size() at most, which importers find in [FarMemory]. It may wait as Sharer.Share
	// does.
	ExportFar(m Memory, asked uint64, open bool) (FarExport, error)

	// ImportFar makes memory, a [FarMemory], of a handle that another server's ExportFar gave, for an open device.
	// ErrFault if the bytes are no such handle, ErrNotAllowed if the process is not named there, ErrLost if that server
	// does not answer, ErrNotAllocated if it does not know the handle. It waits for the other server, for as long as
	// the pod's file says.
	ImportFar(handle []byte, device int) (Memory, error)

	// OwnerFar is the number of the server that made a handle; false if the bytes are none.
	OwnerFar(handle []byte) (server int, ok bool)
}

// FarMemory is memory of another server.
type FarMemory interface {
	Memory
	Host() bool    // it is memory of the other server's host
	Asked() uint64 // bytes that the exporting program asked for, Size() at most
}

// FarHandle is how many bytes a handle of Fabric has.
const FarHandle = 44

// FarExport is memory that other servers may import. It stays with those that have it when it is withdrawn.
type FarExport interface {
	Handle() [FarHandle]byte
	Allow(pids []int32)
	Withdraw()
}

// Placer is a driver whose devices are GPUs of the machine, or parts of them.
type Placer interface {
	// GPU is the number of the GPU that a physical device is on. Devices on one GPU share its engines, and each has
	// its part of the memory.
	GPU(device int) int
}

// ManagedAllocator is a driver with memory that has one address for the host and all devices; Locate calls it Managed.
type ManagedAllocator interface {
	AllocManaged(n uint64, device int) (uintptr, error) // n is a multiple of 2 MiB; the device is what Locate is to say
	// ErrNotAllocated if none starts there; see Sharer for when to call it
	FreeManaged(addr uintptr) error
}

// WordAccess is a driver that reads and writes single aligned words of device memory, atomically. ErrFault for an
// address that is not aligned, or no memory of the device. Both may be called from anywhere.
type WordAccess interface {
	Load(addr uintptr) (uint64, error)
	Store(addr uintptr, value uint64) error
}

// HostViewer is a driver whose device memory the host can compute on.
type HostViewer interface {
	// View is the n bytes at addr, in one allocation, as the engine sees them: of a device, pinned, registered, mapped
	// or managed. ErrFault if they are not there. They may disappear while the caller uses them (see
	// hostqueue.Guarded). It is for work of a queue (OpCompute): elsewhere, what is written while the memory is being
	// shared may be lost.
	View(addr uintptr, n uint64) ([]byte, error)

	// Stays reports whether the bytes of View at addr are there, with whatever in them, until their device is closed
	// or memory is unmapped: what the program frees meanwhile is of no matter. That is not so where the memory is the
	// program's own.
	Stays(addr uintptr) bool
}

// Gate holds a queue up: OpWaitCond. Its methods are called by the goroutine that runs the queue, one at a time,
// possibly with a lock of the queue held: they must not wait, and must not call the queue.
type Gate interface {
	// Pass reports whether the queue may go on. If so, what the wait takes is taken (a notify is cleared); it is not
	// asked again. If not, wake is called, from anywhere but inside Pass, when it is worth asking again; calling it
	// too often does no harm.
	Pass(wake func()) bool

	// Leave reports that the queue goes on without having passed: time was up, or the operation was dropped. Nothing is
	// taken, wake is not called any more once Leave has returned, other than by a call that had begun.
	Leave()
}

// FailingGate is a Gate that may let the queue go on with an error. Gates need not be one.
type FailingGate interface {
	Gate

	// Err is called once, after Pass has returned true: the operation fails with what it returns, unless that is nil.
	Err() error
}

// Ender is a driver that has something to end before a process does, which closes no driver: threads of another
// library, for example.
type Ender interface {
	// End is called when the process is about to end. It may wait for a moment; what is called later may fail.
	End()
}
