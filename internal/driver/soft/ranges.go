package soft

import (
	"sort"
	"sync/atomic"
)

// A ranges is a set of disjoint address ranges that is read without a lock and written by one goroutine at a time.
// It is a sorted list cut into blocks; a change copies one block and the list of blocks, never what is in use.
type ranges struct {
	blocks atomic.Pointer[[][]*span]
}

// span is one range: size bytes at start belong to reg.
type span struct {
	start uintptr
	reg   *registration
}

const blockSpans = 256

// find returns the span that addr falls into.
func (r *ranges) find(addr uintptr) *span {
	blocks := r.load()
	if len(blocks) == 0 {
		return nil
	}
	b := sort.Search(len(blocks), func(i int) bool { return blocks[i][0].start > addr })
	if b == 0 {
		return nil
	}
	block := blocks[b-1]
	i := sort.Search(len(block), func(i int) bool { return block[i].start > addr })
	if s := block[i-1]; uint64(addr-s.start) < s.reg.size {
		return s
	}
	return nil
}

// after returns the first span that starts at addr or above.
func (r *ranges) after(addr uintptr) *span {
	blocks := r.load()
	b := sort.Search(len(blocks), func(i int) bool { return blocks[i][len(blocks[i])-1].start >= addr })
	if b == len(blocks) {
		return nil
	}
	i := sort.Search(len(blocks[b]), func(i int) bool { return blocks[b][i].start >= addr })
	return blocks[b][i]
}

func (r *ranges) load() [][]*span {
	if p := r.blocks.Load(); p != nil {
		return *p
	}
	return nil
}

// insert adds s, which overlaps nothing. The caller is the only writer.
func (r *ranges) insert(s *span) {
	old := r.load()
	if len(old) == 0 {
		r.blocks.Store(&[][]*span{{s}})
		return
	}
	b := max(0, sort.Search(len(old), func(i int) bool { return old[i][0].start > s.start })-1)
	i := sort.Search(len(old[b]), func(i int) bool { return old[b][i].start > s.start })
	block := make([]*span, 0, len(old[b])+1)
	block = append(append(append(block, old[b][:i]...), s), old[b][i:]...)

	blocks := make([][]*span, 0, len(old)+1)
	blocks = append(blocks, old[:b]...)
	if half := len(block) / 2; len(block) > blockSpans {
		blocks = append(blocks, block[:half:half], block[half:])
	} else {
		blocks = append(blocks, block)
	}
	blocks = append(blocks, old[b+1:]...)
	r.blocks.Store(&blocks)
}

// remove takes s out. The caller is the only writer.
func (r *ranges) remove(s *span) {
	old := r.load()
	b := sort.Search(len(old), func(i int) bool { return old[i][0].start > s.start }) - 1
	i := sort.Search(len(old[b]), func(i int) bool { return old[b][i].start >= s.start })
	blocks := make([][]*span, 0, len(old))
	blocks = append(blocks, old[:b]...)
	if len(old[b]) > 1 {
		block := make([]*span, 0, len(old[b])-1)
		blocks = append(blocks, append(append(block, old[b][:i]...), old[b][i+1:]...))
	}
	blocks = append(blocks, old[b+1:]...)
	r.blocks.Store(&blocks)
}
