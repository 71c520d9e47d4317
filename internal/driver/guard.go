package driver

// Access is what the program may do with memory.
type Access uint8

// Kinds of access. ReadWrite is whatever the program itself may do: registered memory that it may only read stays so.
const (
	NoAccess Access = iota
	ReadOnly
	ReadWrite
)

// Guard is a driver that can close host memory to the program while its engine goes on using it. The checker finds it
// with As. Addresses are those of the program. Methods may be called concurrently, and while work runs; the caller
// ensures that memory is not freed or unregistered meanwhile.
type Guard interface {
	// Span is the range of addresses that pinned memory has, now and later. It is empty if the driver was not made to
	// guard; then nothing can be closed.
	Span() (lo, hi uintptr)

	// DeviceSpan is the range of addresses that device memory has, now and later, where the program cannot touch it;
	// it is empty where it can. Reservations of a Mapper need not lie in it.
	DeviceSpan() (lo, hi uintptr)

	// Closable is the first run of whole pages that overlaps the n bytes at addr, lies in the same allocation or
	// registration, and can be closed; lo == hi if there is none. In pinned memory these are all pages of the bytes. In
	// registered memory there may be none, or more runs, which are found by asking again from hi on. For a device
	// address of mapped registered memory it returns pages of the host's. Memory that a Mapper maps, what was imported
	// and managed memory need not be closable.
	Closable(addr uintptr, n uint64) (lo, hi uintptr)

	// Protect says what the program may do with pages of one run that Closable found. What the engine does is not
	// affected. Freeing and unregistering need no Protect before: the first closes the pages, the second opens them.
	Protect(lo, hi uintptr, access Access) error

	// Isolate says that Protect will be called often for exactly these pages of pinned memory: what the system knows
	// of them is kept apart from their neighbours', which makes it faster. It may do nothing. It ends when the memory
	// is freed.
	Isolate(lo, hi uintptr)

	// EngineView is where the engine sees addr; false if that is no memory of the driver or has no second view.
	EngineView(addr uintptr) (uintptr, bool)

	// Sum is a hash of the n bytes at addr as the engine sees them: equal for equal bytes, for as long as the driver
	// lives. Memory that is not there has the sum 0.
	Sum(addr uintptr, n uint64) uint64

	// Beside finds what the program has written on the pages of the pinned allocation at addr besides the size bytes
	// that it was given (see Fencer): from the first such byte to the last, before the start and after the end. Empty
	// ranges where there is none.
	Beside(addr uintptr, size uint64) (before, behind [2]uintptr)

	// Accessible reports whether the program may read or write the byte at addr at this moment, as the kernel sees it.
	// If Register or Unregister is moving memory it waits for them first: an access that faulted meanwhile can be tried
	// again if it returns true. It is slow.
	Accessible(addr uintptr, write bool) bool
}
