// Package check is the checker: it stands between the core and a driver, holds work back as long as the rules allow,
// and judges every access to memory by what orders it.
//
// # How it judges
//
// Every queue is a line of numbered tasks. A clock says how far each line has come. A queue's clock is what happened
// before its next task: its own tasks, what the host knew when the task was submitted, and what the flags and the gates
// it waited for knew. The host has one clock for the whole process, known: what has been synchronised, or was found
// complete by a query, or came before a callback. It is one for all threads: a thread that synchronised may have
// signalled others in ways that the checker does not see.
//
// A task is in flight from its submission until the host knows it to be complete, whether it has run or not. So what is
// found does not depend on when things run, and findings come again when the program is run again.
//
// # Ownership
//
// Checker.mu guards everything, unless it is immutable or said otherwise. Work of the driver, functions of the program
// and of the core run with it released; a queue that is running something is marked so, and no other thread runs it.
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
	Depth  int             // how many tasks a stream may hold back; 0: 2048
	Off    map[string]bool // rules that are not looked at
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

// Face is the front end between the checker and the program.
type Face interface {
	// Describe is a call for people: the function's name and its arguments.
	Describe(function uint32, arguments []uint64) (name, text string)
	// PythonArguments are the arguments as Python gave them.
	PythonArguments(function uint32, arguments []uint64) string
	// FrameName is what an interpreter called a frame: its file and its function.
	FrameName(id uint32) (file, function string)
	// SetSpans says which addresses to catch faults at: pairs of first address and end, sorted and disjoint. It takes
	// no lock that calls are made with.
	SetSpans(pairs []uint64)

	// SetDeviceSpan says where device memory lies, which the host cannot touch. Faults there are brought to Touch,
	// and stay faults.
	SetDeviceSpan(lo, hi uintptr)

	// SetRegistered says which memory of the program is registered, in the same form as SetSpans: Vanish is to be
	// called before the program frees or unmaps it. aliases are its device addresses, which are judged like device
	// memory.
	SetRegistered(pairs, aliases []uint64)

	// SetPinnedSpan says where pinned memory lies, now and later; SetPages which pages there have bytes of an
	// allocation. The others are fences: nothing opens them, and faults there stay faults.
	SetPinnedSpan(lo, hi uintptr)
	SetPages(lo, hi uintptr, there bool)
}

// DefaultDepth is how far a program may run ahead of a device.
const DefaultDepth = 2048

// DefaultPatience is long for a program that goes on, and short for one that waits for its work without asking.
const DefaultPatience = 50 * time.Millisecond

// Checker implements core.CheckHooks; [Checker.Driver] is what the core is to use.
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
	face     Face             // nil: a Go program, or a test
	language finding.Language // of the program, unless an interpreter is in it
	closing  bool             // the program's view of pinned memory is closed while copies are pending
	queues   []*queue
	byStream map[int32]*queue
	lines    []uint64 // tasks given on each line so far
	marks    []uint64 // how often the progress of each line was noted
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
	near           [4]*allocation                  // where addresses were found last
	nearest        int
	gone           btree.Map[uintptr, *allocation] // freed ones, until the address is used again
	handles        map[uintptr]*handle
	models         map[uint32]*model               // that were captured, or are being captured, by their ids
	goneModels     []*model                        // the last that have gone
	frees          uint64                          // allocations that have gone so far
	unregistered   map[uintptr]*allocation         // by their start
	inner          map[uintptr]*allocation         // registrations of pinned memory, by their start
	aliases        btree.Map[uintptr, *allocation] // registrations by their device address
	runs           int                             // borders between pages of different protection
	shutRegistered map[*allocation]bool            // registered memory of which pages may be closed
	early          []early                         // pages that are to be opened soon
	isolated       int                             // ranges of pages that the system keeps apart
	born           uint64                          // allocations and handles so far, and frees of pool memory

	failures    []failure             // the last calls that failed
	failedTasks []origin              // the last tasks that failed
	blamed      map[taskName]struct{} // tasks that there are findings about

	serving   map[uint32]*serving // functions of the program that run in the order of a stream, by thread
	functions uint64              // how many have begun
	served    []*serving          // kernels that run, oldest first

	inject  []*inject.Injection
	symbols *symbol.Table
	kept    []*finding.Finding
	sink    Sink
	folded  map[foldKey]int
	alike   map[string]int // by finding.Key
	counts  []int
	noted   map[string]bool
	ended   bool

	held   *[]draft // takes what is reported, for a call that may still be refused; nil: nothing is held
	tiring bool     // what was reported last has been reported often
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
		serving: map[uint32]*serving{}, shutRegistered: map[*allocation]bool{},
		unregistered: map[uintptr]*allocation{}, inner: map[uintptr]*allocation{},
		symbols: symbol.New(), sink: o.Sink, folded: map[foldKey]int{}, alike: map[string]int{},
		noted: map[string]bool{},
	}
	for i := range o.Inject {
		c.inject = append(c.inject, &o.Inject[i])
	}
	if f, ok := driver.As[driver.Fabric](o.Driver); ok {
		server, _ := f.Server()
		c.server = &server
	}
	c.guard, _ = driver.As[driver.Guard](o.Driver)
	c.drv = &watched{Driver: o.Driver, c: c}
	o.Sink.Start(finding.Start{Process: os.Getpid(), Command: os.Args, Seed: o.Seed, Depth: o.Depth})
	return c
}

// Driver is the driver that the core is to use.
func (c *Checker) Driver() driver.Driver { return c.drv }

var _ core.CheckHooks = (*Checker)(nil)

// SetFace sets the front end, which knows the calls of the program.
func (c *Checker) SetFace(f Face) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.face = f
}

// CloseMemory makes the checker close the program's view of pinned memory while copies are pending: the front end
// catches the faults and calls Touch. Without it sources are compared with a snapshot.
func (c *Checker) CloseMemory() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = c.guard != nil
	if c.closing && c.face != nil {
		c.face.SetDeviceSpan(c.guard.DeviceSpan())
		c.face.SetPinnedSpan(c.guard.Span())
	}
	c.setSpans(0, 0)
}

// SpeakGo says that the program is a Go program: findings name what it calls, and what Close frees is no leak. It is
// called by ropeway.Open. A program that ends without Runtime.Close has a leak, which cannot be found after its end: so
// it is sent at once, and counts unless the end follows.
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

// watched is the driver between the core and the one below.
type watched struct {
	driver.Driver
	c *Checker
}

// Unwrap is for driver.As: what the checker does not look at, it leaves to the driver below.
func (w *watched) Unwrap() driver.Driver { return w.Driver }

func (w *watched) Open(i int) (driver.Device, error) {
	d, err := w.Driver.Open(i)
	if err != nil {
		return nil, err
	}
	return &device{Device: d, c: w.c, number: int32(i)}, nil
}

func (w *watched) NewFlag() driver.Flag { return &flag{c: w.c} }

// Close ends the report: nothing happens any more.
func (w *watched) Close() error {
	w.c.end()
	return w.Driver.Close()
}

// device makes queues that hold work back.
type device struct {
	driver.Device
	c      *Checker
	number int32
}

func (d *device) NewQueue(o driver.QueueOptions) driver.Queue {
	c := d.c
	q := &queue{c: c, sink: o.Sink, ran: o.Observer, stream: o.Number, device: d.number}
	o.Sink, o.Observer, o.Steps = q, nil, nil // the checker reports failures and times: it decides when work runs
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

// Close takes the device's memory with it.
func (d *device) Close() error {
	d.c.sweep(d.number)
	return d.Device.Close()
}
