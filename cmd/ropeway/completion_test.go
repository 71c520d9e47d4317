package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestCompletePrograms: what runs a program offers what PATH has, then leaves files to the shell, and offers no flag of
// its own after the program.
func TestCompletePrograms(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"xprogram": 0o755, "xtext": 0o644, "another": 0o755} {
		write(t, filepath.Join(dir, name), "", mode)
	}
	testenv.OK(t, os.Mkdir(filepath.Join(dir, "xdirectory"), 0o755))
	path := dir + string(filepath.ListSeparator) + dir + string(filepath.ListSeparator) + "nowhere"
	for _, command := range []string{"run", "check"} {
		for _, tt := range []struct{ words, want string }{
			{"x", "xprogram\n:0\n"},
			{"-- x", "xprogram\n:0\n"},
			{"--devices 2 x", "xprogram\n:0\n"},
			{"./x", ":0\n"},
			{"xprogram x", ":0\n"},
			{"xprogram --prod", ":0\n"},
			{"-- xprogram --prod", ":0\n"},
		} {
			args := append([]string{"__complete", command}, strings.Fields(tt.words)...)
			stdout, _, code := callWith(t.Context(), map[string]string{"PATH": path}, args...)
			if code != exitOK || stdout != tt.want {
				t.Errorf("%s %s: %q, exit code %d", command, tt.words, stdout, code)
			}
		}
	}
}

// TestCompletionText: what a shell shows beside a flag or a number is plain text.
func TestCompletionText(t *testing.T) {
	ask := func(args ...string) string {
		stdout, _, _ := call(t, append([]string{"__complete"}, args...)...) // cobra says more on stderr
		return stdout
	}
	text := ask("run", "--")
	contains(t, text, "--product\tname: 310", "--visible\tlist of the devices")
	if strings.Contains(text, "`") {
		t.Errorf("marks are left:\n%s", text)
	}
	contains(t, ask("explain", "10700"), "107002\tACL_ERROR_RT_CONTEXT_NULL\n")
	contains(t, ask("explain", "stream-r"), "stream-race\ttwo tasks")
	contains(t, ask("explain", "aclrtMemcpyAsy"), "aclrtMemcpyAsync\n")
}

// TestShells: bash completes with the script, and zsh and fish can read theirs.
func TestShells(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	testenv.OK(t, err)
	write(t, filepath.Join(dir, "ropeway"), "#!/bin/sh\n"+asProgram+"=1 exec "+exe+" \"$@\"\n", 0o755)
	script := func(shell string) string {
		return write(t, filepath.Join(dir, "completion."+shell), good(t, "completion", shell), 0o644)
	}
	t.Run("bash", func(t *testing.T) {
		testenv.Need(t, "bash")
		// What Tab does: the function that complete names, with the line so far. The package bash-completion, which may
		// not be installed, has a function that takes the line apart.
		const tab = `
			_get_comp_words_by_ref() { cur=ne prev=--fail-on words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
			. "$1"
			COMP_WORDS=(ropeway check --fail-on ne) COMP_CWORD=3 COMP_LINE='ropeway check --fail-on ne' COMP_POINT=${#COMP_LINE}
			complete -p ropeway
			__start_ropeway ropeway ne --fail-on
			echo "${COMPREPLY[@]}"`
		cmd := exec.Command("bash", "--norc", "-c", tab, "bash", script("bash"))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "\nnever\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("zsh", func(t *testing.T) {
		testenv.Need(t, "zsh")
		if out, err := exec.Command("zsh", "-n", script("zsh")).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("fish", func(t *testing.T) {
		testenv.Need(t, "fish")
		ask := ". " + script("fish") + `; complete -C "ropeway check --fail-on ne"`
		cmd := exec.Command("fish", "--no-config", "-c", ask)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "never") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}
