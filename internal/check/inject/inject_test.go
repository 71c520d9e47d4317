package inject

import (
	"fmt"
	"strings"
	"testing"
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

// FuzzParseInjection: accepted text means the same when it is written in full.
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

// TestFires proves which calls of a series an injection makes fail.
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
			if i.Fires(c.function, c.stream, c.run) {
				got += fmt.Sprint(n)
			}
		}
		if shot := i.Shot(); got != want || shot.Armed != len(want) || shot.Times != 0 {
			t.Errorf("%s: calls %q fail, want %q; counted %+v", text, got, want, shot)
		}
	}
}
