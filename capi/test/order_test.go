package capitest

import (
	"strings"
	"testing"
)

// TestOrder: the thread sanitizer knows what AscendCL orders, and nothing more.
func TestOrder(t *testing.T) {
	program := compile(t, []string{"order.c"}, "-fsanitize=thread")
	if out := sanitizedRun(t, nil, program, "ordered"); out.code != 0 {
		t.Errorf("what is ordered: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	if out := sanitizedRun(t, nil, program, "race"); out.code == 0 || !strings.Contains(out.stderr, "data race") {
		t.Errorf("what is not ordered: exit code %d\n%s%s", out.code, out.stdout, out.stderr)
	}
}
