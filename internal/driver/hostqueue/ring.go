package hostqueue

const keepDepth = 1 << 10 // larger rings are freed when they have run empty

// Ring is a first-in first-out list that grows as needed.
type Ring[T any] struct {
	items []T // length a power of two, or 0
	first int
	n     int
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
	grown := make([]T, max(16, 2*len(r.items)))
	k := copy(grown, r.items[r.first:])
	copy(grown[k:], r.items[:r.first])
	r.items, r.first = grown, 0
}

// At is the i-th item; there are more.
func (r *Ring[T]) At(i int) *T { return &r.items[(r.first+i)&(len(r.items)-1)] }

// Head and Last are the first and the last item, of which there is at least one.
func (r *Ring[T]) Head() *T { return &r.items[r.first] }
func (r *Ring[T]) Last() *T { return &r.items[(r.first+r.n-1)&(len(r.items)-1)] }

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

// Shrink frees the memory of a large ring. The ring is empty.
func (r *Ring[T]) Shrink() {
	if len(r.items) > keepDepth {
		*r = Ring[T]{}
	}
}
