// Package ranges keeps sets of address ranges that are looked up without a lock.
package ranges

import (
	"iter"
	"sort"
	"sync/atomic"
)

// A Set holds disjoint address ranges. It is read without a lock and written by one goroutine at a time. Lookups do
// not allocate. It is a sorted list divided into blocks; a change replaces one block and the list of blocks by
// copies, so readers keep a consistent snapshot.
type Set[T any] struct {
	blocks atomic.Pointer[[][]*Span[T]]
}

// Span is one range: the Size bytes at Start belong to Of. It must not be changed while it is in a set.
type Span[T any] struct {
	Start uintptr
	Size  uint64
	Of    T
}

const blockSpans = 256

// Find returns the span that contains addr, or nil.
func (r *Set[T]) Find(addr uintptr) *Span[T] {
	blocks := r.load()
	if len(blocks) == 0 {
		return nil
	}
	b := sort.Search(len(blocks), func(i int) bool { return blocks[i][0].Start > addr })
	if b == 0 {
		return nil
	}
	block := blocks[b-1]
	i := sort.Search(len(block), func(i int) bool { return block[i].Start > addr })
	if s := block[i-1]; uint64(addr-s.Start) < s.Size {
		return s
	}
	return nil
}

// After returns the first span that starts at addr or above, or nil.
func (r *Set[T]) After(addr uintptr) *Span[T] {
	blocks := r.load()
	b := sort.Search(len(blocks), func(i int) bool { return blocks[i][len(blocks[i])-1].Start >= addr })
	if b == len(blocks) {
		return nil
	}
	i := sort.Search(len(blocks[b]), func(i int) bool { return blocks[b][i].Start >= addr })
	return blocks[b][i]
}

// Overlap returns a span that shares a byte with the n bytes at addr, or nil.
func (r *Set[T]) Overlap(addr uintptr, n uint64) *Span[T] {
	if s := r.Find(addr); s != nil {
		return s
	}
	if s := r.After(addr); s != nil && s.Start < addr+uintptr(n) {
		return s
	}
	return nil
}

// Snapshot is the content of a set at one time. Two snapshots of one set are equal (==) if it did not change between
// them.
type Snapshot[T any] struct{ blocks *[][]*Span[T] }

// Snapshot returns the current content of the set.
func (r *Set[T]) Snapshot() Snapshot[T] { return Snapshot[T]{r.blocks.Load()} }

// All iterates over a snapshot of the spans, in order.
func (r *Set[T]) All() iter.Seq[*Span[T]] { return r.Snapshot().All() }

// All iterates over the spans, in order.
func (s Snapshot[T]) All() iter.Seq[*Span[T]] {
	var blocks [][]*Span[T]
	if s.blocks != nil {
		blocks = *s.blocks
	}
	return func(yield func(*Span[T]) bool) {
		for _, block := range blocks {
			for _, s := range block {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Empty reports whether the set is empty.
func (r *Set[T]) Empty() bool { return len(r.load()) == 0 }

// Clear empties the set. The caller is the only writer.
func (r *Set[T]) Clear() { r.blocks.Store(nil) }

func (r *Set[T]) load() [][]*Span[T] {
	if p := r.blocks.Load(); p != nil {
		return *p
	}
	return nil
}

// Insert adds s, which must not overlap another span. The caller is the only writer.
func (r *Set[T]) Insert(s *Span[T]) { r.store(with(r.load(), s)) }

// Remove removes s, which must be in the set. The caller is the only writer.
func (r *Set[T]) Remove(s *Span[T]) { r.store(without(r.load(), s)) }

// Replace atomically replaces spans by others. The caller is the only writer.
func (r *Set[T]) Replace(out, in []*Span[T]) {
	blocks := r.load()
	for _, s := range out {
		blocks = without(blocks, s)
	}
	for _, s := range in {
		blocks = with(blocks, s)
	}
	r.store(blocks)
}

func (r *Set[T]) store(blocks [][]*Span[T]) { r.blocks.Store(&blocks) }

// with returns a copy of the list with s.
func with[T any](old [][]*Span[T], s *Span[T]) [][]*Span[T] {
	if len(old) == 0 {
		return [][]*Span[T]{{s}}
	}
	b := max(0, sort.Search(len(old), func(i int) bool { return old[i][0].Start > s.Start })-1)
	i := sort.Search(len(old[b]), func(i int) bool { return old[b][i].Start > s.Start })
	block := make([]*Span[T], 0, len(old[b])+1)
	block = append(append(append(block, old[b][:i]...), s), old[b][i:]...)

	blocks := make([][]*Span[T], 0, len(old)+1)
	blocks = append(blocks, old[:b]...)
	if half := len(block) / 2; len(block) > blockSpans {
		blocks = append(blocks, block[:half:half], block[half:])
	} else {
		blocks = append(blocks, block)
	}
	return append(blocks, old[b+1:]...)
}

// without returns a copy of the list without s, which must be in it.
func without[T any](old [][]*Span[T], s *Span[T]) [][]*Span[T] {
	b := sort.Search(len(old), func(i int) bool { return old[i][0].Start > s.Start }) - 1
	i := sort.Search(len(old[b]), func(i int) bool { return old[b][i].Start >= s.Start })
	blocks := make([][]*Span[T], 0, len(old))
	blocks = append(blocks, old[:b]...)
	if len(old[b]) > 1 {
		block := make([]*Span[T], 0, len(old[b])-1)
		blocks = append(blocks, append(append(block, old[b][:i]...), old[b][i+1:]...))
	}
	return append(blocks, old[b+1:]...)
}
