package capitest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/finding"
)

// TestCheckAPIErrors: a call that failed is a warning if the program drops its code, whatever the compiler makes of
// that, a note if the program has the code, and nothing if the program only tries what there is. What follows from a
// failed call names it.
func TestCheckAPIErrors(t *testing.T) {
	const null = `^warning: api-error: aclrtMemset returned 100000 \(ACL_ERROR_INVALID_PARAM\), and the program does not look at the code: devPtr: is NULL$`
	const seen = `^note: api-error: aclrtMemset returned 100000 \(ACL_ERROR_INVALID_PARAM\), and the program got the code: devPtr: is NULL$`
	for _, tt := range []struct {
		mode    string
		options string
		code    int
		times   int      // of the first finding
		want    []string // severity, rule and summary, a pattern for each finding
		names   string   // the role and the call of another place that the last one names
	}{
		{mode: "dropped", code: 86, times: 1, want: []string{null}},
		{mode: "dropped_at_the_end_of_a_function", code: 86, times: 1, want: []string{null}},
		{mode: "dropped_by_the_caller", code: 86, times: 1, want: []string{null}},
		{mode: "dropped_in_a_loop", code: 86, times: 5, want: []string{null}},
		{mode: "ignored_on_purpose"},
		{mode: "cleanup", times: 1,
			want: []string{`^note: api-error: aclrtFree returned 100000 .* does not look at the code: devPtr: is NULL$`}},
		{mode: "tested", times: 1, want: []string{seen, seen}},
		{mode: "stored", times: 1, want: []string{seen}},
		{mode: "stored", options: "--fail-on note", code: 86, times: 1, want: []string{seen}},
		{mode: "dropped", options: "--no-rule api-error"},
		{mode: "as_much_as_there_is"},
		{mode: "probe"},
		{mode: "then_null", code: 86, times: 1, names: "failed aclrtMalloc", want: []string{
			`^warning: api-error: aclrtMalloc returned 207001 .* does not look at the code: size: 1 PiB wanted`,
			`^warning: api-error: aclrtMemcpy returned 100000 .*: dst: is NULL; aclrtMalloc had failed before with 207001$`}},
		{mode: "then_unwritten", code: 86, times: 1, names: "failed aclrtMemcpy", want: []string{
			`^warning: api-error: aclrtMemcpy returned 100000 `,
			`^warning: uninitialised-read: 4096 bytes .* were never written; aclrtMemcpy, which was to write there, had failed before with 100000$`}},
		{mode: "then_crash", code: 128 + 11, times: 1, want: []string{
			`^note: api-error: aclrtMallocHost returned 207001 .* the program got the code: `}},
		{mode: "task", options: "--inject aclrtMemcpyAsync:1=507013", code: 86, times: 1,
			names: "submitted aclrtMemcpyAsync", want: []string{
				`^warning: api-error: aclrtSynchronizeStream returned 507013 .* does not look at the code`}},
		{mode: "dropped_in_a_loop", options: "--inject aclrtMemset:1=207001", code: 86, times: 1, want: []string{
			`^warning: api-error: aclrtMemset returned 207001 .*injected`, null}},
	} {
		for _, level := range []string{"-O0", "-O2"} {
			t.Run(strings.TrimSpace(tt.mode+" "+tt.options)+" "+level, func(t *testing.T) {
				t.Parallel()
				program := compile(t, []string{"api_errors.c"}, level)
				r, report := check(t, strings.Fields(tt.options), program, tt.mode)
				var got []string
				for _, e := range report.Findings {
					got = append(got, fmt.Sprintf("%s: %s: %s", e.Severity, e.Rule, e.Summary))
				}
				if r.code != tt.code || !slices.EqualFunc(got, tt.want,
					func(text, pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) }) {
					t.Fatalf("exit code %d, findings\n%s\nwant %d and\n%s\n%s", r.code, strings.Join(got, "\n"),
						tt.code, strings.Join(tt.want, "\n"), r.stderr)
				}
				for i, e := range report.Findings {
					if i == 0 && e.Count != tt.times {
						t.Errorf("counted %d times, want %d", e.Count, tt.times)
					}
					if f := ownFrame(e.Offence.Stack, "api_errors.c"); f == nil || f.Line == 0 ||
						e.Rule == "api-error" && e.Code == 0 {
						t.Errorf("no line, or no code %d:\n%s", e.Code, finding.Layout{}.Text(&e.Finding))
					}
				}
				if tt.names == "" {
					return
				}
				last := report.Findings[len(report.Findings)-1]
				if !slices.ContainsFunc(last.Others, func(s finding.Site) bool {
					return strings.HasPrefix(s.Role+" "+
						s.Call, tt.names+"(")
				}) {
					t.Errorf("%s is not named:\n%s", tt.names, finding.Layout{}.Text(&last.Finding))
				}
			})
		}
	}
}
