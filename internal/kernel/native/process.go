package native

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/dl"
	"ropeway/internal/kernel"
)

func init() { kernel.RegisterProcess(startProcess) }

// process implements kernel.Process: the keeper, which has memory and objects, and the processes that it forks to run
// kernels (capi/kernelhost). One whose kernel has failed gets no more launches, and ends when it has none; the next
// launch has another. The same when an object was loaded or closed: a fork has the objects that the keeper had then.
type process struct {
	keeper *peer  // immutable
	runs   []byte // immutable; launches; shared with the processes

	mu      sync.Mutex
	shown   []kernel.View      // guarded by mu; what kernels see
	server  *server            // guarded by mu; takes launches; nil: there is none now
	servers map[uint64]*server // guarded by mu; those that have not ended, by number
	free    []int              // guarded by mu; launches that are not in use
	closed  bool               // guarded by mu
}

// server is a process that runs kernels.
type server struct {
	*peer
	number  uint64 // immutable
	busy    int    // guarded by process.mu; launches in it
	retired bool   // guarded by process.mu; it takes no more of them
}

const (
	mostRuns   = 4096
	mostStarts = 64 // the addresses of a process are drawn by chance; some collide with those of devices
)

// startProcess starts a keeper that sees this memory.
func startProcess(list []kernel.View) (kernel.Process, error) {
	mu.Lock()
	s, err := locate()
	path := append([]byte(program), 0)
	mu.Unlock()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("ropeway-launches", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, mostRuns*runBytes); err != nil {
		return nil, err
	}
	runs, err := unix.Mmap(fd, 0, mostRuns*runBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	for range mostStarts {
		p := &process{runs: runs, servers: map[uint64]*server{}}
		for i := mostRuns; i > 0; i-- {
			p.free = append(p.free, i-1)
		}
		if err = p.start(s.spawn, path, fd); err == nil {
			if err = p.Show(list); err == nil {
				return p, nil
			}
		}
		if p.keeper != nil {
			p.keeper.close()
		}
		if !errors.Is(err, syscall.EEXIST) {
			break
		}
	}
	unix.Munmap(runs) //nolint:errcheck // ours
	return nil, fmt.Errorf("no process for kernels could be started (ROPEWAY_KERNEL_PROCESS): %w", err)
}

// start starts the keeper.
func (p *process) start(spawn uintptr, path []byte, runs int) error {
	keeper, other, err := newPeer(func(number uint64) { go p.hasEnded(number) }) // replies are waited for with mu held
	if err != nil {
		return err
	}
	p.keeper = keeper
	e := dl.CallInt(spawn, addressOf(path), uintptr(other))
	unix.Close(other)
	if e != 0 {
		return fmt.Errorf("the program ropeway-kernels: %w", syscall.Errno(e))
	}
	files := []int{runs}
	if self, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		defer unix.Close(self)
		files = append(files, self)
	}
	_, err = keeper.ask(request{What: askInit, A: mostRuns * runBytes}, "", files...)
	return err
}

// hasEnded notes that a process has ended.
func (p *process) hasEnded(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.servers[number]; s != nil {
		delete(p.servers, number)
		p.retire(s)
		s.gone()
	}
}

// retire makes later launches run in another process than s. mu is held.
func (p *process) retire(s *server) {
	if p.server == s {
		p.server = nil
	}
	if s.retired = true; s.busy == 0 {
		s.close()
	}
}

// renew is retire for the process that takes launches. mu is held.
func (p *process) renew() {
	if p.server != nil {
		p.retire(p.server)
	}
}

// Show implements kernel.Process.
func (p *process) Show(list []kernel.View) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range changes(p.shown, list) {
		switch err := s.show(p.keeper); {
		case errors.Is(err, errVanished):
			continue
		case err != nil:
			return fmt.Errorf("memory at %#x cannot be shown to kernels: %w", s.Addr, err)
		}
		p.shown = s.apply(p.shown)
		if p.server != nil && s.show(p.server.peer) != nil { // a later one has what the keeper has
			p.renew()
		}
	}
	return nil
}

// take returns the server for a launch, and counts the launch in; put counts it out. If there is no server, it forks
// one.
func (p *process) take() (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		if err := p.fork(); err != nil {
			return nil, err
		}
	}
	p.server.busy++
	return p.server, nil
}

// fork makes the process that takes launches. mu is held.
func (p *process) fork() error {
	if p.closed {
		return errGone
	}
	s, other, err := newPeer(nil)
	if err != nil {
		return err
	}
	defer unix.Close(other)
	a, err := p.keeper.ask(request{What: askFork}, "", other)
	if err != nil {
		s.close()
		return err
	}
	p.server = &server{peer: s, number: a.Result}
	p.servers[a.Result] = p.server
	return nil
}

// put ends a launch in a server. One whose launch has failed takes no more.
func (p *process) put(s *server, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy--
	if failed || s.retired {
		p.retire(s)
	}
}

// kill ends a process at once.
func (p *process) kill(s *server) {
	p.keeper.ask(request{What: askKill, A: s.number}, "") //nolint:errcheck // then all are gone
}

// slot is a number for a launch, -1 if there is none.
func (p *process) slot() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free) - 1
	if last < 0 {
		return -1
	}
	n := p.free[last]
	p.free = p.free[:last]
	return n
}

func (p *process) release(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, slot)
}

// Close implements kernel.Process. No launch runs.
func (p *process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for _, s := range p.servers {
		s.close()
	}
	p.keeper.close()
	unix.Munmap(p.runs) //nolint:errcheck // ours
}

// grace is how long a kernel that is stopped may take to leave before its process is ended; immutable, but in tests.
var grace = 10 * time.Second

// outside implements kernel.Run in a process of its own.
type outside struct {
	p    *process
	c    *launched
	n    int // of c
	lost bool
	err  error

	mu   sync.Mutex
	in   *server // guarded by mu; where it runs; nil: nowhere yet
	turn uint64  // guarded by mu; launches that were begun
	live bool    // guarded by mu; the launch has not ended
	stop bool    // guarded by mu; it is to end
	late bool    // guarded by mu; because its time was up
}

// NewRun implements kernel.CPU.
func (p *process) NewRun() kernel.Run { return listed(&outside{p: p}) }

// Begin implements kernel.Run.
func (r *outside) Begin(_ kernel.SharedObject, c *kernel.Call) (turn uint64) {
	r.lost, r.err = false, nil
	if r.n = r.p.slot(); r.n < 0 {
		r.err = fmt.Errorf("more than %d kernels at the same time", mostRuns)
		r.c = new(launched)
	} else {
		r.c = launchedAt(r.p.runs, r.n)
	}
	r.c.set(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	r.live, r.stop, r.late, r.in = true, false, false, nil
	return r.turn
}

// Work implements kernel.Run. One goroutine does. What it makes is made in other processes, and not noted.
func (r *outside) Work(*kernel.Share) { r.work(0) }

// Together implements kernel.Run.
func (r *outside) Together(func()) { r.work(1) }

func (r *outside) work(together uint64) {
	if r.err != nil {
		return
	}
	s, err := r.p.take()
	if err != nil {
		r.err = err
		return
	}
	var c chan answered
	r.mu.Lock()
	over := r.stop
	if !over {
		r.in = s
		c, err = s.send(request{What: askRun, A: uint64(r.n), B: together}, "")
	}
	r.mu.Unlock()
	if over {
		r.p.put(s, false)
		r.c.failed = stopped
		return
	}
	if err == nil {
		a, ok := <-c
		if err = errGone; ok {
			err = a.err()
		}
	}
	r.lost = errors.Is(err, errGone)
	if err != nil && !r.lost {
		r.err = err
	}
	r.p.put(s, err != nil || r.c.failed != 0)
}

// Stop implements kernel.Run.
func (r *outside) Stop(turn uint64, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.live || r.turn != turn || r.stop {
		return
	}
	r.stop, r.late = true, late
	s := r.in
	if s == nil {
		return
	}
	s.send(request{What: askStop, A: uint64(r.n)}, "") //nolint:errcheck // then it is over
	time.AfterFunc(grace, func() {
		r.mu.Lock()
		still := r.live && r.turn == turn
		r.mu.Unlock()
		if still {
			r.p.kill(s)
		}
	})
}

// End implements kernel.Run.
func (r *outside) End() *kernel.Fault {
	r.mu.Lock()
	r.live = false
	late, stop := r.late, r.stop
	r.mu.Unlock()
	f := r.c.fault(late)
	switch {
	case r.err != nil:
		f = &kernel.Fault{Err: r.err}
	case f == nil && r.lost && stop:
		f = &kernel.Fault{Late: late}
	case f == nil && r.lost:
		f = &kernel.Fault{Lost: true}
	}
	if r.n >= 0 {
		r.p.release(r.n)
	}
	r.c = nil
	return f
}

// Touched implements kernel.Run. Where kernels are watched, they run in this process.
func (r *outside) Touched() ([]kernel.Touch, bool) { return nil, true }

var _ kernel.Process = (*process)(nil)
