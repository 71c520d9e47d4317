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

// cell is a signal between streams: a few words that records change and waits check. A notify is a cell with a bit, a
// count notify one with a number, an IPC event one with numbers of records.
//
// A change of the words checks the waits, in the order of their turn, and ends those that are met: so no wait misses a
// short-lived value, and of two waits that consume a value the earlier one gets it. Words that other processes share
// are in a page of their own; a change notifies the other processes, and a process listens while it has waits.
//
// The words are accessed with mu held, and atomically because of the other processes. Those are not trusted: any value
// is possible at any time.
type cell struct {
	order core.Order   // signalled by records
	holds atomic.Int32 // number of holders: the handle and the tasks that need it; the last one closes the page

	// immutable; may be nil. Called at intervals while a shared cell has waits, with mu held: the process that should
	// change the words may have died
	suspect func() (changed bool)

	mu        sync.Mutex
	words     []atomic.Uint64 // guarded by mu; in the page if there is one
	page      *cellPage       // guarded by mu; nil while the cell is not shared
	waits     []*cellWait     // guarded by mu; blocking waits, in the order of their turn
	listening bool            // guarded by mu; a goroutine runs watch
}

// newCell returns a cell of n words, all 0, held by a handle.
func newCell(n int) *cell {
	c := &cell{words: make([]atomic.Uint64, n)}
	c.holds.Store(1)
	return c
}

// hold holds the cell for a task; false if it has no holder left.
func (c *cell) hold() bool {
	for n := c.holds.Load(); n > 0; n = c.holds.Load() {
		if c.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release ends a hold. The last one closes the page; later readers find the last values of the words.
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

// share moves the words to a page that other processes can share, and returns files for them.
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

// openCell returns a cell from the files of another process's share, and closes the files.
func openCell(n int, files []*os.File) (*cell, error) {
	page, err := openCellPage(files)
	if err != nil {
		return nil, err
	}
	c := &cell{words: page.words[:n], page: page}
	c.holds.Store(1)
	return c, nil
}

// shared reports whether other processes may have the cell.
func (c *cell) shared() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.page != nil
}

// change changes the words by f and ends the waits that are met.
func (c *cell) change(f func(words []atomic.Uint64)) {
	c.mu.Lock()
	f(c.words)
	gone := c.endMet()
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

// endMet ends the waits that are met, and returns the functions to call for them after mu is released. mu is held.
func (c *cell) endMet() (gone []func()) {
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

// listen starts a goroutine that notices changes by other processes while there are waits. mu is held.
func (c *cell) listen() {
	if c.page != nil && !c.listening && len(c.waits) > 0 {
		c.listening = true
		go c.watch(c.page)
	}
}

// suspicion is the interval at which a wait for another process checks whether that process still exists.
const suspicion = 100 * time.Millisecond

// watch checks the waits after each notification on page, until there are none.
func (c *cell) watch(page *cellPage) {
	for {
		err := page.watch(c.suspect != nil, func() (done bool) {
			c.mu.Lock()
			gone := c.endMet()
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
	// immutable; reports whether the wait is met, and then consumes the value. Called with c.mu held, until it is true
	met  func(words []atomic.Uint64) bool
	back func(words []atomic.Uint64) // immutable; undoes the consumption; nil: nothing to undo
	// immutable; this process will signal it, although others may have the cell
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

// Renew returns a new gate for the same wait, for the next run of a model.
func (w *cellWait) Renew() driver.Gate {
	return &cellWait{c: w.c, met: w.met, back: w.back, here: w.here}
}

// Foreign reports whether another process may have opened the gate: see core.ForeignGate.
func (w *cellWait) Foreign() bool { return !w.here && w.c.shared() }

// Leave implements driver.Gate. It undoes the consumption of a wait that was met at the same moment.
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
		if gone := c.endMet(); len(gone) > 0 {
			go wake(gone) // the caller may hold its queue's lock
		}
	}
}

// await waits on the host until met is true; false if the limit is reached first.
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
