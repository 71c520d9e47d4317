package hostqueue

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestBug proves that a queue which breaks an invariant ends the process, even if a deferred function waits for its
// lock.
func TestBug(t *testing.T) {
	if os.Getenv("ROPEWAY_TEST_BUG") != "" {
		var q Queue
		q.Mu.q = &q
		q.Mu.Lock()
		defer q.Mu.Lock()
		q.completed = 1
		q.Mu.Unlock()
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestBug$")
	cmd.Env = append(os.Environ(), "ROPEWAY_TEST_BUG=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "BUG: a queue is Rest, but its counters are out of order") {
		t.Errorf("%v\n%s", err, out)
	}
}
