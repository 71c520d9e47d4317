package soft

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/driver/hostqueue"
)

// pool is the driver's executor: as many goroutines as there are processors, started when first needed, asleep
// while there is nothing to do. A worker takes a queue that has work and runs it, or helps with a job that another
// goroutine has opened.
//
// Lock order: Queue.Mu → Flag.mu → pool.mu; nothing is called with pool.mu held.
type pool struct {
	mu      sync.Mutex
	wake    sync.Cond     // on mu
	ready   [8]queues     // guarded by mu; queues to be run, by priority
	open    *job          // guarded by mu; jobs that want helpers, newest first
	workers int           // guarded by mu
	idle    int           // guarded by mu
	closed  bool          // guarded by mu
	max     int           // immutable
	news    atomic.Uint32 // changes when there is something new to do
	jobs    sync.Pool     // of this pool alone: p.mu guards fields of a job
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

// schedule hands q, which is Ready, to a worker. Another goroutine may run q before the worker comes to it, which finds
// nothing to do then.
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

// remove takes q out of its list. p.mu is held.
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

// unschedule takes q out of its list, because the caller is about to run it: a worker would come in vain.
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
		p.idle-- // counted here, so that two calls in a row do not count on one sleeper
		p.wake.Signal()
	}
	for ; n > 0 && p.workers < p.max && !p.closed; n-- {
		p.workers++
		p.running.Add(1)
		go p.work()
	}
}

// offer opens j to helpers, and wakes up to most of them.
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

// join makes the caller a helper of j, if j still takes any. The caller must leave it again.
func (p *pool) join(j *job) bool {
	p.mu.Lock()
	ok := j.offered && j.claimable() && j.kernel == nil // kernels run on workers alone
	if ok {
		j.helpers.Add(1)
	}
	p.mu.Unlock()
	return ok
}

// cancel stops what the goroutine that runs q has open to helpers, and the kernel that runs.
func (p *pool) cancel(q *queue) {
	p.mu.Lock()
	// The job is q's as long as it is offered: the owner withdraws it before it lets go of it.
	if j := q.job.Load(); j != nil && j.offered {
		j.stop.Store(true)
	}
	p.mu.Unlock()
	if l := q.launch.Load(); l != nil {
		l.stop()
	}
}

// next is the most urgent thing to do. p.mu is held.
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
	p.mu.Lock()   // not deferred: a panic comes out of a queue or a job with p.mu let go
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

// lingers is how often a goroutine that has run out of work looks again before going to sleep: some 10 µs, against the
// 20 to 50 µs that waking up takes. The parts of a batch and the copies of a stream follow each other closer than that.
const lingers = 64

// linger returns when there is news, or none for a while. p.mu is held, and let go meanwhile.
func (p *pool) linger() {
	seen := p.news.Load()
	p.mu.Unlock()
	for i := 0; i < lingers && p.news.Load() == seen; i++ {
		runtime.Gosched()
	}
	p.mu.Lock()
}

// close ends the workers. There is no work left by then.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.idle = 0
	p.wake.Broadcast()
	p.mu.Unlock()
	p.running.Wait()
}
