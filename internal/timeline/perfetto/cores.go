package perfetto

import (
	"fmt"

	"ropeway/internal/observe"
)

// core is a core of a device.
type core struct{ device, number int }

// cores writes the work of cores, on a track for each core, below the tracks of the engines.
func (t *trace) cores() {
	tracks := map[core]*group{}
	for _, w := range t.run.Cores {
		if w.Task < 0 || w.Task >= len(t.run.Tasks) {
			continue
		}
		task := &t.run.Tasks[w.Task]
		key := core{task.Device, w.Core}
		if tracks[key] == nil {
			tracks[key] = &group{pid: t.device(key.device), name: fmt.Sprintf("core %d", w.Core),
				rank: len(t.run.Streams) + int(observe.Both) + 1 + w.Core}
		}
		name := task.Kind.String()
		if w.Kernel != "" {
			name = w.Kernel
		}
		e := t.slice(quoted(name), `"core"`, t.place(tracks[key], w.Start, w.End)).
			number(`,"args":{"number":`, int64(task.Number))
		if task.Stream >= 0 && task.Stream < len(t.run.Streams) {
			e.number(`,"stream":`, int64(t.run.Streams[task.Stream].ID))
		}
		e.number(`,"blocks":`, int64(w.Blocks)).number(`,"first_block":`, int64(w.First)).write("}")
	}
}
