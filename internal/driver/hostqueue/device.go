package hostqueue

import "ropeway/internal/driver"

// This file is for back ends with a device that carries out tasks by itself, in order. Such a back end passes tasks to
// the device when they are submitted, or from the list, reports when they are over, and lets the host run the other
// tasks (Turn) once all earlier ones are over. Mu is held in all calls.

// Tasks returns the length of the list. Mu is held.
func (q *Queue) Tasks() int { return q.list.Len() }

// Task returns the i-th task of the list. Mu is held.
func (q *Queue) Task(i int) *driver.Op { return q.list.At(i) }

// First returns the first n tasks of the list as two slices; n must not exceed Tasks. Mu is held. The goroutine that
// has made the queue Starting may read the slices without Mu until it removes the tasks.
func (q *Queue) First(n int) (list, rest []driver.Op) { return q.list.First(n) }

// Submitted returns the number of tasks submitted so far. Mu is held.
func (q *Queue) Submitted() uint64 { return q.submitted }

// Taken returns the number of submitted tasks that have left the list or were never in it. Mu is held.
func (q *Queue) Taken() uint64 { return q.taken }

// Completed returns the number of tasks known to be over. Mu is held.
func (q *Queue) Completed() uint64 { return q.completed }

// Dropping reports whether the head of the list has to be discarded or, if the list is empty, the next task. Mu is
// held.
func (q *Queue) Dropping() bool { return q.taken < q.dropTo && q.taken+1 != q.kept }

// AppendCopy is Append for a plain copy. Mu is held, but released while it waits.
func (q *Queue) AppendCopy(dst, src uintptr, n uint64, tag driver.Tag) (idle bool) {
	if q.list.Full() {
		q.awaitRoom()
	}
	op := q.list.Extend() // zero, or a plain copy
	op.Dst, op.Src, op.N, op.Tag = dst, src, n, tag
	return q.pushed()
}

// Started counts a task that was never in the list: it was passed to the device or is about to run inline. Mu is held.
func (q *Queue) Started() {
	q.submitted++
	q.taken++
}

// TookHead removes the head, which was passed to the device, from the list. Mu is held.
func (q *Queue) TookHead() {
	q.head.Leave(q.list.Head(), q)
	q.began = 0
	var op driver.Op
	q.list.Pop(&op)
	q.taken++
	q.room.WakeOne()
}

// TookCopies removes the first n tasks, plain copies that were passed to the device, from the list. Mu is held.
func (q *Queue) TookCopies(n int) {
	q.list.Skip(n)
	q.taken += uint64(n)
	for range min(n, len(q.room)) {
		q.room.WakeOne()
	}
}

// Over records that the first upto tasks are over. Mu is held.
func (q *Queue) Over(upto uint64) {
	q.completed = max(q.completed, upto)
	q.waiters.Notify(q.completed)
}

// Waiting returns the number of goroutines that sleep until tasks are over. Mu is held.
func (q *Queue) Waiting() int { return len(q.waiters) }

// SleepUntil waits until the first target tasks are over, and reports whether they were before l was reached. Mu is
// held, but released while it waits.
func (q *Queue) SleepUntil(target uint64, l Limit) bool {
	if q.completed >= target {
		return true
	}
	w := q.waiters.Add()
	w.Target = target
	q.Mu.Unlock()
	defer q.Mu.Lock()
	return w.Sleep(l, &q.Mu, &q.waiters)
}
