package cuda

import (
	"encoding/binary"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
)

// batch is a list of copies, sorted by who does them: the kernel, for each direction, or the copy engines. All addresses are
// CUDA's.
type batch struct {
	list    [3][]driver.Segment // by kernels.Direction
	bytes   [3]uint64
	engines []driver.Segment
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

// release empties b; very large ones are left to the garbage collector.
func (b *batch) release() {
	const most = 1 << 16
	for i := range b.list {
		if cap(b.list[i]) > most {
			return
		}
		b.list[i], b.bytes[i] = b.list[i][:0], 0
	}
	b.engines = b.engines[:0]
	batchPool.Put(b)
}

// lens finds one end of a batch. Neighbours in the list mostly share an allocation, and comparing with its bounds is cheaper than
// looking it up.
type lens struct {
	d      *Driver
	lo, hi uintptr // addresses that are known to be all alike
	side   side    // of lo
}

func (l *lens) find(addr uintptr, n uint64) (side, error) {
	if addr < l.lo || addr >= l.hi || n > uint64(l.hi-addr) {
		if err := l.look(addr, n); err != nil {
			return side{}, err
		}
	}
	s := l.side
	s.addr += addr - l.lo
	return s, nil
}

// look finds the whole range that addr is in, if all of it is there, or else just n bytes.
func (l *lens) look(addr uintptr, n uint64) (err error) {
	lo, size := addr, n
	if s := l.d.own.Find(addr); s != nil {
		lo, size = s.Start, s.Of.size
	} else if s := l.d.hosts.Find(addr); s != nil {
		lo, size = s.Start, s.Size
	}
	if l.side, err = l.d.resolve(lo, size, false); err != nil || addr < lo || uint64(addr-lo) > size || n > size-uint64(addr-lo) {
		lo, size = addr, n
		l.side, err = l.d.resolve(addr, n, false)
	}
	l.lo, l.hi = lo, lo+uintptr(size)
	return err
}

// sort fills b; false if a segment is bad, overlaps itself, or needs the host. Driver.gone is held.
func (b *batch) sort(c *card, list []driver.Segment) bool {
	to, from := lens{d: c.d}, lens{d: c.d}
	for i := range list {
		s := &list[i]
		if s.N == 0 {
			continue
		}
		dst, err := to.find(s.Dst, s.N)
		if err != nil {
			return false
		}
		src, err := from.find(s.Src, s.N)
		if err != nil || dst.kind == byHost || src.kind == byHost || overlap(dst.addr, src.addr, s.N) {
			return false
		}
		if dst.kind != onCard && src.kind != onCard {
			return false
		}
		moved := driver.Segment{Dst: dst.addr, Src: src.addr, N: s.N}
		way, ok := c.way(dst, src)
		if !ok || kernels.Engine(way, s.N, false) || !kernels.Reachable(moved) {
			b.engines = append(b.engines, moved)
			continue
		}
		b.list[way] = append(b.list[way], moved)
		b.bytes[way] += s.N
	}
	return true
}

// alike tells whether all of list goes the same way by the kernel, from one allocation to one, under the addresses it has: the common
// case, in which nothing needs to be sorted. Driver.gone is held.
func (c *card) alike(list []driver.Segment) (way kernels.Direction, bytes uint64, ok bool) {
	to, from := lens{d: c.d}, lens{d: c.d}
	if len(list) == 0 || to.look(list[0].Dst, list[0].N) != nil || from.look(list[0].Src, list[0].N) != nil {
		return 0, 0, false
	}
	way, ok = c.way(to.side, from.side)
	const top = 1 << 48 // see kernels.Reachable
	apart := to.hi <= from.lo || from.hi <= to.lo
	if !ok || to.side.addr != to.lo || from.side.addr != from.lo || to.hi > top || from.hi > top {
		return 0, 0, false
	}
	toSize, fromSize, largest := uint64(to.hi-to.lo), uint64(from.hi-from.lo), uint64(0)
	for i := range list {
		s := &list[i]
		if a, b := uint64(s.Dst-to.lo), uint64(s.Src-from.lo); a > toSize || b > fromSize || s.N > toSize-a || s.N > fromSize-b {
			return 0, 0, false
		}
		if !apart && overlap(s.Dst, s.Src, s.N) {
			return 0, 0, false
		}
		largest = max(largest, s.N)
		bytes += s.N
	}
	return way, bytes, !kernels.Engine(way, largest, false)
}

// way is the direction of a copy that the kernel of c can do; false if there is none.
func (c *card) way(dst, src side) (kernels.Direction, bool) {
	here := int32(c.number)
	switch {
	case dst.kind == byHost || src.kind == byHost || dst.kind == onCard && dst.card != here || src.kind == onCard && src.card != here:
		return 0, false
	case dst.kind == onCard && src.kind == onCard:
		return kernels.OnDevice, true
	case dst.kind == onCard:
		return kernels.ToDevice, true
	}
	return kernels.FromDevice, src.kind == onCard
}

// put gives b to a stream. The card is entered, Driver.gone is held.
func (b *batch) put(c *card, stream uintptr) bool {
	for way, list := range b.list {
		way := kernels.Direction(way)
		if len(list) == 0 {
			continue
		}
		p := c.kernels()
		if p == nil || kernels.Few(way, len(list)) {
			b.engines = append(b.engines, list...)
			continue
		}
		if !p.gather(c, kernels.New(way, b.bytes[way], p.multiprocessors, 0), list, b.bytes[way], stream) {
			return false
		}
	}
	for i := range b.engines {
		s := &b.engines[i]
		if c.d.lib.copyAsync(s.Dst, s.Src, s.N, stream) != success {
			return false
		}
	}
	return true
}

// putBatch gives a list of copies to a stream; false if the host has to look at it. The card is entered.
func (c *card) putBatch(list []driver.Segment, stream uintptr) bool {
	c.d.gone.RLock()
	defer c.d.gone.RUnlock()
	if way, bytes, ok := c.alike(list); ok && !kernels.Few(way, len(list)) {
		if p := c.kernels(); p != nil {
			return p.gather(c, kernels.New(way, bytes, p.multiprocessors, 0), list, bytes, stream)
		}
	}
	b := batchPool.Get().(*batch)
	defer b.release()
	return b.sort(c, list) && b.put(c, stream)
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

// gather launches the kernel over list.
func (p *program) gather(c *card, plan kernels.Plan, list []driver.Segment, bytes uint64, stream uintptr) bool {
	t := c.takeTable(plan.Room(len(list), bytes))
	if t == nil {
		return false
	}
	defer c.giveTable(t)
	n := plan.Fill(entriesAt(t.addr, t.room), list)
	blocks, run := plan.Launch(n)
	var params [16]byte
	binary.LittleEndian.PutUint64(params[:], uint64(t.addr))
	binary.LittleEndian.PutUint32(params[8:], uint32(n))
	binary.LittleEndian.PutUint32(params[12:], run)
	return c.d.lib.launch(p.gatherKernel, blocks, kernels.Threads, params[:], stream) == success &&
		c.d.lib.record(t.event, stream) == success
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
	if t.event, r = c.event(); r != success {
		return nil
	}
	if t.addr, r = c.d.lib.allocHost(uint64(t.room) * entryBytes); r != success {
		c.giveEvent(t.event)
		return nil
	}
	return t
}

func (c *card) giveTable(t *table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables = append(c.tables, t)
}
