// Package check is the checker: it stands between the core and a driver, holds work back as long as the rules allow,
// and judges every access to memory by what orders it.
//
// # Place
//
//	front ends → core ──(CheckHooks: threads, calls, refusals)──┐
//	              └─────(Driver: queues, flags, waits)───── Checker → findings
//	                                                            └── the driver below
//
// As a driver the checker sees tasks and what orders them. Through core.CheckHooks it learns the thread and the call of
// each access, the program's allocations and frees, and the calls that the core refuses or corrects. The core calls
// Submitting before the first operation of a task, with what the task signals or waits for; an operation itself carries
// only the number of its task.
//
// # When work runs
//
// A queue holds submitted tasks back. A wait runs the tasks that it needs and, in an order drawn from the seed, tasks
// that are not ordered with them; a query runs one task; a queue with more than Depth tasks runs its head; after
// Patience without a call all tasks run. Functions of the program and kernels may not end: the checker starts them,
// waits for them as long as the call allows, but at most Patience, and then leaves them running. Tasks run on a queue
// of the driver below.
//
// # How it judges
//
// Every queue is a line of numbered tasks. A clock has the progress of each line. A queue's clock has what happened
// before its next task: its own tasks, what the host knew when the task was submitted, and what the flags and gates
// that it waited for knew. The host has one clock for the whole process, known: tasks that were synchronised, found
// complete by a query, or ordered before a callback. All threads share it: a thread that synchronised may have
// signalled others in ways that the checker does not see.
//
// A task is in flight from its submission until the host knows it to be complete, whether it has run or not. So
// findings do not depend on when tasks run, and another run of the program reports them again.
//
// The shadow keeps, for each range of bytes, the last write and the reads after it. A task is judged when it runs: an
// earlier access that its queue's clock does not include is a race. With shadow.ManyCells ranges or more, neighbours
// that no clock distinguishes are joined. Functions of the program in the order of a stream count as accesses of their
// task. For kernels the touched pages are known (seen.go).
//
// # Pages
//
// The program's view of a pending destination is closed, and that of a pending source read-only, until the host touches
// it and knows the copy to be complete; warm.go describes pages that are opened without a touch. A page that is partly
// in flight is opened for one instruction. Memory that cannot be closed (edges of registered memory, Go programs) is
// compared with a snapshot made at the submission. In C programs libropeway_check.so reports the touches:
// capi/check/fault.c reports faults, system.c system calls, vanish.c memory that the program frees or unmaps. An access
// is judged outside of the signal handler.
//
// Registered memory has two addresses. The checker converts both to the program's own before it judges an access
// (alias.go).
//
// # Ownership
//
// Checker.mu guards all fields, unless they are immutable or say otherwise. It is released while work of the driver and
// functions of the program and of the core run; a queue that is running a task is marked, and no other thread runs it.
// With the lock held, code outside of the checker is called only through the driver below, the Sink and the FrontEnd.
package check

import (
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"

	"ropeway/internal/check/inject"
	"ropeway/internal/check/shadow"
	"ropeway/internal/check/stacks"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/finding"
	"ropeway/internal/symbol"
)

// Options say what to check and where findings go.
type Options struct {
	Driver driver.Driver
	Seed   uint64          // order of unordered work; 0 runs everything as late as possible
	Depth  int             // limit of the tasks that a stream holds back; 0: 2048
	Off    map[string]bool // disabled rules
	Inject []inject.Injection
	Sink   Sink // gets the findings; nil drops them

	// Patience is how long work waits for the next call of the program before it runs by itself; 0: DefaultPatience.
	Patience time.Duration
}

// Sink takes findings. The checker calls it with its lock held, one call at a time.
type Sink interface {
	Start(s finding.Start)
	Finding(f *finding.Finding)
	Note(text string)
	Fired(s finding.Shot)
	Unclosed(f *finding.Finding)
	End(e finding.End)
}

// FrontEnd is the front end between the checker and the program.
type FrontEnd interface {
	// Describe returns the function's name and a text of the call for people.
	Describe(function uint32, arguments []uint64) (name, text string)
	// PythonArguments returns the arguments as Python gave them.
	PythonArguments(function uint32, arguments []uint64) string
	// FrameName returns an interpreter's file and function of a frame.
	FrameName(id uint32) (file, function string)
	// SetSpans sets the addresses at which faults are caught: pairs of first address and end, sorted and disjoint. It
	// takes no lock that calls are made with.
	SetSpans(pairs []uint64)

	// SetDeviceSpan sets the range of device memory, which the host cannot touch. Faults there are passed to Touch, and
	// remain faults.
	SetDeviceSpan(lo, hi uintptr)

	// SetRegistered sets the registered memory of the program, in the form of SetSpans: the front end calls Vanish
	// before the program frees or unmaps it. aliases are its device addresses, which are judged like device memory.
	SetRegistered(pairs, aliases []uint64)

	// SetPinnedSpan sets the range of all pinned memory, now and later; SetPages says which pages there have bytes of
	// an allocation. The others are fences: they are never opened, and faults there remain faults.
	SetPinnedSpan(lo, hi uintptr)
	SetPages(lo, hi uintptr, there bool)
}

// DefaultDepth is the number of tasks that a program may run ahead of a device.
const DefaultDepth = 2048

// DefaultPatience is long for a program that keeps making calls, and short for one that waits for its work without a
// call.
const DefaultPatience = 50 * time.Millisecond

// Checker implements core.CheckHooks; the core uses [Checker.Driver].
type Checker struct {
	under    driver.Driver // immutable
	guard    driver.Guard  // immutable; nil if host memory cannot be closed
	seed     uint64        // immutable
	server   *int          // immutable; in a pod: see finding.Finding
	depth    int           // immutable
	patience time.Duration // immutable
	off      map[string]bool
	start    time.Time // immutable
	drv      *watched  // immutable
	calls    atomic.Uint64
	wanted   atomic.Int32 // threads that wait for functions of streams
	ticker   atomic.Bool  // a goroutine runs work that no call waits for

	mu       sync.Mutex
	rng      *rand.Rand
	front    FrontEnd         // nil: a Go program, or a test
	language finding.Language // of the program, unless an interpreter is in it
	closing  bool             // close the program's view of pinned memory while copies are pending
	queues   []*queue
	byStream map[int32]*queue
	lines    []uint64 // number of the last task on each line
	marks    []uint64 // number of times that the progress of each line was recorded
	free     []uint32 // unused lines
	pending  int      // tasks submitted and not run
	tasks    uint64
	waiters  hostqueue.Waiters
	pool     []*task

	known   *clock // what the host knows to be complete; replaced, never changed
	shadow  shadow.Shadow[maker]
	paged   shadow.Shadow[maker] // pages that kernels were seen to touch
	stacks  stacks.Table[fromHere]
	kernels map[string]*part // by their names
	modules map[driver.Module]*loaded

	memory         btree.Map[uintptr, *allocation] // live allocations by address
	near           [4]*allocation                  // the last results of find
	nearest        int
	gone           btree.Map[uintptr, *allocation] // freed allocations, until the address is used again
	handles        map[uintptr]*handle
	models         map[uint32]*model               // models and captures by their ids
	goneModels     []*model                        // the last ones destroyed
	frees          uint64                          // number of allocations freed so far
	unregistered   map[uintptr]*allocation         // by their start
	inner          map[uintptr]*allocation         // registrations of pinned memory, by their start
	aliases        btree.Map[uintptr, *allocation] // registrations by their device address
	runs           int                             // borders between pages of different protection
	shutRegistered map[*allocation]bool            // registered memory that may have closed pages
	early          []early                         // pages to open soon
	isolated       int                             // ranges that the system was asked to keep apart
	born           uint64                          // number of allocations, handles and frees of pool memory so far

	failures    []failure             // the last calls that failed
	failedTasks []origin              // the last tasks that failed
	blamed      map[taskName]struct{} // tasks with findings

	serving   map[uint32]*serving // functions of the program that run in the order of a stream, by thread
	functions uint64              // number of functions that have begun
	served    []*serving          // kernels that run, oldest first
	waits     waits
	unawaited unawaited

	inject  []*inject.Injection
	symbols *symbol.Table
	kept    []*finding.Finding
	telling int   // more than 0: the program prints new findings itself
	told    []int // counts of kept at the last call of News
	sink    Sink
	drafts  uint64 // findings made, folded and dropped ones included
	folded  map[foldKey]int
	alike   map[string]int // by finding.Key
	counts  []int
	noted   map[string]bool
	ended   bool

	held   *[]draft // holds back findings about a call that may be refused; nil: none
	tiring bool     // the last finding has been reported often
}

// New makes a checker around a driver.
func New(o Options) *Checker {
	if o.Depth <= 0 {
		o.Depth = DefaultDepth
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Sink == nil {
		o.Sink = drop{}
	}
	c := &Checker{
		under: o.Driver, seed: o.Seed, depth: o.Depth, patience: o.Patience, off: o.Off, start: time.Now(),
		rng:      rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15)),
		byStream: map[int32]*queue{}, known: new(clock), handles: map[uintptr]*handle{},
		models: map[uint32]*model{}, kernels: map[string]*part{}, modules: map[driver.Module]*loaded{},
		serving: map[uint32]*serving{}, waits: waits{}, unawaited: unawaited{}, shutRegistered: map[*allocation]bool{},
		unregistered: map[uintptr]*allocation{}, inner: map[uintptr]*allocation{},
		symbols: symbol.New(), sink: o.Sink, folded: map[foldKey]int{}, alike: map[string]int{},
		noted: map[string]bool{},
	}
	for i := range o.Inject {
		c.inject = append(c.inject, &o.Inject[i])
	}
	caps := o.Driver.Caps()
	if caps.Fabric != nil {
		server, _ := caps.Fabric.Server()
		c.server = &server
	}
	c.guard = caps.Guard
	c.drv = &watched{Driver: o.Driver, c: c}
	o.Sink.Start(finding.Start{Process: os.Getpid(), Command: os.Args, Seed: o.Seed, Depth: o.Depth})
	return c
}

// Driver returns the driver for the core.
func (c *Checker) Driver() driver.Driver { return c.drv }

var _ core.CheckHooks = (*Checker)(nil)

// SetFrontEnd sets the front end, which knows the calls of the program.
func (c *Checker) SetFrontEnd(f FrontEnd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.front = f
}

// CloseMemory makes the checker close the program's view of pinned memory while copies are pending: the front end
// catches the faults and calls Touch. Without it sources are compared with a snapshot.
func (c *Checker) CloseMemory() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = c.guard != nil
	if c.closing && c.front != nil {
		c.front.SetDeviceSpan(c.guard.DeviceSpan())
		c.front.SetPinnedSpan(c.guard.Span())
	}
	c.setSpans(0, 0)
}

// SpeakGo declares the program to be a Go program: findings name Go functions, and resources that Close frees are not
// leaks. ropeway.Open calls it. A program that ends without Runtime.Close has a leak, which cannot be found after its
// end: so the finding is sent now, and counts unless the end follows.
func (c *Checker) SpeakGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.language = finding.Go
	if !c.on("leak") {
		return
	}
	s := &site{api: "ropeway.Open"}
	s.stack, s.api = c.stacks.Here()
	s.api = "ropeway.Open"
	c.sink.Unclosed(c.finding(draft{rule: "leak", role: "opened", offence: origin{site: s},
		summary: "the runtime is never closed"}))
}

// watched is the driver that the core uses: it wraps the one below.
type watched struct {
	driver.Driver
	c *Checker
}

func (w *watched) Open(i int) (driver.Device, error) {
	d, err := w.Driver.Open(i)
	if err != nil {
		return nil, err
	}
	return &device{Device: d, c: w.c, number: int32(i)}, nil
}

func (w *watched) NewFlag() driver.Flag { return &flag{c: w.c} }

// Close ends the report and closes the driver below.
func (w *watched) Close() error {
	w.c.end()
	return w.Driver.Close()
}

// device wraps a device: its queues hold work back.
type device struct {
	driver.Device
	c      *Checker
	number int32
}

func (d *device) NewQueue(o driver.QueueOptions) driver.Queue {
	c := d.c
	q := &queue{c: c, events: o.Events, stream: o.Number, device: d.number}
	o.Events = driver.Events{Failed: q.failed} // the checker decides when work runs, and so reports failures and times
	q.inner = d.Device.NewQueue(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		q.line = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		q.line = uint32(len(c.lines))
		c.lines = append(c.lines, 0)
		c.marks = append(c.marks, 0)
	}
	q.submitted = c.lines[q.line]
	c.queues = append(c.queues, q)
	c.byStream[q.stream] = q
	return q
}

// Close forgets the device's memory, and closes the device.
func (d *device) Close() error {
	d.c.sweep(d.number)
	return d.Device.Close()
}
