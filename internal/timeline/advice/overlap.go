package advice

import (
	"cmp"
	"fmt"
	"slices"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// oneStream advises on copies in opposite directions that waited for one another only because they are in one stream,
// while the engine of the later one was idle, if overlapping them would save enough to notice.
func oneStream(v *view) *Advice {
	queues := map[int][]int{}
	for i := range v.run.Tasks {
		if t := &v.run.Tasks[i]; t.Stream != timeline.None && t.Ran() {
			queues[t.Stream] = append(queues[t.Stream], i)
		}
	}
	busy := v.busy()
	var a Advice
	streams, pairs := 0, 0
	for _, stream := range sortedKeys(queues) {
		gained := int64(0)
		previous, left := timeline.None, int64(0) // the previous copy, and the part of its time that nothing overlaps
		// yet
		for _, i := range queues[stream] {
			t := &v.run.Tasks[i]
			if t.Kind.Records() {
				continue // the next one does not wait for it
			}
			if !t.Kind.Copies() || !engined(t) {
				previous = timeline.None
				continue
			}
			gain := int64(0)
			if previous != timeline.None && v.run.Tasks[previous].Direction != t.Direction {
				p := &v.run.Tasks[previous]
				from := max(t.Submit, p.Start)
				gain = min(left, t.End-t.Start, t.Start-from-busy[engine{t.Device, t.Direction}].within(from, t.Start))
			}
			if gain = max(0, gain); gain > 0 {
				gained += gain
				pairs++
				a.Tasks = append(a.Tasks, previous, i)
			}
			previous, left = i, t.End-t.Start-gain
		}
		if gained > 0 {
			streams++
			a.Saves += gained
		}
	}
	a.Saves = min(a.Saves, working(v.run)/2) // two directions at once are at best twice as fast
	if a.Saves < v.worth {
		return nil
	}
	a.Rule = OneStream
	a.Title = "Use one stream for uploads and one for downloads"
	a.Text = fmt.Sprintf("%s, a copy waited for one in the other direction that was before it in the same stream, "+
		"while the engine it needs was idle: %s in all. "+
		"Where the one does not need the other, put them in two streams, with two buffers in turn, and order them "+
		"by events (aclrtRecordEvent, aclrtStreamWaitEvent).",
		times(pairs), duration(a.Saves))
	a.Numbers = []Number{{"pairs of copies", fmt.Sprint(pairs)}, {"streams", fmt.Sprint(streams)},
		{"time that could overlap", duration(a.Saves) + ", " + share(a.Saves, v.run.Duration) + " of the run"}}
	a.Tasks = firstOf(a.Tasks)
	return &a
}

// engine is a copy engine.
type engine struct {
	device    int
	direction observe.Direction
}

// engined reports whether a task is one of the engines between host and device.
func engined(t *timeline.Task) bool {
	return t.Direction == observe.HostToDevice || t.Direction == observe.DeviceToHost
}

// busy returns the times when each engine was busy.
func (v *view) busy() map[engine]spans {
	all := map[engine]spans{}
	for i := range v.run.Tasks {
		if t := &v.run.Tasks[i]; t.Kind.Copies() && engined(t) && t.Ran() {
			key := engine{t.Device, t.Direction}
			all[key] = append(all[key], span{t.Start, t.End})
		}
	}
	for key, list := range all {
		all[key] = list.join()
	}
	return all
}

// span is a time from start to end. spans, once joined, are sorted and disjoint.
type span struct{ start, end int64 }

type spans []span

func (list spans) join() spans {
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	joined := list[:0]
	for _, s := range list {
		if n := len(joined); n > 0 && s.start <= joined[n-1].end {
			joined[n-1].end = max(joined[n-1].end, s.end)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// within returns the part of the time from start to end that is in the spans.
func (list spans) within(start, end int64) (sum int64) {
	i, _ := slices.BinarySearchFunc(list, start, func(s span, start int64) int { return cmp.Compare(s.end, start) })
	for ; i < len(list) && list[i].start < end; i++ {
		sum += max(0, min(list[i].end, end)-max(list[i].start, start))
	}
	return sum
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// times returns for example "3 times", or "Once" for the beginning of a sentence.
func times(n int) string {
	if n == 1 {
		return "Once"
	}
	return fmt.Sprintf("%d times", n)
}
