package arena

import (
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A ledger tells processes that share a memory limit how many bytes the others were granted and have not touched yet,
// which the kernel does not count.
//
// It consists of locks on the file that holds the limit, a control group's file that all its processes can read. A
// process has a shared lock on a range of its own, whose length is its number of pages. So nothing is written, no
// name is created, and the record of a process disappears when it ends or is killed. A process gains nothing by a
// false record: it is in the same group and could simply use the memory.
type ledger struct {
	f      *os.File
	is     unix.Stat_t // of the file, to detect that another file has its descriptor now
	slot   int64       // start of the range
	pages  int64       // length of the range
	locked bool
}

const (
	slotShift = 40      // distance of ranges
	slotBits  = 22      // number of ranges
	mostSlots = 1 << 10 // that are examined
)

// openLedger opens the ledger of a limit; nil if that fails.
func openLedger(path string) *ledger {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	l := &ledger{f: f}
	if unix.Fstat(int(f.Fd()), &l.is) != nil {
		f.Close() //nolint:errcheck // nothing was written
		return nil
	}
	l.slot = rand.Int64N(1<<slotBits) << slotShift
	for try := 0; try < 100; try++ { // another process may use the slot
		if found, ok := l.get(l.slot, 1<<slotShift); ok && found.Type == unix.F_UNLCK {
			break
		}
		l.slot = rand.Int64N(1<<slotBits) << slotShift
	}
	return l
}

func (l *ledger) close() { l.f.Close() } //nolint:errcheck // nothing was written

// mine reports whether the descriptor is still that of the file: some programs close descriptors that they did not
// open.
func (l *ledger) mine() bool {
	var s unix.Stat_t
	return unix.Fstat(int(l.f.Fd()), &s) == nil && s.Dev == l.is.Dev && s.Ino == l.is.Ino
}

// get returns a lock that another process has in a range.
func (l *ledger) get(start, n int64) (unix.Flock_t, bool) {
	k := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: n}
	err := unix.FcntlFlock(l.f.Fd(), unix.F_OFD_GETLK, &k)
	return k, err == nil
}

// lock keeps other processes from being granted memory between a call of others and the following put. It waits for a
// process that holds the lock, but at most 50 ms: that one may be stopped.
func (l *ledger) lock() {
	for range 100 {
		if !l.mine() {
			return
		}
		if err := unix.Flock(int(l.f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK && err != unix.EINTR {
			l.locked = err == nil
			return
		}
		time.Sleep(500 * time.Microsecond)
	}
}

func (l *ledger) unlock() {
	if l.locked && l.mine() {
		unix.Flock(int(l.f.Fd()), unix.LOCK_UN) //nolint:errcheck // it is locked
	}
	l.locked = false
}

// others returns the number of bytes that other processes have recorded.
func (l *ledger) others() (bytes uint64) {
	if !l.mine() {
		return 0
	}
	type gap struct{ from, to int64 }
	gaps := []gap{{0, 1 << (slotBits + slotShift)}}
	for range mostSlots {
		if len(gaps) == 0 {
			break
		}
		g := gaps[len(gaps)-1]
		gaps = gaps[:len(gaps)-1]
		k, ok := l.get(g.from, g.to-g.from)
		if !ok || k.Type == unix.F_UNLCK || k.Len <= 0 || k.Start < 0 { // not a record: these have an end
			continue
		}
		bytes += uint64(min(k.Len, 1<<slotShift)) << pageShift
		if k.Start > g.from {
			gaps = append(gaps, gap{g.from, k.Start})
		}
		if end := k.Start + k.Len; end < g.to {
			gaps = append(gaps, gap{end, g.to})
		}
	}
	return bytes
}

// put records bytes for this process.
func (l *ledger) put(bytes uint64) {
	pages := int64(min((bytes+pageSize-1)>>pageShift, 1<<slotShift-1))
	k := unix.Flock_t{Type: unix.F_RDLCK, Start: l.slot, Len: pages}
	if pages < l.pages {
		k = unix.Flock_t{Type: unix.F_UNLCK, Start: l.slot + pages, Len: l.pages - pages}
	}
	if pages != l.pages && l.mine() && unix.FcntlFlock(l.f.Fd(), unix.F_OFD_SETLK, &k) == nil {
		l.pages = pages
	}
}
