package hostqueue

import "weak"

const keepDepth = 1 << 10 // a ring that has run empty keeps so many places; the garbage collector may free more

// Ring is a first-in first-out list that grows as needed.
type Ring[T any] struct {
	items []T // length a power of two, or 0
	first int
	n     int

	large *[]T              // the items, if there are more than keepDepth
	spare weak.Pointer[[]T] // the last that were large
}

// Len is how many items there are.
func (r *Ring[T]) Len() int { return r.n }

// Full reports whether submitters have to wait.
func (r *Ring[T]) Full() bool { return r.n >= MaxDepth }

// Push puts an item at the end.
func (r *Ring[T]) Push(item *T) {
	if r.n == len(r.items) {
		r.grow()
	}
	r.items[(r.first+r.n)&(len(r.items)-1)] = *item
	r.n++
}

// Extend puts an item at the end and returns it. It is zero, or one that Skip has left behind.
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

// array is an array of at least n items, each of them zero or one that Skip has left behind.
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

// At is the i-th item; there are more.
func (r *Ring[T]) At(i int) *T { return &r.items[(r.first+i)&(len(r.items)-1)] }

// Head and Last are the first and the last item, of which there is at least one.
func (r *Ring[T]) Head() *T { return &r.items[r.first] }
func (r *Ring[T]) Last() *T { return &r.items[(r.first+r.n-1)&(len(r.items)-1)] }

// First is the first n items, of which there are as many, in two parts. Until they are taken out they do not change,
// also if the ring grows: they can be read while others put items into it.
func (r *Ring[T]) First(n int) (list, rest []T) {
	if end := r.first + n; end > len(r.items) {
		return r.items[r.first:], r.items[:end-len(r.items)]
	}
	return r.items[r.first : r.first+n], nil
}

// Pop moves the head into item and forgets what it pointed to.
func (r *Ring[T]) Pop(item *T) {
	h := &r.items[r.first]
	*item = *h
	var none T
	*h = none
	r.first = (r.first + 1) & (len(r.items) - 1)
	r.n--
}

// Drop takes the head out and forgets what it pointed to.
func (r *Ring[T]) Drop() {
	var none T
	*r.Head() = none
	r.Skip(1)
}

// Skip takes n items out without clearing them.
func (r *Ring[T]) Skip(n int) {
	r.first = (r.first + n) & (len(r.items) - 1)
	r.n -= n
}

// Shrink lets the garbage collector free the memory of a large ring. A ring that grows again before that uses the same
// memory: a program that submits thousands of tasks and waits does that again and again. The ring is empty.
func (r *Ring[T]) Shrink() {
	r.first = 0
	if r.large != nil {
		r.items, r.large = nil, nil
	}
}
