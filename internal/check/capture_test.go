package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/check/shadow"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// TestBrokenCaptureNames proves that a finding about a capture names the thread of the call, the thread that began the
// capture, and the place where an unjoined stream had joined.
func TestBrokenCaptureNames(t *testing.T) {
	p := begin(t)
	s, watchdog := p.stream(), p.thread(2)
	side, fork := p.stream(), p.event(latest)
	p.capture(s, relaxed)
	p.ok(p.RecordEvent(fork, s))
	p.here("joined")
	p.ok(p.StreamWaitEvent(side, fork))
	var status abi.StreamStatus
	watchdog.Done(watchdog.StreamQuery(side, &status))
	p.unmade(s)
	list := p.findings()
	if len(list) != 2 {
		t.Fatalf("%d findings, want 2: %v", len(list), list)
	}
	query, end := list[0], list[1]
	if query.Offence.Thread != 2 || query.Others[0].Thread != 1 || query.Code != int32(abi.ErrRTStreamCaptured) {
		t.Errorf("the query: %s", show(query))
	}
	at := slices.IndexFunc(end.Others, func(s finding.Site) bool { return s.Role == "joined" })
	if end.Code != int32(abi.ErrRTStreamUnjoined) || at < 0 {
		t.Fatalf("the end: %s", show(end))
	}
	p.has(end, end.Others[at], "joined", "joined")
}

// TestBrokenCaptureSays proves that a finding about a capture names its cause and the stream concerned, which may have
// joined the capture of another stream.
func TestBrokenCaptureSays(t *testing.T) {
	p := begin(t)
	s, side, fork, join := p.stream(), p.stream(), p.event(latest), p.event(latest)
	dev := p.dev(64)
	p.capture(s, relaxed)
	p.ok(p.RecordEvent(fork, s))
	p.here("joined")
	p.ok(p.StreamWaitEvent(side, fork))
	p.ok(p.RecordEvent(join, side))
	p.refused(p.DestroyStream(side))
	p.refused(p.SynchronizeStream(s))
	p.refused(p.SynchronizeEvent(join))
	var m core.Handle
	p.refused(models.MdlRICaptureEnd(p.Thread, side, &m))
	p.ok(p.StreamWaitEvent(s, join))
	p.ok(models.MdlRICaptureTaskGrpBegin(p.Thread, s))
	p.refused(transfer.MemsetAsync(p.Thread, dev, 64, 1, 64, s))
	p.unmade(s)
	p.capture(s, relaxed)
	p.ok(models.MdlRICaptureTaskGrpBegin(p.Thread, s))
	p.unmade(s)
	list := p.findings()
	for i, want := range []struct {
		text, advice string
		joined       bool
	}{
		{"aclrtDestroyStream returned 107027 (ACL_ERROR_RT_STREAM_CAPTURED): stream 2 has joined the capture of " +
			"stream 1, and the same thread began that", "before the capture begins", true},
		{"aclrtSynchronizeStream returned 107027 (ACL_ERROR_RT_STREAM_CAPTURED): stream 1 is being captured, and the " +
			"same thread began that", "before the capture begins", false},
		{"aclrtSynchronizeEvent returned 107028 (ACL_ERROR_RT_EVENT_CAPTURED): the event is part of the capture of " +
			"stream 1, and the same thread began that", "before the capture begins", false},
		{"aclmdlRICaptureEnd returned 107036 (ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED): stream 2 has joined the " +
			"capture of stream 1, and the same thread began that", "on the stream where it began", true},
		{"aclrtMemsetAsync returned 507009 (ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT): a task group is open on stream 1, " +
			"and takes kernels only; the capture is invalid now", "after aclmdlRICaptureTaskGrpEnd", false},
		{"aclmdlRICaptureEnd returned 107033 (ACL_ERROR_STREAM_TASK_GROUP_STATUS): a task group is still open on " +
			"stream 1; the capture is over, and there is no model", "capture again", false},
	} {
		if i >= len(list) {
			t.Fatalf("%d findings", len(list))
		}
		f := list[i]
		at := slices.IndexFunc(f.Others, func(s finding.Site) bool { return s.Role == "joined" })
		if f.Rule != "broken-capture" || f.Summary != want.text || !strings.Contains(f.Advice, want.advice) ||
			(at >= 0) != want.joined {
			t.Errorf("want %q and %q: %s", want.text, want.advice, show(f))
		}
		if at >= 0 {
			p.has(f, f.Others[at], "joined", "joined")
		}
	}
}

// TestModelsThatStay proves that models which the program does not destroy are reported when their context is
// destroyed, with the call that does it, and that later uses of them fit this. The model of a capture that another
// thread ended is one of them.
func TestModelsThatStay(t *testing.T) {
	p := begin(t)
	var c core.Handle
	p.ok(p.CreateContext(&c, 0))
	var s, m, left core.Handle
	p.ok(p.CreateStream(&s))
	p.capture(s, relaxed)
	p.here("made")
	p.ok(models.MdlRICaptureEnd(p.Thread, s, &m))
	p.capture(s, global)
	other := p.rt.NewThread(2)
	p.ok(other.SetCurrentContext(c))
	p.here("lost")
	other.Done(models.MdlRICaptureEnd(other, s, &left))
	p.ok(p.DestroyStream(s))
	p.here("freed")
	p.ok(p.DestroyContext(c))
	p.ok(p.SetDevice(0))
	p.refused(models.MdlRIDestroy(p.Thread, m))
	list := p.findings()
	if len(list) != 4 {
		for _, f := range list {
			t.Log(show(f))
		}
		t.Fatalf("%d findings", len(list))
	}
	for i, want := range []struct{ text, made string }{
		{"model 1 is not destroyed before its context goes", "made"},
		{"model 2 is not destroyed before its context goes", "lost"},
	} {
		f := list[1+i]
		if f.Rule != "leak" || f.Summary != want.text || len(f.Others) != 1 {
			t.Fatalf("want %q: %s", want.text, show(f))
		}
		p.has(f, f.Offence, "made", want.made)
		p.has(f, f.Others[0], "freed", "freed")
	}
	f := list[3]
	if f.Rule != "double-free" || f.Summary != "model 1 is destroyed after it has gone with its context" {
		t.Fatalf("found %s", show(f))
	}
	p.has(f, f.Others[0], "freed", "freed")
}

// TestCapturedCall proves that a finding about a task of a model names the captured call. Its step may be any of the
// model's, the model may be one program or have streams, and the run may be the first or a later one.
func TestCapturedCall(t *testing.T) {
	for name, lanes := range map[string]bool{"one program": false, "with streams": true} {
		t.Run(name, func(t *testing.T) {
			p := begin(t)
			s, host, dev := p.stream(), p.pinned(256), p.dev(256)
			p.capture(s, relaxed)
			p.up(dev, host, 64, s)
			if lanes {
				p.ok(p.LaunchHostFunc(s, func(core.Addr) {}, 0))
			}
			p.up(dev, host+64, 64, s)
			p.here("captured")
			p.up(dev+128, host+128, 64, s)
			m := p.model(s)
			for range 2 {
				p.execute(m, s)
				p.ok(p.SynchronizeStream(s))
			}
			p.here("submitted")
			p.execute(m, s)
			p.writes(host+130, 1)
			f := p.only("host-write-in-flight")
			p.has(f, f.Others[0], "submitted", "submitted")
			p.has(f, f.Others[1], "captured", "captured")
		})
	}
}

// TestChangedTask proves that a changed task is judged by its new operation: memory of the old one may be freed, and
// the call that changed the task is named.
func TestChangedTask(t *testing.T) {
	p := begin(t)
	s, host, old, dev := p.stream(), p.pinned(64), p.dev(64), p.dev(64)
	p.capture(s, relaxed)
	p.up(old, host, 64, s)
	m := p.model(s)
	p.here("captured")
	p.ok(models.SetModelCopy(p.Thread, m, 0, dev, host, 64))
	p.ok(memory.Free(p.Thread, p.gone(old)))
	p.execute(m, s)
	p.silent()
	p.writes(host, 1)
	f := p.only("host-write-in-flight")
	p.has(f, f.Others[1], "captured", "captured")
}

// TestMisalignedInModel proves that addresses of copies in a model are judged at the capture, by the program's own
// calls: a copy remains one whatever is captured beside it, and a batch of one segment remains a batch.
func TestMisalignedInModel(t *testing.T) {
	for _, tt := range []struct {
		name string
		what func(p *program, s core.Handle, host, dev core.Addr) // captured, misaligned
		rule string
	}{
		{"a copy alone", func(p *program, s core.Handle, host, dev core.Addr) {
			p.here("offence")
			p.up(dev+13, host+64, 100, s)
		}, "misaligned"},
		{"a copy and a fill that it meets", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(transfer.MemsetAsync(p.Thread, dev+36, 200, 42, 200, s))
			p.here("offence")
			p.up(dev+13, host+64, 100, s)
		}, "misaligned"},
		{"a copy in a model with streams", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(transfer.MemsetAsync(p.Thread, dev+36, 200, 42, 200, s))
			p.here("offence")
			p.up(dev+13, host+64, 100, s)
			p.ok(p.LaunchHostFunc(s, func(core.Addr) {}, 0))
		}, "misaligned"},
		{"a batch of one segment", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(p.batch(false, s, []core.Addr{dev + 3}, []core.Addr{host + 5}, []uint64{100}, deviceSide, hostSide))
		}, ""},
		{"a fill", func(p *program, s core.Handle, host, dev core.Addr) {
			p.ok(transfer.MemsetAsync(p.Thread, dev+3, 100, 42, 100, s))
		}, ""},
		{"a batch whose segments overlap", func(p *program, s core.Handle, host, dev core.Addr) {
			p.here("offence")
			p.ok(p.batch(false, s, []core.Addr{dev, dev + 3}, []core.Addr{host, host + 512}, []uint64{100, 100},
				deviceSide, hostSide))
		}, "batch-overlap"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t)
			s, host, dev := p.stream(), p.pinned(1024), p.dev(1024)
			p.capture(s, relaxed)
			tt.what(p, s, host, dev)
			m := p.model(s)
			for range 2 {
				p.execute(m, s)
			}
			p.finish()
			if tt.rule == "" {
				p.silent()
				return
			}
			f := p.only(tt.rule)
			p.has(f, f.Offence, "captured", "offence")
			if f.Count != 1 || len(f.Others) != 1 || f.Others[0].Role != "allocated" {
				t.Errorf("found %s", show(f))
			}
		})
	}
}

// TestCapturedCallInQuestion proves that a finding names the task that makes the access, not an earlier one that
// touches some of the same bytes.
func TestCapturedCallInQuestion(t *testing.T) {
	for _, tt := range []struct {
		name, rule string
		run        func(p *program, s, other core.Handle, host, dev core.Addr) (m core.Handle)
	}{
		{"a race", "stream-race", func(p *program, s, other core.Handle, host, dev core.Addr) core.Handle {
			p.up(dev, host, 2048, s)
			p.here("captured")
			p.across(dev+2048, dev+1024, 1024, s)
			m := p.model(s)
			p.ok(transfer.MemsetAsync(p.Thread, dev+2048+512, 64, 1, 64, other))
			return m
		}},
		{"never written", "uninitialised-read", func(p *program, s, _ core.Handle, host, _ core.Addr) core.Handle {
			raw := p.raw(4096)
			p.ok(transfer.MemsetAsync(p.Thread, raw, 1000, 1, 1000, s))
			p.down(host+1024, raw, 512, s)
			p.here("captured")
			p.down(host, raw+512, 1024, s)
			return p.model(s)
		}},
		{"written by two tasks", "stream-race", func(p *program, s, other core.Handle, _, dev core.Addr) core.Handle {
			p.ok(transfer.MemsetAsync(p.Thread, dev+1000, 100, 1, 100, s))
			p.here("captured")
			p.ok(transfer.MemsetAsync(p.Thread, dev+1024, 1024, 1, 1024, s))
			m := p.model(s)
			p.ok(transfer.MemsetAsync(p.Thread, dev+1064, 512, 1, 512, other))
			return m
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t, off("misaligned"))
			s, other, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
			p.capture(s, relaxed)
			m := tt.run(p, s, other, host, dev)
			p.execute(m, s)
			p.finish()
			var roles []string
			for _, f := range p.findings() {
				for _, o := range f.Others {
					if _, line := at(o); f.Rule == tt.rule && o.Role == "captured" && line == p.lines["captured"] {
						return
					}
				}
				roles = append(roles, show(f))
			}
			t.Errorf("the captured call of line %d is not named: %v", p.lines["captured"], roles)
		})
	}
}

// TestRaceInOneRun proves that two unordered tasks of a model are one finding, whichever runs first and however often
// the model is executed, and that its summary names the captured calls.
func TestRaceInOneRun(t *testing.T) {
	for seed := range uint64(8) {
		p := begin(t, func(o *Options) { o.Seed = seed })
		s, side, fork, join := p.stream(), p.stream(), p.event(latest), p.event(latest)
		host, dev := p.pinned(4096), p.dev(8192)
		p.capture(s, relaxed)
		p.ok(p.RecordEvent(fork, s))
		p.ok(p.StreamWaitEvent(side, fork))
		p.here("reads")
		p.across(dev+4096, dev, 4096, s)
		p.here("writes")
		p.up(dev, host, 4096, side)
		p.ok(p.RecordEvent(join, side))
		p.ok(p.StreamWaitEvent(s, join))
		m := p.model(s)
		for range 4 {
			p.execute(m, s)
			p.ok(p.SynchronizeStream(s))
		}
		p.here("submitted")
		p.execute(m, s)
		p.ok(p.SynchronizeStream(s))
		f := p.only("stream-race")
		p.has(f, f.Offence, "captured", "writes")
		p.has(f, f.Others[0], "captured", "reads")
		if len(f.Others) != 3 || f.Others[1].Role != "submitted" || f.Others[2].Role != "allocated" || f.Count != 5 {
			t.Errorf("seed %d: %s", seed, show(f))
		}
		want := fmt.Sprintf("in one run of model 1, the task captured at capture_test.go:%d writes 4096 bytes that "+
			"the task captured at capture_test.go:%d reads, and nothing orders the two", p.lines["writes"],
			p.lines["reads"])
		if f.Summary != want {
			t.Errorf("seed %d: summary %q, want %q", seed, f.Summary, want)
		}
	}
}

// TestCutArguments proves that a call without kept arguments does not read like a call without arguments.
func TestCutArguments(t *testing.T) {
	defer func(n int) { shadow.ManyCells = n }(shadow.ManyCells)
	shadow.ManyCells = 1
	p := begin(t)
	by := p.withFrontEnd()
	s, host, raw := p.stream(), p.pinned(64), p.raw(64)
	by.in("aclrtMemcpyAsync", 1)
	p.down(host, raw+3, 1, s)
	p.ok(p.SynchronizeStream(s))
	by.in("aclrtMemcpyAsync", 2)
	p.down(host, raw+8, 2, s)
	p.ok(p.SynchronizeStream(s))
	var list []*finding.Finding
	for _, f := range p.findings() {
		if f.Rule == "uninitialised-read" {
			list = append(list, f)
		}
	}
	if len(list) != 2 {
		t.Fatalf("found %d", len(list))
	}
	for i, want := range []struct{ summary, call string }{
		{"1 byte of device memory is copied that was never written", "acl.rt.memcpy_async(python [1 2])"},
		{"2 bytes of device memory are copied that were never written", "acl.rt.memcpy_async(...)"},
	} {
		if list[i].Summary != want.summary || list[i].Offence.Call != want.call {
			t.Errorf("want %q and %q: %s", want.summary, want.call, show(list[i]))
		}
	}
}
