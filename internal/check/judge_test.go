package check

import (
	"testing"

	"ropeway/internal/core"
)

// TestJudgeAlone proves that accesses are judged where nothing holds work back: without a schedule, a driver or pages.
func TestJudgeAlone(t *testing.T) {
	k := new(keeper)
	r := newReport(Options{Driver: nothing{}, Sink: k})
	j := newJudge(newLedger(nothing{}, r), r)
	a := &allocation{what: core.PinnedMemory, start: 0x1000, size: 64}
	j.ledger.add(a, nil)
	writes := func(on *line) {
		w := &work{line: on, n: on.number()}
		w.from = origin{stream: on.stream, task: uint32(w.n), site: new(site)}
		j.access(on, &past{Line: on.id, N: w.n, Of: maker{from: w.from}}, a, 0x1000, 0x1040, true)
	}
	one, two := j.newLine(1), j.newLine(2)
	writes(one)
	writes(one)
	two.clock.Raise(one.id, one.submitted)
	writes(two)
	if len(k.list) != 0 {
		t.Fatalf("ordered writes are reported: %v", k.list[0])
	}
	if j.hostAccess(origin{site: new(site)}, 0x1000, 0x1008, false); len(k.list) != 1 ||
		k.list[0].Rule != "host-read-in-flight" {
		t.Fatalf("a read of the host before a synchronisation: %v", k.list)
	}
	j.learnOf(two, two.submitted)
	j.hostAccess(origin{thread: 2, site: new(site)}, 0x1010, 0x1018, true)
	writes(one)
	if len(k.list) != 2 || k.list[1].Rule != "stream-race" {
		t.Fatalf("two streams write, and nothing orders them: %v", k.list)
	}
}
