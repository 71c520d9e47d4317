package hostqueue

import "ropeway/internal/driver"

// What follows is for back ends with a device that carries out tasks by itself, in order. Such a back end gives tasks
// to the device as they are submitted, or from the list, says when they are over, and lets the host do the rest (Turn)
// when everything before that is. All of it is called with Mu held.

// Tasks is how many tasks are in the list. Mu is held.
func (q *Queue) Tasks() int { return q.list.Len() }

// Task is the i-th task of the list. Mu is held.
func (q *Queue) Task(i int) *driver.Op { return q.list.At(i) }

// First is the first n tasks of the list, which has as many, in two parts. Mu is held. The goroutine that has made the
// queue Starting reads them without it, until it takes them out.
func (q *Queue) First(n int) (list, rest []driver.Op) { return q.list.First(n) }

// Submitted is how many tasks there were, ever. Mu is held.
func (q *Queue) Submitted() uint64 { return q.submitted }

// Taken is how many of these have left the list, or were never in it. Mu is held.
func (q *Queue) Taken() uint64 { return q.taken }

// Completed is how many of these are known to be over. Mu is held.
func (q *Queue) Completed() uint64 { return q.completed }

// Dropping reports whether the head of the list is to be discarded or, if that is empty, what is submitted next. Mu is
// held.
func (q *Queue) Dropping() bool { return q.taken < q.dropTo }

// AppendCopy is Append for a plain copy. Mu is held, but not while it waits.
func (q *Queue) AppendCopy(dst, src uintptr, n uint64, tag driver.Tag) (idle bool) {
	if q.list.Full() {
		q.awaitRoom()
	}
	op := q.list.Extend() // zero, or a plain copy
	op.Dst, op.Src, op.N, op.Tag = dst, src, n, tag
	return q.pushed()
}

// Started counts a task that was given to the device, or is about to run inline, and was never in the list. Mu is held.
func (q *Queue) Started() {
	q.submitted++
	q.taken++
}

// TookHead takes the head out of the list, which was given to the device. Mu is held.
func (q *Queue) TookHead() {
	q.head.Leave(q.list.Head(), q)
	q.began = 0
	var op driver.Op
	q.list.Pop(&op)
	q.taken++
	q.room.WakeOne()
}

// TookCopies takes n tasks out of the list, which were given to the device. They were plain copies. Mu is held.
func (q *Queue) TookCopies(n int) {
	q.list.Skip(n)
	q.taken += uint64(n)
	for range min(n, len(q.room)) {
		q.room.WakeOne()
	}
}

// Over notes that the first so many tasks are over, ever. Mu is held.
func (q *Queue) Over(upto uint64) {
	q.completed = max(q.completed, upto)
	q.waiters.Notify(q.completed)
}

// Waiting is how many goroutines sleep until tasks are over. Mu is held.
func (q *Queue) Waiting() int { return len(q.waiters) }

// SleepUntil waits within a limit until the first so many tasks are over. Mu is held, but not meanwhile.
func (q *Queue) SleepUntil(target uint64, l Limit) bool {
	w := q.waiters.Add()
	w.Target = target
	q.Mu.Unlock()
	defer q.Mu.Lock()
	return w.Sleep(l, &q.Mu, &q.waiters)
}
