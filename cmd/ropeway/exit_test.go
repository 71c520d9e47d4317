package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// TestExitCodes: each code that is documented has a call that ends with it, and each call ends with one that is.
func TestExitCodes(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	testenv.OK(t, os.WriteFile(text, []byte("no program"), 0o644))
	interrupt, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted(syscall.SIGTERM))
	// A program's own, findings and what is slower have tests of their own.
	seen := map[string]bool{"others": true, strconv.Itoa(exitFindings): true}
	for _, tt := range []struct {
		ctx       context.Context
		args      string
		code      int
		documents string
	}{
		{nil, "version", exitOK, "0"},
		{nil, "help exit-codes", exitOK, "0"},
		{nil, "explain no_such_name", exitFailed, "1"},
		{nil, "version extra", exitUsage, "2"},
		{nil, "run", exitUsage, "2"},
		{nil, "check", exitUsage, "2"},
		{nil, "run " + text, exitCannotRun, "126"},
		{nil, "check " + text, exitCannotRun, "126"},
		{nil, "run no-such-program-anywhere", exitNotFound, "127"},
		{nil, "check " + text + "-not", exitNotFound, "127"},
		{nil, "check /bin/true", exitNothing, "85"},
		{interrupt, "demo --quick", 128 + 15, "128+N"},
	} {
		if tt.ctx == nil {
			tt.ctx = t.Context()
		}
		home := checkedToolkit(t)
		stdout, stderr, code := callWith(tt.ctx, map[string]string{"PATH": os.Getenv("PATH"), "ROPEWAY_HOME": home},
			strings.Fields(tt.args)...)
		if code != tt.code {
			t.Errorf("%s: exit code %d, not %d: %s%s", tt.args, code, tt.code, stdout, stderr)
		}
		seen[tt.documents] = true
	}
	for _, m := range exitMeanings {
		if !seen[m.code] {
			t.Errorf("%s is documented, but nothing here ends with it", m.code)
		}
	}
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitNothing, exitFindings, exitCannotRun,
		exitNotFound} {
		if !strings.Contains(exitText(), "\n  "+strconv.Itoa(code)+" ") {
			t.Errorf("%d is not documented", code)
		}
	}
}
