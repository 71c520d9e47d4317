package capitest

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// vanishBuilds are how the program about memory that goes is built. Sanitizers have allocators of their own.
func vanishBuilds(t *testing.T) map[string]string {
	t.Helper()
	const source = "check_vanish.c"
	builds := map[string]string{"plain": compile(t, []string{source})}
	if !testing.Short() {
		builds["AddressSanitizer"] = compile(t, []string{source}, "-fsanitize=address")
	}
	return builds
}

// TestCheckVanishRight: memory goes after it was unregistered, or lies beside registered memory: nothing is found,
// and everything works as without the checker.
func TestCheckVanishRight(t *testing.T) {
	for build, program := range vanishBuilds(t) {
		for _, mode := range []string{"order", "neighbours", "parts", "forked", "threads"} {
			t.Run(build+"/"+mode, func(t *testing.T) {
				r, report := check(t, nil, program, mode)
				if r.code != 0 || len(report.Findings) != 0 {
					t.Fatalf("exit code %d, %d findings\n%s%s", r.code, len(report.Findings), r.stdout, r.stderr)
				}
			})
		}
	}
}

// TestCheckVanishWrong: memory that goes while it is registered is found, once, with the call, and the program goes
// on.
func TestCheckVanishWrong(t *testing.T) {
	modes := []struct{ name, word, call string }{
		{"wrong_free", "freed", "free"},
		{"wrong_small", "freed", "free"},
		{"wrong_realloc", "reallocated", "realloc"},
		{"wrong_reallocarray", "reallocated", "realloc"},
		{"wrong_munmap", "unmapped", "munmap"},
		{"wrong_mremap", "moved", "mremap"},
		{"wrong_shrink", "unmapped", "munmap"},
		{"wrong_mmap", "mapped over", "mmap"},
		{"wrong_target", "mapped over", "mmap"},
	}
	for build, program := range vanishBuilds(t) {
		for _, m := range modes {
			for how, why := range map[string]string{
				"flight": " that a pending aclrtMemcpyAsync (task 1 of stream 1) may still read",
				"known":  " before it was unregistered: devices may still use it",
			} {
				t.Run(build+"/"+m.name+"/"+how, func(t *testing.T) {
					r, report := check(t, nil, program, m.name, how)
					if r.code != 86 || len(report.Findings) != 1 {
						t.Fatalf("exit code %d, %d findings, want one\n%s%s", r.code, len(report.Findings),
							r.stdout, r.stderr)
					}
					f := report.Findings[0]
					call, _, _ := strings.Cut(f.Offence.Call, "(")
					if f.Rule != "free-in-flight" || f.Summary != "registered memory is "+m.word+why || call != m.call {
						t.Errorf("%s: %s by %s", f.Rule, f.Summary, call)
					}
					if frame := ownFrame(f.Offence.Stack, "check_vanish.c"); frame == nil || frame.Function != m.name {
						t.Errorf("the stack does not begin in %s: %s", m.name, siteText(&f.Offence))
					}
				})
			}
		}
	}
}

// TestCheckVanishRaces: with ThreadSanitizer, which watches the same functions, the program runs as without the
// checker.
func TestCheckVanishRaces(t *testing.T) {
	testenv.Long(t, "ThreadSanitizer is slow")
	testenv.Need(t, "setarch")
	program := compile(t, []string{"check_vanish.c"}, "-fsanitize=thread")
	for _, mode := range []string{"order", "parts", "threads"} {
		r, report := check(t, nil, "setarch", "-R", program, mode)
		if r.code != 0 || len(report.Findings) != 0 {
			t.Errorf("%s: exit code %d, %d findings\n%s%s", mode, r.code, len(report.Findings), r.stdout, r.stderr)
		}
	}
}

// TestCheckThreadsRaces: with ThreadSanitizer, threads that have called the API can end: nothing is locked in a way
// that it watches when it has forgotten the thread.
func TestCheckThreadsRaces(t *testing.T) {
	testenv.Long(t, "ThreadSanitizer is slow")
	testenv.Need(t, "setarch")
	program := compile(t, []string{"check/worker_without_device.cpp"}, "-DFIXED", "-fsanitize=thread")
	r, report := check(t, nil, "setarch", "-R", program)
	if r.code != 0 || len(report.Findings) != 0 {
		t.Errorf("exit code %d, %d findings\n%s%s", r.code, len(report.Findings), r.stdout, r.stderr)
	}
}
