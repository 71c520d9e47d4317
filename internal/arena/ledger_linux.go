package arena

import (
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A ledger is where processes that share a memory limit see what the others were granted and have not touched yet,
// which the kernel does not count.
//
// It is the locks on the file that holds the limit: a control group's, which all of its processes can read. A process
// has a shared lock on a range of its own whose length is the number of pages. So nothing is written, no name is left
// anywhere, and what a process had is gone when it ends, however it ends. A process that lies here could as well use
// the memory: it is in the same group.
type ledger struct {
	f      *os.File
	is     unix.Stat_t // of the file, to distinguish it from one that has its number now
	slot   int64       // where the range begins
	pages  int64       // and its length
	locked bool
}

const (
	slotShift = 40      // ranges are so far apart
	slotBits  = 22      // and there are so many
	mostSlots = 1 << 10 // that are looked at
)

// openLedger returns the ledger of a limit, or nil if there is none to be had.
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
	for try := 0; try < 100; try++ { // another process may have it
		if found, ok := l.get(l.slot, 1<<slotShift); ok && found.Type == unix.F_UNLCK {
			break
		}
		l.slot = rand.Int64N(1<<slotBits) << slotShift
	}
	return l
}

func (l *ledger) close() { l.f.Close() } //nolint:errcheck // nothing was written

// mine reports whether the file is still the one that was opened: programs close descriptors that they have not opened.
func (l *ledger) mine() bool {
	var s unix.Stat_t
	return unix.Fstat(int(l.f.Fd()), &s) == nil && s.Dev == l.is.Dev && s.Ino == l.is.Ino
}

// get asks for a lock of another process in a range.
func (l *ledger) get(start, n int64) (unix.Flock_t, bool) {
	k := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: n}
	err := unix.FcntlFlock(l.f.Fd(), unix.F_OFD_GETLK, &k)
	return k, err == nil
}

// lock keeps other processes from being granted something, for the moment between looking and putting. It waits for one
// that does so now, but not for one that is stopped meanwhile.
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

// others is how many bytes other processes have on record.
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
		if !ok || k.Type == unix.F_UNLCK || k.Len <= 0 || k.Start < 0 { // no record of ours has no end
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

// put makes bytes the record of this process.
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
