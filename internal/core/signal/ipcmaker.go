package signal

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/share"
)

// maker identifies the process that made a record of an IPC event (its number, the name space of the number, and the
// start time, because numbers are reused) and the lap of the ring. It is a single word, so that it is complete or
// absent even if the process is killed while writing it.
type maker uint64

// The bits of a maker, from the lowest; the rest is the lap.
const (
	makerPid     = 22 // Linux has no larger numbers
	makerSpace   = 4  // index of the name space in the page; 0: not known
	makerBegan   = 24 // 0: not known
	makerProcess = makerPid + makerSpace + makerBegan
)

func newMaker(pid, space, began uint64) maker {
	return maker(pid | space<<makerPid | began<<(makerPid+makerSpace))
}

// low returns the lowest bits of v.
func low(v uint64, bits int) uint64 { return v & (1<<bits - 1) }

func (m maker) pid() int      { return int(low(uint64(m), makerPid)) }
func (m maker) space() int    { return int(low(uint64(m)>>makerPid, makerSpace)) }
func (m maker) began() uint64 { return low(uint64(m)>>(makerPid+makerSpace), makerBegan) }

// process returns the maker without the lap.
func (m maker) process() maker { return maker(low(uint64(m), makerProcess)) }

// made returns the process as the maker of a record.
func (m maker) made(number uint64) maker { return m | maker((number/ipcPlaces+1)<<makerProcess) }

// of reports whether it is the maker of the record with this number, not of one of another lap.
func (m maker) of(number uint64) bool { return m == m.process().made(number) }

// ended reports whether the process has certainly ended. For one in another name space it returns false.
func (m maker) ended(w []atomic.Uint64) bool {
	self := thisProcess()
	if self.space == 0 || m.space() == 0 || m.pid() == 0 || w[ipcSpaces+m.space()].Load() != self.space {
		return false
	}
	if errors.Is(unix.Kill(m.pid(), 0), unix.ESRCH) {
		return true
	}
	if self.began == 0 || m.began() == 0 {
		return false
	}
	now, err := began(m.pid())
	return err == nil && now != m.began() || errors.Is(err, unix.ESRCH)
}

// began returns the start time of a process, as in a maker.
func began(pid int) (uint64, error) {
	text, err := share.Began(int32(pid))
	if err != nil {
		return 0, err
	}
	ticks, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, err
	}
	return ticks%(1<<makerBegan-1) + 1, nil
}

// identity identifies a process to others.
type identity struct {
	pid   int
	space uint64 // name spaces of numbers and of times; 0 if not known
	began uint64 // 0 if not known: /proc is missing, or of another name space
}

// thisProcess returns the identity of this process.
var thisProcess = sync.OnceValue(func() identity {
	p := identity{pid: os.Getpid()}
	var pids, times unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &pids); err != nil {
		return p
	}
	unix.Stat("/proc/self/ns/time", &times) //nolint:errcheck // an old kernel has one for all
	p.space = low(pids.Ino, 32)<<32 | low(times.Ino, 32)
	if self, err := os.Readlink("/proc/self"); err == nil && self == fmt.Sprint(p.pid) {
		p.began, _ = began(p.pid) //nolint:errcheck // 0 with an error
	}
	return p
})

// thisMaker returns this process as a maker, and adds its name space to the page if necessary.
func thisMaker(w []atomic.Uint64) maker {
	p := thisProcess()
	for i := 1; i < ipcSpaceCount && p.space != 0; i++ {
		if space := &w[ipcSpaces+i]; space.CompareAndSwap(0, p.space) || space.Load() == p.space {
			return newMaker(uint64(p.pid), uint64(i), p.began)
		}
	}
	return newMaker(uint64(p.pid), 0, 0)
}
