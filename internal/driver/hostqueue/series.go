package hostqueue

import "ropeway/internal/driver"

// mostSeries is how many launches are run before Mu is taken again, at most.
const mostSeries = 32

// series is how many tasks at the head of the list can be run one after the other without Mu: launches, up to the last
// task that a goroutine waits for. An observer wants each by itself, and so do submitters that wait for room. Mu is
// held.
func (q *Queue) series(until uint64, most int) int {
	if until != Forever || q.Observer != nil || q.taken < q.dropTo || len(q.room) > 0 {
		return 1
	}
	n := min(q.list.Len(), most, mostSeries)
	for _, w := range q.waiters {
		n = int(min(uint64(n), w.Target-q.completed))
	}
	for i := range n {
		if q.list.At(i).Kind != driver.OpLaunch {
			return max(i, 1)
		}
	}
	return n
}

// runSeries runs the first n tasks of the list, which are launches, and returns how many it has run: it ends early when
// a goroutine pauses or drops the queue, or watches what runs. A goroutine that begins to wait meanwhile waits for all
// of them. The caller has made q Running. Mu is held, but not meanwhile.
func (q *Queue) runSeries(n int) (ran int) {
	list, rest := q.list.First(n)
	q.taken += uint64(n)
	q.Mu.Unlock()
	for again := true; again && ran < n; ran++ {
		op := &list[0]
		if list = list[1:]; len(list) == 0 {
			list, rest = rest, nil
		}
		q.Finish(op, 0, q.back.Exec(op))
		again = q.word.Load()&(late|paused) == 0
	}
	q.Mu.Lock()
	q.word.And(^uint32(late))
	for range ran {
		q.dropLaunch()
	}
	q.taken -= uint64(n - ran)
	q.ended++
	q.completed += uint64(ran)
	return ran
}

// PushLaunch is Push for a launch: nothing else of the task's place in the list is written to.
func (q *Queue) PushLaunch(l *driver.Launch, tag driver.Tag) {
	q.Mu.Lock()
	if q.list.Full() {
		q.awaitRoom()
	}
	op := q.list.Extend()
	op.Kind, op.Tag, op.Launch = driver.OpLaunch, tag, l
	idle := q.pushed()
	q.Mu.Unlock()
	if idle {
		q.back.Schedule()
	}
}

// dropLaunch takes the head, a launch, out of the list. An operation that is one has nothing but these. Mu is held.
func (q *Queue) dropLaunch() {
	op := q.list.Head()
	op.Kind, op.Tag, op.Launch, op.Done = 0, driver.Tag{}, nil, nil
	q.list.Skip(1)
	q.room.WakeOne()
}
