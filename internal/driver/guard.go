package driver

// Access is the program's access to memory.
type Access uint8

// Kinds of access. ReadWrite restores the program's own access: read-only registered memory stays read-only.
const (
	NoAccess Access = iota
	ReadOnly
	ReadWrite
)

// Guard is a driver that can close host memory to the program while its engine uses it. It is Caps.Guard. Addresses are
// the program's. Methods may be called concurrently, and while work runs; the caller ensures that the memory is not
// freed or unregistered during a call.
type Guard interface {
	// Span returns the range of all present and future addresses of pinned memory. It is empty if the driver does not
	// guard; then nothing can be closed.
	Span() (lo, hi uintptr)

	// DeviceSpan returns the range of all present and future addresses of device memory; it is empty if the program can
	// access device memory. Reservations of a Mapper need not lie in it.
	DeviceSpan() (lo, hi uintptr)

	// Closable returns the first run of whole pages that overlaps the n bytes at addr, lies in the same allocation or
	// registration, and can be closed; lo == hi if there is none. In pinned memory these are all pages of the bytes. In
	// registered memory there may be no run, or several: call it again with hi for the next one. For a device address
	// of registered memory it returns pages at host addresses. Mapped, imported and managed memory need not be
	// closable.
	Closable(addr uintptr, n uint64) (lo, hi uintptr)

	// Protect sets the program's access to pages of one run from Closable. The engine is not affected. Freeing and
	// unregistering need no Protect before: the first closes the pages, the second opens them.
	Protect(lo, hi uintptr, access Access) error

	// Isolate announces frequent calls of Protect for exactly these pages of pinned memory: the driver may separate
	// their mapping from their neighbours', which makes Protect faster. It ends when the memory is freed.
	Isolate(lo, hi uintptr)

	// EngineView returns the engine's address of addr; false if addr is not memory of the driver or has no second view.
	EngineView(addr uintptr) (uintptr, bool)

	// Sum returns a hash of the n bytes at addr, read through the engine's view. It is equal for equal bytes during the
	// life of the driver. The sum of unmapped memory is 0.
	Sum(addr uintptr, n uint64) uint64

	// Beside finds bytes that the program has written on the pages of the pinned allocation at addr outside the size
	// bytes that it was given (see Caps.Fence). It returns the range from the first to the last such byte before the
	// start, and after the end; empty ranges if there are none.
	Beside(addr uintptr, size uint64) (before, behind [2]uintptr)

	// Accessible reports whether the kernel currently lets the program read or write the byte at addr. It first waits
	// for Register or Unregister if they are moving memory: an access that faulted during the move can be retried if it
	// returns true. It is slow.
	Accessible(addr uintptr, write bool) bool
}
