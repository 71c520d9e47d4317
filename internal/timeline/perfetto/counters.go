package perfetto

import (
	"cmp"
	"slices"
	"strconv"

	"ropeway/internal/observe"
	"ropeway/internal/timeline"
)

// bins is the largest number of steps of a bandwidth counter.
const bins = 2000

// bandwidth writes, for each device and direction, the number of bytes moved in each step of the run. The bytes of a
// copy are spread evenly over its time.
func (t *trace) bandwidth() {
	duration := min(t.run.Duration, 1<<62) // damaged recordings may have any value; this keeps the sums below from
	// overflowing
	step := max(1, duration/bins+1)
	moved := map[engine][]float64{}
	var order []engine
	move := func(key engine, start, end int64, bytes uint64) {
		if bytes == 0 {
			return
		}
		if moved[key] == nil {
			moved[key] = make([]float64, bins+1)
			order = append(order, key)
		}
		start = min(max(start, 0), duration)
		spread(moved[key], step, start, min(max(end, start+1), duration+1), float64(bytes))
	}
	for i := range t.run.Tasks {
		task := &t.run.Tasks[i]
		if !task.Ran() {
			continue
		}
		if task.Direction != observe.NoDirection {
			move(engine{task.Device, task.Direction}, task.Start, task.End, task.Bytes)
		}
		for _, p := range t.run.Inside(i) {
			for direction, c := range t.copiesIn(&p) {
				move(engine{task.Device, direction}, p.Start, p.End, c.bytes)
			}
		}
	}
	for _, key := range order {
		at := track{t.device(key.device), t.device(key.device)}
		name, last := quoted("bandwidth, "+key.direction.String()), "0"
		for i, bytes := range moved[key] {
			if value := decimal(bytes / float64(step)); value != last || i == 0 {
				t.start('C', name, `"bandwidth"`, at).micros(`,"ts":`, int64(i)*step).text(`,"args":{"GB/s":`,
					value).write("}")
				last = value
			}
		}
	}
}

// spread distributes an amount over the steps that the time from start to end overlaps.
func spread(steps []float64, step, start, end int64, amount float64) {
	for at := start; at < end; {
		i := at / step
		until := min(end, (i+1)*step)
		steps[min(int(i), len(steps)-1)] += amount * float64(until-at) / float64(end-start)
		at = until
	}
}

// depth writes, for each stream, the number of submitted tasks that are not over.
func (t *trace) depth() {
	type change struct {
		at int64
		by int
	}
	changes := make([][]change, len(t.run.Streams))
	for i := range t.run.Tasks {
		task := &t.run.Tasks[i]
		if task.Stream < 0 || task.Stream >= len(changes) {
			continue
		}
		changes[task.Stream] = append(changes[task.Stream], change{task.Submit, 1})
		if task.End != timeline.None {
			changes[task.Stream] = append(changes[task.Stream], change{max(task.End, task.Submit), -1})
		}
	}
	for i, list := range changes {
		slices.SortStableFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
		at := track{t.streams[i].pid, t.streams[i].pid}
		name, depth := quoted("queue depth, "+streamName(t.run.Streams[i])), 0
		for j, c := range list {
			depth += c.by
			if j+1 == len(list) || list[j+1].at > c.at {
				t.start('C', name, `"depth"`, at).micros(`,"ts":`, c.at).number(`,"args":{"tasks":`,
					int64(depth)).write("}")
			}
		}
	}
}

// decimal formats a number with at most three decimals.
func decimal(value float64) string {
	text := strconv.FormatFloat(value, 'f', 3, 64)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	return text
}
