package checkrun

import (
	"strings"
	"testing"

	"ropeway/internal/finding"
	"ropeway/internal/ui"
)

// TestTold proves that a finding which the program prints itself is counted and not printed, and that it is printed if
// the program ended before it did.
func TestTold(t *testing.T) {
	for _, ended := range []bool{true, false} {
		var out strings.Builder
		s := New(Options{Schedules: 1, Rules: finding.RuleNames()}, &ui.Output{W: &out}, 0)
		s.run = &finding.Run{Seed: 1}
		s.report.Runs, s.report.Command = []*finding.Run{s.run}, []string{"./app"}
		from := s.connected(7)
		s.record(from, &finding.Record{Start: &finding.Start{Process: 7}})
		for i, rule := range []string{"leak", "misaligned"} {
			f := &finding.Finding{Rule: rule, Summary: "found " + rule, Told: i == 0}
			s.record(from, &finding.Record{Finding: f})
		}
		if ended {
			s.record(from, &finding.Record{End: &finding.End{Counts: []int{1, 1}}})
		} else {
			s.unsaid(from)
		}
		for rule, want := range map[string]int{"leak": map[bool]int{true: 0, false: 1}[ended], "misaligned": 1} {
			if n := strings.Count(out.String(), "found "+rule); n != want {
				t.Errorf("ended %t: %s was printed %d times, want %d:\n%s", ended, rule, n, want, out.String())
			}
		}
		s.Finish(nil)
		if text := out.String(); !strings.Contains(text, "leak                   1 finding, once\n") ||
			strings.Contains(text, "told") || s.report.Findings[0].Told {
			t.Errorf("ended %t: %s", ended, text)
		}
	}
}
