//go:build !explore

package hostqueue

import (
	"testing"

	"ropeway/internal/testenv"
)

// TestExploration runs TestExplore, which needs the build tag explore.
func TestExploration(t *testing.T) {
	testenv.Long(t, "it runs the engine some 200,000 times")
	if out, err := testenv.GoTest(t, "TestExplore", "-tags", "explore"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestExplorationFindsFaults proves that the exploration fails if the engine has a fault.
func TestExplorationFindsFaults(t *testing.T) {
	testenv.FindsFaults(t, "TestExplore", []testenv.Fault{
		{
			Name: "a task that comes during an inline operation is not noticed", File: "state.go",
			From: "q.word.CompareAndSwap(w, w|late) {\n\t\t\t\treturn false",
			To:   "w != 0 {\n\t\t\t\treturn false",
		},
		{
			Name: "a waiter that comes during an inline operation is not noticed", File: "state.go",
			From: "s != Inline && s != Running || q.word.CompareAndSwap(w, w|late)",
			To:   "true",
		},
		{
			Name: "a waiter does not wait for an inline operation", File: "queue.go",
			From: "if s == Rest || s != Inline && ",
			To:   "if s == Rest || ",
		},
		{
			Name: "the state is forgotten to be shut", File: "state.go",
			From: "uint32(to) | w&atRest",
			To:   "uint32(to)",
		},
		{
			Name: "a queue that is paused goes on", File: "queue.go",
			From: " && q.word.Load()&paused == 0 {",
			To:   " {",
		},
		{
			Name: "nobody is asked after a pause", File: "queue.go",
			From: "&paused != 0 && q.State() == Ready",
			To:   "&paused != 0 && q.State() == Parked",
		},
		{
			Name: "nobody is asked for a task", File: "queue.go",
			From: "return q.list.Len() == 1 && q.Activate()",
			To:   "return q.list.Len() == 1 && q.Activate() && q.submitted > 1",
		},
		{
			Name: "two goroutines run a queue", File: "queue.go",
			From: "if !q.Claim(Running) {",
			To:   "if !q.Claim(Running) && q.list.Len() == 0 {",
		},
		{
			Name: "waiters are not woken", File: "queue.go",
			From: "\tq.waiters.Notify(q.completed)\n\treturn more",
			To:   "\treturn more",
		},
		{
			Name: "waiters are woken too early", File: "queue.go",
			From: "\tq.ended++\n\tq.completed++\n\treturn true",
			To:   "\tq.ended++\n\tq.completed += 2\n\treturn true",
		},
		{
			Name: "waiters find a queue that is not idle", File: "queue.go",
			From: "\tif due || q.list.Len() > 0 {\n",
			To:   "\tq.waiters.Notify(q.completed)\n\tif due || q.list.Len() > 0 {\n",
		},
		{
			Name: "submitters wait for room for ever", File: "queue.go",
			From: "\tq.room.WakeOne()\n",
			To:   "",
		},
		{
			Name: "a parked queue is not run again", File: "queue.go",
			From: "\tq.become(Ready)\n\treturn q.word.Load()&paused == 0",
			To:   "\tq.become(Ready)\n\treturn false",
		},
		{
			Name: "what is shut runs inline", File: "queue.go",
			From: "\tq.word.Or(shut)\n",
			To:   "",
		},
		{
			Name: "what is closed is opened", File: "queue.go",
			From: "\tif q.closed || q",
			To:   "\tif q.closed && q.submitted > 99 || q",
		},
		{
			Name: "what was dropped runs", File: "device.go",
			From: "return q.taken < q.dropTo",
			To:   "return q.taken+1 < q.dropTo",
		},
		{
			Name: "what comes after Drop is dropped", File: "device.go",
			From: "return q.taken < q.dropTo",
			To:   "return q.taken <= q.dropTo && q.dropTo > 0",
		},
		{
			Name: "Drop leaves a queue parked", File: "queue.go",
			From: "max(q.dropTo, q.submitted)\n\tq.watch()\n\tq.back.Cancel()\n\tq.unlock(q.unpark())",
			To:   "max(q.dropTo, q.submitted)\n\tq.watch()\n\tq.back.Cancel()\n\tq.unlock(false)",
		},
		{
			Name: "a launch is dropped that had begun", File: "queue.go",
			From: "\t\tq.kept = q.taken + 1\n",
			To:   "",
		},
		{
			Name: "a launch does not learn that it was dropped before a goroutine came", File: "queue.go",
			From: "q.word.Or(late) // the back end learns that it was dropped",
			To:   "",
		},
		{
			Name: "an inline operation is not seen", File: "queue.go",
			From: "return q.ended, s == Running || s == Inline",
			To:   "return q.ended, s == Running",
		},
		{
			Name: "launches go on while the queue is paused", File: "series.go",
			From: "&(late|paused) == 0",
			To:   "&late == 0",
		},
		{
			Name: "launches go on that are watched", File: "series.go",
			From: "&(late|paused) == 0",
			To:   "&paused == 0",
		},
		{
			Name: "a launch does not learn that it was dropped", File: "queue.go",
			From: "\tq.dropTo = max(q.dropTo, q.submitted)\n\tq.watch()\n",
			To:   "\tq.dropTo = max(q.dropTo, q.submitted)\n",
		},
		{
			Name: "a waiter waits for a launch that came later", File: "series.go",
			From: "n = int(min(uint64(n), w.Target-q.completed))",
			To:   "n = max(n, int(w.Target-w.Target))",
		},
		{
			Name: "launches that did not run are over", File: "series.go",
			From: "q.completed += uint64(ran)",
			To:   "q.completed += uint64(n)",
		},
		{
			Name: "a flag that was set before is waited for", File: "flag.go",
			From: "if f.Decided() || ",
			To:   "if ",
		},
		{
			Name: "a flag that was set and cleared is waited for", File: "flag.go",
			From: " || *since != 0 && *since != f.sets+1",
			To:   "",
		},
		{
			Name: "a condition is not left when time is up", File: "head.go",
			From: "if op.Kind == driver.OpWaitCond && !h.passed {",
			To:   "if false {",
		},
		{
			Name: "a host function is called twice", File: "head.go",
			From: "\t\t\th.called = true\n",
			To:   "",
		},
		{
			Name: "a transition is missing", File: "state.go",
			From: "1<<Rest | 1<<Ready | 1<<Parked",
			To:   "1<<Rest | 1<<Ready",
		},
	}, "-tags", "explore")
}
