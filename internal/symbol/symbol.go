// Package symbol maps addresses of this process to functions, files and lines of the program's source.
//
// Files are read on the first lookup of an address in them. Debug information in the file itself or in a separate
// debug file gives functions, inlined functions, files and lines; without it, symbol tables give functions. For
// addresses that no file describes (code generated at run time, deleted files, the kernel's code) frames have only
// the address.
package symbol

import (
	"maps"
	"os"
	"slices"
	"sync"

	"ropeway/internal/finding"
)

const (
	mostFound = 8192      // cached addresses
	mostBytes = 192 << 20 // most bytes of parsed files; beyond that the least recently used are dropped
)

// Table turns addresses into frames. Its methods may be called from any goroutine.
type Table struct {
	maps  string   // file with the list of mappings
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

// New returns a table, which reads nothing before the first lookup.
func New() *Table {
	return &Table{
		maps:    "/proc/self/maps",
		debug:   []string{"/usr/lib/debug"},
		modules: map[string]*module{},
		found:   map[question][]finding.Frame{},
	}
}

// Frames returns the functions at a return address, innermost first: inlined ones, then the function that contains
// the call. There is at least one, which may have only an address. The caller must not change the result.
func (t *Table) Frames(pc uintptr) []finding.Frame { return t.ask(question{pc, false}) }

// At is Frames for the address of an instruction, such as one that faulted.
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
		pc-- // the call is before its return address, perhaps on another line or in another function
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

// locate returns the mapping of an address. It reads the list of mappings again if no known one contains the address.
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

// trim drops the parsed data of the least recently used modules, but never of the last used one, until the rest is
// small enough.
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
