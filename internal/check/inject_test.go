package check

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/check/inject"
	"ropeway/internal/core"
	models "ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// TestInjectAtTheCall proves that calls fail as asked, by number and stream, and are counted.
func TestInjectAtTheCall(t *testing.T) {
	p := begin(t, func(o *Options) {
		var err error
		const faults = "aclrtMalloc:2=207001;aclrtMemcpyAsync@stream1:*=107000;aclrtFree:9=1"
		if o.Inject, err = inject.ParseInjections(faults); err != nil {
			t.Fatal(err)
		}
	})
	a, b := p.stream(), p.stream()
	if n := p.number(a); n != 1 {
		t.Fatalf("the first stream is number %d", n)
	}
	for i, want := range []abi.Code{0, 207001, 0} {
		err := p.c.Before("aclrtMalloc", 0)
		if (err == nil) != (want == 0) || err != nil && (err.Code != want || err.API != "aclrtMalloc" ||
			!strings.Contains(err.Text, "aclrtMalloc:2=207001")) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if err := p.c.Before("aclrtMemcpyAsync", a); err == nil || err.Code != 107000 {
		t.Errorf("on the stream: %v", err)
	}
	if err := p.c.Before("aclrtMemcpyAsync", b); err != nil {
		t.Errorf("on another stream: %v", err)
	}
	if got := p.kept.fired; !slices.Equal(got, []finding.Shot{{What: "aclrtMalloc:2=207001", Times: 1},
		{What: "aclrtMemcpyAsync@stream1:*=107000", Times: 1}}) {
		t.Errorf("before the end, %v are reported", got)
	}
	p.finish()
	p.silent()
	want := []finding.Shot{{What: "aclrtMalloc:2=207001", Times: 1, Calls: 3, Able: 3, Armed: 1},
		{What: "aclrtMemcpyAsync@stream1:*=107000", Times: 1, Calls: 1, Able: 1, Armed: 1},
		{What: "aclrtFree:9=1", Times: 0}}
	if got := p.kept.end.Injected; !slices.Equal(got, want) {
		t.Errorf("counted %v", got)
	}
}

// TestInjectAtRun proves that a task fails when it runs, that the synchronisation returns the injected code, and that
// the task's memory is not written.
func TestInjectAtRun(t *testing.T) {
	p := begin(t, func(o *Options) {
		var err error
		if o.Inject, err = inject.ParseInjections("aclrtMemcpyAsync@stream2:2=507013"); err != nil {
			t.Fatal(err)
		}
	})
	by := p.withFrontEnd()
	a, b, host, dev := p.stream(), p.stream(), p.pinned(4096), p.dev(4096)
	by.in("aclrtMemcpyAsync", 1)
	for i := range core.Addr(3) {
		p.up(dev+64*i, host, 64, a)
	}
	p.ok(p.SynchronizeStream(a))
	p.up(dev, host, 64, b)
	p.ok(p.SynchronizeStream(b))
	p.up(dev, host, 64, b)
	if err := p.SynchronizeStream(b); err == nil || err.Code != 507013 || !errors.Is(err, abi.Code(507013)) {
		t.Errorf("the synchronisation gives %v", err)
	}
	p.finish()
	p.silent()
	if got := p.kept.end.Injected; len(got) != 1 || got[0].Times != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestInjectFunctions proves that the launch of a function can be made to fail when it runs: the function is not
// called.
func TestInjectFunctions(t *testing.T) {
	p := begin(t, func(o *Options) {
		var err error
		if o.Inject, err = inject.ParseInjections("aclrtLaunchHostFunc:1=507013"); err != nil {
			t.Fatal(err)
		}
	})
	by := p.withFrontEnd()
	s := p.stream()
	by.in("aclrtLaunchHostFunc", 1)
	ran := false
	p.ok(p.LaunchHostFunc(s, func(core.Addr) { ran = true }, 0))
	if err := p.SynchronizeStream(s); err == nil || err.Code != 507013 || ran {
		t.Errorf("the synchronisation gives %v; the function ran: %v", err, ran)
	}
	p.finish()
	if got := p.kept.end.Injected; len(got) != 1 || got[0].Times != 1 {
		t.Errorf("counted %v", got)
	}
}

// TestInjectModels proves that an execution of a model counts as one call, and that a captured task fails each time it
// runs, whether the model is one program or has streams.
func TestInjectModels(t *testing.T) {
	const ok = abi.Code(0)
	for _, tt := range []struct {
		fault string
		codes []abi.Code // of the synchronisations after the executions
		shot  finding.Shot
	}{
		{"aclmdlRIExecuteAsync:2=507011", []abi.Code{ok, 507011, ok}, finding.Shot{Times: 1, Able: 3, Armed: 1}},
		{"aclmdlRIExecuteAsync:4=507011", []abi.Code{ok, ok, ok}, finding.Shot{Able: 3}},
		{"aclmdlRIExecuteAsync@stream1:*=507013", []abi.Code{507013, 507013, 507013},
			finding.Shot{Times: 3, Able: 3, Armed: 3}},
		{"aclrtMemcpyAsync:2=507013", []abi.Code{507013, 507013, 507013}, finding.Shot{Times: 3, Able: 2, Armed: 1}},
		{"aclrtMemcpyAsync@stream2:1=507013", []abi.Code{ok, ok, ok}, finding.Shot{}},
		{"aclrtMemcpyAsync:3=507013", []abi.Code{ok, ok, ok}, finding.Shot{Able: 2}},
		{"aclrtMemcpyBatchAsync:1=507013", []abi.Code{507013, 507013, 507013},
			finding.Shot{Times: 3, Able: 1, Armed: 1}},
		{"aclmdlRICaptureTaskGrpBegin:1=507013", []abi.Code{ok, ok, ok}, finding.Shot{}},
		{"aclmdlRICaptureEnd:1=507903", []abi.Code{ok, ok, ok}, finding.Shot{}},
	} {
		for name, streams := range map[string]bool{"one program": false, "with streams": true} {
			t.Run(tt.fault+" "+name, func(t *testing.T) {
				p := begin(t, func(o *Options) {
					var err error
					if o.Inject, err = inject.ParseInjections(tt.fault); err != nil {
						t.Fatal(err)
					}
				})
				by := p.withFrontEnd()
				s, host, dev := p.stream(), p.pinned(4096), p.dev(4096)
				p.capture(s, relaxed)
				by.in("aclrtMemcpyAsync", 1)
				p.up(dev, host, 64, s)
				by.in("aclrtMemcpyAsync", 2)
				p.across(dev+64, dev, 64, s)
				by.in("aclrtMemcpyBatchAsync", 3)
				p.ok(p.batch(false, s, []core.Addr{dev + 1024, dev + 2048}, []core.Addr{host, host + 64},
					[]uint64{64, 64}, deviceSide, hostSide))
				by.in("aclmdlRICaptureTaskGrpBegin", 4)
				p.ok(models.MdlRICaptureTaskGrpBegin(p.Thread, s))
				by.in("aclmdlRICaptureTaskGrpEnd", 5)
				var group core.Handle
				p.ok(models.MdlRICaptureTaskGrpEnd(p.Thread, s, &group))
				if streams {
					by.in("aclrtLaunchHostFunc", 6)
					p.ok(p.LaunchHostFunc(s, func(core.Addr) {}, 0))
				}
				by.in("aclrtMemsetAsync", 7)
				p.ok(transfer.MemsetAsync(p.Thread, dev, 64, 1, 64, s))
				by.in("aclmdlRICaptureEnd", 8)
				m := p.model(s)
				for i, want := range tt.codes {
					by.in("aclmdlRIExecuteAsync", 9)
					p.execute(m, s)
					by.in("aclrtSynchronizeStream", 10)
					if err := p.SynchronizeStream(s); (err == nil) != (want == 0) || err != nil && err.Code != want {
						t.Errorf("execution %d gives %v, want %d", i, err, want)
					}
				}
				by.in("aclrtFree", 11)
				p.finish()
				tt.shot.What = tt.fault
				if got := p.kept.end.Injected; len(got) != 1 || got[0] != tt.shot {
					t.Errorf("counted %+v, want %+v", got, tt.shot)
				}
			})
		}
	}
}

// TestInjectFunctionOfModel proves that a captured function fails without being called, and that the tasks after it do
// not run.
func TestInjectFunctionOfModel(t *testing.T) {
	p := begin(t, func(o *Options) {
		var err error
		if o.Inject, err = inject.ParseInjections("aclrtLaunchHostFunc:1=507013"); err != nil {
			t.Fatal(err)
		}
	})
	by := p.withFrontEnd()
	s, ran := p.stream(), 0
	p.capture(s, relaxed)
	by.in("aclrtLaunchHostFunc", 1)
	p.ok(p.LaunchHostFunc(s, func(core.Addr) { ran++ }, 0))
	p.ok(p.LaunchHostFunc(s, func(core.Addr) { ran++ }, 0))
	by.in("aclmdlRICaptureEnd", 2)
	m := p.model(s)
	by.in("aclmdlRIExecuteAsync", 3)
	p.execute(m, s)
	if err := p.SynchronizeStream(s); err == nil || err.Code != 507013 || ran != 0 {
		t.Errorf("the synchronisation gives %v; %d functions ran", err, ran)
	}
}
