package cuda

import (
	"encoding/binary"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
)

// batch is a list of copies on its way to a stream. One pass over the list judges it and writes the kernel's table; segments that
// need a decision of their own are put aside. All addresses are CUDA's.
type batch struct {
	c        *card
	to, from lens
	way      kernels.Direction // of the first segment
	program  *program          // nil if the GPU cannot run it
	plan     kernels.Plan
	table    *table          // nil until one is needed
	room     []kernels.Entry // of the table
	entries  int             // written
	bytes    uint64          // of the whole list

	large   []driver.Segment // for the kernel or the engines
	engines []driver.Segment // for the engines: the kernel does not reach them
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

// release gives b back; very large ones are left to the garbage collector.
func (b *batch) release() {
	const most = 1 << 12
	if b.table != nil {
		b.c.giveTable(b.table)
	}
	if cap(b.large) > most || cap(b.engines) > most {
		return
	}
	b.to.reset()
	b.from.reset()
	b.table, b.room, b.entries, b.bytes, b.large, b.engines = nil, nil, 0, 0, b.large[:0], b.engines[:0]
	batchPool.Put(b)
}

// lens finds one end of a batch. Neighbours in the list mostly share an allocation, and comparing with its bounds is cheaper than
// looking it up; where they do not, allocations mostly come round in the same order again.
type lens struct {
	view
	known view // memory that is not looked up: a lane's
	at    int  // where the view is in seen, if n > 0
	n     int  // views there were
	seen  [64]view
	next  [64]uint8 // which view came after each the last time
}

// view is memory that is known to be all alike.
type view struct {
	kernels.Window
	kind sideKind
	card int32
}

// reset forgets everything.
func (l *lens) reset() { l.view, l.known, l.at, l.n = view{}, view{}, 0, 0 }

// find makes the view one with the n > 0 bytes at addr in it; see look.
func (l *lens) find(d *Driver, addr uintptr, n uint64, pageable bool) error {
	if l.Has(addr, n) {
		return nil
	}
	if l.known.Has(addr, n) {
		l.view = l.known
		return nil
	}
	const nearby = 8 // it takes no longer to try so many than to look one up
	last, kept := l.at, min(l.n, len(l.seen))
	if l.at = int(l.next[last]); l.at < kept && l.seen[l.at].Has(addr, n) {
		l.view = l.seen[l.at]
		return nil
	}
	for l.at = 0; l.at < min(kept, nearby) && !l.seen[l.at].Has(addr, n); l.at++ {
	}
	if l.at == min(kept, nearby) {
		v, err := d.look(addr, n, pageable)
		if err != nil {
			return err
		}
		l.at = l.n % len(l.seen)
		l.n++
		l.seen[l.at] = v
	}
	l.next[last] = uint8(l.at)
	l.view = l.seen[l.at]
	return nil
}

// look is all of the range that addr is in, if all of it is there, or else just n bytes. Like resolve it fails when they are not
// inside one live allocation or registration; pageable allows ordinary host memory too.
func (d *Driver) look(addr uintptr, n uint64, pageable bool) (view, error) {
	whole := kernels.Window{Lo: addr, Size: n}
	var s side
	var err error
	if own := d.own.Find(addr); own != nil {
		whole.Lo, whole.Size = own.Start, own.Of.size
		s, err = own.Of.side(own.Start, own.Start, whole.Size)
	} else if reg := d.hosts.Find(addr); reg != nil {
		whole.Lo, whole.Size = reg.Start, reg.Size
		s, err = reg.Of.side(reg.Start, whole.Size)
	} else if pageable && possible(addr, n) {
		return view{whole, byHost, 0}, nil
	}
	if s.addr == 0 || err != nil || !whole.Has(addr, n) {
		whole.Lo, whole.Size = addr, n
		s, err = d.resolve(addr, n, pageable)
	}
	whole.Delta = s.addr - whole.Lo
	return view{whole, s.kind, s.card}, err
}

// way is the direction of a copy between two views that the kernel of c can do; false if there is none.
func (c *card) way(to, from *view) (kernels.Direction, bool) {
	here := int32(c.number)
	if to.kind == onCard && to.card != here || from.kind == onCard && from.card != here || !to.Reachable() || !from.Reachable() {
		return 0, false
	}
	switch {
	case to.kind != onCard:
		return kernels.FromDevice, from.kind == onCard
	case from.kind != onCard:
		return kernels.ToDevice, true
	}
	return kernels.OnDevice, true
}

// putBatch gives a list of copies to a stream; false if the host has to look at it, and nothing was given then. The card is
// entered.
func (c *card) putBatch(segs *driver.Segments, stream uintptr) bool {
	c.d.gone.RLock()
	defer c.d.gone.RUnlock()
	b := batchPool.Get().(*batch)
	defer b.release()
	b.c, b.bytes = c, segs.Bytes
	return b.judge(segs.List) && b.put(stream)
}

// judge looks at every segment, writes the table and puts segments aside. It is false if a segment is bad, overlaps itself, or
// needs the host. Driver.gone is held.
func (b *batch) judge(list []driver.Segment) bool {
	for len(list) > 0 && list[0].N == 0 {
		list = list[1:]
	}
	if len(list) == 0 {
		return true
	}
	if b.to.find(b.c.d, list[0].Dst, list[0].N, false) != nil || b.from.find(b.c.d, list[0].Src, list[0].N, false) != nil {
		return false
	}
	b.way, _ = b.c.way(&b.to.view, &b.from.view)
	b.program = b.c.kernels()
	large := kernels.Large(b.way)
	if len(list) <= kernels.Few || b.program == nil {
		large = 1 // everything is put aside
	}
	if large > 1 && !b.needTable(len(list)) {
		return false
	}
	b.to.view, b.from.view = view{}, view{} // aside has not judged them as a pair
	for len(list) > 0 {
		if b.to.Has(list[0].Dst, list[0].N) && b.from.Has(list[0].Src, list[0].N) && large > 1 {
			n, done := b.plan.Fill(b.room[b.entries:], list, b.to.Window, b.from.Window, large)
			b.entries += n
			if list = list[done:]; len(list) == 0 {
				break
			}
		}
		if list[0].N > 0 && !b.aside(&list[0], large) {
			return false
		}
		list = list[1:]
	}
	return true
}

// aside deals with a segment that Fill cannot: it is elsewhere, or put aside. False if the host has to look.
func (b *batch) aside(s *driver.Segment, large uint64) bool {
	if b.to.find(b.c.d, s.Dst, s.N, false) != nil || b.from.find(b.c.d, s.Src, s.N, false) != nil {
		return false
	}
	to, from := &b.to.view, &b.from.view
	moved := driver.Segment{Dst: s.Dst + to.Delta, Src: s.Src + from.Delta, N: s.N}
	if to.kind == byHost || from.kind == byHost || to.kind != onCard && from.kind != onCard || overlap(moved.Dst, moved.Src, s.N) {
		return false
	}
	if _, reached := b.c.way(to, from); !reached {
		b.engines = append(b.engines, moved)
		*to, *from = view{}, view{} // not for Fill
	} else if s.N >= large {
		b.large = append(b.large, moved)
	} else {
		b.entries += b.plan.Cut(b.room[b.entries:], moved)
	}
	return true
}

// needTable plans the batch and takes a table for so many segments.
func (b *batch) needTable(segments int) bool {
	b.plan = kernels.New(b.way, b.bytes, b.program.multiprocessors, b.c.limit(b.way))
	if b.table = b.c.takeTable(b.plan.Room(segments, b.bytes)); b.table == nil {
		return false
	}
	b.room = entriesAt(b.table.addr, b.table.room)
	return true
}

// put gives what was judged to a stream. The card is entered, Driver.gone is held.
func (b *batch) put(stream uintptr) bool {
	lib := b.c.d.lib
	by := kernels.ByLoop
	if len(b.large) > 0 {
		share := kernels.Share{Segments: len(b.large)}
		for i := range b.large {
			share.Bytes += b.large[i].N
		}
		by = kernels.Best(b.way, share, b.entries > 0, b.program != nil, lib.hasCopyBatch())
	}
	if by == kernels.ByKernel {
		if b.table == nil && !b.needTable(len(b.large)) {
			return false
		}
		n, _ := b.plan.Fill(b.room[b.entries:], b.large, kernels.Everywhere, kernels.Everywhere, 1<<48)
		b.entries += n
		b.large = b.large[:0]
	}
	if b.entries > 0 && !b.launch(stream) {
		return false
	}
	if by == kernels.ByBatch {
		if r := lib.copyBatch(b.large, stream); r == success {
			b.large = b.large[:0]
		} else if r.sticky() {
			return false
		}
	}
	for _, list := range [...][]driver.Segment{b.large, b.engines} {
		for i := range list {
			if lib.copyAsync(list[i].Dst, list[i].Src, list[i].N, stream) != success {
				return false
			}
		}
	}
	return true
}

// launch puts the kernel on a stream, for the entries of the table.
func (b *batch) launch(stream uintptr) bool {
	blocks, run := b.plan.Launch(b.entries)
	var params [16]byte
	binary.LittleEndian.PutUint64(params[:], uint64(b.table.addr))
	binary.LittleEndian.PutUint32(params[8:], uint32(b.entries))
	binary.LittleEndian.PutUint32(params[12:], run)
	lib := b.c.d.lib
	return lib.launch(b.program.gatherKernel, blocks, kernels.Threads, params[:], stream) == success &&
		lib.record(b.table.event, stream) == success
}

// program is the kernels, as a card has them.
type program struct {
	module          uintptr
	gatherKernel    uintptr
	multiprocessors int
}

// kernels loads the kernels when they are first needed; nil if the GPU cannot run them. The card is entered.
func (c *card) kernels() *program {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program != nil || c.noProgram {
		return c.program
	}
	c.noProgram = true
	sms, r := c.d.lib.multiprocessors(c.gpu)
	if r != success {
		return nil
	}
	module, r := c.d.lib.loadKernels(kernels.PTX)
	if r != success {
		c.d.warn("batches are slow: " + failed(c.d.lib, "cuModuleLoadData", r).Error())
		return nil
	}
	p := &program{module: module, multiprocessors: sms}
	if p.gatherKernel, r = c.d.lib.kernel(module, kernels.Gather); r != success {
		c.d.lib.unloadKernels(module)
		return nil
	}
	c.program = p
	return p
}

// table is pinned memory for the entries of one batch. Its event is behind the kernel that reads it.
type table struct {
	addr  uintptr
	room  int // entries
	event uintptr
}

// takeTable takes a table that no kernel reads any more, with room for so many entries; nil if there is no memory. The card is
// entered.
func (c *card) takeTable(room int) *table {
	c.mu.Lock()
	for i, t := range c.tables { // the one that was used longest ago comes first
		if t.room >= room && c.d.lib.queryEvent(t.event) == success {
			c.tables = append(c.tables[:i], c.tables[i+1:]...)
			c.mu.Unlock()
			return t
		}
	}
	c.mu.Unlock()
	t := &table{room: 1 << 10}
	for t.room < room {
		t.room *= 2
	}
	var r result
	if t.event, r = c.event(false); r != success {
		return nil
	}
	if t.addr, r = c.d.lib.allocHost(uint64(t.room) * entryBytes); r != success {
		c.giveEvent(t.event, false)
		return nil
	}
	return t
}

func (c *card) giveTable(t *table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables = append(c.tables, t)
}
