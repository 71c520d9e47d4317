package capitest

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestCheckHard: libc, handlers and system calls that touch memory which is complete, or beside memory in flight, work
// under the checker as they do without, and it finds nothing.
func TestCheckHard(t *testing.T) {
	program := compile(t, []string{"check_break.c"})
	for _, mode := range []string{"registered", "masked", "ticking", "beside", "several", "submitted"} {
		t.Run(mode, func(t *testing.T) {
			r, report := check(t, nil, program, mode)
			if r.code != 0 || len(report.Findings) != 0 {
				t.Fatalf("exit code %d, %d findings\n%s%s", r.code, len(report.Findings), r.stdout, r.stderr)
			}
		})
	}
}

// TestCheckHardWrong: what reads memory in flight in these ways is found, and still works.
func TestCheckHardWrong(t *testing.T) {
	program := compile(t, []string{"check_break.c"})
	for _, mode := range []string{"wrong_length", "wrong_copy", "wrong_stdio"} {
		t.Run(mode, func(t *testing.T) {
			r, report := check(t, nil, program, mode)
			if r.code != 86 || len(report.Findings) != 1 || report.Findings[0].Rule != "host-read-in-flight" {
				t.Fatalf("exit code %d, %d findings, want one host-read-in-flight\n%s%s", r.code, len(report.Findings),
					r.stdout, r.stderr)
			}
		})
	}
}

// TestCheckOtherTools: ThreadSanitizer and valgrind handle signals in their own way. The program runs all the same,
// without closed memory, and the summary says so.
func TestCheckOtherTools(t *testing.T) {
	testenv.Long(t, "valgrind is slow")
	says := func(t *testing.T, tool string, command ...string) {
		r, report := check(t, nil, command...)
		if r.code != 0 || len(report.Findings) != 0 || !strings.Contains(r.stderr, "runs under "+tool) {
			t.Fatalf("exit code %d, %d findings, want a note about %s\n%s%s", r.code, len(report.Findings), tool,
				r.stdout, r.stderr)
		}
	}
	t.Run("ThreadSanitizer", func(t *testing.T) {
		testenv.Need(t, "setarch")
		says(t, "ThreadSanitizer", "setarch", "-R", compile(t, []string{"check_break.c"}, "-fsanitize=thread"),
			"registered")
	})
	t.Run("valgrind", func(t *testing.T) {
		testenv.Need(t, "valgrind")
		// Its search for leaks reads, and so fills, all memory that a device could ever use.
		says(t, "valgrind", "valgrind", "-q", "--leak-check=no", compile(t, []string{"check_break.c"}), "registered")
	})
}
