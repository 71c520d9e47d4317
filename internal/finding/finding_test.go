package finding

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file in testdata; go test -update writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		testenv.OK(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	testenv.OK(t, err)
	if string(want) != text {
		t.Errorf("%s differs (go test ./internal/finding -update writes it anew):\n%s", file, text)
	}
}

// sample returns a report with every kind of field filled in.
func sample() *Report {
	stream, other := int32(2), int32(0)
	main := Frame{Function: "main", File: "/src/app/main.cc", Line: 90, Module: "/opt/app/bin/app", Address: 0x401000}
	list := []*Finding{
		{
			Rule: "host-read-in-flight", Severity: Error, Summary: "The host reads 4 bytes that aclrtMemcpyAsync on " +
				"stream 2 has yet to write.",
			Offence: Site{Role: "read", Thread: 4242, Stack: []Frame{
				{Function: "ring::Buffer<int, 4>::front() const", File: "/src/app/ring.h", Line: 33,
					Module: "/opt/app/bin/app", Address: 0x401200, Inlined: true}, main}},
			Others: []Site{
				{Role: "submitted", Call: "aclrtMemcpyAsync(dst=0x7f0000000040, destMax=64, src=0x120000000000, " +
					"count=64, kind=ACL_MEMCPY_DEVICE_TO_HOST)",
					Stream: &stream, Task: 17, Thread: 4243,
					Stack: []Frame{{Function: "load", File: "/src/app/load file.cc", Line: 30,
						Module: "/opt/app/lib/libload.so"}, main}},
				{Role: "allocated", Call: "aclrtMallocHost(size=4096)", Thread: 4242,
					Stack: []Frame{{Address: 0x7fff0010, Module: "/opt/app/lib/libstripped.so"}, main}},
			},
			Bytes: &Bytes{Address: 0x7f0000000040, Length: 4, Offset: 64, Allocation: &Allocation{Kind: "pinned",
				Start: 0x7f0000000000, Size: 4096}},
			Advice: ByName("host-read-in-flight").Advice, Process: 4242, Count: 14,
		},
		{
			Rule: "misaligned", Severity: Warning, Summary: "The destination of the copy is not a multiple of 64.",
			Offence: Site{Role: "submitted", Call: "acl.rt.memcpy_async(…)", Stream: &other, Task: 1,
				Stack: []Frame{{Function: "step", File: "/usr/lib/python3/model <a&b>.py", Line: 7}}},
			Bytes: &Bytes{Address: 0x120000000001, Length: 1, Offset: 1, Allocation: &Allocation{Kind: "device",
				Device: 3, Start: 0x120000000000, Size: 1 << 20, Freed: true}},
			Advice: "Align it.", Count: 1,
		},
		{
			Rule: "leak", Severity: Error, Summary: "64 bytes are never freed.", Offence: Site{Role: "ended"},
			Advice: "Free them.", Process: 4242, Count: 1,
			Bytes: &Bytes{Address: 0x10, Length: 64},
		},
	}
	r := &Report{Version: "v1.2.3", Command: []string{"./app", "--fast"}, Started: time.Date(2026, 1, 2, 3, 4, 5, 0,
		time.UTC), Seconds: 1.5, Rules: RuleNames(), FailOn: Error, ExitCode: 86,
		Runs: []*Run{
			{Seed: 7, Findings: 2, Processes: []*Process{{ID: 4242, Command: []string{"./app"}, Tasks: 10,
				Calls: 20, Ended: true}}},
			{Seed: 8, ExitCode: 139, Signal: "SIGSEGV", Processes: []*Process{}}},
		Notes:    []Note{{"registered memory is compared with a snapshot", 2}},
		Injected: []Shot{{What: "aclrtMalloc:3=207001", Times: 1, Calls: 3, Able: 3, Armed: 1}},
		Unused:   []string{"[old] known:3"}, Hidden: 1, Replay: "ropeway check --seed 7 -- ./app --fast"}
	var fold Fold
	for _, f := range list {
		fold.Add(f, 7)
	}
	fold.Entries[2].Suppressed = "we know"
	r.Findings = fold.Entries
	return r
}

// marks is a style with readable marks.
type marks struct{}

func (marks) Bold(s string) string { return "<b>" + s + "</b>" }
func (marks) Dim(s string) string  { return "<dim>" + s + "</dim>" }
func (marks) Bad(s string) string  { return "<bad>" + s + "</bad>" }

// TestText proves the text of findings: plain, below a directory, marked and broken into lines.
func TestText(t *testing.T) {
	for name, l := range map[string]Layout{"plain": {}, "below": {Dir: "/src/app"}, "marked": {Style: marks{},
		Width: 60, Dir: "/src"}} {
		var all []string
		for _, e := range sample().Findings {
			all = append(all, l.Text(&e.Finding))
		}
		golden(t, name+".txt", strings.Join(all, "\n"))
	}
}

// TestTextWidth proves that sentences fit the width if their words do, and that nothing is lost.
func TestTextWidth(t *testing.T) {
	f := &Finding{Rule: "leak", Severity: Error, Summary: strings.Repeat("word ", 50), Offence: Site{Role: "ended"},
		Advice: strings.Repeat("do ", 60)}
	for width := 30; width < 120; width++ {
		text := Layout{Width: width}.Text(f)
		for _, line := range strings.Split(text, "\n") {
			if len(line) > width || strings.TrimRight(line, " ") != line {
				t.Fatalf("width %d: %q", width, line)
			}
		}
		if strings.Count(text, "word") != 50 || strings.Count(text, "do") != 61 {
			t.Fatalf("width %d: words are missing:\n%s", width, text)
		}
	}
}

// TestTextIsPrintable proves that names chosen by a program cannot send control characters to the terminal.
func TestTextIsPrintable(t *testing.T) {
	evil := "\x1b[2J\n\r\x00\x9b1m\xff\u2028"
	text := Layout{}.Text(&Finding{Rule: evil, Summary: evil, Advice: evil, Offence: Site{Role: evil, Call: evil,
		Stack: []Frame{{Function: evil, File: evil, Module: evil}}}})
	if lines := strings.Count(text, "\n"); lines != 6 || strings.ContainsAny(text, "\x1b\r\x00\u009b") {
		t.Errorf("%d lines: %q", lines, text)
	}
}

// TestKey proves which findings have equal keys: stacks and the rule count, values that differ from run to run do not.
func TestKey(t *testing.T) {
	base := func() *Finding { return &sample().Findings[0].Finding }
	for _, tt := range []struct {
		name        string
		change      func(*Finding)
		key, finger bool // the text is unchanged
	}{
		{"nothing", func(*Finding) {}, true, true},
		{"addresses",
			func(f *Finding) { f.Bytes.Address++; f.Offence.Stack[0].Address++; f.Others[1].Stack[0].Address++ }, true,
			true},
		{"thread, stream, task", func(f *Finding) { f.Offence.Thread++; *f.Others[0].Stream++; f.Others[0].Task++ },
			true, true},
		{"arguments", func(f *Finding) { f.Others[0].Call = "aclrtMemcpyAsync(dst=1)" }, true, true},
		{"seed, process, count, summary", func(f *Finding) { f.Seed++; f.Process++; f.Count++; f.Summary = "x" }, true,
			true},
		{"where libraries are", func(f *Finding) { f.Others[1].Stack[0].Module = "/else/libstripped.so" }, true, true},
		{"line", func(f *Finding) { f.Offence.Stack[0].Line++ }, false, true},
		{"line of another", func(f *Finding) { f.Others[0].Stack[0].Line++ }, false, true},
		{"directory", func(f *Finding) { f.Offence.Stack[0].File = "/elsewhere/ring.h" }, false, true},
		{"rule", func(f *Finding) { f.Rule = "leak" }, false, false},
		{"function", func(f *Finding) { f.Offence.Stack[0].Function = "g" }, false, false},
		{"depth", func(f *Finding) { f.Offence.Stack = f.Offence.Stack[:1] }, false, false},
		{"call", func(f *Finding) { f.Others[0].Call = "aclrtMemcpy(dst=1)" }, false, false},
		{"role", func(f *Finding) { f.Offence.Role = "written" }, false, false},
		{"others", func(f *Finding) { f.Others = f.Others[:1] }, false, false},
		{"stripped library", func(f *Finding) { f.Others[1].Stack[0].Module = "other.so" }, false, false},
	} {
		f := base()
		tt.change(f)
		if got := f.Key() == base().Key(); got != tt.key {
			t.Errorf("%s: same key is %t", tt.name, got)
		}
		if got := f.Fingerprint() == base().Fingerprint(); got != tt.finger {
			t.Errorf("%s: same fingerprint is %t", tt.name, got)
		}
	}
}

// TestFold proves counts, seeds and order, and that omitted fields are filled in.
func TestFold(t *testing.T) {
	var fold Fold
	for _, seed := range []uint64{3, 3, 4} {
		e, isNew := fold.Add(&Finding{Rule: "misaligned", Offence: Site{Role: "read"}}, seed)
		if isNew != (len(e.Seeds) == 1 && e.Count == 1) || e.Severity != Warning || e.Advice == "" ||
			e.Summary == "" || e.Seed != 3 {
			t.Errorf("seed %d: %+v, %t", seed, e, isNew)
		}
	}
	fold.Add(&Finding{Rule: "no-rule-of-ours"}, 4)
	if len(fold.Entries) != 2 || fold.Entries[0].Count != 3 || !reflect.DeepEqual(fold.Entries[0].Seeds,
		[]uint64{3, 4}) || fold.Entries[1].Severity != Error {
		t.Errorf("%+v", fold.Entries)
	}
}

// TestJSON proves that a report and a record are unchanged by writing and reading.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	testenv.OK(t, sample().WriteJSON(&b))
	golden(t, "report.json", b.String())
	r, err := ReadJSON(&b)
	if err != nil || !reflect.DeepEqual(r, sample()) {
		t.Errorf("%v: %+v", err, r)
	}
	for _, record := range []Record{{Start: &Start{1, []string{"a"}, 1 << 63, 3}},
		{Finding: &sample().Findings[0].Finding}, {Note: "x"}, {Fired: &Shot{What: "a", Times: 1}},
		{Unclosed: &sample().Findings[0].Finding}, {End: &End{[]int{1}, 2, 3, []Shot{{What: "a", Times: 1}}}}} {
		line, err := json.Marshal(record)
		var again Record
		if err != nil || bytes.Contains(line, []byte("\n")) || json.Unmarshal(line, &again) != nil ||
			!reflect.DeepEqual(record, again) {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// TestRules proves that names are unique and usable in flags, and that each rule has all its texts.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules {
		if seen[r.Name] || strings.Trim(r.Name, "abcdefghijklmnopqrstuvwxyz-") != "" || r.Catches == "" ||
			!strings.HasSuffix(r.Advice, ".") || r.Severity != Error && r.Severity != Warning {
			t.Errorf("%+v", r)
		}
		seen[r.Name] = true
		if Near(r.Name+"s") != r.Name || Near(r.Name[1:]) == "" {
			t.Errorf("%s is not near what looks like it", r.Name)
		}
	}
	for name, want := range map[string]string{"": "", "qqq": "", "uninitialized-read": "uninitialised-read",
		"host-read": "host-read-in-flight", "race": "stream-race"} {
		if got := Near(name); got != want {
			t.Errorf("near %q is %q, want %q", name, got, want)
		}
	}
}

// TestSeverity proves which severities fail a check.
func TestSeverity(t *testing.T) {
	for _, tt := range []struct {
		is, least Severity
		want      bool
	}{{Error, Error, true}, {Error, Warning, true}, {Warning, Warning, true}, {Warning, Error, false},
		{Error, "", false}, {Warning, "", false}} {
		if got := tt.is.AtLeast(tt.least); got != tt.want {
			t.Errorf("%s with %q: %t", tt.is, tt.least, got)
		}
	}
}

// TestKeyOfLibraries proves that a mistake carried out by the C library is one finding, wherever in the library it
// happens, and that the program's own lines tell findings apart.
func TestKeyOfLibraries(t *testing.T) {
	libc := func(function string) Frame { return Frame{Function: function, Module: "/lib/libc.so.6"} }
	app := func(line int) Frame { return Frame{Function: "load", File: "/src/app.c", Line: line, Module: "app"} }
	key := func(stack ...Frame) string {
		f := Finding{Rule: "host-read-in-flight", Offence: Site{Role: "read", Stack: stack}}
		return f.Key()
	}
	one := key(libc("__memcpy_avx_unaligned"), app(3))
	for _, tt := range []struct {
		name  string
		stack []Frame
		same  bool
	}{
		{"another variant", []Frame{libc("__memcpy_avx_unaligned_erms"), app(3)}, true},
		{"deeper in the library", []Frame{libc("msort"), libc("qsort"), app(3)}, true},
		{"another line", []Frame{libc("__memcpy_avx_unaligned"), app(4)}, false},
		{"no library", []Frame{app(3)}, false},
		{"called back by the library", []Frame{libc("memcpy"), app(9), libc("qsort"), app(3)}, false},
	} {
		if got := key(tt.stack...) == one; got != tt.same {
			t.Errorf("%s: the same is %t", tt.name, got)
		}
	}
}

// TestJSONWithoutFindings proves that a report without findings has an empty list of them.
func TestJSONWithoutFindings(t *testing.T) {
	var b strings.Builder
	if err := (&Report{}).WriteJSON(&b); err != nil || !strings.Contains(b.String(), `"findings": []`) {
		t.Error(err, b.String())
	}
}
