package driver

import "os"

// Caps has the optional capabilities of a driver; a missing one is the zero value, and calls of the program that need
// it return 207000 (ACL_ERROR_RT_FEATURE_NOT_SUPPORT). A driver in front of another copies the Caps of that one and
// replaces what it does itself. Caps do not change.
type Caps struct {
	Base Driver // the driver that has the memory; drivers in front of it do not see work that runs on it

	Map     Mapper           // memory that is mapped to reserved addresses
	Share   Sharer           // memory for other processes
	Fabric  Fabric           // memory, keys and words for other servers
	Managed ManagedAllocator // memory with one address for the host and all devices
	Words   WordAccess       // single words of device memory
	View    HostViewer       // device memory that the host can access
	Launch  Launcher         // kernels
	Guard   Guard            // for the checker

	// KernelSteps: programs may have kernels as steps, with Copied arguments and no Limit. The program keeps their
	// launches; the driver does not return them.
	KernelSteps bool

	// Sole reports whether memory has only one address. If it returns false or is nil, two disjoint ranges may alias.
	Sole func(addr uintptr) bool

	// GPU returns the number of the GPU of a physical device. Devices on one GPU share its engines, and each has its
	// share of the memory. Nil if devices are not GPUs.
	GPU func(device int) int

	// Fence reports that the program gets only size bytes of the pinned allocation at addr, which may be larger. It is
	// called before the program knows addr.
	Fence func(addr uintptr, size uint64)

	// End is called before the process ends, which does not close drivers, for example to end threads of another
	// library. It may wait for a moment; later calls of the driver may fail.
	End func()
}

// OnHost is the device of memory on the host.
const OnHost = -1

// Mapper is a driver that allocates memory and addresses separately.
//
// Addresses are reserved, memory is created, and a mapping connects the two. Adjacent mappings of one reservation with
// the same device and kind are one range: Locate's room extends to the end of the last one, so a copy may cross their
// borders. The program can access mapped memory on the host, but not memory of a device, as always.
//
// Closing a device frees its memory, imported memory too. Its mappings then are empty: Unmap removes them, and Release
// ignores them. The Memory itself can only be freed.
type Mapper interface {
	// Granularity returns the granularity of sizes of memory and of addresses in a reservation. The device is a
	// physical one or OnHost.
	Granularity(device int, page Page) uint64

	// Reserve reserves n bytes of addresses, a multiple of 2 MiB, at the address at if that is not 0; ErrFault if they
	// are not free. Release releases them; ErrNotAllocated if no reservation starts there, ErrBusy if something is
	// still mapped. If something was mapped, it waits for work that might use the addresses: see Sharer.
	Reserve(n uint64, at uintptr) (uintptr, error)
	Release(addr uintptr) error

	// Create creates memory on an open device, or on the host. It is not cleared.
	Create(device int, n uint64, page Page) (Memory, error)

	// Map maps all of m at addr. ErrFault if that is not inside one reservation, ErrBusy if something is mapped there.
	// Unmap removes the mapping that starts at addr (ErrNotAllocated if none does); it does not wait for work that uses
	// it.
	Map(addr uintptr, m Memory) error
	Unmap(addr uintptr) error
}

// Memory is memory without an address. Methods may be called concurrently.
type Memory interface {
	Size() uint64
	Device() int // physical, or OnHost
	Page() Page

	// Free frees the memory; its bytes stay until the last mapping, in this process or another, is removed.
	Free() error
}

// Sharer is a driver that shares memory with other processes, without a copy.
//
// A small allocation may have to be shared together with others in the same page, as on hardware; an importer never
// sees later allocations.
//
// Share, ShareAt, Mapper.Release and ManagedAllocator.FreeManaged may wait for the running operations of queues, except
// for those that wait themselves. So they must not be called from functions that a queue calls (Work, Fn, Done, Events,
// Gate), nor while holding a lock that such a function takes.
type Sharer interface {
	// Share shares memory, and ShareAt the allocation that starts at addr, for Import in another process. Work may be
	// running on it. A second call returns the same. The memory stays shared until it is freed; the caller closes the
	// file.
	Share(m Memory) (*Shared, error)
	ShareAt(addr uintptr) (*Shared, error)

	// Import imports memory that another process shared. ErrFault if s does not describe it correctly, or if the other
	// process could remove bytes of the file. The caller keeps the file. The memory has at least Offset+Size bytes.
	Import(s *Shared) (Memory, error)
}

// Shared describes shared memory, for another process.
type Shared struct {
	File   *os.File // nil if the driver needs none
	Note   []byte   // other data of the driver
	Offset uint64   // start of the shared bytes in the imported memory
	Size   uint64   // number of shared bytes
	Asked  uint64   // used by the core: bytes that the program asked for, of memory without an address
	Device int      // physical, or OnHost
	Page   Page
}

// ManagedAllocator is a driver with memory that has one address for the host and all devices; Locate calls it Managed.
type ManagedAllocator interface {
	AllocManaged(n uint64, device int) (uintptr, error) // n is a multiple of 2 MiB; Locate reports device
	// ErrNotAllocated if none starts there; see Sharer for when to call it
	FreeManaged(addr uintptr) error
}

// WordAccess is a driver that reads and writes single aligned words of device memory, atomically. ErrFault for an
// address that is not aligned, or not in device memory. Both may be called from anywhere.
type WordAccess interface {
	Load(addr uintptr) (uint64, error)
	Store(addr uintptr, value uint64) error
}

// HostViewer is a driver whose device memory the host can access.
type HostViewer interface {
	// View returns the n bytes at addr, in one allocation, through the engine's mapping: device, pinned, registered,
	// mapped or managed memory. ErrFault if they are not mapped. They may be unmapped while the caller uses them (see
	// hostqueue.Guarded). View is for work of a queue (OpCompute): elsewhere, writes may be lost while the memory is
	// being shared.
	View(addr uintptr, n uint64) ([]byte, error)

	// Stays reports whether the bytes of View at addr stay accessible until their device is closed or they are
	// unmapped, even if the program frees them. It returns false for memory of the program itself.
	Stays(addr uintptr) bool
}

// Gate is the condition of an OpWaitCond. The goroutine that runs the queue calls its methods, one at a time, possibly
// with a lock of the queue held: they must not wait, and must not call the queue.
type Gate interface {
	// Pass reports whether the queue may continue. If so, the wait has had its effect (a notify is cleared), and Pass
	// is not called again. If not, the gate calls wake, from anywhere but inside Pass, when Pass should be called
	// again; extra calls of wake do no harm.
	Pass(wake func()) bool

	// Leave reports that the queue continues without passing: the timeout expired, or the operation was dropped. The
	// wait then has no effect. After Leave has returned, the gate does not call wake, except for a call that had begun.
	Leave()
}

// FailingGate is an optional interface of a Gate whose operation may fail.
type FailingGate interface {
	Gate

	// Err returns the error of the operation, or nil. It is called once, after Pass has returned true.
	Err() error
}
