package check

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/finding"
	"ropeway/internal/product"
)

// TestMain ignores lookAfter: it ends at its next tick, for which programs with a long patience do not wait.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("ropeway/internal/check.(*schedule).lookAfter.func1"))
}

// keeper is a sink that keeps everything.
type keeper struct {
	mu    sync.Mutex
	start finding.Start
	list  []*finding.Finding
	notes []string
	fired []finding.Shot
	open  *finding.Finding
	end   *finding.End
}

func (k *keeper) with(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *keeper) Start(s finding.Start)       { k.with(func() { k.start = s }) }
func (k *keeper) Finding(f *finding.Finding)  { k.with(func() { k.list = append(k.list, f) }) }
func (k *keeper) Note(text string)            { k.with(func() { k.notes = append(k.notes, text) }) }
func (k *keeper) Fired(s finding.Shot)        { k.with(func() { k.fired = append(k.fired, s) }) }
func (k *keeper) Unclosed(f *finding.Finding) { k.with(func() { k.open = f }) }
func (k *keeper) End(e finding.End)           { k.with(func() { k.end = &e }) }

// program builds a checked program. Its helpers count as part of the product: stacks begin with their callers.
type program struct {
	*core.Thread
	scene
	rt     *core.Runtime
	guard  driver.Guard
	fixed  bool        // the mistake is not made
	binary core.Handle // binary loaded last
	ended  bool
}

// scene is what a test sees of a program.
type scene struct {
	t     testing.TB
	c     *Checker
	kept  *keeper
	lines map[string]int // lines of callers of this file, by what happens there
	undo  []undo
}

type undo struct {
	name uintptr
	f    func() *core.Error
}

// hang is the limit after which a test fails: much longer than any operation takes.
const hang = time.Minute

// begin starts a program on a small machine. Nothing runs by itself, unless an option says so.
func begin(t testing.TB, options ...func(*Options)) *program {
	t.Helper()
	return beginOn(t, "A2", options...)
}

// beginOn is begin with devices of another product.
func beginOn(t testing.TB, name string, options ...func(*Options)) *program {
	t.Helper()
	d, err := soft.New(soft.Options{Devices: 2, Memory: 64 << 20, Guard: true})
	if err != nil {
		t.Fatal(err)
	}
	prod, err := product.Find(name, "")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{scene: scene{t: t, kept: &keeper{}, lines: map[string]int{}}}
	o := Options{Driver: d, Sink: p.kept, Patience: hang}
	for _, f := range options {
		f(&o)
	}
	p.c = New(o)
	p.guard = o.Driver.(driver.Guard)
	p.rt = core.New(core.Options{Driver: p.c.Driver(), Product: prod, Probe: core.Probe{Check: p.c}})
	p.Thread = p.thread(1)
	t.Cleanup(p.finish)
	return p
}

// thread is another thread of the program.
func (p *program) thread(id uint32) *core.Thread {
	t := p.rt.NewThread(id)
	p.ok(t.SetDevice(0))
	return t
}

// finish synchronises and releases what is left.
func (p *program) finish() {
	if p.ended {
		return
	}
	p.ended = true
	p.SynchronizeDevice() //nolint:errcheck // some programs have nothing left to wait for
	for _, u := range slices.Backward(p.undo) {
		p.ok(u.f())
	}
	if err := p.rt.Close(); err != nil {
		p.t.Error(err)
	}
}

func (p *scene) ok(err *core.Error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// refused checks that a call fails, and reports it to the checker as a front end would.
func (p *program) refused(err *core.Error) {
	p.t.Helper()
	if err == nil {
		p.t.Fatal("the call is taken")
	}
	p.Done(err)
}

// here records that something happens in the next line.
func (p *scene) here(what string) {
	_, _, line, _ := runtime.Caller(1)
	p.lines[what] = line + 1
}

// gone records that the program releases something by itself.
func (p *scene) gone(name uintptr) uintptr {
	p.undo = slices.DeleteFunc(p.undo, func(u undo) bool { return u.name == name })
	return name
}

func (p *scene) later(name uintptr, f func() *core.Error) { p.undo = append(p.undo, undo{name, f}) }

func (p *program) stream() (s core.Handle) {
	p.ok(p.CreateStream(&s))
	p.later(uintptr(s), func() *core.Error { return p.DestroyStream(s) })
	return s
}

// number returns the number of a stream in findings.
func (p *program) number(s core.Handle) (n int32) {
	p.ok(p.StreamGetId(s, &n))
	return n
}

// Kinds of events.
const (
	timed  = iota // aclrtCreateEvent
	state         // aclrtCreateEventWithFlag
	latest        // aclrtCreateEventExWithFlag
)

var eventKinds = map[string]int{"aclrtCreateEvent": timed, "aclrtCreateEventWithFlag": state,
	"aclrtCreateEventExWithFlag": latest}

func (p *program) event(kind int) (e core.Handle) {
	const flags = abi.EventSync | abi.EventCaptureStreamProgress | abi.EventTimeLine
	switch kind {
	case timed:
		p.ok(p.CreateEvent(&e))
	case state:
		p.ok(p.CreateEventWithFlag(&e, flags))
	default:
		p.ok(p.CreateEventExWithFlag(&e, flags))
	}
	p.later(uintptr(e), func() *core.Error { return p.DestroyEvent(e) })
	return e
}

// raw is device memory that was never written.
func (p *program) raw(n uint64) (a core.Addr) {
	p.ok(memory.Malloc(p.Thread, &a, n, abi.MemMallocHugeFirst))
	p.later(a, func() *core.Error { return memory.Free(p.Thread, a) })
	return a
}

// dev is device memory that has been written.
func (p *program) dev(n uint64) core.Addr {
	a := p.raw(n)
	p.ok(transfer.Memset(p.Thread, a, n, 1, n))
	return a
}

func (p *program) pinned(n uint64) (a core.Addr) {
	p.ok(memory.MallocHost(p.Thread, &a, n))
	p.later(a, func() *core.Error { return memory.FreeHost(p.Thread, a) })
	return a
}

// mapped is ordinary memory on pages of its own.
func (p *scene) mapped(n int) core.Addr {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { unix.Munmap(b) }) //nolint:errcheck // made above
	return core.AddrOf(b)
}

func (p *program) registered(n int) core.Addr {
	a := p.mapped(n)
	p.ok(memory.HostRegisterV2(p.Thread, a, uint64(n), abi.HostRegPinned))
	p.later(a, func() *core.Error { return memory.HostUnregister(p.Thread, a) })
	return a
}

// twofold is registered memory and its device address.
func (p *program) twofold(n int) (host, alias core.Addr) {
	host = p.mapped(n)
	p.ok(memory.HostRegister(p.Thread, host, uint64(n), abi.HostRegisterMapped, &alias))
	p.later(host, func() *core.Error { return memory.HostUnregister(p.Thread, host) })
	return host, alias
}

// up, down and across queue copies of n bytes.
func (p *program) up(dst, src core.Addr, n uint64, s core.Handle) {
	p.t.Helper()
	p.ok(transfer.MemcpyAsync(p.Thread, dst, n, src, n, abi.MemcpyHostToDevice, s))
}

func (p *program) down(dst, src core.Addr, n uint64, s core.Handle) {
	p.t.Helper()
	p.ok(transfer.MemcpyAsync(p.Thread, dst, n, src, n, abi.MemcpyDeviceToHost, s))
}

func (p *program) across(dst, src core.Addr, n uint64, s core.Handle) {
	p.t.Helper()
	p.ok(transfer.MemcpyAsync(p.Thread, dst, n, src, n, abi.MemcpyDeviceToDevice, s))
}

// sync synchronises a stream where the mistake is not made.
func (p *program) sync(s core.Handle) {
	if p.fixed {
		p.ok(p.SynchronizeStream(s))
	}
}

// reads and writes are accesses of the host.
func (p *program) reads(addr core.Addr, n uint64)  { p.c.Judge(p.Thread, addr, n, false) }
func (p *program) writes(addr core.Addr, n uint64) { p.c.Judge(p.Thread, addr, n, true) }

// findings returns the findings so far.
func (p *scene) findings() []*finding.Finding {
	p.kept.mu.Lock()
	defer p.kept.mu.Unlock()
	return slices.Clone(p.kept.list)
}

// silent checks that there is no finding.
func (p *scene) silent() {
	p.t.Helper()
	for _, f := range p.findings() {
		p.t.Errorf("found %s", show(f))
	}
}

// only checks that there is one finding, of a rule.
func (p *scene) only(rule string) *finding.Finding {
	p.t.Helper()
	list := p.findings()
	if len(list) != 1 || list[0].Rule != rule {
		p.t.Errorf("%d findings, want one of %s", len(list), rule)
		for _, f := range list {
			p.t.Logf("found %s", show(f))
		}
		p.t.FailNow()
	}
	return list[0]
}

// show formats a finding for people.
func show(f *finding.Finding) string { return finding.Layout{}.Text(f) }

// at returns the task of a site and its line in this package's tests.
func at(s finding.Site) (task string, line int) {
	if s.Stream != nil {
		task = fmt.Sprintf("%d of %d", s.Task, *s.Stream)
	}
	for _, f := range s.Stack {
		if strings.HasSuffix(f.File, "_test.go") {
			return task, f.Line
		}
	}
	return task, 0
}

// has checks that a site is on the line recorded for its place, and has the role given.
func (p *scene) has(f *finding.Finding, s finding.Site, role, where string) {
	p.t.Helper()
	_, line := at(s)
	if s.Role != role || line != p.lines[where] {
		p.t.Errorf("%q in line %d, want %q in line %d: %s", s.Role, line, role, p.lines[where], show(f))
	}
}

// eventually waits for something that happens by itself.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(hang); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not happen", what)
		}
	}
}
