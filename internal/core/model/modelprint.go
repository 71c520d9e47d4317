package model

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// shown is the appearance of a task in prints.
type shown struct {
	name, kind string
	step       int // length of the task in a drawing
}

// controlNames are the names of tasks that only models built by hand have.
var controlNames = map[taskKind]string{activateTask: "STREAM_ACTIVE", switchTask: "STREAM_SWITCH",
	jumpTask: "STREAM_LABEL_SWITCH_BY_INDEX", labelTask: "LABEL_SET", endTask: "NOTIFY_RECORD",
	updateTask: "MODEL_TASK_UPDATE"}

// show returns the appearance of task i. mu is held.
func (m *Model) show(i int32) shown {
	v := &m.tasks[i]
	k := v.more
	if k == nil {
		return shown{"MEMCPY_ASYNC", "MEMCPY_ASYNC", 10}
	}
	switch {
	case k.kind == nopTask || k.off:
		return shown{"NOP", "NOP", 1}
	case k.kind == branchTask:
		return shown{"CONDITION_OP", "CONDITION_OP", 10}
	case controlNames[k.kind] != "":
		return shown{controlNames[k.kind], controlNames[k.kind], 10}
	case k.kind == externalTask && m.externals[k.place].record:
		return shown{fmt.Sprintf("CAPTURE_RECORD_EXTERNAL_%d", k.event.ID()), "CAPTURE_RECORD_EXTERNAL", 5}
	case k.kind == externalTask:
		return shown{fmt.Sprintf("CAPTURE_WAIT_EXTERNAL_%d", k.event.ID()), "CAPTURE_WAIT_EXTERNAL", 15}
	case k.kind == recordTask:
		return shown{fmt.Sprintf("EVENT_RECORD_%d", k.record.id), "EVENT_RECORD", 5}
	case k.kind == joinTask:
		return shown{fmt.Sprintf("EVENT_WAIT_%d", k.record.id), "EVENT_WAIT", 15}
	}
	id := uint32(0)
	if k.event != nil {
		id = k.event.ID()
	}
	switch k.typ {
	case abi.ModelRiTaskEventRecord:
		return shown{fmt.Sprintf("EVENT_RECORD_%d", id), "EVENT_RECORD", 5}
	case abi.ModelRiTaskEventWait:
		return shown{fmt.Sprintf("EVENT_WAIT_%d", id), "EVENT_WAIT", 15}
	case abi.ModelRiTaskEventReset:
		return shown{fmt.Sprintf("EVENT_RESET_%d", id), "EVENT_RESET", 10}
	case abi.ModelRiTaskValueWrite:
		return shown{fmt.Sprintf("MEM_WRITE_VALUE_%d", k.value.Addr), "MEM_WRITE_VALUE", 10}
	case abi.ModelRiTaskValueWait:
		return shown{fmt.Sprintf("MEM_WAIT_VALUE_%d", k.value.Addr), "MEM_WAIT_VALUE", 15}
	}
	if l := k.op.Launch; l != nil {
		if o := kernelOf(l); o != nil {
			return shown{o.Failed().Name, o.Kind(), 10}
		}
	}
	kind, number := "TASK", 10
	switch c := k.op.Kind.Class(); {
	case k.op.Kind == driver.OpFill:
		kind = "MEMSET_ASYNC"
	case c == driver.Moves || c == driver.Finds:
		kind = "MEMCPY_ASYNC"
	case c == driver.Computes:
		kind = "REDUCE_ASYNC"
	case k.op.Kind == driver.OpHostFunc:
		kind = "HOSTFUNC_CALLBACK"
	case k.op.Kind == driver.OpFunc:
		kind = "NOTIFY_RECORD"
	case k.op.Kind == driver.OpWaitCond:
		kind, number = "NOTIFY_WAIT", 15
	}
	return shown{kind, kind, number}
}

// MdlRIDebugPrint is aclmdlRIDebugPrint.
func MdlRIDebugPrint(t *core.Thread, modelRI core.Handle) *core.Error {
	const api = "aclmdlRIDebugPrint"
	m, _, err := checkMdlRIDebugPrint(t, modelRI)
	if err != nil || !t.Runtime.LogsAt(slog.LevelInfo) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.LogInfo(
		api,
		fmt.Sprintf(
			"model %d %q has %d streams, %d tasks and %d task groups",
			m.id,
			m.name,
			len(m.lanes),
			len(m.tasks),
			len(m.groups),
		),
	)
	for _, l := range m.lanes {
		for _, i := range l.tasks {
			t.LogInfo(
				api,
				fmt.Sprintf("model %d stream %d task %d: %s", m.id, l.own.ID, m.tasks[i].number, m.show(i).name),
			)
		}
	}
	return nil
}

// MdlRIDebugJsonPrint is aclmdlRIDebugJsonPrint.
func MdlRIDebugJsonPrint(t *core.Thread, modelRI core.Handle, path *byte, flags uint32) *core.Error {
	const api = "aclmdlRIDebugJsonPrint"
	m, _, err := checkMdlRIDebugJsonPrint(t, modelRI, path, flags)
	if err != nil {
		return err
	}
	name := core.CString(path)
	f, e := os.Create(name)
	if e == nil {
		w := bufio.NewWriter(f)
		m.writeJSON(w, t.Product("950"))
		e = w.Flush()
		if c := f.Close(); e == nil {
			e = c
		}
	}
	if e != nil {
		err := core.Refused(api, "path", "%q cannot be written", name)
		err.Err = e
		return err
	}
	return nil
}

// writeJSON writes the tasks in the format of trace viewers. alike gives all tasks the same length.
func (m *Model) writeJSON(w io.Writer, alike bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprint(w, "[\n")
	first := true
	for _, l := range m.lanes {
		at := 0
		for _, i := range l.tasks {
			s := m.show(i)
			if alike {
				s.step = 10
			}
			if !first {
				fmt.Fprint(w, ",\n")
			}
			first = false
			fmt.Fprintf(
				w,
				`{"name":%q,"pid":"%d aclGraph","tid":"stream%d","ts":%d,"dur":%.1f,"ph":"X","args":{"Model Id":%d,"Stream Id":%d,"Task Id":%d,"Task Type":%q}}`,
				s.name,
				os.Getpid(),
				l.own.ID,
				at,
				float64(s.step)-0.5,
				m.id,
				l.own.ID,
				m.tasks[i].number,
				s.kind,
			)
			at += s.step
		}
	}
	if !first {
		fmt.Fprint(w, "\n")
	}
	fmt.Fprint(w, "]")
}
