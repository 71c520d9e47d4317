package driver

// Fabric is a driver that shares memory with other servers of a pod. Imported memory is mapped and freed like other
// memory; only copies and fills can access it. It belongs to the device that imported it.
type Fabric interface {
	// Server returns the number of this server in its pod, and the number of the pod.
	Server() (server int, pod uint32)

	// ExportFar exports memory to other servers: to all their processes if open, else to those allowed later. asked is
	// the size that the program asked for, at most m.Size(), which importers find in [FarMemory]. It may wait as
	// Sharer.Share does.
	ExportFar(m Memory, asked uint64, open bool) (FarExport, error)

	// ImportFar imports memory, a [FarMemory], for an open device from a handle of another server's ExportFar. ErrFault
	// if the bytes are not a handle, ErrNotAllowed if the process is not allowed, ErrLost if the other server does not
	// answer, ErrNotAllocated if it does not know the handle. It waits for the other server, up to the timeout in the
	// pod's file.
	ImportFar(handle []byte, device int) (Memory, error)

	// OwnerFar returns the number of the server that created a handle; false if the bytes are not a handle.
	OwnerFar(handle []byte) (server int, ok bool)

	// Keys of device memory and of signals also work between servers. A key has a place, which identifies its process,
	// and a secret.

	// PlaceFar returns the place of this process: 28 bits, not 0. The process listens from then on.
	PlaceFar() (place uint32, err error)

	// ServerFar returns the server of a place.
	ServerFar(place uint32) int

	// HasServer reports whether the pod has a server of that number.
	HasServer(server int) bool

	// OfferFar offers the memory of s under a secret, to processes allowed later. The caller keeps the file. wrote, if
	// not nil, is called after each write of another server; it must not wait.
	OfferFar(s *Shared, secret [24]byte, wrote func()) (FarKey, error)

	// OpenFar imports memory that a process of another server offers, for an open device. Errors are those of
	// ImportFar.
	OpenFar(place uint32, secret [24]byte, device int) (Memory, error)

	// StoreFar stores a word at the start of memory from OpenFar: the gate passes after the store. Each store has a
	// gate of its own.
	StoreFar(m Memory, value uint32) FailingGate

	// IsFar reports whether mapped memory is on another server. Single words there are stored and waited for by gates.
	IsFar(addr uintptr) bool

	// StoreWord returns a gate that stores 8 bytes and passes, AwaitWord one that passes when met accepts the 8 bytes.
	// ErrFault if the address is not a multiple of 8.
	StoreWord(addr uintptr, value uint64) FailingGate
	AwaitWord(addr uintptr, met func(word uint64) bool) FailingGate
}

// FarMemory is memory of another server.
type FarMemory interface {
	Memory
	Host() bool    // it is host memory of the other server
	Asked() uint64 // bytes that the exporting program asked for, at most Size()
}

// FarHandle is the size of a handle of Fabric.
const FarHandle = 44

// FarExport is memory that other servers may import. Servers that have imported it keep it after Withdraw.
type FarExport interface {
	Handle() [FarHandle]byte
	Allow(pids []int32)
	Withdraw()
}

// FarKey is memory that other servers may open by a key. Servers that have opened it keep it after Withdraw.
type FarKey interface {
	AllowAt(server int, pids []int32)
	Withdraw()
}
