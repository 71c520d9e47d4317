package cuda

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/cuda/memory"
)

// batch is a list of copies on its way to a stream. One pass over the list checks it and writes the kernel's table;
// segments that need a decision of their own are put aside. All addresses are CUDA's.
type batch struct {
	c        *engine
	to, from resolver
	way      kernels.Direction // of the first segment
	program  *program          // nil if the GPU cannot run it
	plan     kernels.Plan
	stream   uintptr         // the batch goes to it
	table    *table          // nil until one is needed
	read     bool            // a kernel on the stream reads the table; its event is recorded
	room     []kernels.Entry // entries of the table
	entries  int             // number of entries written
	launched int             // number of entries that a running kernel waits for
	bytes    uint64          // of the whole list
	few      kernels.FewParams
	params   [20]byte // parameters of a launch

	large   []driver.Segment // for the kernel or the engines
	engines []driver.Segment // for the engines: the kernel cannot access them
	left    []driver.Segment // those of large that the kernel does not copy
	by      kernels.Way      // copies the segments of left
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

// newBatch returns an empty batch for a stream.
func (c *engine) newBatch(stream uintptr) *batch {
	b := batchPool.Get().(*batch)
	b.c, b.stream = c, stream
	return b
}

// release returns b to the pool; very large ones are left to the garbage collector.
func (b *batch) release() {
	const most = 1 << 12
	if b.table != nil && b.read {
		b.c.giveTable(b.table, b.stream)
	} else if b.table != nil {
		b.c.giveTable(b.table, 0)
	}
	if cap(b.large) > most || cap(b.engines) > most {
		return
	}
	b.to.reset()
	b.from.reset()
	b.table, b.read, b.room, b.entries, b.launched, b.bytes = nil, false, nil, 0, 0, 0
	b.large, b.engines = b.large[:0], b.engines[:0]
	batchPool.Put(b)
}

// resolver resolves the source or the destination addresses of a batch. Neighbours in the list mostly share an
// allocation, and comparing with its bounds is cheaper than a lookup; otherwise allocations mostly recur in the same
// order.
type resolver struct {
	memory.View
	known memory.View // memory that needs no lookup: a lane's
	at    int         // index of the view in seen, if n > 0
	n     int         // number of views looked up
	seen  [64]memory.View
	next  [64]uint8 // index of the view that last followed each
}

// reset forgets everything.
func (l *resolver) reset() { l.View, l.known, l.at, l.n = memory.View{}, memory.View{}, 0, 0 }

// find sets the view to one that contains the n > 0 bytes at addr; see Space.Look.
func (l *resolver) find(d *Driver, addr uintptr, n uint64, pageable bool) error {
	if l.Has(addr, n) {
		return nil
	}
	if l.known.Has(addr, n) {
		l.View = l.known
		return nil
	}
	const nearby = 8 // trying this many takes no longer than a lookup
	last, kept := l.at, min(l.n, len(l.seen))
	if l.at = int(l.next[last]); l.at < kept && l.seen[l.at].Has(addr, n) {
		l.View = l.seen[l.at]
		return nil
	}
	for l.at = 0; l.at < min(kept, nearby) && !l.seen[l.at].Has(addr, n); l.at++ {
	}
	if l.at == min(kept, nearby) {
		v, err := d.Look(addr, n, pageable)
		if err != nil {
			return err
		}
		l.at = l.n % len(l.seen)
		l.n++
		l.seen[l.at] = v
	}
	l.next[last] = uint8(l.at)
	l.View = l.seen[l.at]
	return nil
}

// way returns the direction of a copy between two views; false if the kernel of c cannot make it. The kernel can access
// all devices that are its GPU.
func (c *engine) way(to, from *memory.View) (kernels.Direction, bool) {
	if !c.near(to) || !c.near(from) || !to.Reachable() || !from.Reachable() {
		return 0, false
	}
	switch {
	case to.Kind != memory.OnGPU:
		return kernels.FromDevice, from.Kind == memory.OnGPU
	case from.Kind != memory.OnGPU:
		return kernels.ToDevice, true
	}
	return kernels.OnDevice, true
}

// near reports whether memory is on the GPU of c or on the host.
func (c *engine) near(v *memory.View) bool {
	return v.Kind != memory.OnGPU || v.GPU == int32(c.Number) || c.d.gpus[v.GPU].Ordinal == c.Ordinal
}

// putBatch passes a list of copies to a stream; false if the host has to make them. With early it starts the kernel
// before it has checked all copies, and may have made some of them if it returns false; without early it has made none
// then. The GPU is entered.
func (c *engine) putBatch(segs *driver.Segments, stream uintptr, early bool) bool {
	c.d.Gone.RLock()
	defer c.d.Gone.RUnlock()
	b := c.newBatch(stream)
	defer b.release()
	b.bytes = segs.Bytes
	if !early {
		return b.judge(segs.List, 0) && b.put(stream)
	}
	return b.give(segs.List, stream) && b.rest(stream)
}

// give checks a list and passes the kernel its share. If the kernel was launched before, give always completes its
// table, even after a panic: otherwise the kernel would wait for ever. Space.Gone is held.
func (b *batch) give(list []driver.Segment, stream uintptr) (good bool) {
	defer func() {
		if !good {
			b.entries = min(b.entries, b.launched)
		}
		good = b.close(stream) && good
	}()
	return b.judge(list, stream) && b.choose(stream)
}

// judge checks every segment, writes the table and puts segments aside. It returns false if a segment is bad, overlaps
// itself, or needs the host. Space.Gone is held. If stream is not 0, judge launches the kernel on it before it writes
// the table, where that pays: launching takes as long as writing thousands of entries. Then no waiting call of CUDA may
// come before close.
func (b *batch) judge(list []driver.Segment, stream uintptr) bool {
	for len(list) > 0 && list[0].N == 0 {
		list = list[1:]
	}
	if len(list) == 0 {
		return true
	}
	if b.to.find(b.c.d, list[0].Dst, list[0].N, false) != nil || b.from.find(b.c.d, list[0].Src, list[0].N,
		false) != nil {
		return false
	}
	way, reached := b.c.way(&b.to.View, &b.from.View)
	b.way = way
	b.program = b.c.kernels()
	large := kernels.Large(b.way)
	if len(list) <= kernels.MostFew || b.program == nil {
		large = 1 // put everything aside
	}
	if large > 1 && !b.needTable(len(list)) {
		return false
	}
	if large > 1 && reached && stream != 0 && b.bytes <= uint64(len(list))*b.plan.Piece {
		if !b.launch(0, len(list), stream) {
			return false
		}
		b.launched = len(list)
	}
	b.to.View, b.from.View = memory.View{}, memory.View{} // aside has not checked them as a pair
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

// aside handles a segment that Fill cannot: its memory is elsewhere, or it is large. It returns false if the host has
// to copy it.
func (b *batch) aside(s *driver.Segment, large uint64) bool {
	if b.to.find(b.c.d, s.Dst, s.N, false) != nil || b.from.find(b.c.d, s.Src, s.N, false) != nil {
		return false
	}
	to, from := &b.to.View, &b.from.View
	moved := driver.Segment{Dst: s.Dst + to.Delta, Src: s.Src + from.Delta, N: s.N}
	if to.Kind == memory.ByHost || from.Kind == memory.ByHost || to.Kind != memory.OnGPU && from.Kind != memory.OnGPU ||
		overlap(moved.Dst, moved.Src, s.N) {
		return false
	}
	if _, reached := b.c.way(to, from); !reached {
		b.engines = append(b.engines, moved)
		*to, *from = memory.View{}, memory.View{} // not for Fill
	} else if s.N >= large {
		b.large = append(b.large, moved)
	} else {
		b.entries += b.plan.Cut(b.room[b.entries:], moved)
	}
	return true
}

// needTable plans the batch and takes a table for the given number of segments.
func (b *batch) needTable(segments int) bool {
	b.plan = kernels.New(b.way, b.bytes, b.program.multiprocessors, b.c.limit(b.way))
	if b.table = b.c.takeTable(b.plan.Room(segments, b.bytes), b.stream); b.table == nil {
		return false
	}
	b.room, b.plan.Tag = entriesAt(b.table.addr, b.table.room), b.table.tag
	return true
}

// put passes a batch that was checked to a stream. The GPU is entered, Space.Gone is held.
func (b *batch) put(stream uintptr) bool {
	return b.choose(stream) && b.close(stream) && b.rest(stream)
}

// choose decides what copies the segments put aside, and passes the kernel its share.
func (b *batch) choose(stream uintptr) bool {
	b.by, b.left = kernels.ByLoop, b.large
	if len(b.large) == 0 {
		return true
	}
	if b.table != nil || len(b.large) > kernels.MostFew {
		if b.by = b.best(shareOf(b.large), b.entries > 0); b.by == kernels.ByKernel {
			b.left = nil
			return b.enter(b.large)
		}
		return true
	}
	least := kernels.Large(b.way)
	all := shareOf(b.large)
	low := kernels.Share{} // the small segments
	for i := range b.large {
		if n := b.large[i].N; n < least {
			low.Segments, low.Bytes = low.Segments+1, low.Bytes+n
		}
	}
	high := kernels.Share{Segments: all.Segments - low.Segments, Bytes: all.Bytes - low.Bytes}
	if low.Segments > 0 && high.Segments > 0 && b.best(low, false) == kernels.ByKernel {
		if b.by = b.best(high, true); b.by != kernels.ByKernel {
			slices.SortFunc(b.large, func(x, y driver.Segment) int { return cmp.Compare(x.N, y.N) })
			b.left = b.large[low.Segments:]
			return b.launchFew(b.large[:low.Segments], low.Bytes, stream)
		}
	} else {
		b.by = b.best(all, false)
	}
	if b.by == kernels.ByKernel {
		b.left = nil
		return b.launchFew(b.large, all.Bytes, stream)
	}
	return true
}

// best returns the fastest way to copy a share. beside means that the kernel runs anyway.
func (b *batch) best(share kernels.Share, beside bool) kernels.Way {
	return b.c.d.best(b.way, share, beside, b.program != nil, b.c.d.lib.HasMemcpyBatch())
}

func shareOf(list []driver.Segment) kernels.Share {
	share := kernels.Share{Segments: len(list)}
	for i := range list {
		share.Bytes += list[i].N
	}
	return share
}

// enter adds a list to the table.
func (b *batch) enter(list []driver.Segment) bool {
	if b.table == nil && !b.needTable(len(list)) {
		return false
	}
	n, _ := b.plan.Fill(b.room[b.entries:], list, kernels.Everywhere, kernels.Everywhere, 1<<48)
	b.entries += n
	return true
}

// launchFew launches the kernel for few segments.
func (b *batch) launchFew(list []driver.Segment, bytes uint64, stream uintptr) bool {
	if bytes >= 1<<32 { // more than fits in a length
		return b.enter(list)
	}
	blocks := b.few.Set(kernels.New(b.way, bytes, b.program.multiprocessors, b.c.limit(b.way)), list)
	r := b.c.d.lib.LaunchKernel(b.program.fewKernel, blocks, kernels.Threads, fewBytes(&b.few), stream)
	return r == libcuda.Success
}

// close completes the table for the kernel that waits for it, and launches another kernel for entries beyond its
// number. It must precede any other call of CUDA, even after a failure.
func (b *batch) close(stream uintptr) bool {
	for ; b.entries < b.launched; b.entries++ {
		// after a panic, entries may be written already, and read
		if e := &b.room[b.entries]; !e.Has(b.plan.Tag) {
			*e = b.plan.Tag.Pack(0, 0, 0)
		}
	}
	if b.entries == 0 {
		return true
	}
	kernels.Flush()
	good := b.entries == b.launched || b.launch(b.launched, b.entries-b.launched, stream)
	if b.c.d.lib.EventRecord(b.table.event, stream) != libcuda.Success {
		b.table = nil // unknown when it may be reused; the device is broken anyway
		return false
	}
	b.read = true
	return good
}

// rest passes the engines their share.
func (b *batch) rest(stream uintptr) bool {
	lib := b.c.d.lib
	if b.by == kernels.ByBatch && len(b.left) > 0 {
		if r := lib.MemcpyBatchAsync(b.left, stream); r == libcuda.Success {
			b.left = nil
		} else if r.Sticky() {
			return false
		}
	}
	for _, list := range [...][]driver.Segment{b.left, b.engines} {
		for i := range list {
			if lib.MemcpyAsync(list[i].Dst, list[i].Src, list[i].N, stream) != libcuda.Success {
				return false
			}
		}
	}
	return true
}

// launch launches the kernel for n entries of the table.
func (b *batch) launch(first, n int, stream uintptr) bool {
	blocks, run := b.plan.Launch(n)
	params := &b.params
	binary.LittleEndian.PutUint64(params[:], uint64(b.table.addr)+uint64(first)*entryBytes)
	binary.LittleEndian.PutUint32(params[8:], uint32(n))
	binary.LittleEndian.PutUint32(params[12:], run)
	binary.LittleEndian.PutUint32(params[16:], b.plan.Tag.Number())
	return b.c.d.lib.LaunchKernel(b.program.gatherKernel, blocks, kernels.Threads, params[:], stream) == libcuda.Success
}

// program holds the copy kernels loaded on a GPU.
type program struct {
	module          uintptr
	gatherKernel    uintptr
	fewKernel       uintptr
	multiprocessors int
}

// kernels returns the copy kernels, loaded by the first call; nil if the GPU cannot run them. The GPU is entered.
func (c *engine) kernels() *program {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.program != nil || c.noProgram {
		return c.program
	}
	c.noProgram = true
	sms, r := c.d.lib.Multiprocessors(c.Ordinal)
	if r != libcuda.Success {
		return nil
	}
	module, _, r := c.d.lib.ModuleLoad([]byte(kernels.PTX))
	if r != libcuda.Success {
		c.d.warn("batches are slow: " + libcuda.Failed(c.d.lib, "cuModuleLoadData", r).Error())
		return nil
	}
	p := &program{module: module, multiprocessors: sms}
	for name, at := range map[string]*uintptr{kernels.Gather: &p.gatherKernel, kernels.Few: &p.fewKernel} {
		if *at, r = c.d.lib.ModuleFunction(module, name); r != libcuda.Success {
			c.d.lib.ModuleUnload(module)
			return nil
		}
	}
	c.program = p
	return p
}
