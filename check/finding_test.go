package check

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"ropeway/internal/finding"
)

// TestPublic: a program sees all that a finding says, as values.
func TestPublic(t *testing.T) {
	stream := int32(3)
	f := &finding.Finding{
		Rule: "stream-race", Severity: finding.Error, Summary: "two streams", Advice: "wait", Seed: 7, Process: 12,
		Count: 2, Code: 107000,
		Offence: finding.Site{Role: "write", Call: "Stream.Copy", Stream: &stream, Task: 4, Thread: 5,
			Stack: []finding.Frame{{Function: "main.main", File: "main.go", Line: 9}}},
		Others: []finding.Site{{Role: "read", Count: 12}},
		Bytes: &finding.Bytes{Address: 4096, Length: 64, Offset: -8,
			Allocation: &finding.Allocation{Kind: "device", Device: 1, Start: 4088, Size: 128, Freed: true}},
	}
	want := Finding{
		Rule: "stream-race", Severity: Error, Summary: "two streams", Advice: "wait", Seed: 7, Process: 12,
		Count: 2, Code: 107000,
		Offence: Site{"write", "Stream.Copy", 3, 4, 5, 0, []Frame{{"main.main", "main.go", 9}}},
		Others:  []Site{{Role: "read", Stream: -1, Count: 12}},
		Bytes:   &Bytes{4096, 64, -8, &Allocation{"device", 1, 4088, 128, true}},
	}
	got := public(f)
	if text := fmt.Sprint(got); !strings.HasPrefix(text, "error: stream-race: two streams") ||
		!strings.Contains(text, "main.go:9") {
		t.Errorf("printed as %s", text)
	}
	got.text = ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
