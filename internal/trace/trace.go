// Package trace builds a timeline from the files of recorded processes (internal/recorder).
package trace

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"time"

	"ropeway/internal/recorder"
	"ropeway/internal/symbol"
	"ropeway/internal/timeline"
)

// ErrNothing is the error if no process recorded anything.
var ErrNothing = errors.New("nothing was recorded")

// Read returns the run recorded in dir. Data of processes that are still running may be incomplete.
func Read(dir string) (*timeline.Run, error) {
	names, err := filepath.Glob(filepath.Join(escape(dir), "*"+recorder.Suffix))
	if err != nil {
		return nil, err
	}
	run := new(timeline.Run)
	var all []*process
	for _, name := range names {
		p, err := readFile(name)
		if err != nil {
			run.Notes = append(run.Notes, fmt.Sprintf("%s is left out: %v", filepath.Base(name), err))
			continue
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, errors.Join(append([]error{ErrNothing}, asErrors(run.Notes)...)...)
	}
	slices.SortStableFunc(all, func(a, b *process) int { return compare(a.start(), b.start()) })
	b := builder{run: run, zero: all[0].start(), functions: map[string]int{}, symbols: symbol.New(),
		sites: map[timeline.Site]int{}}
	run.Program, run.Driver, run.Started = all[0].command(), all[0].driver(), time.Unix(0, all[0].wall)
	for _, p := range all {
		b.add(p)
	}
	b.finish()
	return run, nil
}

// escape escapes the special characters of Glob.
func escape(dir string) string {
	var out []rune
	for _, r := range dir {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

func asErrors(texts []string) (errs []error) {
	for _, text := range texts {
		errs = append(errs, errors.New(text))
	}
	return errs
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// process is the content of a file; times are ticks.
type process struct {
	id      int
	wall    int64
	began   int64
	flags   uint64
	lost    uint64
	clock   scale
	texts   map[textKey]string
	parts   map[textKey]map[uint8]string
	streams map[int32]madeStream
	tasks   []task
	more    map[taskKey]more
	rans    []ran
	cores   []coreWork
	kernels map[coreKey]uint16 // names of kernels that cores ran in models
	calls   []call
	waiting []call // calls that began to wait
	blocked map[callKey]int64
	awaited map[callKey]taskKey // records that calls waited for
	sites   map[uint16]site
	ranges  map[uint32]rangeOf
	models  map[uint32]*modelOf
	inside  []inside
}

// modelOf is a model as parsed.
type modelOf struct {
	tasks   int
	version uint32
	nodes   map[uint32]node // by index
}

// node is a task of a model; for a kernel, Bytes is the number of its name.
type node struct {
	timeline.Node
	stream int32
}

// inside has the time of pieces of a model in a task that executes it or, with the number of another model, in one of
// its condition tasks.
type inside struct {
	of           taskKey
	model        uint32
	first, count uint32
	began, ended int64
}

// site is the call site and the function of calls with a number.
type site struct {
	function     uint16
	line, module uint32 // module: plus 1; 0: none
	offset       uint64
}

type rangeOf struct {
	timeline.Range
	thread uint32
	mark   taskKey
}

type textKey struct {
	what   uint8
	number uint32
}

type madeStream struct {
	device    int32
	isDefault bool
}

type task struct {
	timeline.Task
	stream, device int32
	thread         uint32
}

// ofStream in place of a task's device means the device of its stream.
const ofStream = math.MinInt32

// more has properties that few tasks have.
type more struct {
	segments uint32
	call     int64 // start of the call; 0: the task's submission
	event    uint64
	after    taskKey
}

// callKey names a call in its process. A thread is in one call at a time; goroutines, which all have the number 0,
// are distinguished by the stream of the call.
type callKey struct {
	thread uint32
	start  int64
	stream int32
}

func keyOf(thread uint32, start int64, stream int32) callKey {
	if thread != 0 {
		stream = 0
	}
	return callKey{thread, start, stream}
}

func (c *call) key() callKey { return keyOf(c.thread, c.Start, c.stream) }

// taskKey names a task in its process.
type taskKey struct {
	stream int32
	number uint32
}

type ran struct {
	taskKey
	began, ended int64
	result       uint8
	code         int32
}

type coreWork struct {
	timeline.CoreWork
	taskKey
	began, ticks int64
}

// coreKey names the work of a core on a task by its start, which is unique for the core.
type coreKey struct {
	taskKey
	core  int
	began int64
}

type call struct {
	timeline.Call
	thread    uint32
	function  uint16
	stream    int32
	continued bool
}

func (p *process) start() int64 { return p.clock.nanoseconds(p.began) }

func (p *process) driver() string { return p.texts[textKey{recorder.TextDriver, 0}] }

// server returns the number of the process's server in its pod; nil without a pod.
func (p *process) server() *int {
	n, err := strconv.Atoi(p.texts[textKey{recorder.TextServer, 0}])
	if err != nil {
		return nil
	}
	return &n
}

func (p *process) command() (words []string) {
	for i := uint32(0); ; i++ {
		word, ok := p.texts[textKey{recorder.TextArgument, i}]
		if !ok {
			return words
		}
		words = append(words, word)
	}
}

// scale converts ticks to nanoseconds, by interpolation between moments known on both clocks.
type scale []moment

type moment struct{ ticks, ns int64 }

func (s scale) sort() {
	slices.SortFunc(s, func(a, b moment) int { return compare(a.ticks, b.ticks) })
}

func (s scale) nanoseconds(ticks int64) int64 {
	if len(s) == 0 {
		return ticks
	}
	i := sort.Search(len(s), func(i int) bool { return s[i].ticks > ticks })
	a, b := s[0], s[len(s)-1]
	from := a
	switch {
	case i == len(s):
		from = b
	case i > 0:
		a, b, from = s[i-1], s[i], s[i-1]
	}
	if b.ticks <= a.ticks {
		return from.ns + ticks - from.ticks
	}
	return from.ns + int64(float64(ticks-from.ticks)*(float64(b.ns-a.ns)/float64(b.ticks-a.ticks)))
}

// duration converts a number of ticks to nanoseconds.
func (s scale) duration(ticks int64) int64 {
	if len(s) < 2 {
		return ticks
	}
	a, b := s[0], s[len(s)-1]
	if b.ticks <= a.ticks {
		return ticks
	}
	return int64(float64(ticks) * (float64(b.ns-a.ns) / float64(b.ticks-a.ticks)))
}

// readFile reads one file.
func readFile(name string) (*process, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}
