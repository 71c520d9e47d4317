package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/finding"
)

func (p *scene) pending() int {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.c.schedule.pending
}

// TestLate proves that nothing runs before the program waits for it, that a query runs one task, and that a wait for
// one stream leaves another alone.
func TestLate(t *testing.T) {
	p := begin(t)
	a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
	for i := range core.Addr(3) {
		p.up(dev+64*i, host+64*i, 64, a)
		p.up(dev+2048+64*i, host+2048+64*i, 64, b)
	}
	for left := 6; left > 3; left-- {
		if n := p.pending(); n != left {
			t.Errorf("%d tasks are pending, want %d", n, left)
		}
		if p.streamComplete(a) {
			t.Error("a query says complete while tasks are pending")
		}
	}
	if !p.streamComplete(a) || p.pending() != 3 {
		t.Errorf("%d tasks are pending, want those of the other stream", p.pending())
	}
	p.ok(p.SynchronizeStream(b))
	if p.pending() != 0 {
		t.Errorf("%d tasks are pending behind a synchronisation", p.pending())
	}
	p.finish()
	p.silent()
	if p.kept.end.Tasks != 7 { // the first one filled the memory
		t.Errorf("%d tasks were counted", p.kept.end.Tasks)
	}
}

// TestDepth proves that a stream with the most tasks it may hold back runs some, and that this makes nothing known to
// the host.
func TestDepth(t *testing.T) {
	p := begin(t, func(o *Options) { o.Depth = 4 })
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	for i := range core.Addr(20) {
		p.down(host+64*i, dev, 64, s)
		if n := p.pending(); n > 4 {
			t.Fatalf("%d tasks are held back", n)
		}
	}
	p.reads(host, 64)
	p.only("host-read-in-flight")
	if p.kept.start.Depth != 4 {
		t.Errorf("a depth of %d is reported", p.kept.start.Depth)
	}
}

// TestPatience proves that work runs by itself when the program is quiet, and that this makes nothing known to the
// host.
func TestPatience(t *testing.T) {
	for _, patience := range []time.Duration{0, time.Millisecond} { // 0: the usual one
		p := begin(t, func(o *Options) { o.Patience = patience })
		s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
		p.down(host, dev, 64, s)
		eventually(t, "the copy", func() bool { return p.pending() == 0 })
		p.reads(host, 64)
		p.only("host-read-in-flight")
	}
}

// TestFolding proves that a repeated mistake in one place is counted, and that one in another place is a finding of its
// own.
func TestFolding(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	p.down(host, dev, 64, s)
	for i := range core.Addr(5) {
		p.reads(host+i, 1)
	}
	p.reads(host, 1)
	if p.c.Findings() != 2 {
		t.Errorf("%d findings", p.c.Findings())
	}
	var list []finding.Finding
	if err := json.Unmarshal(p.c.Report(), &list); err != nil || len(list) != 2 || list[0].Count != 5 ||
		list[1].Count != 1 {
		t.Errorf("%v, %s", err, p.c.Report())
	}
	p.finish()
	if got := p.kept.end.Counts; !slices.Equal(got, []int{5, 1}) {
		t.Errorf("counts %v", got)
	}
	if string(begin(t).c.Report()) != "[]" {
		t.Error("no findings are not an empty list")
	}
}

// TestIgnored proves that accesses of a thread that asked to be ignored are not judged.
func TestIgnored(t *testing.T) {
	p := begin(t)
	by := p.withFrontEnd()
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	p.down(host, dev, 64, s)
	by.ignored = true
	p.reads(host, 64)
	p.silent()
	by.ignored = false
	p.reads(host, 64)
	p.only("host-read-in-flight")
}

// TestSeeds proves that a seed reports the same findings again, in the same order, and that seed 0 runs all work as
// late as possible.
func TestSeeds(t *testing.T) {
	run := func(t *testing.T, seed uint64) (text string, order string) {
		p := begin(t, func(o *Options) { o.Seed = seed })
		src, dst, host := p.dev(4096), p.dev(4096), p.pinned(4096)
		for i := range core.Addr(8) {
			p.ok(transfer.Memset(p.Thread, src+64*i, 64, int32(i+1), 64))
		}
		var streams []core.Handle
		for i := range core.Addr(8) {
			s := p.stream()
			p.across(dst, src+64*i, 64, s)
			p.across(dst+64*(i%3), src+64*i, 64, s)
			streams = append(streams, s)
		}
		p.ok(p.SynchronizeStream(streams[5]))
		p.ok(p.SynchronizeDevice())
		p.ok(transfer.Memcpy(p.Thread, host, 192, dst, 192, abi.MemcpyDeviceToHost))
		p.finish()
		for _, f := range p.findings() {
			text += fmt.Sprintf("%s: %s, %d times, seed %d\n", f.Rule, f.Summary, f.Count, f.Seed)
			order += f.Summary
		}
		if text == "" {
			t.Error("no race was found")
		}
		return text, order
	}
	orders := map[string]bool{}
	for seed := range uint64(10) {
		first, order := run(t, seed)
		if second, _ := run(t, seed); second != first {
			t.Errorf("seed %d:\n%s\nagain:\n%s", seed, first, second)
		}
		orders[order] = true
	}
	if len(orders) < 3 {
		t.Errorf("10 seeds have %d orders", len(orders))
	}
}

// TestFunctions proves that accesses of a function in the order of a stream are judged like those of a task.
func TestFunctions(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule string // "": correct
		run  func(p *program, s, other core.Handle, host, dev core.Addr)
	}{
		{"it uses what came before it and fills what comes after", "",
			func(p *program, s, _ core.Handle, host, dev core.Addr) {
				p.down(host, dev, 64, s)
				p.function(s, func(t *core.Thread) {
					p.c.Judge(t, host, 64, false)
					p.c.Judge(t, host, 64, true)
				})
				p.up(dev, host, 64, s)
			}},
		{"it allocates, fills and frees", "", func(p *program, s, _ core.Handle, _, _ core.Addr) {
			p.function(s, func(t *core.Thread) {
				var a core.Addr
				p.ok(t.SetDevice(0))
				p.ok(memory.Malloc(t, &a, 64, abi.MemMallocHugeFirst))
				p.ok(transfer.Memset(t, a, 64, 0, 64))
				p.ok(memory.Free(t, a))
			})
		}},
		{"it writes what another stream reads", "host-write-in-flight",
			func(p *program, s, other core.Handle, host, dev core.Addr) {
				p.up(dev, host, 64, other)
				p.function(s, func(t *core.Thread) { p.c.Judge(t, host, 64, true) })
			}},
		{"it reads what another stream writes", "host-read-in-flight",
			func(p *program, s, other core.Handle, host, dev core.Addr) {
				p.down(host, dev, 64, other)
				p.function(s, func(t *core.Thread) { p.c.Judge(t, host, 64, false) })
			}},
		{"another stream waits for it", "", func(p *program, s, other core.Handle, host, dev core.Addr) {
			e := p.event(latest)
			p.function(s, func(t *core.Thread) { p.c.Judge(t, host, 64, true) })
			p.ok(p.RecordEvent(e, s))
			p.ok(p.StreamWaitEvent(other, e))
			p.up(dev, host, 64, other)
		}},
		{"the host uses what it writes", "host-read-in-flight", func(p *program, s, _ core.Handle, host, _ core.Addr) {
			p.call(s, func(t *core.Thread) { p.c.Judge(t, host, 64, true) })
			p.reads(host, 64)
		}},
	} {
		for _, seed := range []uint64{0, 1, 2} {
			t.Run(tt.name, func(t *testing.T) {
				p := begin(t, func(o *Options) { o.Seed = seed })
				s, other, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
				tt.run(p, s, other, host, dev)
				p.ok(p.SynchronizeStream(other))
				p.ok(p.SynchronizeStream(s))
				p.finish()
				if tt.rule == "" {
					p.silent()
					return
				}
				p.only(tt.rule)
			})
		}
	}
}

// function launches a host function.
func (p *program) function(s core.Handle, f func(*core.Thread)) {
	p.ok(p.LaunchHostFunc(s, func(core.Addr) { f(p.rt.NewThread(uint32(unix.Gettid()))) }, 0))
}

// slow is a driver whose queues start work only when the test lets them.
type slow struct {
	*soft.Driver
	begun chan driver.OpKind
	may   chan struct{}
}

func (d *slow) Open(i int) (driver.Device, error) {
	dev, err := d.Driver.Open(i)
	return &slowDevice{dev, d}, err
}

type slowDevice struct {
	driver.Device
	d *slow
}

func (d *slowDevice) NewQueue(o driver.QueueOptions) driver.Queue {
	return &slowQueue{d.Device.NewQueue(o), d.d}
}

type slowQueue struct {
	driver.Queue
	d *slow
}

func (q *slowQueue) Submit(op driver.Op) {
	q.d.begun <- op.Kind
	<-q.d.may
	q.Queue.Submit(op)
}

// TestFreedWhileRunning frees memory during a task that uses it, a copy or a batch: this is reported, and the memory
// stays until the task is over.
func TestFreedWhileRunning(t *testing.T) {
	for _, kind := range []driver.OpKind{driver.OpCopy, driver.OpBatch} {
		d := &slow{begun: make(chan driver.OpKind), may: make(chan struct{})}
		p := begin(t, func(o *Options) {
			d.Driver = o.Driver.(*soft.Driver)
			o.Driver = d
		})
		s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
		if kind == driver.OpCopy {
			p.down(host, dev, 64, s)
		} else {
			p.ok(p.batch(false, s, []core.Addr{host, host + 64}, []core.Addr{dev, dev + 64}, []uint64{64, 64},
				hostSide, deviceSide))
		}
		synced, freed := make(chan *core.Error, 1), make(chan *core.Error, 1)
		other, third := p.thread(2), p.thread(3)
		go func() { synced <- other.SynchronizeStream(s) }()
		if got := <-d.begun; got != kind {
			t.Fatalf("%v begins, want %v", got, kind)
		}
		p.gone(host)
		go func() { freed <- memory.FreeHost(third, host) }()
		eventually(t, "the finding", func() bool { return len(p.findings()) == 1 })
		select {
		case <-freed:
			t.Error("the memory is freed in the middle of the task")
		default:
		}
		close(d.may)
		p.ok(<-synced)
		p.ok(<-freed)
		p.only("free-in-flight")
		go func() {
			for range d.begun {
			}
		}()
		p.finish()
		close(d.begun)
	}
}

// TestNews proves that a program that prints findings itself gets the text of the findings since its last request,
// again if they were repeated, and that the checker's own output leaves out the findings of that time.
func TestNews(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(64), p.dev(64)
	mistake := func() {
		p.down(host, dev, 64, s)
		p.writes(host, 1)
		p.ok(p.SynchronizeStream(s))
	}
	for i, telling := range []bool{false, true, true} {
		if telling {
			p.c.Tell(1)
		}
		mistake()
		if i == 1 {
			p.ok(transfer.MemsetAsync(p.Thread, dev, 64, 1, 64, s))
			p.ok(p.SynchronizeStream(s))
			p.ok(memory.Free(p.Thread, p.gone(p.dev(64))))
			p.refused(memory.Free(p.Thread, dev+8))
		}
		news := p.c.News()
		want := 1
		if i == 1 {
			want = 2
		}
		if n := strings.Count(news, "error: "); n != want || !strings.Contains(news, "host-write-in-flight") ||
			strings.Contains(news, " times") || p.c.News() != "" {
			t.Errorf("%d: the news are %q", i, news)
		}
		if telling {
			p.c.Tell(-1)
		}
	}
	list := p.findings()
	if len(list) != 2 || list[0].Told || !list[1].Told || list[0].Count != 3 {
		t.Errorf("%d findings: %+v", len(list), list)
	}
	var report []struct{ Text string }
	if err := json.Unmarshal(p.c.Report(), &report); err != nil || len(report) != 2 ||
		!strings.HasPrefix(report[1].Text, "error: invalid-free: ") {
		t.Errorf("%v: %+v", err, report)
	}
}

// TestAnnotations proves what a program can call: InFlight asks whether a range is in flight, and Complete declares
// that work which has run is complete.
func TestAnnotations(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	if p.c.InFlight(host, 4096) {
		t.Error("in flight before anything was queued")
	}
	p.down(host, dev, 64, s)
	if !p.c.InFlight(host, 1) || !p.c.InFlight(dev, 64) || p.c.InFlight(host+64, 64) {
		t.Error("what is queued, and nothing else, is in flight")
	}
	p.c.Complete(host, 64) // nothing has run
	if !p.c.InFlight(host, 64) {
		t.Error("what has not run cannot be complete")
	}
	p.streamComplete(s)
	if p.pending() != 0 || !p.c.InFlight(host, 64) {
		t.Error("it has run, and is not known to be complete")
	}
	p.c.Complete(host, 64)
	if p.c.InFlight(host, 64) {
		t.Error("still in flight when the program says it is complete")
	}
	p.reads(host, 64)
	p.finish()
	p.silent()
}

// TestNotes proves that a note is reported once.
func TestNotes(t *testing.T) {
	p := begin(t)
	for range 3 {
		p.c.Note("cannot see")
	}
	p.c.Note("cannot hear")
	if !slices.Equal(p.kept.notes, []string{"cannot see", "cannot hear"}) {
		t.Errorf("notes %q", p.kept.notes)
	}
}

// TestSnapshot proves that a write to the source of a pending copy is reported although nothing judged the access, and
// that a write by another copy in its turn is not.
func TestSnapshot(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	p.down(host, dev, 64, s)
	p.up(dev+64, host, 64, s)
	p.ok(p.SynchronizeStream(s))
	p.silent()
	p.here("submitted")
	p.up(dev, host, 128, s)
	view(host, 128)[100]++
	p.ok(p.SynchronizeStream(s))
	f := p.only("host-write-in-flight")
	p.has(f, f.Offence, "found", "submitted")
	if f.Bytes.Address != uint64(host) || f.Bytes.Length != 128 {
		t.Errorf("bytes %v", f.Bytes)
	}
}

// TestNothingAfterTheEnd proves that the report ends once, and has nothing after its end.
func TestNothingAfterTheEnd(t *testing.T) {
	p := begin(t)
	p.finish()
	end := p.kept.end
	if end == nil {
		t.Fatal("no end")
	}
	p.c.mu.Lock()
	p.c.report.add(draft{rule: "leak", role: "made", summary: "too late"})
	p.c.mu.Unlock()
	p.c.end()
	if p.kept.end != end {
		t.Error("it ends twice")
	}
	p.silent()
}

// TestSnapshotBehindFunction proves that a source filled by a function earlier on the stream does not count as written
// too early.
func TestSnapshotBehindFunction(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	p.function(s, func(th *core.Thread) {
		p.c.Judge(th, host, 64, true)
		view(host, 64)[0]++
	})
	p.up(dev, host, 64, s)
	p.ok(p.SynchronizeStream(s))
	p.finish()
	p.silent()
}

// TestEndingTwice proves that work without a synchronisation and memory without a free are reported once, however often
// the program ends.
func TestEndingTwice(t *testing.T) {
	p := begin(t)
	s := p.stream()
	host := p.pinned(4096) // on a line of its own: mistakes of one place are one finding
	dev := p.dev(4096)
	p.up(dev, host, 64, s)
	p.c.Ending(p.Thread)
	first := len(p.findings()) // the work, two allocations and a stream
	p.c.Ending(p.Thread)
	p.c.Ending(nil)
	if again := len(p.findings()); first != 4 || again != 4 {
		t.Errorf("%d findings, then %d", first, again)
	}
	for i, n := range p.kept.end.Counts {
		if n != 1 {
			t.Errorf("%s is counted %d times", p.findings()[i].Rule, n)
		}
	}
}

// TestDestroyedStream proves that the work of a destroyed stream is over, and that the stream that reuses its line does
// not inherit it.
func TestDestroyedStream(t *testing.T) {
	p := begin(t)
	s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
	p.down(host, dev, 64, s)
	p.gone(uintptr(s))
	p.ok(p.DestroyStream(s)) // the call waits for the stream's work
	p.reads(host, 64)
	other := p.stream()
	p.reads(host, 64)
	p.down(host+64, dev, 64, other)
	p.reads(host, 64)
	p.silent()
	p.reads(host+64, 64)
	if f := p.only("host-read-in-flight"); *f.Others[0].Stream != p.number(other) {
		t.Errorf("found %s", show(f))
	}
}
