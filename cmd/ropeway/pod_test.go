package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/pod"
	"ropeway/internal/testenv"
)

// TestRunPod proves that --pod runs a program once for each server, with its number and a pod file that can be read,
// prefixes its lines, and leaves nothing behind.
func TestRunPod(t *testing.T) {
	testenv.Need(t, "sh")
	root, temp := fakeToolkit(t), t.TempDir()
	vars := []string{"TMPDIR=" + temp}
	script := `echo "$ROPEWAY_POD_SERVER $RANK of $WORLD_SIZE on $ROPEWAY_PRODUCT"; test -r "$ROPEWAY_POD" && printf 'no end' >&2`
	out, errs, code := outcome(t, program(t, root, vars, "run", "--pod", "3", "sh", "-c", script))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if code != 0 || !slices.Equal(lines, []string{"[0] 0 0 of 3 on A3", "[1] 1 1 of 3 on A3", "[2] 2 2 of 3 on A3"}) {
		t.Errorf("exit code %d, output %q", code, out)
	}
	lines = strings.Split(strings.TrimSpace(errs), "\n")
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"[0] no end", "[1] no end", "[2] no end"}) {
		t.Errorf("standard error %q", errs)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	out, _, _ = outcome(t, program(t, root, append(vars, "ROPEWAY_PRODUCT=A2"), "run", "--pod", "1", "sh", "-c",
		`echo "$ROPEWAY_PRODUCT"`))
	if out != "[0] A2\n" {
		t.Errorf("a product that was asked for became %q", out)
	}
}

// TestRunPodFails proves that the exit code is that of the first server that failed.
func TestRunPodFails(t *testing.T) {
	testenv.Need(t, "sh")
	root := fakeToolkit(t)
	for script, want := range map[string]int{
		`test "$RANK" = 0 || exit 7`:                 7,
		`test "$RANK" = 0 || kill -TERM $$`:          143,
		`test "$RANK" = 1 || exit 0; exit 3`:         3,
		`cat >/dev/null; echo "$RANK" is at its end`: 0,
	} {
		if out, errs, code := outcome(t, program(t, root, nil, "run", "--pod", "2", "sh", "-c", script)); code != want {
			t.Errorf("%s: exit code %d, want %d: %s%s", script, code, want, out, errs)
		}
	}
	for _, n := range []string{"0", "-1", "1024", "x"} {
		if _, _, code := outcome(t, program(t, root, nil, "run", "--pod", n, "sh")); code != exitUsage {
			t.Errorf("--pod %s: exit code %d", n, code)
		}
	}
}

// TestPodInit proves that what init and demo write can be read, and that nothing is overwritten.
func TestPodInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mypod")
	out := good(t, "pod", "init", dir, "10.1.2.3", "10.1.2.4")
	if !strings.Contains(out, filepath.Join(dir, "pod.yaml")) {
		t.Errorf("said %q", out)
	}
	c, err := pod.Read(filepath.Join(dir, "pod.yaml"), "1")
	if err != nil || len(c.Servers) != 2 || c.Me().Address.String() != "10.1.2.4" {
		t.Errorf("read %+v, %v", c, err)
	}
	t.Chdir(t.TempDir())
	out = good(t, "pod", "init", "mypod", "10.1.2.3")
	if !strings.Contains(out, "export ROPEWAY_POD=$PWD/mypod/pod.yaml ") {
		t.Errorf("a relative directory would be lost with cd: %s", out)
	}
	if _, _, code := call(t, "pod", "init", dir, "10.1.2.3"); code == 0 {
		t.Error("a key was overwritten")
	}
	for _, args := range [][]string{{"init"}, {"init", dir}, {"init", filepath.Join(dir, "x"), "host"},
		{"init", filepath.Join(dir, "x"), "0.0.0.0"}, {"demo", "x", "y"}, {}, {"start"}} {
		if _, _, code := call(t, append([]string{"pod"}, args...)...); code != exitUsage {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
	demo := filepath.Join(t.TempDir(), "demo")
	out = good(t, "pod", "demo", demo)
	if !strings.Contains(out, "ROPEWAY_POD_SERVER=1") {
		t.Errorf("said %q", out)
	}
	if c, err = pod.Read(filepath.Join(demo, "pod.yaml"), "0"); err != nil || len(c.Servers) != 2 {
		t.Errorf("read %+v, %v", c, err)
	}
}

// TestRunPodNamespaces proves that servers have networks of their own, which go with them, where that is allowed, and
// run in one elsewhere, which is said.
func TestRunPodNamespaces(t *testing.T) {
	testenv.Need(t, "sh")
	root := fakeToolkit(t)
	const all = "/run/netns/ropeway-*"
	before, err := filepath.Glob(all)
	if err != nil {
		t.Fatal(err)
	}
	script := `test "$RANK" = 0 || exit 5; echo "$ROPEWAY_POD_ADDRESSES"; ls /sys/class/net`
	out, errs, code := outcome(t, program(t, root, nil, "run", "--pod", "2", "--namespaces", "sh", "-c", script))
	if code != 5 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	if strings.Contains(errs, "no namespaces") {
		if !strings.Contains(out, "127.0.0.1,127.0.0.1\n") {
			t.Errorf("without namespaces: %q", out)
		}
		t.Skip(errs)
	}
	if !strings.Contains(out, "10.77.0.1,10.77.0.2\n") || !strings.Contains(out, "[0] "+podDevice+"\n") {
		t.Errorf("in namespaces: %q", out)
	}
	left, _ := filepath.Glob(all)
	for _, name := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), "ropeway-"), "-")
		if _, gone := os.Stat("/proc/" + pid); gone != nil && !slices.Contains(before, name) {
			t.Errorf("%s is left behind", name)
		}
	}
	if _, _, code := outcome(t, program(t, root, nil, "run", "--namespaces", "sh")); code != exitUsage {
		t.Errorf("--namespaces without --pod: exit code %d", code)
	}
}
