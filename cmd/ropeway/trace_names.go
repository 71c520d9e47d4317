package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ropeway/internal/readfile"
	"ropeway/internal/report"
)

// interpreter matches programs whose first argument that is no option is what they run.
var interpreter = regexp.MustCompile(`^(python|pypy|perl|ruby|node|bash|dash|ksh|sh|zsh)[0-9.]*$`)

// takesNext are options of these whose value is the next argument.
var takesNext = []string{"-X", "-W", "-O", "-o", "--check-hash-based-pycs", "-I", "-r", "--require"}

// subject is what a command runs: the script or the module of an interpreter, or the program itself.
func subject(command []string) string {
	if len(command) == 0 {
		return ""
	}
	program := command[0]
	if !interpreter.MatchString(filepath.Base(program)) {
		return program
	}
	python, shell := strings.HasPrefix(filepath.Base(program), "py"), strings.HasSuffix(filepath.Base(program), "sh")
	for i := 1; i < len(command); i++ {
		switch arg := command[i]; {
		case arg == "--" && i+1 < len(command):
			return command[i+1]
		case arg == "-m" && python && i+1 < len(command):
			return command[i+1]
		case arg == "-" || arg == "-c" || arg == "-e" && !shell:
			return program
		case slices.Contains(takesNext, arg) && (!python || arg != "-O" && arg != "-I"):
			i++
		case !strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "+"):
			return arg
		}
	}
	return program
}

// reportName is what files about a command are called.
func reportName(command []string) string {
	name := filepath.Base(filepath.Clean(subject(command)))
	for _, ending := range []string{".py", ".sh"} {
		if short := strings.TrimSuffix(name, ending); short != "" {
			name = short
		}
	}
	return name
}

// mostNames bounds how many names are tried.
const mostNames = 1000

// unusedNames are the names of the two files that are written where none are given: base and their endings, or base-2
// and so on. A report that is there is replaced; anything else is left alone, links above all.
func unusedNames(base string) ([]string, error) {
	for n := 1; n <= mostNames; n++ {
		name := base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		page, other := name+".html", name+".trace.json.gz"
		_, noPage := os.Lstat(page)
		info, noOther := os.Lstat(other)
		if errors.Is(noPage, os.ErrNotExist) && errors.Is(noOther, os.ErrNotExist) ||
			isReport(page) && (noOther != nil || info.Mode().IsRegular()) {
			return []string{page, other}, nil
		}
	}
	return nil, &failure{err: fmt.Errorf("there are %d files named after %s here", mostNames, base),
		next: "choose another name: --output FILE"}
}

// isReport reports whether a file is a report of ours, and no link.
func isReport(page string) bool {
	if info, err := os.Lstat(page); err != nil || !info.Mode().IsRegular() {
		return false
	}
	text, err := readfile.Regular(page, 1<<30)
	return err == nil && report.Wrote(text)
}
