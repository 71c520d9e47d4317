package capitest

import (
	"strings"
	"testing"
)

// TestFork proves that a child forked before the first call works, that one forked after it is refused at once with a
// reason why, and that nothing hangs in between.
func TestFork(t *testing.T) {
	program := compile(t, []string{"fork.c"})
	for _, tt := range []struct {
		mode    string
		refused int // children that are refused; -1: depends on the race
	}{
		{"before", 0},
		{"after", 20},
		{"thread", 1},
		{"callback", 1},
		{"race", -1},
		{"spawned", 0},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			r := run(t, nil, program, tt.mode)
			if r.code != 0 {
				t.Fatalf("exit code %d, signal %v\n%s%s", r.code, r.signal, r.stdout, r.stderr)
			}
			t.Log(r.stdout)
			lines := strings.Count(r.stderr, "\n")
			if refused := strings.Count(r.stderr,
				"this process was forked from one that had already used AscendCL"); refused != lines ||
				tt.refused >= 0 && refused != tt.refused {
				t.Errorf("%d of %d lines say why a child is refused, want %d\n%s", refused, lines, tt.refused, r.stderr)
			}
		})
	}
}
