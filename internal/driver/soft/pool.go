package soft

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/driver/hostqueue"
)

// pool is the driver's executor: one worker goroutine for each processor, started when first needed, asleep while idle.
// A worker runs a queue that has work, or helps with a job that another goroutine has offered.
//
// Lock order: Queue.Mu → Flag.mu → pool.mu; nothing is called with pool.mu held.
type pool struct {
	mu      sync.Mutex
	wake    sync.Cond     // on mu
	ready   [8]queues     // guarded by mu; queues with work, by priority
	open    *job          // guarded by mu; jobs offered to helpers, newest first
	workers int           // guarded by mu
	idle    int           // guarded by mu
	closed  bool          // guarded by mu
	max     int           // immutable
	news    atomic.Uint32 // changes when there is new work
	jobs    sync.Pool     // not shared between pools: p.mu guards fields of a job
	running sync.WaitGroup

	shareFrom time.Duration // immutable outside tests; see batch
}

// queues is a list of queues linked through themselves.
type queues struct{ first, last *queue }

func newPool() *pool {
	p := &pool{max: runtime.GOMAXPROCS(0)}
	p.shareFrom = shareFrom(p.max)
	p.jobs.New = func() any { return &job{quiet: make(chan struct{}, 1)} }
	p.wake.L = &p.mu
	return p
}

// schedule hands q, which is Ready, to a worker. Another goroutine may run q first; the worker then finds nothing to
// do.
func (p *pool) schedule(q *queue) {
	p.mu.Lock()
	if !q.queued {
		q.queued = true
		l := &p.ready[q.priority]
		q.prev, q.next = l.last, nil
		if l.last != nil {
			l.last.next = q
		} else {
			l.first = q
		}
		l.last = q
		p.news.Add(1)
		p.rouse(1)
	}
	p.mu.Unlock()
}

// remove removes q from its list. p.mu is held.
func (p *pool) remove(q *queue) {
	l := &p.ready[q.priority]
	if q.prev != nil {
		q.prev.next = q.next
	} else {
		l.first = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	} else {
		l.last = q.prev
	}
	q.prev, q.next, q.queued = nil, nil, false
}

// unschedule removes q from its list because the caller is about to run it, so that no worker wakes needlessly.
func (p *pool) unschedule(q *queue) {
	p.mu.Lock()
	if q.queued {
		p.remove(q)
	}
	p.mu.Unlock()
}

// rouse wakes or starts up to n workers. p.mu is held.
func (p *pool) rouse(n int) {
	for ; n > 0 && p.idle > 0; n-- {
		p.idle-- // counted here, so that two calls in a row do not wake the same sleeper
		p.wake.Signal()
	}
	for ; n > 0 && p.workers < p.max && !p.closed; n-- {
		p.workers++
		p.running.Add(1)
		go p.work()
	}
}

// offer lets helpers join j, and wakes at most the given number of them.
func (p *pool) offer(j *job, most int) {
	p.mu.Lock()
	j.offered = true
	j.link, p.open = p.open, j
	p.news.Add(1)
	p.rouse(min(int(j.chunks-1), most, p.max))
	p.mu.Unlock()
}

// withdraw closes j to new helpers and returns when the last one has left.
func (p *pool) withdraw(j *job) {
	p.mu.Lock()
	for at := &p.open; *at != nil; at = &(*at).link {
		if *at == j {
			*at = j.link
			break
		}
	}
	j.link, j.offered = nil, false
	p.mu.Unlock()
	j.waitForHelpers()
}

// join makes the caller a helper of j if j still accepts any. The caller must call leave.
func (p *pool) join(j *job) bool {
	p.mu.Lock()
	ok := j.offered && j.claimable() && j.kernel == nil // only workers run kernels
	if ok {
		j.helpers.Add(1)
	}
	p.mu.Unlock()
	return ok
}

// cancel stops the job of q at once, and its kernel after a time.
func (p *pool) cancel(q *queue) {
	p.mu.Lock()
	// While the job is offered it belongs to q: the owner withdraws it before it releases it.
	if j := q.job.Load(); j != nil && j.offered && j.kernel == nil {
		j.stop.Store(true)
	}
	p.mu.Unlock()
	if l := q.launch.Load(); l != nil {
		l.drop(q.d.kernels.afterDrop)
	}
}

// next returns the most urgent work: a queue, or a job that counts the caller as a helper. p.mu is held.
func (p *pool) next() (*queue, *job) {
	for i := range p.ready {
		if q := p.ready[i].first; q != nil {
			p.remove(q)
			return q, nil
		}
	}
	for j := p.open; j != nil; j = j.link {
		if j.claimable() {
			j.helpers.Add(1)
			return nil, j
		}
	}
	return nil, nil
}

func (p *pool) work() {
	defer p.running.Done()
	p.mu.Lock()   // not deferred: if a queue or a job panics, p.mu is not held
	fresh := true // has worked since it last lingered
	for {
		q, j := p.next()
		switch {
		case q != nil:
			p.mu.Unlock()
			q.Run(hostqueue.Forever, tasksPerTurn)
			p.mu.Lock()
			fresh = true
		case j != nil:
			p.mu.Unlock()
			j.work(hostqueue.Limit{})
			j.leave()
			p.mu.Lock()
			fresh = true
		case p.closed:
			p.workers--
			p.mu.Unlock()
			return
		case fresh:
			fresh = false
			p.linger()
		default:
			p.idle++
			p.wake.Wait()
		}
	}
}

// lingers is how often an idle goroutine polls for work before it sleeps: some 10 µs, against the 20 to 50 µs that
// waking up takes. The parts of a batch and the copies of a stream are closer together than that.
const lingers = 64

// linger polls for new work for a while. p.mu is held, but released while it polls.
func (p *pool) linger() {
	seen := p.news.Load()
	p.mu.Unlock()
	for i := 0; i < lingers && p.news.Load() == seen; i++ {
		runtime.Gosched()
	}
	p.mu.Lock()
}

// close ends the workers. No work may be left.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.idle = 0
	p.wake.Broadcast()
	p.mu.Unlock()
	p.running.Wait()
}
