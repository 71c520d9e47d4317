package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/observe"
	"ropeway/internal/testenv"
	"ropeway/internal/timeline"
	"ropeway/internal/ui"
)

// TestWhole: a file is replaced when the new one is complete, and stays as it is when that fails; links stay links.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "run.html"), filepath.Join(dir, "link.html")
	put := func(text string, err error) func(string) error {
		return func(name string) error {
			if filepath.Ext(name) != ".html" {
				t.Errorf("%s has another ending", name)
			}
			return errors.Join(os.WriteFile(name, []byte(text), 0o666), err)
		}
	}
	is := func(want string) {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil || string(b) != want {
			t.Errorf("%q, %v", b, err)
		}
		if list, _ := os.ReadDir(dir); len(list) > 2 {
			t.Errorf("left behind: %v", list)
		}
	}
	if err := whole(name, true, put("first", nil)); err != nil {
		t.Error(err)
	}
	is("first")
	if err := whole(name, true, put("half", errors.New("no room"))); err == nil {
		t.Error("no error")
	}
	is("first")
	testenv.OK(t, os.Symlink("run.html", link))
	if err := whole(link, true, put("second", nil)); err != nil {
		t.Error(err)
	}
	is("second")
	if to, err := os.Readlink(link); to != "run.html" {
		t.Error(to, err)
	}
	if err := whole(link, false, put("third", nil)); err != nil {
		t.Error(err)
	}
	is("second")
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Errorf("a link that nobody named was followed: %v, %v", info, err)
	}
}

// TestWholeBesideLinks: the file that becomes the page is never one that another user has made.
func TestWholeBesideLinks(t *testing.T) {
	dir := t.TempDir()
	name, victim := filepath.Join(dir, "run.html"), filepath.Join(dir, "victim")
	part, err := unusedPart(name)
	testenv.OK(t, err)
	for _, err := range []error{os.Remove(part), os.WriteFile(victim, []byte("mine"), 0o666),
		os.Symlink(victim, part)} {
		testenv.OK(t, err)
	}
	if err := whole(name, false, func(name string) error {
		return os.WriteFile(name, []byte("page"),
			0o666)
	}); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{name: "page", victim: "mine"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v, want %q", file, text, err, want)
		}
	}
}

// TestTracePipe: a pipe as output is not opened before there is something to write.
func TestTracePipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe.html")
	testenv.OK(t, syscall.Mkfifo(name, 0o666))
	files := traceFiles{{name: name}}
	if err := files.prove(); err != nil {
		t.Error(err)
	}
	files.discard()
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}

// TestTraceFromNowhere: a directory that is not there is reported as such.
func TestTraceFromNowhere(t *testing.T) {
	_, stderr, code := call(t, "trace", "--from", filepath.Join(t.TempDir(), "nowhere"))
	if code != 1 || !strings.Contains(stderr, "there is no directory") {
		t.Errorf("%d: %s", code, stderr)
	}
}

// TestKernelLines: the terminal shows the kernels that took longest, and how many there are besides.
func TestKernelLines(t *testing.T) {
	run := &timeline.Run{Tasks: []timeline.Task{{Kind: observe.Copy, End: 1}}}
	if lines := kernelLines(run); len(lines) != 0 {
		t.Errorf("without kernels: %q", lines)
	}
	for i, name := range []string{"a", "b", "a", "c", "d", "e", "f"} {
		run.Tasks = append(run.Tasks, timeline.Task{Kind: observe.Kernel, Kernel: name, Segments: 8, Start: 1000,
			End: 1000 + int64(10-i)*1000000})
	}
	want := []string{"kernel a: 2 x, 16 blocks, 18.00 ms in all", "kernel b: 1 x, 8 blocks, 9.00 ms in all",
		"kernel c: 1 x, 8 blocks, 7.00 ms in all", "kernel d: 1 x, 8 blocks, 6.00 ms in all",
		"kernel e: 1 x, 8 blocks, 5.00 ms in all", "and 1 other kernel"}
	if lines := kernelLines(run); !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
	run.Tasks[1].Kernel = "fused_attention_with_rotary_embedding"
	var text strings.Builder
	sayRun(&ui.Output{W: &text, Width: func() int { return 60 }}, run)
	for line := range strings.Lines(text.String()) {
		if len(line) > 61 {
			t.Errorf("on 60 columns there is the line %q", line)
		}
	}
}
