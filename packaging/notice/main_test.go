package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestNotice: NOTICE is complete: it has every module that is linked, and every script of the page, with its licence.
func TestNotice(t *testing.T) {
	if err := run(root, true); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(root + "/NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		// Some of each kind, and texts.
		"github.com/spf13/cobra", "golang.org/x/sys", "uplot", "d3-array", "github.com/alecthomas/chroma/v2",
		"Copyright 2009 The Go Authors", "Permission is hereby granted", "TERMS AND CONDITIONS FOR USE",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("NOTICE does not have %q", want)
		}
	}
}

// TestIdentify: licences are distinguished, two in one file are both named, and one that is not known is an error.
func TestIdentify(t *testing.T) {
	for _, tt := range [][2]string{
		{"Apache License\n   Version 2.0", "Apache-2.0"},
		{"Permission is hereby granted, free\nof charge", "MIT"},
		{"Redistributions in binary form must reproduce … Neither the name of X", "BSD-3-Clause"},
		{"Redistributions in binary form must reproduce", "BSD-2-Clause"},
		{"Permission is hereby granted, free of charge … Licensed under the Apache License, Version 2.0",
			"Apache-2.0 AND MIT"},
		{"Do what you want", ""},
	} {
		got, err := identify(part{name: "x", files: []file{{"LICENSE", tt[0]}}})
		if got != tt[1] || (err == nil) != (tt[1] != "") {
			t.Errorf("%q: %q, %v; want %q", tt[0], got, err, tt[1])
		}
	}
}

// TestVulnerabilities: what a database names fails packaging/vulnerabilities.sh; one that gives no answer does not, and
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
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+says+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "packaging/vulnerabilities.sh"))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GO="+filepath.Join(dir, "go"))
		out, err := cmd.CombinedOutput()
		if (err != nil) != tt.fails || !strings.Contains(string(out), tt.wants) {
			t.Errorf("%q and %q: %v\n%s", tt.goSays, tt.npmSays, err, out)
		}
	}
}
