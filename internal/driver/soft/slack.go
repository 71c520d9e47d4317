package soft

import (
	"errors"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
)

// slack is spare mappings. The kernel limits how many a process has, and at the limit it refuses to replace one, even
// where fewer would be left: memory could no longer be unmapped. Then these go, which makes room for it. The other way,
// to unmap first and reserve again, would leave a moment in which another thread gets addresses that work may still be
// using.
type slack struct {
	at uintptr // an extent of addresses; 0: not reserved yet
	// how many pages of it can be read: every other one, from the first on, so that each makes two mappings more
	opened int
}

const slackPages = 128 // what is opened: 256 mappings of some 65,000

// fill makes the mappings that are missing, as far as the kernel allows.
func (s *slack) fill() {
	if s.at == 0 {
		at, err := arena.Reserve(extent)
		if err != nil {
			return
		}
		s.at = at
	}
	for ; s.opened < slackPages; s.opened++ {
		if arena.ProtectPages(s.at+uintptr(2*s.opened+1)*pageSize, pageSize, unix.PROT_READ) != nil {
			return
		}
	}
}

// vacate is arena.Vacate, also at the limit.
func (s *slack) vacate(addr uintptr, n uint64) error {
	err := arena.Vacate(addr, n)
	if s.opened > 0 && errors.Is(err, unix.ENOMEM) {
		if err := arena.ProtectPages(s.at, extent, unix.PROT_NONE); err != nil {
			return err
		}
		s.opened = 0
		err = arena.Vacate(addr, n)
	}
	if s.opened < slackPages {
		s.fill()
	}
	return err
}

// close releases everything.
func (s *slack) close() error {
	if s.at == 0 {
		return nil
	}
	err := arena.Unreserve(s.at, extent)
	*s = slack{}
	return err
}
