package check

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/check/inject"
	"ropeway/internal/core"
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
	want := []finding.Shot{{What: "aclrtMalloc:2=207001", Times: 1},
		{What: "aclrtMemcpyAsync@stream1:*=107000", Times: 1}, {What: "aclrtFree:9=1", Times: 0}}
	if got := p.kept.end.Injected; !slices.Equal(got, want) {
		t.Errorf("counted %v", got)
	}
}

// TestInjectAtRun proves that a task fails when it runs, that the synchronisation returns the code asked for, and that
// its memory is left alone.
func TestInjectAtRun(t *testing.T) {
	p := begin(t, func(o *Options) {
		var err error
		if o.Inject, err = inject.ParseInjections("aclrtMemcpyAsync@stream2:2=507013"); err != nil {
			t.Fatal(err)
		}
	})
	by := p.withFace()
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
	by := p.withFace()
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
