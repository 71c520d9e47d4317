package check

import (
	"cmp"
	"fmt"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// findOverlap returns the indices of two segments of a batch that share bytes, at least one of them writing, and these
// bytes.
func findOverlap(list []driver.Segment) (a, b int, lo, hi uintptr, found bool) {
	rising := true
	for i := 1; i < len(list) && rising; i++ {
		rising = list[i].Dst >= list[i-1].Dst+uintptr(list[i-1].N)
	}
	type part struct {
		lo, hi uintptr
		i      int
		write  bool
	}
	if rising && apart(list) {
		return
	}
	parts := make([]part, 0, 2*len(list))
	for i, s := range list {
		parts = append(parts, part{s.Dst, s.Dst + uintptr(s.N), i, true}, part{s.Src, s.Src + uintptr(s.N), i, false})
	}
	slices.SortFunc(parts, func(x, y part) int { return cmp.Compare(x.lo, y.lo) })
	// A later part can first meet only the write that reaches furthest, the part that does, and the part of another
	// segment that does.
	var write, any, next part
	for _, p := range parts {
		for _, q := range [...]part{write, any, next} {
			if q.hi > p.lo && q.i != p.i && (q.write || p.write) && p.hi > p.lo {
				return min(q.i, p.i), max(q.i, p.i), p.lo, min(p.hi, q.hi), true
			}
		}
		switch {
		case p.hi > any.hi && p.i == any.i:
			any = p
		case p.hi > any.hi:
			any, next = p, any
		case p.hi > next.hi && p.i != any.i:
			next = p
		}
		if p.write && p.hi > write.hi {
			write = p
		}
	}
	return
}

// apart reports whether all sources lie before or after all destinations.
func apart(list []driver.Segment) bool {
	if len(list) == 0 {
		return true
	}
	dlo, dhi, slo, shi := ^uintptr(0), uintptr(0), ^uintptr(0), uintptr(0)
	for _, s := range list {
		dlo, dhi = min(dlo, s.Dst), max(dhi, s.Dst+uintptr(s.N))
		slo, shi = min(slo, s.Src), max(shi, s.Src+uintptr(s.N))
	}
	return dhi <= slo || shi <= dlo
}

// selfOverlap reports a copy whose source and destination overlap and are not equal. role says what from did with it.
// Checker.mu is held.
func (j *judge) selfOverlap(from origin, role string, op *driver.Op) {
	lo, hi := sharedBytes(op)
	if lo >= hi {
		return
	}
	what, shared := "copy of "+count(uintptr(op.N)), count(hi-lo)
	if op.Kind == driver.OpCopy2D {
		what, shared = fmt.Sprintf("2D copy of %d rows", op.Height), shared+" of a row"
	}
	j.report.add(draft{
		rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: j.ledger.find(lo), detail: "copy",
		summary: fmt.Sprintf("source and destination of one %s share %s", what, shared),
		advice: "A device copies the bytes of a copy in any order: copy to other memory first, or in pieces that " +
			"share no bytes, one after the other.",
	})
}

// sharedBytes returns the first bytes that a copy both reads and writes, unless it copies memory to itself in place.
func sharedBytes(op *driver.Op) (lo, hi uintptr) {
	rows := uint64(1)
	switch {
	case op.Kind == driver.OpCopy2D:
		rows = op.Height
	case op.Kind != driver.OpCopy:
		return 0, 0
	}
	if op.Dst == op.Src && op.DstPitch == op.SrcPitch {
		return 0, 0
	}
	for d, s := uint64(0), uint64(0); d < rows && s < rows; {
		to, from := op.Dst+uintptr(d*op.DstPitch), op.Src+uintptr(s*op.SrcPitch)
		if lo, hi = max(to, from), min(to, from)+uintptr(op.N); lo < hi {
			return lo, hi
		}
		if to < from {
			d++
		} else {
			s++
		}
	}
	return 0, 0
}

// overlaps reports segments of a batch that overlap where one of them writes: segments run in any order. role says what
// from did with the batch. Checker.mu is held.
func (j *judge) overlaps(from origin, role string, op *driver.Op) {
	if j.report.on("batch-overlap") {
		if a, b, lo, hi, found := findOverlap(op.Segs.List); found {
			j.report.add(draft{
				rule: "batch-overlap", role: role, offence: from, lo: lo, hi: hi, memory: j.ledger.find(lo),
				summary: fmt.Sprintf("segments %d and %d of one batch share %s, and at least one writes there", a, b,
					count(hi-lo)),
			})
		}
	}
}

// alignment is the alignment of addresses that the documents of aclrtMemcpyAsync demand.
const alignment = 64

// alignment reports a copy whose addresses are not aligned. role says what from did with it. Checker.mu is held.
func (j *judge) alignment(from origin, role string, op *driver.Op) {
	if op.Kind != driver.OpCopy || (op.Dst|op.Src)%alignment == 0 || !j.report.on("misaligned") {
		return
	}
	name, at := "dst", j.ledger.canonical(op.Dst)
	if at%alignment == 0 || j.ledger.find(at) == nil {
		name, at = "src", j.ledger.canonical(op.Src)
	}
	a := j.ledger.find(at)
	if a == nil || at%alignment == 0 {
		return // memory of the core, or a variable of the device
	}
	j.report.add(draft{
		rule: "misaligned", role: role, offence: from, lo: at, hi: at + uintptr(op.N), memory: a,
		summary: fmt.Sprintf("%s of an asynchronous copy is %#x, which is not a multiple of %d", name, at, alignment),
	})
}

// bounds reports a range that ends after the size the program asked for; the driver's rounding does not count. op may
// be nil. a is the allocation at lo, or nil. Checker.mu is held.
func (j *judge) bounds(from *origin, op *driver.Op, a *allocation, lo, hi uintptr, write bool) {
	if a == nil {
		a = j.ledger.rounded(lo)
	}
	if a == nil || lo >= hi {
		return
	}
	end := j.ledger.reachOf(a, hi)
	if hi <= end {
		return
	}
	whole, segment := access{lo, hi}, j.segment(op, lo, hi)
	lo = max(lo, end)
	j.report.add(draft{
		rule: "out-of-bounds", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, does: does(write),
		whole: whole,
		summary: fmt.Sprintf("%s%s past the end of %d bytes of %s memory would be %s", segment, count(hi-lo), a.size,
			a.kind(), done(write)),
	})
}

// segment names the segment of a batch that touches [lo, hi), for the beginning of a sentence, or returns "". op may be
// nil. Checker.mu is held.
func (j *judge) segment(op *driver.Op, lo, hi uintptr) string {
	if op == nil || op.Kind != driver.OpBatch {
		return ""
	}
	i := slices.IndexFunc(op.Segs.List, func(s driver.Segment) bool {
		return uintptr(s.N) == hi-lo && (j.ledger.canonical(s.Dst) == lo || j.ledger.canonical(s.Src) == lo)
	})
	if i < 0 {
		return "" // the range is part of a segment, or several adjacent ones
	}
	return fmt.Sprintf("segment %d: ", i)
}

// neverWritten reports a read of device memory that was never written; used says what reads it. op may be nil.
// Checker.mu is held.
func (j *judge) neverWritten(from *origin, a *allocation, lo, hi uintptr, op *driver.Op, used string) {
	if a.what != core.DeviceMemory || !j.report.on("uninitialised-read") {
		return
	}
	whole := access{lo, hi}
	if lo, hi := a.written.Missing(lo, min(hi, a.end())); lo < hi {
		d := draft{
			rule: "uninitialised-read", role: how(*from), offence: *from, lo: lo, hi: hi, memory: a, whole: whole,
			summary: fmt.Sprintf("%s%s of device memory %s %s that %s never written",
				j.segment(op, whole.lo, whole.hi), count(hi-lo), are(hi-lo, "is", "are"), used,
				are(hi-lo, "was", "were")),
		}
		if f := j.report.failedOn(a); f != nil {
			d.others = []other{{"failed", f.from}}
			d.summary += fmt.Sprintf("; %s, which was to write there, had failed before with %d", f.api, f.code)
		}
		j.report.add(d)
		a.written.Add(lo, hi) // report it once
	}
}
