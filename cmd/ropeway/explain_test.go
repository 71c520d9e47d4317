package main

import (
	"slices"
	"strings"
	"testing"

	"ropeway/internal/explain"
	"ropeway/internal/finding"
	"ropeway/internal/testenv"
	"ropeway/internal/ui"
)

// TestExplain proves that the text has what is to be known, for each kind of name.
func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"107002", []string{"107002 ACL_ERROR_RT_CONTEXT_NULL  0x1A1FA", "layer       Runtime: caller errors (107xxx)",
			"what to do  Call aclrtSetDevice", "threads inherit nothing",
			"RETURNED BY", "  aclrtMemcpy\n    no-context: the calling thread has no current context",
			"--all shows them"}},
		{"0x1A1FA", []string{"107002 ACL_ERROR_RT_CONTEXT_NULL"}},
		{"rt_context_null --all", []string{"  aclrtSynchronizeStream\n"}},
		{"207000", []string{"that are not built yet"}},
		{"0", []string{"0 ACL_SUCCESS", "also        ACL_ERROR_NONE, ACL_RT_SUCCESS"}},
		{"507910", []string{"RETURNED BY 2 FUNCTIONS"}},
		{"545000", []string{"Graph engine: internal errors", "No function of this runtime returns it"}},
		{"aclrtMemcpyAsync", []string{"aclError aclrtMemcpyAsync(\n      void* dst,\n", "      aclrtStream stream);",
			"acl/acl_rt.h", "built       yes",
			"Python      acl.rt.memcpy_async(", "   100000  dst-null: dst is NULL", "CODES",
			"107017  ACL_ERROR_RT_INVALID_HANDLE", "NOTES", "[not here yet: needs devices with UB links]",
			"[ropeway: "}},
		{"aclrtMemcpyBatch", []string{"yes: 950 A2 A3; no: 310 310B 310P 910", "[never reached: sizes-null: "}},
		{"aclrtMemcpyAsyncWithCondition", []string{"yes, and deprecated", "instead     aclrtMemcpyAsync"}},
		{"aclopStopDumpArgs", []string{"  aclError aclopStopDumpArgs(uint32_t dumpType);", "no, since ropeway is",
			"207000, or NULL", "not offered by pyACL"}},
		{"aclrtSnapShotCallbackRegister", []string{"not yet: it makes 3 of the checks below, up to callback-null,"}},
		{"ACL_MEMCPY_HOST_TO_DEVICE", []string{"aclrtMemcpyKind", "enum, 4 bytes", "> ACL_MEMCPY_HOST_TO_DEVICE",
			"  ACL_MEMCPY_DEVICE_TO_HOST", "USED BY", "aclrtMemcpy"}},
		{"aclrtMemLocation", []string{"struct, 8 bytes", "OFFSET", "        4      4  aclrtMemLocationType type"}},
		{"aclrtStream", []string{"handle, 8 bytes", "declared", "USED BY"}},
		{"aclmdlLoadFromFile", []string{"aclmdlLoadFromFile  is not part of the runtime", "belongs to  the model layer",
			"the runtime alone", "what to do  "}},
		{"aclnnAdd", []string{"the operator library"}},
		{"aclopExecuteV2", []string{"the operator layer"}},
		{"acldvppCreateChannel", []string{"media processing"}},
		{"halMemAlloc", []string{"the driver (libascend_hal.so)", "Use the function of AscendCL"}},
		{"HcclAllReduce", []string{"collective communication"}},
		{"acl.mdl.execute", []string{"acl.mdl.execute  is not part of the runtime", "the model layer"}},
		{"acl.op", []string{"the operator layer"}},
		{"acl.media", []string{"media processing"}},
		{"aclmdlInitDump", []string{"aclError aclmdlInitDump(", "belongs to dump"}}, // headers declare it
		{"ACL_EVENT_TIME_LINE", []string{"macro", "acl/acl_rt.h"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			text := good(t, append([]string{"explain"}, strings.Fields(tt.args)...)...)
			plain(t, text)
			contains(t, text, tt.want...)
		})
	}
	if short, long := good(t, "explain", "107002"), good(t, "explain", "107002", "--all"); strings.Contains(long,
		"--all") || len(long) <= len(short) {
		t.Error("--all leaves something out")
	}
}

// TestExplainUnknown proves that what comes near is suggested, with exit code 1.
func TestExplainUnknown(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"aclrtMemcpyAsinc", "did you mean aclrtMemcpyAsync"},
		{"aclmdlRICaptureBegn", "did you mean aclmdlRICaptureBegin"},
		{"107999", "there is no code 107999; its range is Runtime: caller errors (107xxx)"},
		{"xyzzy", "see ropeway explain --help"},
	} {
		stdout, stderr, code := call(t, "explain", tt.name)
		if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", tt.name, code, stdout, stderr)
		}
		contains(t, stderr, tt.want)
	}
}

func TestExplainJSON(t *testing.T) {
	var a explain.Answer
	parse(t, good(t, "explain", "--json", "107002"), &a)
	if a.Code == nil || a.Code.Number != 107002 || a.Code.Do == "" || len(a.Code.Answers) <= fewFunctions ||
		a.Function != nil || a.Type != nil {
		t.Errorf("%+v", a)
	}
	a = explain.Answer{}
	parse(t, good(t, "explain", "--json", "acl.rt.memcpy_async"), &a)
	if a.Function == nil || a.Function.Name != "aclrtMemcpyAsync" || len(a.Function.Rules) != 24 ||
		len(a.Function.Products) != 7 {
		t.Errorf("%+v", a)
	}
}

// TestExplainEverything writes every entry there is and expects lines that fit.
func TestExplainEverything(t *testing.T) {
	book, err := explain.Open()
	testenv.OK(t, err)
	for _, name := range book.Names() {
		answer, err := book.Find(name)
		testenv.OK(t, err)
		var b strings.Builder
		w := &explanation{newPage(&ui.Output{W: &b}), true}
		w.answer(answer)
		plain(t, b.String())
		if t.Failed() {
			t.Fatalf("%s:\n%s", name, b.String())
		}
	}
}

// TestPage proves that text follows the width of the terminal, within reason.
func TestPage(t *testing.T) {
	text := strings.Repeat("word ", 60)
	for _, tt := range []struct{ terminal, least, most int }{{10, 30, 40}, {60, 50, 60}, {80, 70, 80}, {300, 90, 100}} {
		var b strings.Builder
		p := newPage(&ui.Output{W: &b, Width: func() int { return tt.terminal }})
		p.item("label", text)
		longest := 0
		for _, line := range strings.Split(b.String(), "\n") {
			longest = max(longest, len(line))
		}
		if longest < tt.least || longest > tt.most {
			t.Errorf("%d columns: the longest line has %d", tt.terminal, longest)
		}
	}
}

// TestExplainRule: a rule of the checker is explained, by its name as the checker prints it.
func TestExplainRule(t *testing.T) {
	for _, rule := range finding.Rules {
		out, stderr, code := call(t, "explain", rule.Name)
		if code != 0 || stderr != "" || !strings.HasPrefix(out, rule.Name+"\n") {
			t.Errorf("%s: exit code %d, %q, %q", rule.Name, code, stderr, out)
		}
		text := strings.Join(strings.Fields(out), " ")
		for _, part := range []string{string(rule.Severity), rule.Catches, strings.Join(strings.Fields(rule.Advice),
			" "), "docs/check.md#" + rule.Name} {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not say %q:\n%s", rule.Name, part, out)
			}
		}
	}
}

// TestExplainOutside: functions of other parts that headers declare are explained, and what to do without them.
func TestExplainOutside(t *testing.T) {
	out, _, code := call(t, "explain", "acltdtCreateChannel")
	for _, part := range []string{"header acl/acl_tdt.h", "built no, since ropeway is the runtime alone",
		"It belongs to data channels and queues", "what to do Copy data"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), part) {
			t.Errorf("exit code %d, not %q: %s", code, part, out)
		}
	}
}

// TestExplainOlder: names below the API that are built are explained, with the function that does the same.
func TestExplainOlder(t *testing.T) {
	out, stderr, code := call(t, "explain", "rtMalloc")
	for _, part := range []string{"rtError_t rtMalloc( void** devPtr,", "header runtime/mem.h",
		"equals aclrtMallocAlign32, whose checks follow", "built yes", "devPtr is NULL"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), part) {
			t.Errorf("exit code %d, %q, not %q: %s", code, stderr, part, out)
		}
	}
	out, _, code = call(t, "explain", "rtEnableP2P")
	if code != 0 || strings.Contains(out, "equals") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// TestExplainNearRule: a rule that is misspelt is suggested.
func TestExplainNearRule(t *testing.T) {
	_, stderr, code := call(t, "explain", "streamrace")
	if code != 1 || !strings.Contains(stderr, "did you mean stream-race?") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestCompleteNames: the shell completes codes by their numbers, and rules.
func TestCompleteNames(t *testing.T) {
	for word, want := range map[string]string{"1070": "107002", "stream-": "stream-race",
		"aclrtMemcpyAs": "aclrtMemcpyAsync"} {
		if got, _ := completeNames(nil, nil, word); !slices.ContainsFunc(got, func(s string) bool {
			name, _, _ := strings.Cut(s, "\t")
			return name == want
		}) {
			t.Errorf("%s completes to %v, not to %s", word, got, want)
		}
	}
}

// TestExplainRuleNearly: a rule of the checker is suggested for names that are nearly its own.
func TestExplainRuleNearly(t *testing.T) {
	for _, name := range []string{"streamrace", "stream_race", "Stream-Races"} {
		_, stderr, code := call(t, "explain", name)
		if code != exitFailed || !strings.Contains(stderr, "or rule") || !strings.Contains(stderr, "mean stream-race") {
			t.Errorf("%s: exit code %d, %q", name, code, stderr)
		}
	}
}
