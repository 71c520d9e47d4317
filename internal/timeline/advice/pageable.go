package advice

import (
	"fmt"

	"ropeway/internal/observe"
)

// pageable advises on asynchronous calls that made their copy themselves because the host memory is pageable, if a
// thread was blocked in them long enough to notice.
func pageable(v *view) *Advice {
	var a Advice
	var bytes uint64
	var blocked, running int64
	byThread := map[int]int64{}
	directions := map[observe.Direction]bool{}
	seen := map[int]bool{}
	for i := range v.run.Tasks {
		t := &v.run.Tasks[i]
		if !t.Kind.Copies() || (t.Memory != observe.Pageable && t.Memory != observe.Mixed) || !v.called(t.Call) {
			continue
		}
		c := &v.run.Calls[t.Call]
		if !v.is(c).async || c.Blocked <= 0 {
			continue
		}
		a.Tasks = append(a.Tasks, i)
		bytes += t.Bytes
		if t.Ran() {
			running += t.End - t.Start
		}
		directions[t.Direction] = true
		if !seen[t.Call] {
			seen[t.Call] = true
			a.Calls = append(a.Calls, t.Call)
			blocked += c.Blocked
			byThread[c.Thread] += c.Blocked
		}
	}
	for _, of := range byThread {
		a.Saves = max(a.Saves, of)
	}
	if a.Saves < v.worth {
		return nil
	}
	a.Rule = Pageable
	a.Title = "Pin the host memory of " + plural(len(a.Tasks), "copy")
	a.Text = fmt.Sprintf("%s used pageable host memory, so the calls that should only have queued them waited until "+
		"they were made: %s in all. "+
		"Allocate the host buffers with aclrtMallocHost, or register them once with aclrtHostRegister.",
		plural(len(a.Tasks), "asynchronous copy"), duration(blocked))
	a.Numbers = []Number{{"copies", fmt.Sprint(len(a.Tasks))}, {"bytes", size(bytes)},
		{"time blocked", duration(blocked)},
		{"longest of one thread", duration(a.Saves) + ", " + share(a.Saves, v.run.Duration) + " of the run"}}
	if running > 0 {
		a.Numbers = append(a.Numbers, Number{"these copies reached", speed(float64(bytes) / float64(running))})
	}
	if reached := v.pinned(directions); reached > 0 {
		a.Numbers = append(a.Numbers, Number{"copies of pinned memory reached", speed(reached)})
	}
	a.Tasks, a.Calls = firstOf(a.Tasks), firstOf(a.Calls)
	return &a
}

// pinned returns the bandwidth of copies of pinned memory in these directions, without small ones; 0 if there are
// none.
func (v *view) pinned(directions map[observe.Direction]bool) float64 {
	var bytes uint64
	var running int64
	for i := range v.run.Tasks {
		t := &v.run.Tasks[i]
		if t.Kind.Copies() && t.Ran() && (t.Memory == observe.Pinned || t.Memory == observe.Registered) &&
			directions[t.Direction] && t.Bytes > smallCopy {
			bytes += t.Bytes
			running += t.End - t.Start
		}
	}
	if running == 0 {
		return 0
	}
	return float64(bytes) / float64(running)
}
