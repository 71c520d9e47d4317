package hostqueue

import "weak"

const keepDepth = 1 << 10 // an empty ring keeps this many places; the garbage collector may free more

// Ring is a first-in first-out list that grows as needed.
type Ring[T any] struct {
	items []T // length a power of two, or 0
	first int
	n     int

	large *[]T              // the items, if there are more than keepDepth
	spare weak.Pointer[[]T] // the last large items
}

// Len returns the number of items.
func (r *Ring[T]) Len() int { return r.n }

// Full reports whether submitters have to wait.
func (r *Ring[T]) Full() bool { return r.n >= MaxDepth }

// Push appends an item.
func (r *Ring[T]) Push(item *T) {
	if r.n == len(r.items) {
		r.grow()
	}
	r.items[(r.first+r.n)&(len(r.items)-1)] = *item
	r.n++
}

// Extend appends an item and returns it. The item is zero or one that Skip removed.
func (r *Ring[T]) Extend() *T {
	if r.n == len(r.items) {
		r.grow()
	}
	r.n++
	return r.Last()
}

func (r *Ring[T]) grow() {
	grown := r.array(max(16, 2*len(r.items)))
	k := copy(grown, r.items[r.first:])
	copy(grown[k:], r.items[:r.first])
	r.items, r.first = grown, 0
}

// array returns at least n items, each of them zero or one that Skip removed.
func (r *Ring[T]) array(n int) []T {
	if r.large == nil {
		if spare := r.spare.Value(); spare != nil && len(*spare) >= n {
			r.large = spare
			return *spare
		}
	}
	grown := make([]T, n)
	if n > keepDepth {
		r.large = new([]T)
		*r.large = grown
		r.spare = weak.Make(r.large)
	}
	return grown
}

// At returns the i-th item; i must be less than Len.
func (r *Ring[T]) At(i int) *T { return &r.items[(r.first+i)&(len(r.items)-1)] }

// Head and Last return the first and the last item; the ring must not be empty.
func (r *Ring[T]) Head() *T { return &r.items[r.first] }
func (r *Ring[T]) Last() *T { return &r.items[(r.first+r.n-1)&(len(r.items)-1)] }

// First returns the first n items as two slices; n must not exceed Len. The slices do not change before the items are
// removed, even if the ring grows, so they can be read while others append.
func (r *Ring[T]) First(n int) (list, rest []T) {
	if end := r.first + n; end > len(r.items) {
		return r.items[r.first:], r.items[:end-len(r.items)]
	}
	return r.items[r.first : r.first+n], nil
}

// Pop moves the head to item and clears its place.
func (r *Ring[T]) Pop(item *T) {
	h := &r.items[r.first]
	*item = *h
	var none T
	*h = none
	r.first = (r.first + 1) & (len(r.items) - 1)
	r.n--
}

// Drop removes the head and clears its place.
func (r *Ring[T]) Drop() {
	var none T
	*r.Head() = none
	r.Skip(1)
}

// Skip removes n items without clearing them.
func (r *Ring[T]) Skip(n int) {
	r.first = (r.first + n) & (len(r.items) - 1)
	r.n -= n
}

// Shrink lets the garbage collector free the memory of a large ring. If the ring grows again before that, it reuses the
// memory, as in a program that repeatedly submits thousands of tasks and waits. The ring must be empty.
func (r *Ring[T]) Shrink() {
	r.first = 0
	if r.large != nil {
		r.items, r.large = nil, nil
	}
}
