package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/finding"
)

func TestParseInjection(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Injection
		bad  string // part of the error
	}{
		{text: "aclrtMalloc:3=207001", want: Injection{Function: "aclrtMalloc", Stream: -1, Nth: 3, Code: 207001}},
		{text: "aclrtMalloc:*=207001", want: Injection{Function: "aclrtMalloc", Stream: -1, Code: 207001}},
		{text: "aclrtMemcpyAsync@stream2:10=507013", want: Injection{Function: "aclrtMemcpyAsync", Stream: 2, Nth: 10,
			Code: 507013, Run: true}},
		{text: "aclrtMemcpyAsync@stream0:1=507013/submit", want: Injection{Function: "aclrtMemcpyAsync", Stream: 0,
			Nth: 1, Code: 507013}},
		{text: "aclrtMemcpyAsync:1=107000/run", want: Injection{Function: "aclrtMemcpyAsync", Stream: -1, Nth: 1,
			Code: 107000, Run: true}},
		{text: "aclrtMemcpyAsync:1=506999", want: Injection{Function: "aclrtMemcpyAsync", Stream: -1, Nth: 1,
			Code: 506999}},
		{text: "aclrtMemcpyAsync:1=507000", want: Injection{Function: "aclrtMemcpyAsync", Stream: -1, Nth: 1,
			Code: 507000, Run: true}},
		{text: "acl.rt.memcpy_async@stream1:2=107000", want: Injection{Function: "aclrtMemcpyAsync", Stream: 1,
			Nth: 2, Code: 107000}},
		{text: "", bad: "=CODE"},
		{text: "aclrtMalloc", bad: "=CODE"},
		{text: "aclrtMalloc=207001", bad: ":NTH"},
		{text: "malloc:1=207001", bad: "begins with acl"},
		{text: ":1=207001", bad: "begins with acl"},
		{text: "aclrtMalloc:0=207001", bad: "number from 1"},
		{text: "aclrtMalloc:-1=207001", bad: "number from 1"},
		{text: "aclrtMalloc:=207001", bad: "number from 1"},
		{text: "aclrtMalloc:x=207001", bad: "number from 1"},
		{text: "aclrtMalloc:1=0", bad: "error code"},
		{text: "aclrtMalloc:1=", bad: "error code"},
		{text: "aclrtMalloc:1=99999999999", bad: "error code"},
		{text: "aclrtMalloc:1=207001/later", bad: "run or submit"},
		{text: "aclrtMalloc:1=207001/", bad: "run or submit"},
		{text: "aclrtMemcpyAsync@2:1=207001", bad: "@stream"},
		{text: "aclrtMemcpyAsync@stream:1=207001", bad: "@stream"},
		{text: "aclrtMemcpyAsync@stream-1:1=207001", bad: "@stream"},
		{text: "aclrtMemcpyAsync@:1=207001", bad: "@stream"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParseInjection(tt.text)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) || !strings.Contains(err.Error(),
					fmt.Sprintf("%q", tt.text)) {
					t.Fatalf("error %v, want one about %s", err, tt.bad)
				}
				return
			}
			tt.want.What = tt.text
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestParseInjections(t *testing.T) {
	list, err := ParseInjections(" aclrtMalloc:3=207001 ; ;aclrtFree:*=107000;")
	if err != nil || len(list) != 2 || list[0].What != "aclrtMalloc:3=207001" || list[1].Function != "aclrtFree" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := ParseInjections(""); err != nil || list != nil {
		t.Errorf("nothing is %v, %v", list, err)
	}
	if list, err := ParseInjections("aclrtMalloc:3=207001;free:1=1"); err == nil || list != nil {
		t.Errorf("a bad one among good ones is %v, %v", list, err)
	}
}

// FuzzParseInjection: what is accepted means the same when it is written in full.
func FuzzParseInjection(f *testing.F) {
	for _, text := range []string{"aclrtMalloc:3=207001", "aclrtMemcpyAsync@stream2:10=507013/submit",
		"acl@stream:*=1/run", "acl:1=1=1", "acl@@stream1:1=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		i, err := ParseInjection(text)
		if err != nil {
			return
		}
		if i.Stream < -1 || i.Nth < 0 || i.Code == 0 || !strings.HasPrefix(i.Function, "acl") {
			t.Fatalf("%+v", i)
		}
		full := i.Function
		if i.Stream >= 0 {
			full += fmt.Sprintf("@stream%d", i.Stream)
		}
		nth, when := fmt.Sprint(i.Nth), "submit"
		if i.Nth == 0 {
			nth = "*"
		}
		if i.Run {
			when = "run"
		}
		again, err := ParseInjection(fmt.Sprintf("%s:%s=%d/%s", full, nth, i.Code, when))
		again.What = i.What
		if err != nil || again != i {
			t.Errorf("%+v, again %+v, %v", i, again, err)
		}
	})
}

// TestFires says which calls of a row an injection makes fail.
func TestFires(t *testing.T) {
	type call struct {
		function string
		stream   int32
		run      bool
	}
	row := []call{
		{"aclrtMalloc", -1, false}, {"aclrtMemcpyAsync", 1, false}, {"aclrtMemcpyAsync", 2, false},
		{"aclrtMemcpyAsync", 2, true},
		{"aclrtMalloc", -1, false}, {"aclrtMemcpyAsync", 2, false}, {"aclrtMemcpyAsync", 1, true},
		{"aclrtMemcpyAsync", 2, true},
	}
	for text, want := range map[string]string{
		"aclrtMalloc:1=207001":                      "0",
		"aclrtMalloc:2=207001":                      "4",
		"aclrtMalloc:3=207001":                      "",
		"aclrtMalloc:*=207001":                      "04",
		"aclrtMalloc@stream1:*=207001":              "",
		"aclrtMemcpyAsync:2=107000":                 "2",
		"aclrtMemcpyAsync@stream2:2=107000":         "5",
		"aclrtMemcpyAsync:*=107000":                 "125",
		"aclrtMemcpyAsync:*=107000/run":             "367",
		"aclrtMemcpyAsync@stream2:*=507013":         "37",
		"aclrtMemcpyAsync@stream2:1=507013/submit":  "2",
		"aclrtMemcpyAsync@stream1:1=507013":         "6",
		"aclrtMemcpy:*=107000":                      "",
		"aclrtMemcpyAsyncWithCondition:1=107000":    "",
		"aclrtMemcpyAsync@stream1:2=107000/submit":  "",
		"aclrtMemcpyAsync@stream1:1=107000/submit ": "-",
	} {
		i, err := ParseInjection(text)
		if want == "-" {
			if err == nil {
				t.Errorf("%q is taken", text)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for n, c := range row {
			if i.fires(c.function, c.stream, c.run) {
				got += fmt.Sprint(n)
			}
		}
		if got != want || i.fired != len(want) {
			t.Errorf("%s: calls %q fail, want %q; counted %d", text, got, want, i.fired)
		}
	}
}

// TestInjectAtTheCall proves that calls fail as asked, by number and stream, and are counted.
func TestInjectAtTheCall(t *testing.T) {
	p := begin(t, func(o *Options) {
		var err error
		if o.Inject,
			err = ParseInjections("aclrtMalloc:2=207001;aclrtMemcpyAsync@stream1:*=107000;aclrtFree:9=1"); err != nil {
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
		if o.Inject, err = ParseInjections("aclrtMemcpyAsync@stream2:2=507013"); err != nil {
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
		if o.Inject, err = ParseInjections("aclrtLaunchHostFunc:1=507013"); err != nil {
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
