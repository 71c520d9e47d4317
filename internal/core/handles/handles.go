// Package handles turns what a program holds of objects into the objects: tables of objects by handle, looked up
// without a lock.
package handles

import (
	"sync"
	"sync/atomic"
)

// Handle is what a program holds of an object, like a context, a stream or a model: opaque, never a pointer. 0 is
// NULL. A handle is used once: after its object is gone it names nothing for ever, whatever is made later.
type Handle uintptr

// Kind distinguishes handles of different things.
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

// Table turns handles into objects of one kind. Looking up takes no lock.
type Table[T any] struct {
	Kind Kind
	page [pages]atomic.Pointer[[pageSlots]Slot[T]]

	mu   sync.Mutex
	free []uint32 // guarded by mu; slots that can be used again
	used uint32   // guarded by mu; slots ever used
}

// Slot holds an object and the handle it is known by; the handle is cleared before the object goes.
type Slot[T any] struct {
	handle atomic.Uintptr
	object atomic.Pointer[T]
	gen    uint32 // guarded by Table.mu
}

// Holds reports whether the object that h names is there, with a slot that Table.Slot has returned for h.
func (s *Slot[T]) Holds(h Handle) bool { return s.handle.Load() == uintptr(h) }

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

// Get is the object that h names, or nil.
func (t *Table[T]) Get(h Handle) *T {
	s := t.Slot(h)
	if s == nil || s.handle.Load() != uintptr(h) {
		return nil
	}
	o := s.object.Load()
	if s.handle.Load() != uintptr(h) { // the slot was given to another object meanwhile
		return nil
	}
	return o
}

// Within makes a handle of something that an object has many of, from the id of the object, which no other object ever
// has, and a number. It is 0 if the number has more than 24 bits.
func (k Kind) Within(id, number uint32) Handle {
	if number > slotMask {
		return 0
	}
	return Handle(k)<<(genBits+slotBits) | Handle(number)<<genBits | Handle(id)
}

// Inside returns the id and the number that a handle of Within has. It is not ok for a handle of another kind.
func (k Kind) Inside(h Handle) (id, number uint32, ok bool) {
	return uint32(h), uint32(h >> genBits & slotMask), Kind(h>>(genBits+slotBits)) == k
}

// Slot is where the object that h names is, or was; nil if there never was one.
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

// Remove makes h name nothing and returns what it named. Of several callers one gets it, the others nil.
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

// Count is how many objects there are.
func (t *Table[T]) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.used) - len(t.free)
}

// Each calls f with every object there is at the moment.
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
