package cuda

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/gpu"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/cuda/memory"
	"ropeway/internal/driver/hostqueue"
)

// Two kernels on the stream make copies whose addresses are in device memory: one reads the addresses and checks them
// against a table of live memory, the other copies. No thread waits for them; the result is reported when the stream
// has passed them. The host makes such copies if the GPU has no kernels, if addresses have to be translated, or if the
// queue must run nothing after a failure.

// readers holds these kernels, loaded on a GPU.
type readers struct {
	descriptor, offset, move uintptr
	blocks                   int // of move
}

// judged is a copy on a stream that the device checks.
type judged struct {
	report uintptr // pinned word for the status
	live   *liveTable
}

// liveTable lists the device memory of a GPU at one time, in pinned memory: a word with the address of the next word,
// the number of ranges, and the ranges. It does not change while a kernel may read it.
type liveTable struct {
	of memory.Snapshot // the snapshot that it lists
	// there are addresses of registered memory, which only the host can translate; the table is then empty
	aliases bool
	addr    uintptr // 0: the table cannot be used
	room    int     // number of ranges that fit
	users   int     // guarded by engine.mu; copies that it checks
}

// read puts a descriptor or offset copy on the stream, or returns nil if the host has to make it. The GPU is entered,
// Mu is held.
func (q *queue) read(op *driver.Op) *judged {
	c := q.v.gpu
	if int(op.Device) != c.Number || q.Events.Stops != nil && q.Events.Stops() {
		return nil
	}
	k := c.readers()
	if k == nil {
		return nil
	}
	c.d.Gone.RLock() // freeing memory after this waits for the stream
	defer c.d.Gone.RUnlock()
	if op.Kind == driver.OpDesc && !c.readable(op.Src, op.N) || op.Kind == driver.OpOffset &&
		!(c.readable(op.Src, 8) && c.readable(op.Dst, 8)) {
		return nil
	}
	if q.found == 0 {
		if q.found = c.foundFor(q.stream); q.found == 0 {
			return nil
		}
	}
	r := c.startJudged()
	if r == nil {
		return nil
	}
	var buf [64]byte
	kernel, params := k.descriptor, buf[:0]
	word := func(v uint64) { params = binary.LittleEndian.AppendUint64(params, v) }
	if op.Kind == driver.OpDesc {
		l := op.Layout
		word(uint64(op.Src))
		word(uint64(l.Length) | uint64(l.Src)<<32)
		word(uint64(l.Dst))
	} else {
		kernel = k.offset
		word(uint64(op.Dst))
		word(uint64(op.Src))
		word(op.DstPitch)
		word(op.SrcPitch)
		word(op.N)
	}
	word(uint64(r.live.addr))
	word(uint64(q.found))
	word(uint64(r.report))
	if c.d.lib.LaunchKernel(kernel, 1, kernels.ReadThreads, params, q.stream) != libcuda.Success {
		c.endJudged(r, nil) //nolint:errcheck // nothing was read
		return nil
	}
	params = params[:0]
	word(uint64(q.found))
	if c.d.lib.LaunchKernel(k.move, k.blocks, kernels.Threads, params, q.stream) != libcuda.Success {
		return nil // the first kernel still uses r, so r is not returned
	}
	return r
}

// readable reports whether a kernel of c can read the n bytes of a descriptor or of a cell at addr.
func (c *engine) readable(addr uintptr, n uint64) bool {
	s, err := c.d.Resolve(addr, n, false)
	return err == nil && s.Addr == addr &&
		(s.Kind == memory.Pinned || s.Kind == memory.OnGPU && s.GPU == int32(c.Number))
}

// readers returns the kernels, found by the first call; nil if the GPU cannot run them. The GPU is entered.
func (c *engine) readers() *readers {
	p := c.kernels()
	if p == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads != nil || c.noReads {
		return c.reads
	}
	c.noReads = true
	k := &readers{blocks: kernels.MoveBlocks(p.multiprocessors)}
	if most := c.limit(kernels.OnDevice); most > 0 {
		k.blocks = min(k.blocks, most)
	}
	for name, at := range map[string]*uintptr{kernels.Descriptor: &k.descriptor, kernels.Offset: &k.offset,
		kernels.Move: &k.move} {
		var r libcuda.Result
		if *at, r = c.d.lib.ModuleFunction(p.module, name); r != libcuda.Success {
			c.d.warn("descriptor copies are slow: " + libcuda.Failed(c.d.lib, "cuModuleGetFunction", r).Error())
			return nil
		}
	}
	c.reads = k
	return k
}

// Words and found memory are cut from blocks, which stay until the GPU stops.
const (
	wordBlock  = 4 << 10
	foundBlock = 64 << 10
	foundBytes = 32
)

// foundFor returns the memory through which the first kernel on a stream passes its result to the second; 0 if there is
// none. The GPU is entered.
func (c *engine) foundFor(stream uintptr) uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.founds[stream]; ok {
		return at
	}
	if len(c.spareFounds) == 0 {
		block, r := c.d.lib.MemAlloc(foundBlock)
		if r != libcuda.Success {
			return 0
		}
		c.deviceBlocks = append(c.deviceBlocks, block)
		for at := uintptr(0); at < foundBlock; at += foundBytes {
			c.spareFounds = append(c.spareFounds, block+at)
		}
	}
	last := len(c.spareFounds) - 1
	at := c.spareFounds[last]
	c.spareFounds = c.spareFounds[:last]
	if c.founds == nil {
		c.founds = map[uintptr]uintptr{}
	}
	c.founds[stream] = at
	return at
}

// startJudged takes a word for the report and the table to check by; nil if there is none. The GPU is entered,
// Space.Gone is held for reading: memory may be added then, but not freed.
func (c *engine) startJudged() *judged {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.freshLive()
	if live.addr == 0 {
		return nil
	}
	if len(c.words) == 0 {
		c.words = c.KeepWords(wordBlock, 4)
	}
	if len(c.words) == 0 {
		return nil
	}
	last := len(c.words) - 1
	r := &judged{report: c.words[last], live: live}
	c.words = c.words[:last]
	live.users++
	gpu.WordAt(r.report).Store(uint32(kernels.Good))
	return r
}

// endJudged ends a copy that the device checked, after its kernels have run. It returns err or the error that the
// device reports.
func (c *engine) endJudged(r *judged, err error) error {
	status := kernels.Status(gpu.WordAt(r.report).Load())
	c.mu.Lock()
	c.words = append(c.words, r.report)
	r.live.users--
	c.spareLive(r.live)
	c.mu.Unlock()
	if err != nil || status == kernels.Good {
		return err
	}
	end := "source"
	if status == kernels.BadDestination {
		end = "destination"
	}
	return fmt.Errorf("%w: the %s of a copy, read when it ran, is not inside live memory of device %d",
		driver.ErrFault, end, c.Number)
}

// freshLive returns the table of the memory at this moment. c.mu is held, the GPU is entered.
func (c *engine) freshLive() *liveTable {
	of := c.d.Snapshot()
	if c.live != nil && c.live.of == of {
		return c.live
	}
	count, aliases := of.Count(c.Number)
	t := &liveTable{of: of, aliases: aliases}
	if !aliases {
		t = c.roomFor(count)
		t.of = of
	}
	old := c.live
	c.live = t
	if old != nil {
		c.spareLive(old)
	}
	if t.addr == 0 {
		return t
	}
	list := rangesAt(t.addr+16, t.room)[:0]
	for r := range of.Live(c.Number) {
		list = append(list, r)
	}
	head := bytesAt(t.addr, 16)
	binary.LittleEndian.PutUint64(head, uint64(t.addr)+8)
	binary.LittleEndian.PutUint64(head[8:], uint64(count))
	return t
}

// roomFor returns a table with room for count ranges that no kernel reads. Its addr is 0 if there is no memory. c.mu is
// held.
func (c *engine) roomFor(count int) *liveTable {
	for i, t := range c.spareLives {
		if t.room >= count {
			c.spareLives = append(c.spareLives[:i], c.spareLives[i+1:]...)
			return t
		}
	}
	t := &liveTable{room: 255}
	for t.room < count {
		t.room = 2*t.room + 1
	}
	if addr, r := c.Keep(uint64(t.room+1) * rangeBytes); r == libcuda.Success {
		t.addr = addr
	}
	return t
}

// spareLive makes a table available for reuse if it is not the current one and no kernel reads it. c.mu is held.
func (c *engine) spareLive(t *liveTable) {
	if t != c.live && t.users == 0 && t.addr != 0 {
		c.spareLives = append(c.spareLives, t)
	}
}

// indirect makes such a copy on the host, with the current addresses: all earlier tasks are over.
func (d *Driver) indirect(op *driver.Op) error {
	c, err := hostqueue.Indirect(op, d, d.peek)
	if err != nil {
		return err
	}
	return d.carry(&c, false)
}

// peek reads the n bytes (at most 64) of a descriptor or a cell.
func (d *Driver) peek(addr uintptr, n uint64) (b [64]byte, err error) {
	from, err := d.Resolve(addr, n, false)
	if err != nil {
		return b, err
	}
	m := mover{d: d}
	defer m.end(&err)
	defer hostqueue.Guarded(debug.SetPanicOnFault(true), &err)
	if from.Kind != memory.OnGPU {
		copy(b[:], bytesAt(from.Addr, n))
		return b, nil
	}
	l, err := m.on(from.GPU)
	if err != nil {
		return b, err
	}
	return b, l.read(b[:n], from.Addr)
}
