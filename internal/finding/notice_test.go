package finding

import (
	"strings"
	"testing"
)

// TestNotices: a note is less severe than a warning and is written as a note; findings with different codes differ.
func TestNotices(t *testing.T) {
	order := []Severity{Notice, Warning, Error}
	for i, s := range order {
		for k, least := range order {
			if s.AtLeast(least) != (i >= k) {
				t.Errorf("%s is as bad as %s: %v", s, least, i < k)
			}
		}
		if s.AtLeast("") {
			t.Errorf("%s reaches the empty severity", s)
		}
	}
	var fold Fold
	for _, code := range []int32{107000, 107000, 207001} {
		fold.Add(&Finding{Rule: "api-error", Severity: Notice, Summary: "it failed", Code: code}, 1)
	}
	if len(fold.Entries) != 2 || fold.Entries[0].Count != 2 || fold.Entries[0].Severity != Notice {
		t.Fatalf("%d entries", len(fold.Entries))
	}
	if fold.Entries[0].Aside() || !fold.Entries[1].Aside() {
		t.Error("a limit is shown only for programs that fail, another code of all")
	}
	var b strings.Builder
	if err := (&Report{Findings: fold.Entries[:1]}).WriteGitHub(&b, Layout{}); err != nil ||
		!strings.HasPrefix(b.String(), "::notice title=") {
		t.Errorf("%q %v", b.String(), err)
	}
}
