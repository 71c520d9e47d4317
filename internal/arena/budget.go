package arena

import (
	"math"
	"sync"
	"time"
)

const (
	maxCredit  = 512 << 20
	minReserve = 64 << 20
	minFit     = 64 << 20
)

// A Budget keeps the arenas of a process from using more memory than exists: an excessive allocation returns
// ErrNoMemory instead of the kernel killing the process. It counts the memory that the machine and the containers
// around the process have left, less the memory that was granted but not touched yet, also to other processes in a
// container. Methods are safe for concurrent use.
type Budget struct {
	read func() (limit, available uint64, err error) // immutable; called with mu held

	mu       sync.Mutex
	credit   uint64                // guarded by mu; may be granted without reading again
	left     uint64                // guarded by mu; free bytes at the last reading, less the bytes granted since
	readAt   time.Time             // guarded by mu; time of the last reading
	accounts map[*Account]struct{} // guarded by mu
	ledgers  map[string]*ledger    // guarded by mu; by the file of the limit; nil if it cannot be opened
	pending  *time.Timer           // guarded by mu; brings the ledgers up to date
	pause    time.Duration         // guarded by mu; until the next update, if nothing changes
	posted   uint64                // guarded by mu; bytes recorded in the ledgers
}

// An Account is one arena's part of a [Budget].
type Account struct {
	b        *Budget
	resident func() uint64 // immutable; called with b.mu held
	trim     func() uint64 // immutable; called without a lock
	charged  uint64        // guarded by b.mu; granted and not released
}

// NewBudget returns the budget of this machine and container. If neither can be read, it grants everything.
func NewBudget() *Budget { return newBudgetOf("/") }

// newBudgetOf is NewBudget for the files under root.
func newBudgetOf(root string) *Budget {
	b := newBudget(nil)
	b.read = func() (uint64, uint64, error) { return readMemory(root, b.others) }
	return b
}

func newBudget(read func() (limit, available uint64, err error)) *Budget {
	return &Budget{read: read, accounts: make(map[*Account]struct{})}
}

// Limit returns the memory of the machine or, if less, of the smallest container around the process; the largest
// uint64 if unknown.
func (b *Budget) Limit() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	limit, _, err := b.read()
	if err != nil {
		return math.MaxUint64
	}
	return limit
}

// Available returns the number of bytes that would be granted now; the largest uint64 if unknown.
func (b *Budget) Available() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.available()
}

// available reads the files. mu is held.
func (b *Budget) available() uint64 {
	limit, free, err := b.read()
	if err != nil {
		return math.MaxUint64
	}
	// The reserve that is never granted: 2%, at least 64 MiB, but at most a quarter.
	keep := min(max(limit/50, minReserve), limit/4)
	b.left, b.readAt = sub(free, keep+b.promised()), time.Now()
	return b.left
}

// promised returns the number of bytes that were granted but are not in memory. mu is held.
func (b *Budget) promised() (n uint64) {
	for c := range b.accounts {
		n += sub(c.charged, c.resident())
	}
	return n
}

// Open adds an account. resident returns how many of the bytes granted to it are in memory; it must not block. trim
// frees memory that is only cached and returns the number of bytes; it may be nil.
func (b *Budget) Open(resident, trim func() uint64) *Account {
	c := &Account{b: b, resident: resident, trim: trim}
	b.mu.Lock()
	b.accounts[c] = struct{}{}
	b.mu.Unlock()
	return c
}

// Close closes the account and releases all bytes granted to it.
func (c *Account) Close() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	delete(c.b.accounts, c)
	if len(c.b.accounts) == 0 {
		c.b.forget()
	}
}

// Reserve requests n bytes and reports whether they were granted. Before it refuses, it trims every account.
func (c *Account) Reserve(n uint64) bool {
	return c.grant(n) || c.b.trim() > 0 && c.grant(n)
}

// promise is Reserve for memory that another process has on its account, too, and that is rarely touched here first:
// it succeeds if twice as much was free a moment ago. Reading the files would take longer than the rest of an import.
func (c *Account) promise(n uint64) bool {
	const moment = time.Second
	b := c.b
	b.mu.Lock()
	ok := n <= b.left/2 && time.Since(b.readAt) < moment
	if ok {
		b.left -= n
		c.charged += n
	}
	b.mu.Unlock()
	return ok || c.Reserve(n)
}

// Release returns n granted bytes that are neither resident nor needed later.
func (c *Account) Release(n uint64) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	c.charged = sub(c.charged, n)
	if b.pending != nil && b.pause > firstPause {
		b.pause = firstPause
		b.pending.Reset(b.pause)
	}
}

// move transfers n bytes that were granted to c to another account of the same budget.
func (c *Account) move(n uint64, to *Account) {
	c.b.mu.Lock()
	c.charged = sub(c.charged, n)
	to.charged += n
	c.b.mu.Unlock()
}

func (c *Account) grant(n uint64) bool {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.credit < n {
		free, end := b.availableAlone()
		defer end()
		if free < n {
			b.credit = 0
			return false
		}
		b.credit = n + min((free-n)/8, maxCredit)
		b.post()
	}
	b.credit -= n
	b.left = sub(b.left, n)
	c.charged += n
	return true
}

func (b *Budget) trim() uint64 {
	b.mu.Lock()
	var all []func() uint64
	for c := range b.accounts {
		if c.trim != nil {
			all = append(all, c.trim)
		}
	}
	b.mu.Unlock()
	var n uint64
	for _, f := range all {
		n += f()
	}
	return n
}

// Fit returns the least of want and the limits (such as [Budget.Limit] and
// [Budget.Available]), but not less than 64 MiB unless want is, as a multiple of
// 2 MiB: a capacity for [New].
func Fit(want uint64, limits ...uint64) uint64 {
	n := want
	for _, l := range limits {
		n = min(n, l)
	}
	n = min(max(n, minFit), want, MaxCapacity)
	return max(n&^(extentSize-1), extentSize)
}

// sub returns x - y, or 0 if that is negative.
func sub(x, y uint64) uint64 { return x - min(x, y) }
