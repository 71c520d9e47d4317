package arena

import (
	"errors"
	"fmt"
	"sync"
)

// ErrForeign is wrapped by Files.Import for a file whose size is not sealed: it could lose pages while it is mapped,
// and an access would then kill the process.
var ErrForeign = errors.New("arena: not a file that can be shared")

// Files is memory in files of their own, accounted to a budget: memory shared with other processes, and imported from
// them. Methods are safe for concurrent use.
type Files struct {
	acct *Account // nil without a budget

	mu  sync.Mutex         // taken with Budget.mu held
	all map[*File]struct{} // guarded by mu
}

// NewFiles returns an empty set; b may be nil.
func NewFiles(b *Budget) *Files {
	s := &Files{all: map[*File]struct{}{}}
	if b != nil {
		s.acct = b.Open(s.resident, nil)
	}
	return s
}

// Close ends the account. All files must be closed.
func (s *Files) Close() {
	if s.acct != nil {
		s.acct.Close()
	}
}

// A File is a memfd whose size is sealed: its bytes exist while they are mapped.
type File struct {
	in     *Files // immutable
	size   uint64 // immutable
	before uint64 // immutable; bytes that were resident when it was imported: other processes have them on their
	// account

	mu      sync.Mutex // taken with Files.mu held
	fd      int        // guarded by mu; -1 once closed
	charged uint64     // guarded by mu
}

// Create creates a file of size bytes, which are whole pages, and reserves all of them in the budget.
func (s *Files) Create(name string, size uint64) (*File, error) { return s.create(name, size, size) }

// create is Create with a different number of bytes to reserve.
func (s *Files) create(name string, size, charge uint64) (*File, error) {
	if s.acct != nil && !s.acct.Reserve(charge) {
		return nil, fmt.Errorf("arena %s: %d bytes wanted: %v: %w", name, size, errBudget, ErrNoMemory)
	}
	fd, err := sealedMemfd(name, size)
	if err != nil {
		s.release(charge)
		return nil, fmt.Errorf("arena %s: %d bytes wanted: %v: %w", name, size, err, ErrNoMemory)
	}
	return s.add(&File{in: s, size: size, fd: fd, charged: charge}), nil
}

// Import returns a File for fd, which another process has created and the caller keeps. Bytes without pages are
// charged to this account, because the importer may touch them first.
func (s *Files) Import(fd int) (*File, error) {
	size, resident, err := looksShared(fd)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrForeign, err)
	}
	missing := sub(size, resident)
	if s.acct != nil && !s.acct.promise(missing) {
		return nil, fmt.Errorf("arena: import of %d bytes: %v: %w", size, errBudget, ErrNoMemory)
	}
	own, err := duplicate(fd)
	if err != nil {
		s.release(missing)
		return nil, fmt.Errorf("arena: import of %d bytes: %w", size, err)
	}
	return s.add(&File{in: s, size: size, before: resident, fd: own, charged: missing}), nil
}

func (s *Files) add(f *File) *File {
	s.mu.Lock()
	s.all[f] = struct{}{}
	s.mu.Unlock()
	return f
}

func (s *Files) release(n uint64) {
	if s.acct != nil {
		s.acct.Release(n)
	}
}

// resident returns how many of the granted bytes are in memory.
func (s *Files) resident() (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.all {
		f.mu.Lock()
		if f.fd >= 0 {
			n += min(sub(residentBytes(f.fd), f.before), f.charged)
		}
		f.mu.Unlock()
	}
	return n
}

// Size returns the size of the file in bytes.
func (f *File) Size() uint64 { return f.size }

// FD returns the file's descriptor, which is valid until Close.
func (f *File) FD() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fd
}

// Duplicate returns another descriptor of the file; the caller closes it. ErrClosed after Close.
func (f *File) Duplicate() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return -1, ErrClosed
	}
	return duplicate(f.fd)
}

// Close closes the file; its bytes are freed when they are no longer mapped. Idempotent.
func (f *File) Close() error {
	f.in.mu.Lock()
	delete(f.in.all, f)
	f.in.mu.Unlock()
	f.mu.Lock()
	fd, charged := f.fd, f.charged
	f.fd, f.charged = -1, 0
	f.mu.Unlock()
	if fd < 0 {
		return nil
	}
	err := closeFile(fd)
	f.in.release(charged)
	return err
}

// takeOver transfers n bytes that were granted to from to the file.
func (f *File) takeOver(from *Account, n uint64) {
	f.mu.Lock()
	f.charged += n
	f.mu.Unlock()
	if from != nil && f.in.acct != nil {
		from.move(n, f.in.acct)
	}
}
