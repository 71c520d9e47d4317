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
// (ledger.canonical).
//
// # Ownership
//
// Checker implements the hooks of the core, and ties five parts, each of which knows those after it:
//
//   - schedule: the queues, and when the tasks in them run. It alone holds work back.
//   - pages: which pages are closed to the program, and what stands in for those that cannot be closed.
//   - judge: what orders tasks (clocks) and what they touched (shadows). It asks the schedule for tasks that have not
//     run through the interface backlog; without one it judges work that runs by itself.
//   - ledger: what exists and who made it: memory, handles, models.
//   - report: the findings, and names for calls and tasks.
//
// One mutex, lock.mu, guards the parts, unless a field is immutable or says otherwise: an access is judged by what all
// of them have, at one time. It is released while work of the driver and functions of the program and of the core run;
// a queue that is running a task is marked, and no other thread runs it. With the lock held, code outside of the
// checker is called only through the driver below, the Sink and the FrontEnd.
package check

import (
	"sync"
	"time"

	"ropeway/internal/check/inject"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
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

// lock guards the whole checker: judging one access reads all its parts. Those that release it while work of the driver
// runs share it.
type lock struct{ mu sync.Mutex }

// Checker implements core.CheckHooks; the core uses [Checker.Driver].
type Checker struct {
	*lock
	drv *watched // immutable

	report   *report
	ledger   *ledger
	judge    *judge
	pages    *pages
	schedule *schedule
	tasks    uint64 // submitted by the program
}

// New makes a checker around a driver.
func New(o Options) *Checker {
	if o.Depth <= 0 {
		o.Depth = DefaultDepth
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	c := &Checker{lock: new(lock), report: newReport(o)}
	c.ledger = newLedger(o.Driver, c.report)
	c.judge = newJudge(c.ledger, c.report)
	c.pages = &pages{lock: c.lock, report: c.report, ledger: c.ledger, judge: c.judge, guard: o.Driver.Caps().Guard,
		shutRegistered: map[*allocation]bool{}}
	c.schedule = newSchedule(o, c.pages)
	c.judge.learned, c.judge.backlog = c.pages.learned, c.schedule
	c.drv = &watched{Driver: o.Driver, c: c}
	return c
}

// Driver returns the driver for the core.
func (c *Checker) Driver() driver.Driver { return c.drv }

var _ core.CheckHooks = (*Checker)(nil)

// SetFrontEnd sets the front end, which knows the calls of the program.
func (c *Checker) SetFrontEnd(f FrontEnd) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.front = f
}

// CloseMemory makes the checker close the program's view of pinned memory while copies are pending: the front end
// catches the faults and calls Touch. Without it sources are compared with a snapshot.
func (c *Checker) CloseMemory() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pages.closing = c.pages.guard != nil
	if c.pages.closing && c.report.front != nil {
		c.report.front.SetDeviceSpan(c.pages.guard.DeviceSpan())
		c.report.front.SetPinnedSpan(c.pages.guard.Span())
	}
	c.pages.tellSpans(0, 0)
}

// SpeakGo declares the program to be a Go program: findings name Go functions, and resources that Close frees are not
// leaks. ropeway.Open calls it. A program that ends without Runtime.Close has a leak, which cannot be found after its
// end: so the finding is sent now, and counts unless the end follows.
func (c *Checker) SpeakGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.language = finding.Go
	if !c.report.on("leak") {
		return
	}
	s := &site{api: "ropeway.Open"}
	s.stack, _ = c.report.stacks.here()
	c.report.sink.Unclosed(c.report.finding(draft{rule: "leak", role: "opened", offence: origin{site: s},
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

func (w *watched) NewFlag() driver.Flag { return &flag{s: w.c.schedule} }

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
	q := &queue{s: c.schedule, events: o.Events}
	o.Events = driver.Events{Failed: q.failed} // the checker decides when work runs, and so reports failures and times
	q.inner = d.Device.NewQueue(o)
	c.mu.Lock()
	defer c.mu.Unlock()
	q.line = c.judge.newLine(o.Number)
	c.schedule.queues = append(c.schedule.queues, q)
	c.schedule.byStream[q.stream] = q
	return q
}

// Close forgets the device's memory, and closes the device.
func (d *device) Close() error {
	d.c.sweep(d.number)
	return d.Device.Close()
}

// end sends the summary, once.
func (c *Checker) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.report.ended {
		return
	}
	c.report.ended = true
	e := finding.End{Tasks: c.tasks, Calls: c.schedule.calls.Load()}
	for _, f := range c.report.kept {
		e.Counts = append(e.Counts, f.Count)
	}
	for _, i := range c.schedule.inject.list {
		e.Injected = append(e.Injected, i.Shot())
	}
	c.report.sink.End(e)
}
