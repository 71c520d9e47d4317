package pod

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/ucx"
)

// Errors of copies and imports, alone or with detail.
var (
	ErrTimeout    = errors.New("pod: the other server does not answer")
	ErrGone       = errors.New("pod: the other server, or its process, is gone")
	ErrUnknown    = errors.New("pod: the other server does not export it, or no longer")
	ErrNotAllowed = errors.New("pod: the other server has not named this process")
	ErrRange      = errors.New("pod: the range is not inside the exported memory")
	ErrFault      = errors.New("pod: memory of this process is not there")
	ErrClosed     = errors.New("pod: closed")
)

const (
	window    = 16                     // requests in flight to one process
	mostServe = 4 * window             // answers in flight to one process; one that has more asks for more than it may
	spin      = 100 * time.Microsecond // of looking for work before the engine sleeps
)

// engine sends and receives. One goroutine runs it; everything but the fields that say otherwise is that goroutine's.
type engine struct {
	w       *ucx.Worker
	file    *os.File        // immutable; readable when there is work
	raw     syscall.RawConn // immutable; of file
	timeout time.Duration   // immutable
	over    chan struct{}   // immutable; closed when the engine has ended

	asleep atomic.Bool // a post has to wake the engine

	mu      sync.Mutex
	inbox   []func()    // guarded by mu; to be called by the engine
	arrived []*transfer // guarded by mu; copies to begin
	closed  bool        // guarded by mu; nothing is taken any more

	doing   []func()    // what was inbox
	begun   []*transfer // what was arrived
	stop    bool
	ends    map[uint64]*end // by number
	tokens  map[token]*end  // by what messages to them begin with
	lastEnd uint64
	slots   []*slot
	free    []*slot
	dead    []*end // that have failed, and whose endpoints are not closed
	busy    int    // ends with something in flight or waiting
	now     time.Time
}

// newEngine starts an engine.
func newEngine(options []ucx.Option, timeout time.Duration) (*engine, error) {
	e := &engine{timeout: timeout, over: make(chan struct{}), ends: map[uint64]*end{}, tokens: map[token]*end{},
		now: time.Now()}
	w, err := ucx.New(e, options)
	if err != nil {
		return nil, err
	}
	e.w = w
	if err := e.openFile(); err != nil {
		w.Close()
		return nil, err
	}
	go e.run()
	return e, nil
}

// openFile makes the worker's descriptor one that a goroutine can wait for without a thread.
func (e *engine) openFile() error {
	fd, err := e.w.FD()
	if err != nil {
		return err
	}
	if fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written
		return err
	}
	e.file = os.NewFile(uintptr(fd), "UCX")
	if e.raw, err = e.file.SyscallConn(); err == nil {
		err = e.file.SetReadDeadline(time.Time{}) // fails where nobody polls the descriptor
	}
	if err != nil {
		e.file.Close() //nolint:errcheck // nothing was written
	}
	return err
}

// post has f called by the engine; false if it has ended.
func (e *engine) post(f func()) bool {
	e.mu.Lock()
	ok := !e.closed
	if ok {
		e.inbox = append(e.inbox, f)
	}
	e.mu.Unlock()
	if ok {
		e.wake()
	}
	return ok
}

// call is post, and waits until f was called.
func (e *engine) call(f func()) bool {
	done := make(chan struct{})
	if !e.post(func() { f(); close(done) }) {
		return false
	}
	<-done
	return true
}

// start begins a copy.
func (e *engine) start(t *transfer) {
	e.mu.Lock()
	ok := !e.closed
	if ok {
		e.arrived = append(e.arrived, t)
	}
	e.mu.Unlock()
	if !ok {
		t.end = nil
		t.done(ErrClosed)
		return
	}
	e.wake()
}

func (e *engine) wake() {
	if e.asleep.CompareAndSwap(true, false) {
		e.w.Signal()
	}
}

// close ends the engine: links fail, and copies in flight with them. It waits.
func (e *engine) close() {
	e.post(func() { e.stop = true })
	<-e.over
}

// run is the engine.
func (e *engine) run() {
	defer close(e.over)
	last := time.Now()
	for {
		e.now = time.Now()
		did := e.take()
		for range 64 {
			if !e.w.Progress() {
				break
			}
			did = true
		}
		for len(e.dead) > 0 {
			x := e.dead[0]
			e.dead = e.dead[1:]
			x.bury()
			did = true
		}
		e.now = time.Now()
		if e.stop && e.ended() {
			break
		}
		if did {
			last = e.now
			continue
		}
		next := e.expire()
		if e.now.Sub(last) < spin {
			runtime.Gosched()
			continue
		}
		e.sleep(next)
		last = time.Now()
	}
	e.file.Close() //nolint:errcheck // nothing was written
	e.w.Close()
}

// ended closes what is left, and reports whether nothing is.
func (e *engine) ended() bool {
	for _, x := range e.ends {
		x.fail(ErrClosed)
	}
	if len(e.ends) > 0 {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.inbox)+len(e.arrived) > 0 {
		return false
	}
	e.closed = true
	return true
}

// take does what others have posted, and reports whether there was something.
func (e *engine) take() bool {
	e.mu.Lock()
	e.doing, e.inbox = e.inbox, e.doing[:0]
	e.begun, e.arrived = e.arrived, e.begun[:0]
	e.mu.Unlock()
	for i, f := range e.doing {
		f()
		e.doing[i] = nil
	}
	for i, t := range e.begun {
		t.end.begin(t)
		e.begun[i] = nil
	}
	return len(e.doing)+len(e.begun) > 0
}

// expire fails ends that have made no progress for too long, and returns when to look again; 0 if nothing is in flight.
func (e *engine) expire() (next time.Time) {
	if e.busy == 0 {
		return next
	}
	for _, x := range e.ends {
		if !x.isBusy {
			continue
		}
		at := x.progress.Add(e.timeout)
		if !e.now.Before(at) {
			x.fail(fmt.Errorf("%w for %v", ErrTimeout, e.timeout))
			at = e.now.Add(e.timeout)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// sleep waits until there is something to do, or until a time, if it is not 0.
func (e *engine) sleep(until time.Time) {
	e.asleep.Store(true)
	defer e.asleep.Store(false)
	e.mu.Lock()
	more := len(e.inbox)+len(e.arrived) > 0
	e.mu.Unlock()
	if more {
		return
	}
	e.file.SetReadDeadline(until) //nolint:errcheck // it did when the engine was made
	asked := false
	e.raw.Read(func(fd uintptr) bool { //nolint:errcheck // a time that is up is no error
		if asked {
			return true
		}
		asked = true
		// What came before this shows here; what comes after it wakes.
		return !e.w.Arm() || readable(int(fd))
	})
}

func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err != nil || n > 0
}

// connect makes the engine's end of a link: messages to it begin with mine, those to the other side with theirs.
// failed is called by the engine, once, when the end has failed or was closed, and must not wait.
func (e *engine) connect(worker []byte, mine, theirs token, failed func(error)) (x *end, err error) {
	ok := e.call(func() {
		e.lastEnd++
		x = &end{e: e, number: e.lastEnd, mine: mine, theirs: theirs, failed: failed, shares: map[uint64]*Export{}}
		if x.ep, err = e.w.Connect(worker, x.number); err != nil {
			return
		}
		e.ends[x.number], e.tokens[mine] = x, x
	})
	if !ok {
		return nil, ErrClosed
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Failed implements ucx.Handler.
func (e *engine) Failed(id uint64, err error) {
	if x := e.ends[id]; x != nil {
		x.fail(fmt.Errorf("%w: %w", ErrGone, err))
	}
}

// Message implements ucx.Handler.
func (e *engine) Message(m *ucx.Message) {
	h, ok := getHeader(m.Header)
	if !ok {
		return
	}
	x := e.tokens[h.token]
	if x == nil {
		return // of a link that has ended, or of somebody who does not know a token
	}
	x.moved()
	switch h.kind {
	case kAck, kData:
		x.answer(&h, m)
	default:
		x.serve(&h, m)
	}
}

// Sent implements ucx.Handler.
func (e *engine) Sent(id uint64, err error) { e.slots[id&slotMask].ended(waitSent, err) }
