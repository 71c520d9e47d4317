package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/timeline"
)

// TestProgram: a page says whose run it shows, also where the run is compressed; what is no report says so.
func TestProgram(t *testing.T) {
	want := []string{"python3", "</script>.py", "ü"}
	short := &timeline.Run{Program: want}
	long := &timeline.Run{Program: want}
	for i := range plainLimit / 20 {
		long.Notes = append(long.Notes, fmt.Sprintf("note number %08d", i))
	}
	for _, run := range []*timeline.Run{short, long} {
		if got, err := Program(write(t, run)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v", got, err)
		}
	}
	for _, text := range []string{
		"", "<html></html>", `<script id="data">`, `<script id="data"></script>`, `<script id="data">[]</script>`,
		`<script type="application/gzip;base64" id="data">x</script>`, `<script id="data">{"version":1}</script>`,
		string(page),
	} {
		if got, err := Program([]byte(text)); !errors.Is(err, ErrNoReport) {
			t.Errorf("%q: %q, %v", text[:min(len(text), 60)], got, err)
		}
	}
	cut := write(t, long)
	if _, err := Program([]byte(strings.Replace(string(cut), `base64" id="data">`, `base64" id="data">!`,
		1))); !errors.Is(err, ErrNoReport) {
		t.Error(err)
	}
}
