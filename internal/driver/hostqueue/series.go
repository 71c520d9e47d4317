package hostqueue

import "ropeway/internal/driver"

// mostSeries is the largest number of launches that run without taking Mu in between.
const mostSeries = 32

// series returns how many tasks at the head of the list can run one after another without Mu: launches, up to the first
// task that a goroutine waits for. It returns 1 if there is an observer or a submitter waits for room. Mu is held.
func (q *Queue) series(until uint64, most int) int {
	if until != Forever || q.Events.Ran != nil || q.taken < q.dropTo || len(q.room) > 0 {
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

// runSeries runs the first n tasks of the list, which are launches, and returns how many it has run. It stops early if
// a goroutine pauses, drops or watches the queue. A goroutine that begins to wait during the series waits for all that
// run in it. The caller has made q Running. Mu is held, but released while tasks run.
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

// PushLaunch is Push for a launch: it writes only the fields of a launch to the task's place in the list.
func (q *Queue) PushLaunch(l *driver.Launch, tag driver.Tag) {
	q.Mu.Lock()
	if q.list.Full() {
		q.awaitRoom()
	}
	op := q.list.Extend()
	op.Kind, op.Tag, op.Launch = driver.OpLaunch, tag, l
	q.unlock(q.pushed())
}

// dropLaunch removes the head, a launch, from the list. It clears all fields that a launch uses. Mu is held.
func (q *Queue) dropLaunch() {
	op := q.list.Head()
	op.Kind, op.Tag, op.Launch, op.Done = 0, driver.Tag{}, nil, nil
	q.list.Skip(1)
	q.room.WakeOne()
}
