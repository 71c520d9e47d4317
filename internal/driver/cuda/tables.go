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
	tag   kernels.Tag // of the current entries; see kernels.GatherParams
}

// tables holds the tables of a GPU, which are reused. A stream runs its kernels in order, so only the oldest table in
// flight on a stream needs a query.
type tables struct {
	idle   []*table             // not read by any kernel
	flying map[uintptr][]*table // by stream, oldest first
	bytes  uint64               // of all tables, including those being written
}

const (
	leastTable = 1 << 10  // entries
	mostTables = 64 << 20 // most bytes of all tables; only a single batch that needs more gets more
)

// next prepares the table for new entries.
func (t *table) next() *table {
	var again bool
	if t.tag, again = t.tag.Next(); again {
		clear(entriesAt(t.addr, t.room))
	}
	return t
}

func (t *table) bytes() uint64 { return uint64(t.room) * entryBytes }

// fits takes an idle table with room for the given number of entries, or returns nil.
func (s *tables) fits(room int) *table {
	for i, t := range slices.Backward(s.idle) {
		if t.room >= room {
			s.idle = slices.Delete(s.idle, i, i+1)
			return t
		}
	}
	return nil
}

// land makes tables of a stream idle after their kernels have run, the oldest first, up to the first that has the given
// room.
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

// all returns the tables that are not being written.
func (s *tables) all() []*table {
	return slices.Concat(append(slices.Collect(maps.Values(s.flying)), s.idle)...)
}

// takeTable takes a table with room for the given number of entries that no kernel reads, for a batch on a stream. It
// creates one if there is none. If tables use too much memory already, it waits for one: streams progress without the
// host. It returns nil if there is no memory, or the GPU is lost. The GPU is entered.
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

// findTable takes a table for takeTable. If there is none, it returns an event to wait for, or 0 if takeTable may
// create a table of the given bytes, which findTable counts already.
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
		for _, t := range s.idle { // they are too small
			c.freeTable(t)
		}
		s.idle = nil
	}
	s.bytes += bytes
	return nil, 0
}

// newTable returns a new table of room entries, which are counted already.
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

// freeTable frees a table that no kernel reads, and returns its event to the GPU. The GPU is entered, mu is held.
func (c *engine) freeTable(t *table) libcuda.Result {
	c.tables.bytes -= t.bytes()
	c.GiveEvent(t.event, libcuda.AskedEvent)
	return c.FreeInner(t.addr)
}

// giveTable makes a table available again: at once if stream is 0, else after the kernel on the stream that reads it.
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
