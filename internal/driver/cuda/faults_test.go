//go:build !explore

package cuda

import (
	"testing"

	"ropeway/internal/testenv"
)

// TestExploration runs TestExplore, which needs the build tag explore.
func TestExploration(t *testing.T) {
	testenv.Long(t, "it runs queues some 80,000 times")
	if out, err := testenv.GoTest(t, "TestExplore", "-tags", "explore"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestExplorationFindsFaults proves that the exploration fails if a queue has a fault.
func TestExplorationFindsFaults(t *testing.T) {
	testenv.FindsFaults(t, "TestExplore", []testenv.Fault{
		{
			Name: "a waiter that sleeps while copies are given to the stream is forgotten", File: "pending.go",
			From: "\t\tq.mark() // a goroutine",
			To:   "\t\t// a goroutine",
		},
		{
			Name: "marks are forgotten when a queue is left", File: "queue.go",
			From: "q.Release(q.marks.Len() > 0)",
			To:   "q.Release(false)",
		},
		{
			Name: "nobody ends a mark", File: "queue.go",
			From: "\t\t\tif q.marks.Len() > 0 {\n\t\t\t\tq.Activate()",
			To:   "\t\t\tif q.marks.Len() > 1 {\n\t\t\t\tq.Activate()",
		},
		{
			Name: "tasks are over before their marks are ended", File: "queue.go",
			From: "if q.Completed() < q.Taken() && q.marks.Len() == 0 {",
			To:   "if q.Completed() < q.Taken() {",
		},
		{
			Name: "the host does not wait for the stream", File: "queue.go",
			From: "if !q.drained() || !q.Claim(hostqueue.Running)",
			To:   "if !q.Claim(hostqueue.Running)",
		},
		{
			Name: "a waiter keeps the queue", File: "wait.go",
			From: "\t\tq.end(r)\n\t}\n\tq.leave()",
			To:   "\t\tq.end(r)\n\t\tq.leave()\n\t}",
		},
		{
			Name: "there is no second runner", File: "queue.go",
			From: "\tq.runner = noRunner\n",
			To:   "",
		},
		{
			Name: "a mark of a waiter is not ended", File: "marks.go",
			From: "\t\tif q.marks.Len() > 0 {\n\t\t\tq.Activate()\n\t\t\tq.attend()\n\t\t}\n",
			To:   "",
		},
		{
			Name: "Close leaves the queue open", File: "queue.go",
			From: "\tq.End()\n",
			To:   "",
		},
		{
			Name: "copies are not on the stream when memory is freed", File: "pending.go",
			From: "case s == hostqueue.Starting:",
			To:   "case false:",
		},
		{
			Name: "copies are not on the stream when the end of a task frees memory", File: "pending.go",
			From: "case s == hostqueue.Ending:\n\t\t\tif !q.startPendingBeside() {",
			To:   "case s == hostqueue.Ending && q.hasPending():\n\t\t\tif q.pause(); false {",
		},
		{
			Name: "a parked queue is not run again", File: "queue.go",
			From: "\tdefer q.Mu.Unlock()\n\tq.runIfReady()\n",
			To:   "\tdefer q.Mu.Unlock()\n",
		},
		{
			Name: "copies overtake those in the list", File: "queue.go",
			From: "return q.Tasks() == 0 && !q.Dropping()",
			To:   "return !q.Dropping()",
		},
		{
			Name: "the stream is used by two", File: "queue.go",
			From: "1<<hostqueue.Ready|1<<hostqueue.Ending) != 0",
			To:   "1<<hostqueue.Ready|1<<hostqueue.Ending|1<<hostqueue.Inline|1<<hostqueue.Running) != 0",
		},
		{
			Name: "a wait that is blocked is taken for one that is parked", File: "queue.go",
			From: "q.turn() != blocked {",
			To:   "q.turn() != ran {",
		},
		{
			Name: "a task is over before its end is reported", File: "wait.go",
			From: "\tcase q.ending != 0:\n",
			To:   "",
		},
		{
			Name: "a queue of a lost GPU is never idle", File: "queue.go",
			From: "\t\t\tdefault:\n\t\t\t\tq.markTail()\n",
			To:   "",
		},
		{
			Name: "a mark of a lost GPU is waited for", File: "marks.go",
			From: "\tcase m.made != libcuda.Success:\n\t\treturn m.made\n",
			To:   "",
		},
		{
			Name: "a flag that another stream sets is not waited for", File: "flag.go",
			From: "return first.by == q ||",
			To:   "return first.by != q ||",
		},
		{
			Name: "a step of the host does not wait for the stream", File: "program.go",
			From: "if err := q.synchronize(); err != nil {",
			To:   "if err := error(nil); err != nil {",
		},
		{
			Name: "a launch is started twice", File: "queue.go",
			From: "q.startLaunch(op) {\n\t\t\tq.Started()\n\t\t\treturn\n",
			To:   "q.startLaunch(op) {\n\t\t\tq.Started()\n",
		},
		{
			Name: "a failed task is not over", File: "queue.go",
			From: "\tq.ending = 0\n\tq.over(m.upto)\n",
			To:   "\tq.ending = 0\n\tif err == nil {\n\t\tq.over(m.upto)\n\t}\n",
		},
	}, "-tags", "explore")
}
