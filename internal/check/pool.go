package check

// Pool memory is allocated and freed in the order of streams. A free is a task like others: every use of the memory
// must come before it. The next allocation of the memory comes after the free, by the order of the stream or, on
// another stream, because the core orders it; accesses before the free are forgotten.
//
// An allocation is not a task, but it has a number of its own on the stream's line. A use of the memory is either
// ordered after the allocation or a race, even if the stream had nothing to do before.

// poolAllocated records an allocation of pool memory in the order of a stream; on is nil if the stream is gone.
// Checker.mu is held.
func (j *judge) poolAllocated(a *allocation, on *line, stream int32) {
	a.pooled = true
	old := j.ledger.findGone(a.start)
	if old != nil && old.pooled && old.freedAt != 0 {
		a.before, old.before = old, nil
		if old.freedOn == stream && !old.left {
			return // the free will be judged; a use not ordered after it is not ordered after a either
		}
	}
	end := a.end()
	if old != nil {
		end = max(end, old.end())
	}
	j.shadow.Forget(a.start, end)
	if on != nil {
		p := &past{Line: on.id, N: on.number(), Mark: on.mark, Of: maker{from: a.by}, Way: gives}
		p.Of.from.stream, p.Of.from.part = stream, &part{born: a.born}
		on.mark++ // so that later uses on the stream differ from tasks before the allocation
		j.shadow.Add(&cell{Lo: a.start, Hi: a.end(), Write: p})
	}
}

// strayFree reports pool memory that is freed in the order of a stream after its pool was destroyed. Checker.mu is
// held.
func (j *judge) strayFree(from origin, a *allocation) {
	if a == nil || a.orphan == nil {
		return
	}
	j.report.add(draft{
		rule: "use-after-free", role: "called", offence: from, others: []other{{"freed", *a.orphan}}, lo: a.start,
		hi: a.end(), memory: a, summary: "memory is freed to a pool that was destroyed",
		advice: "Free the memory of a pool before aclrtMemPoolDestroy.",
	})
	a.orphan = nil
}

// used returns the allocation at addr that t uses. For pool memory that is the one at the time of t's submission.
// Checker.mu is held.
func (j *judge) used(born uint64, addr uintptr) *allocation {
	a := j.ledger.find(addr)
	if a == nil {
		if a = j.ledger.findGone(addr); a == nil || !a.pooled || a.freedAt == 0 {
			return nil
		}
	}
	if b := a.before; b != nil && born < a.born && addr < b.end() {
		a = b
	}
	if a.left && born < a.freedAt {
		return nil // freePooled has reported it
	}
	return a
}

// gone reports an access of the host to pool memory that was freed. Checker.mu is held.
func (j *judge) gone(from origin, lo, hi uintptr) {
	if a := j.ledger.findGone(lo); a != nil && a.pooled {
		j.usedAfter(from, a, lo, min(hi, a.end()))
	}
}

// usedAfter reports the use of pool memory after its free. Checker.mu is held.
func (j *judge) usedAfter(from origin, a *allocation, lo, hi uintptr) {
	if from.is().model != nil {
		return // reported when the model was executed
	}
	j.report.add(draft{
		rule: "use-after-free", role: how(from), offence: from, lo: lo, hi: hi, memory: a,
		summary: "memory of a pool is used after it was freed",
	})
}
