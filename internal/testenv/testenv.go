// Package testenv tells tests what the machine they run on has.
package testenv

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// CI tells whether the tests run where everything they need must be installed: CI=true is in the environment.
func CI() bool { return os.Getenv("CI") == "true" }

// Need skips the test if tool is not in PATH, and fails it in CI: a test that never runs there proves nothing.
func Need(t testing.TB, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err == nil {
		return
	}
	if CI() {
		t.Fatalf("%s is not installed; with CI=true it has to be: add its package to .ci/run", tool)
	}
	t.Skipf("%s is not installed", tool)
}

// Soak is how long a soak test runs: SOAK in the environment, as "make soak" sets it. Without it the test is skipped.
func Soak(t testing.TB) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		t.Skip("runs with make soak")
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("SOAK=%q is no time like 10m", text)
	}
	return d
}
