package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/report"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
)

// TestReportName: files are named after what a command runs, not after its interpreter.
func TestReportName(t *testing.T) {
	for command, want := range map[string]string{
		"./prog":                              "prog",
		"/opt/app/prog x.py":                  "prog",
		"./serve.py --port 1":                 "serve",
		"python3 serve.py --port 1":           "serve",
		"/usr/bin/python3.11 -u a/serve.py x": "serve",
		"python3 -X dev -W error -O serve.py": "serve",
		"python3 -m pkg.serve -x":             "pkg.serve",
		"python3 -c code x":                   "python3",
		"python3 - x":                         "python3",
		"python3":                             "python3",
		"python3 -- -odd.py":                  "-odd",
		"bash -e run.sh":                      "run",
		"bash -o pipefail run.sh":             "run",
		"perl -e code x.pl":                   "perl",
		"sh -c ./prog":                        "sh",
		"python3-config x":                    "python3-config",
		"./.py":                               ".py",
	} {
		if got := reportName(strings.Fields(command)); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// TestUnusedNames: without --output a report is replaced, and no other file, no link.
func TestUnusedNames(t *testing.T) {
	t.Chdir(t.TempDir())
	page := func(name string) {
		t.Helper()
		var text bytes.Buffer
		testenv.OK(t, report.Write(&text, &timeline.Run{}, ""))
		write(t, name, text.String(), 0o644)
	}
	is := func(want string) {
		t.Helper()
		names, err := unusedNames("serve")
		if err != nil || !slices.Equal(names, []string{want + ".html", want + ".trace.json.gz"}) {
			t.Errorf("%v, %v, want %s", names, err, want)
		}
	}
	is("serve")
	page("serve.html")
	is("serve")
	write(t, "serve.trace.json.gz", "", 0o644)
	is("serve")
	write(t, "serve.html", "<p>something else</p>", 0o644)
	is("serve-2")
	write(t, "serve-2.html", "<p>something else</p>", 0o644)
	is("serve-3")
	page("kept.html")
	testenv.OK(t, os.Symlink("kept.html", "serve-3.html"))
	is("serve-4")
	testenv.OK(t, os.Symlink(filepath.Join(t.TempDir(), "nowhere"), "serve-4.trace.json.gz"))
	is("serve-5")
}
