package modeltest

import (
	"fmt"
	"maps"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	corememory "ropeway/internal/core/memory"
)

// patience is how long one program may take; a program that hangs shows where.
const patience = 2 * time.Minute

// TestPrograms runs random programs. They are free of races: before an operation that would use bytes that unordered
// work uses too, the generator puts a synchronisation or an event. So there is one right answer for every byte, and the
// model has it.
func TestPrograms(t *testing.T) {
	var first sync.Once
	rapid.Check(t, func(t *rapid.T) {
		dog := time.AfterFunc(patience, func() {
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) //nolint:errcheck // the end is near
			panic("a program hangs")
		})
		defer dog.Stop()
		program(t, &first)
	})
}

// program is one random program. If it fails, the first to do so prints its steps: a failure that depends on timing may
// not show up again when rapid looks for a smaller one.
func program(t *rapid.T, first *sync.Once) {
	w := newWorld(t, rapid.SampledFrom([]string{"A2", "A3", "950"}).Draw(t, "product"))
	defer w.close() //nolint:errcheck // the good end is below
	good := false
	defer func() {
		if !good && t.Failed() {
			first.Do(func() {
				fmt.Fprintf(os.Stderr, "the program that failed first:\n  %s\n", strings.Join(w.trace, "\n  "))
			})
		}
	}()
	for _, ctx := range w.ctxs[:3] {
		var h core.Handle
		must(t, ctx.CreateStream(&h))
		w.addStream(ctx, h)
	}
	w.alloc(t, onDevice, w.ctxs[0], 100)
	w.alloc(t, onDevice, w.ctxs[0], 60)
	w.alloc(t, onDevice, w.ctxs[1], 100)
	w.alloc(t, pinned, w.ctxs[0], 100)
	w.alloc(t, registered, w.ctxs[0], 40)
	w.alloc(t, pageable, w.ctxs[0], 40)

	actions := w.copyActions()
	maps.Copy(actions, w.eventActions())
	maps.Copy(actions, w.refusals())
	maps.Copy(actions, w.graphActions())
	t.Repeat(actions)

	w.check(t)
	for len(w.buffers) > 0 {
		w.free(t, w.buffers[0])
	}
	for len(w.events) > 0 {
		w.destroyEvent(t, w.events[0])
	}
	w.tearDown(t)
	good = true
}

// tearDown ends what the program has not, and looks at what is left.
func (w *world) tearDown(t *rapid.T) {
	for dev := range devices {
		free, total, err := memory(w.ctxs[dev])
		must(t, err)
		if free != total {
			t.Fatalf("device %d: %d of %d bytes are free, but everything was freed", dev, free, total)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if l := w.rt.Live(); l != (core.Live{}) {
		t.Fatalf("left after Close: %+v", l)
	}
}

// memory is how much of the context's device is free.
func memory(ctx *settings) (free, total uint64, err *core.Error) {
	err = corememory.GetMemInfo(ctx.Thread, abi.MemAttrHBMMem, &free, &total)
	return
}
