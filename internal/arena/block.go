package arena

import "fmt"

// A Block is memory of an arena without addresses in the window: lookups do not find it, and callers map it
// elsewhere. It counts as an allocation. Methods are safe for concurrent use.
type Block struct {
	a    *Arena // immutable
	c, n int32  // immutable
	size uint64 // immutable
	lazy bool   // immutable

	freed bool // guarded by Arena.mu
}

// Take is Alloc for a block. A block of any size gets its pages on first use: programs create blocks before they need
// them.
func (a *Arena) Take(size uint64, huge HugePolicy) (*Block, error) {
	if size == 0 || size > a.limit {
		return nil, a.noMemory(size, "none, or more than the capacity")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c, n, kind, err := a.obtain(size, huge, false, true)
	if err != nil {
		return nil, err
	}
	r, i := a.at(c)
	r.id[i].Store(0)
	a.grew(size)
	return &Block{a: a, c: c, n: n, size: size, lazy: kind == kindLazy}, nil
}

// Size returns the size of the block in bytes.
func (b *Block) Size() uint64 { return b.size }

// Lazy reports whether the block gets its pages on first use.
func (b *Block) Lazy() bool { return b.lazy }

// File returns the file that holds its bytes, and the offset. The caller keeps the block alive while it uses them.
func (b *Block) File() (fd int, off uint64) {
	b.a.mu.Lock()
	defer b.a.mu.Unlock()
	if f := b.a.separated[b.c]; f != nil {
		return f.FD(), 0
	}
	return b.a.fd, uint64(b.c) << chunkShift
}

// Separate gives the block a file of its own, if it has none: see Arena.Separate.
func (b *Block) Separate(w Way) (*File, error) {
	b.a.movers.Lock()
	defer b.a.movers.Unlock()
	b.a.mu.Lock()
	defer b.a.mu.Unlock()
	if b.freed || b.a.closed {
		return nil, fmt.Errorf("arena %s: a block: %w", b.a.name, ErrNotAllocated)
	}
	return b.a.separate(run{b.c, b.n}, b.size, b.lazy, w)
}

// Free frees the block, which must not be mapped.
func (b *Block) Free() error {
	a := b.a
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return fmt.Errorf("arena %s: %w", a.name, ErrClosed)
	case b.freed:
		return fmt.Errorf("arena %s: a block: %w", a.name, ErrNotAllocated)
	}
	b.freed = true
	a.unrun(b.c)
	a.shrank(b.size)
	a.end(ending{run{b.c, b.n}, (b.size + pageSize - 1) >> pageShift, b.lazy, false})
	return nil
}
