package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

const root = "../../.."

// TestNotice: NOTICE is complete: it has every module that is linked, and every script of the page, with its licence.
func TestNotice(t *testing.T) {
	if err := run(root, true); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(root + "/NOTICE")
	testenv.OK(t, err)
	for _, want := range []string{
		// Some of each kind, and texts.
		"github.com/spf13/cobra", "golang.org/x/sys", "uplot", "d3-array",
		"Copyright 2009 The Go Authors", "Permission is hereby granted", "TERMS AND CONDITIONS FOR USE",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("NOTICE does not have %q", want)
		}
	}
}

// TestVulnerabilities: what a database names fails vulnerabilities.sh; one that gives no answer does not, and
// is said.
func TestVulnerabilities(t *testing.T) {
	for _, tt := range []struct {
		goSays, npmSays string
		goCode, npmCode int
		fails           bool
		wants           string
	}{
		{"No vulnerabilities found.", "found 0 vulnerabilities", 0, 0, false, "npm packages: nothing is known"},
		{"dial tcp: lookup x: no such host", "npm error audit endpoint returned an error", 1, 1, false,
			"npm packages: not asked: npm error"},
		{"Vulnerability #1: GO-1 (after 403 Forbidden)", "found 0 vulnerabilities", 3, 0, true, "Vulnerability #1"},
		{"No vulnerabilities found.", "1 high severity vulnerability", 0, 1, true, "1 high severity"},
	} {
		dir := t.TempDir()
		for name, says := range map[string]string{
			"go":  fmt.Sprintf("echo '%s'; exit %d", tt.goSays, tt.goCode),
			"npm": fmt.Sprintf("echo '%s'; exit %d", tt.npmSays, tt.npmCode),
		} {
			testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+says+"\n"), 0o755))
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools/packaging/vulnerabilities.sh"))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GO="+filepath.Join(dir, "go"))
		out, err := cmd.CombinedOutput()
		if (err != nil) != tt.fails || !strings.Contains(string(out), tt.wants) {
			t.Errorf("%q and %q: %v\n%s", tt.goSays, tt.npmSays, err, out)
		}
	}
}
