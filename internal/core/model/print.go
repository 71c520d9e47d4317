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

// show returns the appearance of a task.
func (v *task) show() shown {
	w := v.work
	switch {
	case w == nil:
		return shown{"MEMCPY_ASYNC", "MEMCPY_ASYNC", 10}
	case w.off:
		return shown{"NOP", "NOP", 1}
	}
	numbered := func(kind string, id uint32, step int) shown {
		return shown{fmt.Sprintf("%s_%d", kind, id), kind, step}
	}
	switch d := w.detail.(type) {
	case nothing:
		return shown{"NOP", "NOP", 1}
	case *branch:
		return shown{"CONDITION_OP", "CONDITION_OP", 10}
	case activate:
		return shown{"STREAM_ACTIVE", "STREAM_ACTIVE", 10}
	case *choice:
		return shown{"STREAM_SWITCH", "STREAM_SWITCH", 10}
	case *jump:
		return shown{"STREAM_LABEL_SWITCH_BY_INDEX", "STREAM_LABEL_SWITCH_BY_INDEX", 10}
	case setLabel:
		return shown{"LABEL_SET", "LABEL_SET", 10}
	case endMark:
		return shown{"NOTIFY_RECORD", "NOTIFY_RECORD", 10}
	case *kernelUpdate:
		return shown{"MODEL_TASK_UPDATE", "MODEL_TASK_UPDATE", 10}
	case *external:
		if d.record {
			return numbered("CAPTURE_RECORD_EXTERNAL", d.event.ID(), 5)
		}
		return numbered("CAPTURE_WAIT_EXTERNAL", d.event.ID(), 15)
	case record:
		return numbered("EVENT_RECORD", d.id, 5)
	case join:
		return numbered("EVENT_WAIT", d.id, 15)
	case *core.Event:
		switch w.typ {
		case abi.ModelRiTaskEventRecord:
			return numbered("EVENT_RECORD", d.ID(), 5)
		case abi.ModelRiTaskEventWait:
			return numbered("EVENT_WAIT", d.ID(), 15)
		}
		return numbered("EVENT_RESET", d.ID(), 10)
	case core.ValueParams:
		if w.typ == abi.ModelRiTaskValueWrite {
			return shown{fmt.Sprintf("MEM_WRITE_VALUE_%d", d.Addr), "MEM_WRITE_VALUE", 10}
		}
		return shown{fmt.Sprintf("MEM_WAIT_VALUE_%d", d.Addr), "MEM_WAIT_VALUE", 15}
	case *kernel:
		if o := kernelOf(w.op.Launch); o != nil {
			return shown{o.Failed().Name, o.Kind(), 10}
		}
	}
	kind, number := "TASK", 10
	switch c := w.op.Kind.Class(); {
	case w.op.Kind == driver.OpFill:
		kind = "MEMSET_ASYNC"
	case c == driver.Moves || c == driver.Finds:
		kind = "MEMCPY_ASYNC"
	case c == driver.Computes:
		kind = "REDUCE_ASYNC"
	case w.op.Kind == driver.OpHostFunc:
		kind = "HOSTFUNC_CALLBACK"
	case w.op.Kind == driver.OpFunc:
		kind = "NOTIFY_RECORD"
	case w.op.Kind == driver.OpWaitCond:
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
	t.LogInfo(api, fmt.Sprintf("model %d %q has %d streams, %d tasks and %d task groups",
		m.id, m.name, len(m.lanes), len(m.tasks), len(m.groups)))
	for _, l := range m.lanes {
		for _, i := range l.tasks {
			v := &m.tasks[i]
			t.LogInfo(api, fmt.Sprintf("model %d stream %d task %d: %s", m.id, l.own.ID, v.number, v.show().name))
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
	before := ""
	for _, l := range m.lanes {
		at := 0
		for _, i := range l.tasks {
			v := &m.tasks[i]
			s := v.show()
			if alike {
				s.step = 10
			}
			fmt.Fprintf(w, `%s{"name":%q,"pid":"%d aclGraph","tid":"stream%d","ts":%d,"dur":%.1f,"ph":"X",`,
				before, s.name, os.Getpid(), l.own.ID, at, float64(s.step)-0.5)
			fmt.Fprintf(w, `"args":{"Model Id":%d,"Stream Id":%d,"Task Id":%d,"Task Type":%q}}`,
				m.id, l.own.ID, v.number, s.kind)
			at += s.step
			before = ",\n"
		}
	}
	if before != "" {
		fmt.Fprint(w, "\n")
	}
	fmt.Fprint(w, "]")
}
