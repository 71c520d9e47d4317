package checktest

import (
	"math/rand/v2"
	"slices"

	"ropeway/internal/finding"
)

// mutant is a correct program less one dependency.
type mutant struct {
	*program
	removed int    // step of the correct program
	what    string // and what it was
	pairs   []pair // what the oracle says is unordered now
}

// dependency reports whether a step is there only to order others. Resets are not among them (without one a program
// means something else), nor is awaiting a callback, which the program does by means of its own.
func dependency(o op) bool {
	switch o {
	case record, wait, syncStream, syncDevice, syncEvent, queryStream, queryEvent:
		return true
	}
	return false
}

// mutate takes one dependency away that the program needs; nil if there is none, or every one that is needed leaves a
// program that may hang.
func mutate(p *program) *mutant {
	r := rand.New(rand.NewPCG(p.seed, 6))
	var body, ending []int
	for i := range p.steps {
		switch {
		case !dependency(p.steps[i].op):
		case i < p.ending:
			body = append(body, i)
		default:
			ending = append(ending, i)
		}
	}
	shuffle := func(list []int) { r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) }
	shuffle(body)
	shuffle(ending)
	first, then := body, ending
	if r.IntN(10) == 0 {
		first, then = ending, body
	}
	for _, i := range append(first, then...) {
		q := p.without(i)
		pairs, err := judge(q)
		if err == nil && slices.ContainsFunc(pairs, pair.byTasks) {
			return &mutant{q, i, p.line(i), pairs}
		}
	}
	return nil
}

// rules are the rules under which a pair may be reported.
func (p *program) rules(x pair) []string {
	a, b := x[0], x[1]
	if a.by != byTask && (b.by == byTask || b.by == byFunction) {
		a, b = b, a
	}
	inFlight := "host-read-in-flight"
	if b.write {
		inFlight = "host-write-in-flight"
	}
	switch b.by {
	case byTask:
		return []string{"stream-race"}
	case byFree:
		return []string{"free-in-flight"}
	case byCall: // a synchronous call works for the host
		return []string{inFlight, "stream-race"}
	}
	if !x.byTasks() {
		return []string{"host-read-in-flight", "host-write-in-flight"} // by either of both
	}
	return []string{inFlight}
}

// names reports whether a finding names a task of a step.
func (r *run) names(f *finding.Finding, step int) bool {
	j, ok := r.jobs[step]
	if !ok {
		return false
	}
	for _, s := range append([]finding.Site{f.Offence}, f.Others...) {
		if s.Stream != nil && *s.Stream == j.stream && s.Task >= j.first && s.Task <= j.last {
			return true
		}
	}
	return false
}

// matches reports whether a finding is about a pair: its rule, its task or tasks, and bytes that both touch.
func (r *run) matches(f *finding.Finding, x pair) bool {
	right := slices.Contains(r.p.rules(x), f.Rule)
	for _, a := range x {
		right = right && (a.by != byTask || r.names(f, a.step))
	}
	if b := f.Bytes; right && x[0].buf >= 0 {
		lo, hi := max(x[0].lo, x[1].lo), min(x[0].hi, x[1].hi)
		if r.p.buffers[x[0].buf].place == table { // a descriptor counts as a whole
			lo, hi = lo&^63, (hi+63)&^63
		}
		right = b != nil && uint64(b.Offset) >= uint64(lo) && uint64(b.Offset)+b.Length <= uint64(hi) &&
			b.Address-uint64(b.Offset) == uint64(r.addrs[x[0].buf])
	}
	return right
}

// reported reports whether a finding is about one of the mutant's pairs at all, and whether it is about one of tasks.
func (m *mutant) reported(r *run, f *finding.Finding) (so, right bool) {
	for _, x := range m.pairs {
		if r.matches(f, x) {
			so, right = true, right || x.byTasks()
		}
	}
	return so, right
}

// plain reports whether the oracle's pairs are all there is to be found: no address is read from bytes that are in
// doubt, and nothing is freed, and perhaps given out again, while it is used.
func (m *mutant) plain() bool {
	return !slices.ContainsFunc(m.pairs, func(x pair) bool {
		return x[0].by == byFree || x[1].by == byFree || x[0].buf >= 0 && m.buffers[x[0].buf].place == table
	})
}
