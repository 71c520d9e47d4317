package finding

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestGitHub: a finding is one line that names its file and line, whatever its text has; suppressed findings have no
// line.
func TestGitHub(t *testing.T) {
	at := func(role, file string, line int) Site {
		return Site{Role: role, Stack: []Frame{{Function: "memcpy", Module: "libc.so.6"}, {Function: "load",
			File: file, Line: line}}}
	}
	r := &Report{Findings: []*Entry{
		{Finding: Finding{Rule: "stream-race", Severity: Error, Summary: "100% of it\nraces: a, b",
			Advice:  "Record an event.",
			Offence: at("run", "/src/a,b/app.c", 30), Others: []Site{at("submitted", "/src/app.c", 12),
				{Role: "allocated"}}}},
		{Finding: Finding{Rule: "leak", Severity: Warning, Summary: "s"}, Suppressed: "known"},
		{Finding: Finding{Rule: "misaligned", Severity: Warning, Summary: "nowhere"}},
	}}
	var b strings.Builder
	testenv.OK(t, r.WriteGitHub(&b, Layout{Dir: "/src"}))
	want := "::error file=a%2Cb/app.c,line=30,title=ropeway%3A stream-race::100%25 of it?races: a, b%0Asubmitted: " +
		"app.c:12 in load%0ARecord an event.\n" +
		"::warning title=ropeway%3A misaligned::nowhere\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

// TestSiteCounts: a site that stands for many calls gives their number, in every form.
func TestSiteCounts(t *testing.T) {
	made := Site{Role: "made", Count: 12, Call: "aclrtCreateStream(stream=0x1)",
		Stack: []Frame{{File: "app.c", Line: 3}}}
	r := &Report{Findings: []*Entry{{Finding: Finding{Rule: "streams-used-up", Others: []Site{made}}}}}
	var b strings.Builder
	if err := r.WriteGitHub(&b, Layout{}); err != nil || !strings.Contains(b.String(), "made 12 times: app.c:3") {
		t.Errorf("for GitHub: %v, %s", err, b.String())
	}
	if text := (Layout{}).Text(&r.Findings[0].Finding); !strings.Contains(text, "\n  made 12 times\n") {
		t.Errorf("as text: %s", text)
	}
	if title := made.title(); title != "made 12 times: aclrtCreateStream(stream=0x1)" {
		t.Errorf("in SARIF: %s", title)
	}
}
