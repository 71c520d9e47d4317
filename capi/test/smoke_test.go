package capitest

import (
	"strings"
	"testing"
)

func TestSmoke(t *testing.T) {
	passes(t, nil, compile(t, []string{"smoke.c"}))
}

// TestWait: time that runs out leaves no trace, everything else is as with the function that waits for ever.
func TestWait(t *testing.T) {
	passes(t, nil, compile(t, []string{"wait.c"}))
}

// TestUnbuilt: a function that is not built checks its arguments, and says once on standard error what it is.
func TestUnbuilt(t *testing.T) {
	r := run(t, nil, compile(t, []string{"unbuilt.c"}))
	if r.code != 0 || strings.Count(r.stderr, "aclrtSnapShotProcessLock is not built yet") != 1 ||
		strings.Count(r.stderr, "\n") != 2 {
		t.Errorf("exit code %d:\n%s", r.code, r.stderr)
	}
}
