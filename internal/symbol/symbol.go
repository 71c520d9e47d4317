// Package symbol says where in a program's source the addresses of this process are.
//
// Files are read when an address in them is asked for. Debug information in the file itself or in a separate debug file
// gives functions, inlined functions, files and lines; without it, symbol tables give functions. Of addresses that no
// file describes anything about (code made at run time, files that are gone, the kernel's own) nothing is known but the
// address.
package symbol

import (
	"maps"
	"os"
	"slices"
	"sync"

	"ropeway/internal/finding"
)

const (
	mostFound = 8192      // so many addresses are remembered
	mostBytes = 192 << 20 // so much of files is held in memory; of what goes beyond, the least recently used is dropped
)

// Table turns addresses into frames. Its methods may be called from any goroutine.
type Table struct {
	maps  string   // file that reports what is mapped where
	debug []string // directories with separate debug files

	mu      sync.Mutex
	mapped  []mapping // ascending
	modules map[string]*module
	clock   int // counts uses of modules
	found   map[question][]finding.Frame
}

type question struct {
	address uintptr
	exact   bool
}

// New makes a table. It costs nothing until it is asked.
func New() *Table {
	return &Table{
		maps:    "/proc/self/maps",
		debug:   []string{"/usr/lib/debug"},
		modules: map[string]*module{},
		found:   map[question][]finding.Frame{},
	}
}

// Frames returns the functions that a return address is in, innermost first: those that the compiler inlined, then the
// one that holds the call. There is always one at least, which may have an address only. The result must not be
// changed.
func (t *Table) Frames(pc uintptr) []finding.Frame { return t.ask(question{pc, false}) }

// At does the same for the address of an instruction, as one that faulted.
func (t *Table) At(pc uintptr) []finding.Frame { return t.ask(question{pc, true}) }

func (t *Table) ask(q question) []finding.Frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	if frames, ok := t.found[q]; ok {
		return frames
	}
	frames := t.find(q)
	if len(t.found) >= mostFound {
		clear(t.found)
	}
	t.found[q] = frames
	return frames
}

func (t *Table) find(q question) []finding.Frame {
	pc := uint64(q.address)
	if !q.exact && pc > 0 {
		pc-- // the call lies before the address it returns to, perhaps on another line or in another function
	}
	var frames []finding.Frame
	var inside uint64
	place := t.locate(pc)
	if place != nil && place.file {
		offset := pc - place.start + place.offset
		m := t.module(place.path)
		frames = m.frames(offset)
		inside, _ = m.address(offset)
		t.trim()
	}
	if len(frames) == 0 {
		frames = []finding.Frame{{}}
	}
	for i := range frames {
		frames[i].Address = uint64(q.address)
		if place != nil {
			frames[i].Module, frames[i].Inside = place.module(), inside
		}
	}
	return frames
}

// locate finds the mapping of an address. What is mapped is read again when the address is in none that is known.
func (t *Table) locate(pc uint64) *mapping {
	if m := within(t.mapped, pc); m != nil {
		return m
	}
	text, err := os.ReadFile(t.maps)
	if err != nil {
		return nil
	}
	t.mapped = parseMaps(string(text))
	return within(t.mapped, pc)
}

func (t *Table) module(path string) *module {
	m := t.modules[path]
	if m == nil {
		m = &module{path: path, debug: t.debug}
		t.modules[path] = m
	}
	t.clock++
	m.used = t.clock
	return m
}

// trim drops what was read of the modules that were used longest ago, but for the last one, until the rest is small
// enough.
func (t *Table) trim() {
	total := 0
	for _, m := range t.modules {
		total += m.bytes
	}
	if total <= mostBytes {
		return
	}
	byUse := slices.SortedFunc(maps.Values(t.modules), func(a, b *module) int { return a.used - b.used })
	for _, m := range byUse[:len(byUse)-1] {
		if total <= mostBytes {
			return
		}
		total -= m.bytes
		delete(t.modules, m.path)
	}
}
