package driver

// FarKeys is a Fabric by which keys reach other servers: of device memory, and of signals. A key has a place, which
// says where its process is, and a secret.
type FarKeys interface {
	Fabric

	// PlaceFar is the place of this process: 28 bits, not 0. The process listens from then on.
	PlaceFar() (place uint32, err error)

	// ServerFar is the server that a place is on.
	ServerFar(place uint32) int

	// HasServer reports whether the pod has a server.
	HasServer(server int) bool

	// OfferFar offers what s says under a secret, to processes that are named. The file stays the caller's. wrote, if
	// it is not nil, is called after each write of another server; it must not wait.
	OfferFar(s *Shared, secret [24]byte, wrote func()) (FarKey, error)

	// OpenFar is memory that a process of another server offers, for an open device. Errors are those of ImportFar.
	OpenFar(place uint32, secret [24]byte, device int) (Memory, error)

	// StoreFar is a store of a word at the start of memory that OpenFar returned: the gate passes when it was made.
	// Each store has a gate of its own.
	StoreFar(m Memory, value uint32) FailingGate
}

// FarKey is what other servers may have by a key. Those that have it keep it when it is withdrawn.
type FarKey interface {
	AllowAt(server int, pids []int32)
	Withdraw()
}

// FarWords is a driver whose mapped memory may be on other servers, where single words are stored and waited for by
// gates. They are for words that IsFar.
type FarWords interface {
	IsFar(addr uintptr) bool

	// StoreWord passes when 8 bytes have the value, and AwaitWord when they have one that met accepts. ErrFault where
	// the address is not a multiple of 8.
	StoreWord(addr uintptr, value uint64) FailingGate
	AwaitWord(addr uintptr, met func(word uint64) bool) FailingGate
}
