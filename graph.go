package ropeway

import (
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/model"
)

// Graph is work captured from streams, which can be run any number of times. Independent copies run together, even if
// they were captured from different streams, so a run costs a fraction of the calls it replaces.
//
// Tasks access memory when the graph runs: it must stay allocated, and is read and written each time.
type Graph struct {
	d *Device
	h core.Handle
}

// Capture calls f and returns a graph of the work submitted to the stream during the call, by any goroutine. That work
// does not run. Another stream joins the capture when it waits for an event that was recorded in it (made by
// [Device.NewEvent]), and must join back: record an event on it last, and let the first stream wait for that.
//
// If f fails, Capture returns its error and no graph.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	t := s.d.t
	if err := model.MdlRICaptureBegin(t, s.h, abi.ModelRiCaptureModeRelaxed); err != nil {
		return nil, s.d.result(err)
	}
	g := &Graph{d: s.d}
	ended := false
	defer func() {
		if !ended { // f has panicked
			g.end(s)
		}
	}()
	failed := f()
	ended = true
	err := g.end(s)
	if failed != nil {
		if err == nil {
			g.Close() //nolint:errcheck // it is not returned
		}
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// end ends the capture.
func (g *Graph) end(s *Stream) error { return s.d.result(model.MdlRICaptureEnd(s.d.t, s.h, &g.h)) }

// Run queues one run of the graph on a stream of its device: it begins when all earlier work is done, and later work
// waits for all of it. Runs of one graph on several streams may overlap if nothing in it waits.
//
// If memory of the graph was freed, Run returns an error and nothing runs.
func (g *Graph) Run(s *Stream) error { return s.d.result(model.MdlRIExecuteAsync(s.d.t, g.h, s.h)) }

// Len returns the number of tasks in the graph. They are numbered from 0, in the order in which they were submitted.
func (g *Graph) Len() int { return model.ModelTasks(g.d.t, g.h) }

// SetCopy replaces the copy with number task by a copy of src to the beginning of dst. No run may be queued or
// running. Only the dependencies of the two copies are computed again.
func (g *Graph) SetCopy(task int, dst, src Span) error {
	const api = "aclrtMemcpyAsync"
	if err := g.d.DefaultStream().queueable(api, &dst, &src); err != nil {
		return err
	}
	if src.n > dst.n {
		return misuse(api, "src", fmt.Sprintf("%d bytes do not fit into %d", src.n, dst.n))
	}
	return g.d.result(model.SetModelCopy(g.d.t, g.h, task, dst.addr, src.addr, uint64(src.n)))
}

// WriteJSON writes the tasks to a file that ui.perfetto.dev and chrome://tracing show.
func (g *Graph) WriteJSON(name string) error {
	path := append([]byte(name), 0)
	return g.d.result(model.MdlRIDebugJsonPrint(g.d.t, g.h, &path[0], 0))
}

// Close ends the graph. It waits for queued runs, for a limited time.
func (g *Graph) Close() error { return g.d.result(model.MdlRIDestroy(g.d.t, g.h)) }
