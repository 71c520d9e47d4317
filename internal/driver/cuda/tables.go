package cuda

import (
	"maps"
	"slices"

	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
)

// table is pinned memory for the entries of one batch. Its event comes after the kernel that reads it.
type table struct {
	addr  uintptr
	room  int // entries
	event uintptr
	tag   kernels.Tag // of the entries that were written last, or are to be now; see kernels.GatherParams
}

// tables are those of a GPU. They are kept for later batches. A stream comes to its kernels in their order, so of
// the tables in flight on one only the oldest is asked for.
type tables struct {
	idle   []*table             // that no kernel reads
	flying map[uintptr][]*table // by stream, the oldest first
	bytes  uint64               // of all there are, those that are being written too
}

const (
	leastTable = 1 << 10  // entries
	mostTables = 64 << 20 // bytes; only a single batch that needs more gets more
)

// next makes the table ready for other entries.
func (t *table) next() *table {
	var again bool
	if t.tag, again = t.tag.Next(); again {
		clear(entriesAt(t.addr, t.room))
	}
	return t
}

func (t *table) bytes() uint64 { return uint64(t.room) * entryBytes }

// fits takes an idle table with room for so many entries, or returns nil.
func (s *tables) fits(room int) *table {
	for i, t := range slices.Backward(s.idle) {
		if t.room >= room {
			s.idle = slices.Delete(s.idle, i, i+1)
			return t
		}
	}
	return nil
}

// land makes tables of a stream idle that were read, the oldest first, up to the first with room for so many entries.
func (s *tables) land(lib libcuda.API, stream uintptr, room int) {
	list := s.flying[stream]
	for len(list) > 0 && lib.EventQuery(list[0].event) == libcuda.Success {
		t := list[0]
		s.idle, list = append(s.idle, t), list[1:]
		if t.room >= room {
			break
		}
	}
	if len(list) == 0 {
		delete(s.flying, stream)
	} else {
		s.flying[stream] = list
	}
}

// all are all that are not being written.
func (s *tables) all() []*table {
	return slices.Concat(append(slices.Collect(maps.Values(s.flying)), s.idle)...)
}

// takeTable takes a table that no kernel reads, with room for so many entries, for a batch on a stream. It makes one
// if there is none, and where tables take too much memory already it waits: what is on streams ends without the host.
// It returns nil if there is no memory, or the GPU is lost. The GPU is entered.
func (c *engine) takeTable(room int, stream uintptr) *table {
	size := leastTable
	for size < room {
		size *= 2
	}
	for {
		t, oldest := c.findTable(room, stream, uint64(size)*entryBytes)
		switch {
		case t != nil:
			return t.next()
		case oldest == 0:
			return c.newTable(size)
		case c.d.lib.EventSynchronize(oldest) != libcuda.Success:
			return nil
		}
	}
}

// findTable takes a table for takeTable. If there is none, it returns an event to wait for, or 0 if one of so many
// bytes may be made, which is counted then.
func (c *engine) findTable(room int, stream uintptr, bytes uint64) (t *table, oldest uintptr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.tables
	if t = s.fits(room); t == nil {
		s.land(c.d.lib, stream, room)
		t = s.fits(room)
	}
	if t == nil {
		for other := range s.flying {
			s.land(c.d.lib, other, room)
		}
		t = s.fits(room)
	}
	if t != nil {
		return t, 0
	}
	if s.bytes+bytes > c.d.mostTables {
		if list := s.flying[stream]; len(list) > 0 {
			return nil, list[0].event
		}
		for _, list := range s.flying {
			return nil, list[0].event
		}
		for _, t := range s.idle { // too small
			c.freeTable(t)
		}
		s.idle = nil
	}
	s.bytes += bytes
	return nil, 0
}

// newTable makes a table of so many entries, which are counted already.
func (c *engine) newTable(room int) *table {
	t := &table{room: room}
	var r libcuda.Result
	if t.event, r = c.Event(libcuda.AskedEvent); r == libcuda.Success {
		if t.addr, r = c.AllocInner(t.bytes()); r != libcuda.Success {
			c.GiveEvent(t.event, libcuda.AskedEvent)
		}
	}
	if r != libcuda.Success {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tables.bytes -= t.bytes()
		return nil
	}
	clear(entriesAt(t.addr, t.room))
	return t.next()
}

// freeTable frees a table that no kernel reads; its event is the GPU's. The GPU is entered, mu is held.
func (c *engine) freeTable(t *table) libcuda.Result {
	c.tables.bytes -= t.bytes()
	c.GiveEvent(t.event, libcuda.AskedEvent)
	return c.FreeInner(t.addr)
}

// giveTable returns a table to the pool. A kernel on the stream reads it, unless that is 0.
func (c *engine) giveTable(t *table, stream uintptr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.tables
	if stream == 0 {
		s.idle = append(s.idle, t)
		return
	}
	if s.flying == nil {
		s.flying = map[uintptr][]*table{}
	}
	s.flying[stream] = append(s.flying[stream], t)
}
