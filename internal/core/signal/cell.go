package signal

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// cell is what streams signal each other with: a few words that records change and waits look at. A notify is a cell
// with a bit, a count notify one with a number, an IPC event one with numbers of records.
//
// A change of the words checks the waits, in the order of their turn, and ends those that are met: so no wait misses a
// value that was there for a moment only, and of two waits that take what they find the earlier one gets it. Words that
// other processes see too are in a page of their own; a change notifies the other processes, and a process listens as
// long as it has waits.
//
// The words are written and read with mu held, and atomically because of the other processes. Those are not trusted:
// any value is possible at any time.
type cell struct {
	order core.Order   // signalled by records
	holds atomic.Int32 // the handle and the tasks that need it; with the last one the page goes

	// immutable; may be nil. Called now and then while a shared cell has waits, with mu held: the process that is to
	// change the words may have died
	suspect func() (changed bool)

	mu        sync.Mutex
	words     []atomic.Uint64 // guarded by mu; in the page if there is one
	page      *cellPage       // guarded by mu; nil while the cell is this process's alone
	waits     []*cellWait     // guarded by mu; that hold a stream up, in the order of their turn
	listening bool            // guarded by mu; a goroutine runs watch
}

// newCell makes a cell of n words, all 0, for a handle.
func newCell(n int) *cell {
	c := &cell{words: make([]atomic.Uint64, n)}
	c.holds.Store(1)
	return c
}

// hold keeps the cell for a task; false if the handle and all tasks are gone.
func (c *cell) hold() bool {
	for n := c.holds.Load(); n > 0; n = c.holds.Load() {
		if c.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release gives up a hold. With the last one the page goes; what still looks at the words finds them as they were.
func (c *cell) release() {
	if c.holds.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	page := c.page
	if page != nil {
		own := make([]atomic.Uint64, len(c.words))
		for i := range own {
			own[i].Store(c.words[i].Load())
		}
		c.words, c.page = own, nil
	}
	c.mu.Unlock()
	if page != nil {
		page.close()
	}
}

// share puts the words into a page that other processes can have too. What it returns is for them.
func (c *cell) share() ([]*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page == nil {
		page, err := newCellPage()
		if err != nil {
			return nil, err
		}
		words := page.words[:len(c.words)]
		for i := range words {
			words[i].Store(c.words[i].Load())
		}
		c.words, c.page = words, page
		c.listen()
	}
	return c.page.files()
}

// openCell makes a cell of the files that another process's share returned, which it closes.
func openCell(n int, files []*os.File) (*cell, error) {
	page, err := openCellPage(files)
	if err != nil {
		return nil, err
	}
	c := &cell{words: page.words[:n], page: page}
	c.holds.Store(1)
	return c, nil
}

// shared reports whether other processes can have the cell.
func (c *cell) shared() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.page != nil
}

// change changes the words by f and lets the waits go that may.
func (c *cell) change(f func(words []atomic.Uint64)) {
	c.mu.Lock()
	f(c.words)
	gone := c.settle()
	page := c.page
	if page != nil {
		page.notify() // with mu held: release could close the page
	}
	c.mu.Unlock()
	wake(gone)
}

// look calls f with the words.
func (c *cell) look(f func(words []atomic.Uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.words)
}

// settle ends the waits that are met, and returns what to call for them once mu is released. mu is held.
func (c *cell) settle() (gone []func()) {
	kept := c.waits[:0]
	for _, w := range c.waits {
		if w.met(c.words) {
			w.listed, w.passed = false, true
			gone = append(gone, w.wake)
		} else {
			kept = append(kept, w)
		}
	}
	clear(c.waits[len(kept):])
	c.waits = kept
	return gone
}

func wake(list []func()) {
	for _, f := range list {
		f()
	}
}

// listen starts a goroutine that notices changes by other processes, as long as there are waits. mu is held.
func (c *cell) listen() {
	if c.page != nil && !c.listening && len(c.waits) > 0 {
		c.listening = true
		go c.watch(c.page)
	}
}

// suspicion is how long a wait for another process lasts before it checks whether that process still exists, and how
// often it checks from then on.
const suspicion = 100 * time.Millisecond

// watch checks the waits after each notification on page, until there are none.
func (c *cell) watch(page *cellPage) {
	for {
		err := page.watch(c.suspect != nil, func() (done bool) {
			c.mu.Lock()
			gone := c.settle()
			done = len(c.waits) == 0
			c.listening = !done
			c.mu.Unlock()
			wake(gone)
			return done
		})
		if err == nil {
			return
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) { // the page was closed
			core.Locked(&c.mu, func() { c.listening = false })
			return
		}
		c.mu.Lock()
		changed := c.suspect() && c.page != nil
		c.mu.Unlock()
		if changed {
			c.change(func([]atomic.Uint64) {})
		}
	}
}

// cellWait is a wait for a cell: the gate of a queue, or a thread of the program.
type cellWait struct {
	c *cell
	// immutable; whether it may go on. If so, it takes what it takes. Called with c.mu held, until it is true
	met  func(words []atomic.Uint64) bool
	back func(words []atomic.Uint64) // immutable; undoes what met took; nil: nothing to undo
	// immutable; what it waits for comes from this process, although others can have the cell
	here bool

	wake   func() // guarded by c.mu
	listed bool   // guarded by c.mu; in c.waits
	passed bool   // guarded by c.mu; met was true
}

// Pass implements driver.Gate.
func (w *cellWait) Pass(wake func()) bool {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.passed || !w.listed && w.met(c.words) {
		w.passed = true
		return true
	}
	w.wake = wake
	if !w.listed {
		w.listed = true
		c.waits = append(c.waits, w)
		c.listen()
	}
	return false
}

// Again is the same wait, to be made once more by a model.
func (w *cellWait) Again() driver.Gate {
	return &cellWait{c: w.c, met: w.met, back: w.back, here: w.here}
}

// Foreign reports whether another process may have let it go: see core.ForeignGate.
func (w *cellWait) Foreign() bool { return !w.here && w.c.shared() }

// Leave implements driver.Gate. A wait that was met at the same moment undoes what it took.
func (w *cellWait) Leave() {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.listed {
		w.listed = false
		for i, o := range c.waits {
			if o == w {
				c.waits = append(c.waits[:i], c.waits[i+1:]...)
				break
			}
		}
		return
	}
	if w.passed && w.back != nil {
		w.back(c.words)
		if gone := c.settle(); len(gone) > 0 {
			go wake(gone) // the caller may hold its queue's lock
		}
	}
}

// await waits on the host until met is true; false when the limit comes first.
func (c *cell) await(met func(words []atomic.Uint64) bool, limit core.WaitLimit) bool {
	done := make(chan struct{})
	w := &cellWait{c: c, met: met}
	if w.Pass(func() { close(done) }) {
		return true
	}
	var up <-chan time.Time
	if limit.Timeout > 0 {
		timer := time.NewTimer(limit.Timeout)
		defer timer.Stop()
		up = timer.C
	}
	select {
	case <-done:
		return true
	case <-up:
	case <-limit.Cancel:
	}
	w.Leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.passed
}
