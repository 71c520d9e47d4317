package cuda

// ring is a first-in first-out list that grows as needed.
type ring[T any] struct {
	items []T // length a power of two, or 0
	first int
	n     int
}

const (
	maxDepth  = 1 << 17 // tasks a queue holds before submitters wait
	keepDepth = 1 << 10 // larger rings are given back when they have run empty
)

func (r *ring[T]) push(item *T) {
	if r.n == len(r.items) {
		grown := make([]T, max(16, 2*len(r.items)))
		k := copy(grown, r.items[r.first:])
		copy(grown[k:], r.items[:r.first])
		r.items, r.first = grown, 0
	}
	r.items[(r.first+r.n)&(len(r.items)-1)] = *item
	r.n++
}

func (r *ring[T]) head() *T { return &r.items[r.first] }
func (r *ring[T]) last() *T { return &r.items[(r.first+r.n-1)&(len(r.items)-1)] }

// pop takes the head out and forgets what it pointed to.
func (r *ring[T]) pop() (item T) {
	h := &r.items[r.first]
	*h, item = item, *h
	r.first = (r.first + 1) & (len(r.items) - 1)
	if r.n--; r.n == 0 && len(r.items) > keepDepth {
		*r = ring[T]{}
	}
	return item
}
