package recorder

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the options of a recording.
type Options struct {
	Dir     string // directory for the file
	Driver  string
	Program []string
	Checked bool
	Server  *int // number of the process's server in its pod; nil without a pod

	// Locate returns the executable or library that contains an address, the offset in that file, and its build ID;
	// "" if none contains it. Equal names mean the same file. nil: no address is located.
	Locate func(pc uintptr) (file string, offset uint64, build string)
}

// Recorder records a process. Methods may be called concurrently. They do not allocate, and wait only where
// documented, or when the disk is slower than the program.
type Recorder struct {
	clock clock    // immutable
	file  *os.File // immutable
	which identity // immutable; of the file
	// immutable; header and slots, mapped until Close
	memory []byte
	header []uint64                                                    // immutable; part of memory
	locate func(pc uintptr) (file string, offset uint64, build string) // immutable; may be nil
	names  names
	stop   chan struct{} // immutable; closed by Close
	over   sync.WaitGroup
	shards [shards]shard

	mu       sync.Mutex
	changed  *sync.Cond   // guarded by mu; a slot became free, or recording ended
	slots    [Slots]*slot // guarded by mu; slots used so far
	current  *slot        // guarded by mu; slot that shards get blocks from; nil: none is left
	flushing int          // guarded by mu; slots that are being written to the file
	windows  uint64       // guarded by mu; number of slots begun, which is the number of the last window
	why      error        // guarded by mu; reason why recording has ended
	closed   bool         // guarded by mu
}

// A slot is divided into blocks, each used by one shard. Fields are guarded by Recorder.mu, memory by shards.
type slot struct {
	number int
	memory []byte
	window uint64 // number of the window number of the window that it becomes; 0: it is free
	taken  int    // blocks given to shards
	done   int    // blocks that shards have returned
}

// shard receives records of some threads and streams. A writer that finds a shard taken uses another one.
type shard struct {
	taken atomic.Bool
	slot  *slot
	block []uint64 // unused rest of the block
	_     [88]byte // keeps shards on separate cache lines
}

const (
	shards     = 32 // number of records that can be written at a time
	blockBytes = 4096
	blocks     = SlotBytes / blockBytes
)

// line is a record.
type line [recordWords]uint64

// errClosed is the reason why recording has ended after Close.
var errClosed = errors.New("closed")

// Open creates the file and starts recording.
func Open(o Options) (*Recorder, error) {
	f, err := create(o.Dir)
	if err != nil {
		return nil, err
	}
	f = outOfTheWay(f)
	m, err := mapped(f, HeaderBytes+Slots*SlotBytes)
	if err == nil {
		err = populate(m[:HeaderBytes])
	}
	which, wrong := identityOf(f)
	err = errors.Join(err, wrong)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	r := &Recorder{clock: newClock(), file: f, which: which, memory: m, header: wordsOf(m[:HeaderBytes]),
		locate: o.Locate, stop: make(chan struct{})}
	r.changed = sync.NewCond(&r.mu)
	r.names.init()
	h := r.header
	h[HeadProcess] = uint64(os.Getpid())
	h[HeadWall] = uint64(time.Now().UnixNano())
	h[HeadStart] = uint64(r.Now())
	if o.Checked {
		h[HeadFlags] = FlagChecked
	}
	atomic.StoreUint64(&h[HeadMagic], Magic)
	r.tick()
	for i, arg := range o.Program {
		r.text(TextArgument, uint32(i), arg)
	}
	r.text(TextDriver, 0, o.Driver)
	if o.Server != nil {
		r.text(TextServer, 0, strconv.Itoa(*o.Server))
	}
	r.over.Go(r.keepTime)
	return r, nil
}

// Now implements observe.Tracer: it returns the time in ticks.
func (r *Recorder) Now() int64 { return r.clock.now() }

// tick records a ClockType.
func (r *Recorder) tick() {
	ticks, ns := r.clock.pair()
	r.put(0, &line{uint64(ClockType), uint64(ticks), uint64(ns)})
}

// keepTime calls tick regularly, because the system's clock is adjusted and ticks are not.
func (r *Recorder) keepTime() {
	for pause := time.Millisecond; ; pause = min(10*pause, time.Second) {
		select {
		case <-r.stop:
			return
		case <-time.After(pause):
			r.tick()
		}
	}
}

// put writes a record. source is the number of a thread or a stream; different ones rarely use the same shard.
func (r *Recorder) put(source uint32, l *line) {
	for i := source; ; i++ {
		n := &r.shards[i%shards]
		if n.taken.Load() || !n.taken.CompareAndSwap(false, true) {
			if i-source >= shards {
				runtime.Gosched()
			}
			continue
		}
		if len(n.block) >= recordWords || r.refill(n) {
			to := lineOf(n.block)
			to[1], to[2], to[3] = l[1], l[2], l[3]
			atomic.StoreUint64(&to[0], l[0])
			n.block = n.block[recordWords:]
		}
		n.taken.Store(false)
		return
	}
}

// refill gives a shard, which the caller has taken, a new block; false if recording has ended. It waits while all
// slots are being written to the file.
func (r *Recorder) refill(n *shard) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retire(n)
	for r.why == nil && (r.current == nil || r.current.taken == blocks) {
		r.current = nil
		r.retireAll()
		if r.begin() {
			break
		}
		if r.flushing > 0 {
			r.changed.Wait()
			continue
		}
		r.mu.Unlock() // other writers are using the shards that have the blocks
		runtime.Gosched()
		r.mu.Lock()
	}
	if r.why != nil {
		if !r.closed {
			atomic.AddUint64(&r.header[HeadLost], 1)
		}
		return false
	}
	s := r.current
	at := s.taken * blockBytes
	s.taken++
	n.slot, n.block = s, wordsOf(s.memory[at:at+blockBytes])
	return true
}

// retire removes the block of a shard, which need not be full; the caller has taken the shard. If the block was the
// last one of its slot in use, the slot is written to the file. mu is held.
func (r *Recorder) retire(n *shard) {
	s := n.slot
	n.slot, n.block = nil, nil
	if s == nil {
		return
	}
	if s.done++; s.done == blocks && r.why == nil {
		r.flushing++
		r.over.Go(func() { r.flush(s) })
	}
}

// retireAll removes the blocks of idle shards, so that their records do not stay unwritten until the shards are used
// again. mu is held.
func (r *Recorder) retireAll() {
	for i := range r.shards {
		if n := &r.shards[i]; n.taken.CompareAndSwap(false, true) {
			r.retire(n)
			n.taken.Store(false)
		}
	}
}

// begin makes a free slot the current one; false if no slot is free. mu is held.
func (r *Recorder) begin() bool {
	for i, s := range r.slots {
		if s == nil {
			at := HeaderBytes + i*SlotBytes
			s = &slot{number: i, memory: r.memory[at : at+SlotBytes]}
			if err := populate(s.memory); err != nil {
				r.fail(err)
				return true
			}
			r.slots[i] = s
		}
		if s.window == 0 {
			r.windows++
			*s = slot{number: i, memory: s.memory, window: r.windows}
			atomic.StoreUint64(&r.header[HeadSlots+i], s.window)
			r.current = s
			return true
		}
	}
	return false
}

// flush writes a full slot to the file, and frees it.
func (r *Recorder) flush(s *slot) {
	at := int64(HeaderBytes) + Slots*SlotBytes + int64(s.window-1)*SlotBytes
	err := errors.Join(allowed(at+SlotBytes), r.ours())
	if err == nil {
		_, err = r.file.WriteAt(s.memory, at)
	}
	if err == nil {
		atomic.StoreUint64(&r.header[HeadSlots+s.number], 0)
		clear(s.memory)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flushing--
	if err != nil {
		r.fail(err)
		return
	}
	s.window = 0
	r.changed.Broadcast()
}

// ours returns an error if the descriptor is no longer that of the file: a program may close any descriptor.
func (r *Recorder) ours() error {
	which, err := identityOf(r.file)
	if err == nil && which != r.which {
		err = errors.New("the program has closed its descriptor")
	}
	return err
}

// fail ends recording, because the disk is full. mu is held.
func (r *Recorder) fail(err error) {
	if r.why == nil {
		r.why = err
		atomic.StoreUint64(&r.header[HeadFlags], r.header[HeadFlags]|FlagFull)
	}
	r.changed.Broadcast()
}

// Ended implements observe.Tracer.
func (r *Recorder) Ended() {
	r.tick()
	r.renameThreads()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		atomic.StoreUint64(&r.header[HeadFlags], r.header[HeadFlags]|FlagEnded)
	}
}

// Close implements observe.Tracer. Later reports are lost. It returns an error if the recording is incomplete.
func (r *Recorder) Close() error {
	r.Ended()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	close(r.stop)
	err := r.why
	if err != nil {
		err = fmt.Errorf("%s is not complete: %w", r.file.Name(), err)
	} else {
		r.why = errClosed
	}
	r.closed = true
	r.changed.Broadcast()
	r.mu.Unlock()
	for i := range r.shards {
		n := &r.shards[i]
		for !n.taken.CompareAndSwap(false, true) {
			runtime.Gosched()
		}
		n.slot, n.block = nil, nil
		n.taken.Store(false)
	}
	r.over.Wait()
	err = errors.Join(err, r.shrink(), unix.Munmap(r.memory))
	if r.ours() == nil {
		return errors.Join(err, r.file.Close())
	}
	others.Lock()
	defer others.Unlock()
	others.files = append(others.files, r.file)
	return err
}

// others keeps files whose descriptors are no longer ours, or that were deleted, from being finalized: that would
// close a descriptor which the program may be using now.
var others struct {
	sync.Mutex
	files []*os.File // guarded by Mutex
}

// shrink removes slots that were never used from the end of the file, if there are no windows.
func (r *Recorder) shrink() error {
	if r.ours() != nil {
		return nil
	}
	used := 0
	for used < Slots && r.slots[used] != nil { // lockcheck: recording has ended
		used++
	}
	if info, err := r.file.Stat(); err != nil || info.Size() > int64(len(r.memory)) {
		return err
	}
	return r.file.Truncate(HeaderBytes + int64(used)*SlotBytes)
}
