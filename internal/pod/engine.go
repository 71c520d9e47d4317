package pod

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/ucx"
)

// Errors of copies and imports, alone or with detail.
var (
	ErrTimeout    = errors.New("pod: the other server does not answer")
	ErrGone       = errors.New("pod: the other server, or its process, is gone")
	ErrHere       = errors.New("pod: this process cannot be linked with others")
	ErrUnknown    = errors.New("pod: the other server does not export it, or no longer")
	ErrNotAllowed = errors.New("pod: the other server has not named this process")
	ErrRange      = errors.New("pod: the range is not inside the exported memory")
	ErrFault      = errors.New("pod: memory of this process is not there")
	ErrClosed     = errors.New("pod: closed")
)

const (
	window      = 16                     // most pieces of requests in flight to one process
	mostServe   = 4 * window             // most answers in flight to one process
	directLeast = 4 << 10                // least bytes of a write that is sent in place; UCX copies shorter ones
	mostRooms   = 4                      // most rooms kept for reuse
	mostUnsent  = 2                      // messages waiting in UCX at which no more requests are sent
	spin        = 100 * time.Microsecond // time of polling before the engine sleeps
)

// engine is the UCX side of one link: it sends and receives until the link fails or is closed. One goroutine runs it
// and owns all fields without a remark.
//
// Each link has its own engine, and so its own UCX worker: a link that fails does not affect others.
type engine struct {
	w       *ucx.Worker
	file    *os.File        // immutable; readable when there is work
	raw     syscall.RawConn // immutable; of file
	timeout time.Duration   // immutable
	over    chan struct{}   // immutable; closed when the engine has ended

	mu      sync.Mutex
	inbox   []func()    // guarded by mu; functions for the engine to call
	arrived []*transfer // guarded by mu; copies to begin
	asleep  bool        // guarded by mu; a post has to wake the engine
	closed  error       // guarded by mu; why nothing is accepted, or nil

	doing []func()    // functions taken from inbox
	begun []*transfer // copies taken from arrived
	why   error       // why the engine ends, or nil
	end   *end        // nil before connect
	slots []*slot
	free  []*slot
	rooms [][]byte // free buffers of dataMost bytes
	now   time.Time
}

// newEngine returns an engine; the caller must call run.
func newEngine(c *ucx.Context, timeout time.Duration) (*engine, error) {
	e := &engine{timeout: timeout, over: make(chan struct{}), now: time.Now()}
	w, err := c.NewWorker(e)
	if err != nil {
		return nil, err
	}
	e.w = w
	if err := e.openFile(); err != nil {
		w.Close()
		return nil, err
	}
	return e, nil
}

// openFile opens the worker's descriptor as a file that a goroutine can wait for without a thread.
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
		err = e.file.SetReadDeadline(time.Time{}) // fails if the runtime cannot poll the descriptor
	}
	if err != nil {
		e.file.Close() //nolint:errcheck // nothing was written
	}
	return err
}

// post makes the engine call f; false if it has ended.
func (e *engine) post(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != nil {
		return false
	}
	e.inbox = append(e.inbox, f)
	e.wake()
	return true
}

// call is post that waits until f has returned.
func (e *engine) call(f func()) bool {
	done := make(chan struct{})
	if !e.post(func() { f(); close(done) }) {
		return false
	}
	<-done
	return true
}

// start implements carrier.
func (e *engine) start(t *transfer) {
	e.mu.Lock()
	t.end = e.end
	closed := e.closed
	if closed == nil {
		e.arrived = append(e.arrived, t)
		e.wake()
	}
	e.mu.Unlock()
	if closed != nil {
		t.done(closed)
	}
}

// wake wakes the engine. mu is held; under it the worker is open while closed is nil.
func (e *engine) wake() {
	if e.asleep {
		e.asleep = false
		e.w.Signal()
	}
}

// stop implements carrier.
func (e *engine) stop(why error) { e.post(func() { e.fail(why) }) }

// open implements carrier.
func (e *engine) open(share uint64, x *Export) bool {
	return e.call(func() { e.end.share(share, x) })
}

// shut implements carrier.
func (e *engine) shut(share uint64) { e.call(func() { e.end.giveUp(share) }) }

// close ends the engine and its copies in flight, and waits.
func (e *engine) close(why error) {
	e.stop(why)
	<-e.over
}

// run runs the engine.
func (e *engine) run() {
	defer close(e.over)
	last := time.Now()
	for e.why == nil {
		e.now = time.Now()
		did := e.runPosted()
		for range 64 {
			if e.why != nil || !e.w.Progress() {
				break
			}
			did = true
		}
		if did {
			last = time.Now()
			continue
		}
		e.now = time.Now()
		next := e.expire()
		if e.now.Sub(last) < spin {
			runtime.Gosched()
			continue
		}
		e.sleep(next)
		last = time.Now()
	}
	e.mu.Lock()
	e.closed = e.why
	e.mu.Unlock()
	e.runPosted()  // runs functions posted before
	e.file.Close() //nolint:errcheck // nothing was written
	e.w.Close()
	for _, s := range e.slots { // slots that UCX has not reported
		s.ended(s.waits, e.why)
	}
}

// fail ends the engine and its requests in flight. UCX may be the caller, so run closes the worker later.
func (e *engine) fail(err error) {
	if e.why != nil {
		return
	}
	e.why = err
	if e.end != nil {
		e.end.fail(err)
	}
}

// runPosted runs the posted functions and begins the posted copies, and reports whether there were any.
func (e *engine) runPosted() bool {
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

// expire fails a link that has made no progress for too long, and returns the time of the next check; 0 if nothing is
// in flight.
func (e *engine) expire() (next time.Time) {
	x := e.end
	if x == nil || !x.isBusy {
		return next
	}
	next = x.progress.Add(e.timeout)
	if !e.now.Before(next) {
		e.fail(fmt.Errorf("%w for %v", ErrTimeout, e.timeout))
		return e.now // at once
	}
	return next
}

// sleep waits until there is work, or until the given time, if it is not 0.
func (e *engine) sleep(until time.Time) {
	e.mu.Lock()
	e.asleep = len(e.inbox)+len(e.arrived) == 0
	sleep := e.asleep
	e.mu.Unlock()
	if !sleep {
		return
	}
	defer e.woken()
	e.file.SetReadDeadline(until) //nolint:errcheck // it worked in openFile
	asked := false
	e.raw.Read(func(fd uintptr) bool { //nolint:errcheck // a timeout is not an error
		if asked {
			return true
		}
		asked = true
		// Work that came before Arm is noticed here; later work makes the file readable.
		return !e.w.Arm() || readable(int(fd))
	})
}

func (e *engine) woken() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asleep = false
}

func readable(fd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err != nil || n > 0
}

// connect creates the engine's end of a link: messages to it begin with mine, those to the other side with theirs. The
// engine calls failed once, when the link has failed or was closed; it must not wait.
func (e *engine) connect(worker []byte, mine, theirs token, failed func(error)) error {
	var err error
	if !e.call(func() {
		if err = e.why; err != nil {
			return
		}
		if err = e.w.Connect(worker); err == nil {
			e.end = &end{e: e, mine: mine, theirs: theirs, failed: failed, shares: map[uint64]*Export{}}
		}
	}) {
		return ErrClosed
	}
	return err
}

// Failed implements ucx.Handler.
func (e *engine) Failed(err error) { e.fail(fmt.Errorf("%w: %w", ErrGone, err)) }

// Message implements ucx.Handler.
func (e *engine) Message(m *ucx.Message) {
	h, ok := getHeader(m.Header)
	x := e.end
	if !ok || x == nil || e.why != nil || subtle.ConstantTimeCompare(h.token[:], x.mine[:]) == 0 {
		return // the sender does not know the token, or the link has ended
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
func (e *engine) Sent(id uint64, err error) {
	e.slots[id&slotMask].ended(waitSent, err)
	if e.end != nil {
		e.end.pump()
	}
}
