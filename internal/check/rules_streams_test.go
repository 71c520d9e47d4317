package check

import (
	"strings"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	models "ropeway/internal/core/model"
)

// made makes streams.
func (p *program) made(n int) (list []core.Handle) {
	for range n {
		var s core.Handle
		p.ok(p.CreateStream(&s))
		p.later(uintptr(s), func() *core.Error { return p.DestroyStream(s) })
		list = append(list, s)
	}
	return list
}

// ofDevice returns the number of streams of a device for a program to use up, less those needed by a correct one.
func (p *program) ofDevice() int {
	if p.fixed {
		return p.rt.Product.Streams - 1
	}
	return p.rt.Product.Streams
}

// wantsNone checks the result of a call that succeeds in the correct program, and finds no stream left in the wrong
// one.
func (p *program) wantsNone(err *core.Error) bool {
	p.t.Helper()
	if p.fixed {
		p.ok(err)
		return true
	}
	p.refused(err)
	return false
}

// streamMistakes are programs that use up all streams.
var streamMistakes = []mistake{
	{rule: "streams-used-up", name: "made", product: "310B", role: "called", other: "made",
		run: func(p *program) {
			p.here("other")
			p.made(p.ofDevice())
			var s core.Handle
			p.here("offence")
			if p.wantsNone(p.CreateStream(&s)) {
				p.ok(p.DestroyStream(s))
			}
		}},
	{rule: "streams-used-up", name: "captured", product: "310P", role: "called", other: "captured",
		run: func(p *program) {
			s := p.stream()
			for range p.ofDevice() - 1 {
				p.here("other")
				p.ok(models.MdlRICaptureBegin(p.Thread, s, relaxed))
				p.model(s)
			}
			p.here("offence")
			if p.wantsNone(models.MdlRICaptureBegin(p.Thread, s, relaxed)) {
				p.model(s)
			}
		}},
	{rule: "streams-used-up", name: "joined", product: "310P", role: "called", other: "made",
		run: func(p *program) {
			s, ev := p.stream(), p.event(latest)
			p.here("other")
			side := p.made(p.ofDevice() - 2)[0]
			p.capture(s, relaxed)
			p.ok(p.RecordEvent(ev, s))
			p.here("offence")
			if p.wantsNone(p.StreamWaitEvent(side, ev)) {
				p.ok(p.RecordEvent(ev, side))
				p.ok(p.StreamWaitEvent(s, ev))
				p.model(s)
				return
			}
			p.unmade(s) // not a finding of its own
		}},
	{rule: "streams-used-up", name: "of a model", role: "called", other: "captured",
		run: func(p *program) {
			s, fork := p.stream(), p.event(latest)
			n := 1024
			if p.fixed {
				n = 1023
			}
			sides := p.made(n)
			p.capture(s, relaxed)
			p.ok(p.RecordEvent(fork, s))
			for _, side := range sides {
				p.here("other")
				p.ok(p.StreamWaitEvent(side, fork))
			}
			for _, side := range sides {
				ev := p.event(latest)
				p.ok(p.RecordEvent(ev, side))
				p.ok(p.StreamWaitEvent(s, ev))
			}
			m := p.model(s)
			p.here("offence")
			p.wantsNone(models.MdlRIExecuteAsync(p.Thread, m, s))
		}},
}

// TestStreamsUsedUp: the finding names the lines that took streams with their numbers, the most frequent first.
// Destroyed streams and those of other devices are left out, and captured ones on products where these take none.
func TestStreamsUsedUp(t *testing.T) {
	p := begin(t)
	p.ok(p.SetDevice(1))
	var elsewhere core.Handle
	p.ok(p.CreateStream(&elsewhere))
	p.ok(p.SetDevice(0))
	m := p.stream()
	p.capture(m, relaxed)
	p.model(m)
	for range 10 {
		var s core.Handle
		p.ok(p.CreateStream(&s))
		p.ok(p.DestroyStream(s))
	}
	pool := func(n int) {
		p.here("other")
		p.made(n)
	}
	pool(20)
	for range 2 {
		p.here("caller")
		pool(15) // the same line, from another one
	}
	for range 1984 - 51 {
		p.stream()
	}
	var s core.Handle
	p.refused(p.CreateStream(&s))
	p.refused(p.CreateStream(&s))
	f := p.findings()[0]
	if len(p.findings()) != 2 || f.Code != int32(abi.ErrRTNoStreamResource) ||
		!strings.Contains(f.Summary, "device 0 has no stream left: the program has made 1984") ||
		strings.Contains(f.Summary, "captured") {
		t.Fatalf("%d findings, first %s", len(p.findings()), show(f))
	}
	if len(f.Others) != 3 || f.Others[0].Count != 1933 || f.Others[1].Count != 50 || f.Others[2].Count != 0 ||
		f.Others[0].Thread != 0 || !strings.Contains(show(f), "made 1933 times\n") {
		t.Errorf("not three lines, with 1933, 50 and 1 calls: %s", show(f))
	}
	p.has(f, f.Others[1], "made", "other")
	if line := f.Others[1].Stack[1].Line; line != p.lines["caller"] {
		t.Errorf("the caller is in line %d, want %d: %s", line, p.lines["caller"], show(f))
	}
}

// TestStreamsOfSubModels: a model with too many streams because of its sub-models names the places where these were
// captured.
func TestStreamsOfSubModels(t *testing.T) {
	p := begin(t)
	s, side := p.stream(), p.stream()
	p.capture(side, relaxed)
	p.model(side) // another model
	p.capture(s, relaxed)
	var parent, cond core.Handle
	p.ok(models.MdlRICaptureGetInfo(p.Thread, s, nil, &parent))
	p.ok(models.MdlRICondHandleCreate(p.Thread, parent, 0, 0, &cond))
	list := make([]core.Handle, 1024)
	p.ok(models.MdlRIAddCondTask(p.Thread, &abi.MdlRICondTaskParams{Handle: uintptr(cond),
		Type: abi.ModelRiCondTypeSwitch, Size: uint32(len(list)), ModelRIArray: uintptr(unsafe.Pointer(&list[0]))},
		s, 0))
	for _, sub := range list {
		p.here("other")
		p.ok(models.MdlRICaptureToModelRIBegin(p.Thread, side, sub, relaxed))
		p.ok(models.MdlRICaptureEnd(p.Thread, side, nil))
	}
	m := p.model(s)
	p.refused(models.MdlRIExecuteAsync(p.Thread, m, s))
	f := p.only("streams-used-up")
	if !strings.Contains(f.Summary, "1025 streams were captured into model") || len(f.Others) != 2 ||
		f.Others[0].Count != 1024 || f.Others[1].Count != 0 {
		t.Fatal(show(f))
	}
	p.has(f, f.Others[0], "captured", "other")
}
