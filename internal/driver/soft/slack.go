package soft

import (
	"errors"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
)

// slack is a reserve of mappings. The kernel limits the mappings of a process and at the limit refuses to replace one,
// even if fewer would be left: memory could no longer be unmapped. Giving up the reserve makes room. Unmapping first
// and reserving again would not work: another thread could get the addresses in between while work still uses them.
type slack struct {
	at uintptr // one extent of addresses; 0: not reserved yet
	// number of readable pages: every other page, so that each adds two mappings
	opened int
}

const slackPages = 128 // readable pages when full: 256 mappings of some 65,000

// fill adds the missing mappings, as far as the kernel allows.
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

// vacate is arena.Vacate that also works at the limit.
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
