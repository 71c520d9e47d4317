// Package handles maps handles of a program to objects, with lookups that take no lock.
package handles

import (
	"sync"
	"sync/atomic"
)

// Handle identifies an object to the program, like a context, a stream or a model: opaque, never a pointer. 0 is NULL.
// A handle is never reused: after its object is gone, it stays invalid for ever.
type Handle uintptr

// Kind is the kind of object of a handle.
type Kind uint8

// Kinds of handles.
const (
	Context Kind = iota + 1
	Stream
	Event
	Buffer
	Notify
	CntNotify
	Memory
	Pool
	Allocator
	Stamp
	Groups
	Binary
	BinaryObject
	Function
	Args
	Param
	Model
	Group // of a task group of a model
	Task  // of a task of a model
	Cond  // of a condition of a model
	Label
)

// A handle is, from the top: 8 bits kind, 32 bits generation, 24 bits slot number plus one.
const (
	slotBits  = 24
	genBits   = 32
	slotMask  = 1<<slotBits - 1
	pageSlots = 1 << 10
	pages     = 1 << (slotBits - 10)
)

// Table maps handles to objects of one kind. Lookups take no lock.
type Table[T any] struct {
	Kind Kind
	page [pages]atomic.Pointer[[pageSlots]Slot[T]]

	mu   sync.Mutex
	free []uint32 // guarded by mu; slots to reuse
	used uint32   // guarded by mu; number of slots used so far
}

// Slot holds an object and its handle; the handle is cleared before the object is removed.
type Slot[T any] struct {
	handle atomic.Uintptr
	object atomic.Pointer[T]
	gen    uint32 // guarded by Table.mu
}

// Object returns the object that h names, with the slot that Table.Slot has returned for h; nil if it has gone.
func (s *Slot[T]) Object(h Handle) *T {
	o := s.object.Load()
	if s.handle.Load() != uintptr(h) { // the slot is free, or has another object
		return nil
	}
	return o
}

// Add gives object a handle, or 0 when the table is full.
func (t *Table[T]) Add(object *T) Handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i uint32
	if n := len(t.free); n > 0 {
		i, t.free = t.free[n-1], t.free[:n-1]
	} else if t.used < slotMask {
		i = t.used
		t.used++
	} else {
		return 0
	}
	p := t.page[i/pageSlots].Load()
	if p == nil {
		p = new([pageSlots]Slot[T])
		t.page[i/pageSlots].Store(p)
	}
	s := &p[i%pageSlots]
	s.gen++
	h := Handle(t.Kind)<<(genBits+slotBits) | Handle(s.gen)<<slotBits | Handle(i+1)
	s.object.Store(object)
	s.handle.Store(uintptr(h))
	return h
}

// Get returns the object of h, or nil.
func (t *Table[T]) Get(h Handle) *T {
	if s := t.Slot(h); s != nil {
		return s.Object(h)
	}
	return nil
}

// Within returns the handle of a part of an object, from the unique id of the object and the number of the part. It
// returns 0 if the number has more than 24 bits.
func (k Kind) Within(id, number uint32) Handle {
	if number > slotMask {
		return 0
	}
	return Handle(k)<<(genBits+slotBits) | Handle(number)<<genBits | Handle(id)
}

// Inside returns the id and the number in a handle of Within. ok is false for a handle of another kind.
func (k Kind) Inside(h Handle) (id, number uint32, ok bool) {
	return uint32(h), uint32(h >> genBits & slotMask), Kind(h>>(genBits+slotBits)) == k
}

// Slot returns the slot that has or had the object of h; nil if there never was one.
func (t *Table[T]) Slot(h Handle) *Slot[T] {
	i := uint32(h&slotMask) - 1
	if i >= slotMask {
		return nil
	}
	p := t.page[i/pageSlots].Load()
	if p == nil {
		return nil
	}
	return &p[i%pageSlots]
}

// Remove makes h invalid and returns its object. Of several callers one gets it, the others nil.
func (t *Table[T]) Remove(h Handle) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.Slot(h)
	if s == nil || s.handle.Load() != uintptr(h) {
		return nil
	}
	s.handle.Store(0)
	o := s.object.Swap(nil)
	t.free = append(t.free, uint32(h&slotMask)-1)
	return o
}

// Count returns the number of objects.
func (t *Table[T]) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.used) - len(t.free)
}

// Each calls f with every current object.
func (t *Table[T]) Each(f func(*T)) {
	for i := range t.page {
		p := t.page[i].Load()
		if p == nil {
			return
		}
		for j := range p {
			if o := p[j].object.Load(); o != nil {
				f(o)
			}
		}
	}
}
