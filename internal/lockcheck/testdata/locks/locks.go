// Package locks has right and wrong uses of locks; a line that is wrong says so.
package locks

import (
	"sync"
	"time"
)

type box struct {
	mu   sync.Mutex
	n    int    // guarded by mu
	done func() // called by another
}

type lid struct {
	b    *box
	open bool // guarded by b.mu
	shut bool // guarded by box.mu
	odd  int  // guarded by nothing // want "there is no such mutex"
}

type wide struct {
	sync.RWMutex
	m map[int]int // guarded by RWMutex
}

func (b *box) right() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	b.add(1)
	func() { b.n++ }()
}

// add adds. mu is held.
func (b *box) add(n int) { b.n += n }

// both adds twice. The caller has the box or holds mu.
func (b *box) both() {
	b.add(1) // lockcheck: as the comment says
}

// reset is right for another reason.
// lockcheck: nobody else has b yet
func (b *box) reset() { b.n = 0 }

func fresh() *box {
	b := &box{}
	b.n = 1
	b.add(1)
	return b
}

func (b *box) wrong() {
	b.n++    // want "n is guarded by mu"
	b.add(1) // want "call of add"
	_ = &b.n // an address is no access
	l := lid{b: b}
	_ = l.open
}

func (b *box) after() {
	b.mu.Lock()
	b.mu.Unlock()
	b.n++ // want "n is guarded by mu"
}

func (b *box) branches(yes bool) {
	if yes {
		b.mu.Lock()
	}
	b.n++ // want "n is guarded by mu"
	if yes {
		b.mu.Unlock()
	}
	b.mu.Lock()
	if yes {
		b.mu.Unlock()
		return
	}
	b.n++
	switch {
	case yes:
		b.mu.Unlock()
	default:
		b.n++
		b.mu.Unlock()
	}
	b.n++ // want "n is guarded by mu"
	if b.mu.TryLock() {
		b.n++
		b.mu.Unlock()
	}
	if !b.mu.TryLock() {
		return
	}
}

func (b *box) later() {
	b.mu.Lock()
	defer b.mu.Unlock()
	go func() { b.n++ }()                // want "n is guarded by mu"
	b.done = func() { b.n++ }            // want "n is guarded by mu"
	time.AfterFunc(0, func() { b.n++ })  // want "n is guarded by mu"
	other := box{done: func() { b.n++ }} // want "n is guarded by mu"
	_ = other.n
	go b.add(1) // want "call of add"
}

func locked(mu *sync.Mutex, f func()) {
	mu.Lock()
	defer mu.Unlock()
	f()
}

func (l *lid) lift() {
	locked(&l.b.mu, func() { l.open = true })
	l.open = false // want "open is guarded by mu"
	l.b.mu.Lock()
	l.shut = true
	l.b.mu.Unlock()
}

func (w *wide) get(k int) int {
	w.RLock()
	defer w.RUnlock()
	return w.m[k]
}

func (w *wide) put(k, v int) { w.m[k] = v } // want "m is guarded by RWMutex"

type inner struct {
	Mu alias
	n  int // guarded by Mu
}

type alias = sync.Mutex

type outer struct {
	inner
	m int // guarded by inner.Mu
}

// grow makes it larger. Mu is held.
func (o *outer) grow() {
	o.m++
	o.n++
}

func (o *outer) use() {
	o.Mu.Lock()
	o.grow()
	o.Mu.Unlock()
	o.grow() // want "call of grow"
	o.m++    // want "m is guarded by Mu"
}

// Read is aclrtRead.
func (b *box) Read(n *int, list []int) {
	b.mu.Lock()
	*n = b.n // want "access to the program's memory at n, and mu is held"
	b.mu.Unlock()
	*n = 0
	locked(&b.mu, func() {
		copy(list, []int{b.n}) // want "the program's memory at list"
		b.into(n)
	})
	for range list {
		list[0] = 0
	}
	part := list[:1]
	b.mu.Lock()
	defer b.mu.Unlock()
	part[0] = 1  // want "the program's memory at part"
	b.last(part) // want "call of last with the program's memory at part"
}

func (b *box) last(list []int) int { return list[len(list)-1] }

// into writes n to where Read says. mu is held.
func (b *box) into(to *int) {
	*to = b.n // want "the program's memory at to"
}
