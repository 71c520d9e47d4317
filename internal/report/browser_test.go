package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

const web = "../../web/report" // the source of the page

// TestPageComesFromItsSource builds the page again and compares.
func TestPageComesFromItsSource(t *testing.T) {
	testenv.Long(t, "it builds the page")
	testenv.Need(t, "node")
	needModules(t)
	npm(t, "run", "--silent", "check")
}

// TestPageInBrowser uses the page in Chromium, the way people do.
func TestPageInBrowser(t *testing.T) {
	testenv.Long(t, "it takes a minute")
	testenv.Need(t, "node")
	testenv.Need(t, "chromium")
	needModules(t)
	npm(t, "test")
}

// npm runs it where the page's source is. The time is only for one that hangs.
func npm(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = web
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("npm %v: %v\n%s", args, err, out)
	}
	t.Logf("%s", out)
}

// needModules wants what package-lock.json names to be there; nothing is fetched by a test.
func needModules(t *testing.T) {
	t.Helper()
	testenv.Need(t, "npm")
	if _, err := os.Stat(filepath.Join(web, "node_modules", ".package-lock.json")); err == nil {
		return
	}
	testenv.Missing(t, "web/report/node_modules is missing: run npm ci in web/report")
}
