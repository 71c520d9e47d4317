package capitest

import (
	"os"
	"path/filepath"
	"testing"

	"ropeway/internal/testenv"
)

// TestReportInBrowser: what "ropeway trace" writes of examples/c's program with two streams shows, in a browser, the
// bars, arrows and advice that web/report/tests/two_streams.test.ts wants to see.
func TestReportInBrowser(t *testing.T) {
	testenv.Long(t, "it uses a browser")
	for _, tool := range []string{"node", "chromium"} {
		testenv.Need(t, tool)
	}
	web := filepath.Join(root, "web/report")
	if _, err := os.Stat(filepath.Join(web, "node_modules")); err != nil {
		testenv.Missing(t, "web/report/node_modules is missing: run npm ci in web/report")
	}
	program := compile(t, []string{"../../../examples/c/two_streams.c"}, "-I../../examples/c")
	report := filepath.Join(t.TempDir(), "two_streams.html")
	if r := run(t, nil, filepath.Join(toolkit(t), "bin", "ropeway"), "trace", "-o", report, "--",
		program); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	command(t, web, []string{"REPORT=" + report}, "node", "--import", "tsx", "--test", "tests/two_streams.test.ts")
}
