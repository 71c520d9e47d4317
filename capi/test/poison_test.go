package capitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestPoison proves what docs/c.md says of AddressSanitizer and pinned memory: accesses past its end, before its
// start and after aclrtFreeHost are found to the byte, with their line, also under the checker; and programs that
// stay within it are left alone.
func TestPoison(t *testing.T) {
	if testDriver != "" {
		t.Skipf("pinned memory of the driver %s is not poisoned", testDriver)
	}
	program := compile(t, []string{"poison.c"}, "-fsanitize=address")
	text, err := os.ReadFile("testdata/poison.c")
	testenv.OK(t, err)
	lines := strings.Split(string(text), "\n")
	checked := []string{filepath.Join(toolkit(t), "bin", "ropeway"), "check"}
	for _, tt := range []struct {
		before []string // of the command line
		size   string
		modes  string
	}{
		{nil, "1", "right reads_behind"},
		{nil, "1000", "right writes_behind reads_behind writes_far reads_before writes_far_before copies freed"},
		{nil, "4096", "right writes_behind reads_behind reads_before"},
		{nil, "100000", "right"},
		{checked, "1000", "right writes_behind freed"},
	} {
		for _, mode := range strings.Fields(tt.modes) {
			t.Run(fmt.Sprintf("%s %s, checked %v", mode, tt.size, tt.before != nil), func(t *testing.T) {
				t.Parallel()
				command := append(append([]string{}, tt.before...), program, mode, tt.size)
				r := run(t, nil, command[0], command[1:]...)
				if mode == "right" {
					if r.code != 0 {
						t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
					}
					return
				}
				line := 1
				for line < len(lines) && !strings.HasSuffix(lines[line-1], "// "+mode) {
					line++
				}
				here := fmt.Sprintf("poison.c:%d", line)
				found := strings.Contains(r.stderr, "AddressSanitizer: use-after-poison")
				if r.code == 0 || !found || !strings.Contains(r.stderr, here) {
					t.Errorf("exit code %d, and not found in line %d\n%s%s", r.code, line, r.stdout, r.stderr)
				}
			})
		}
	}
}
