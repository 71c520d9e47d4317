package capitest

import (
	"path/filepath"
	"strings"
	"testing"
)

// memoryExamples are the programs of examples/c that map, share and wait for memory, or run models, and all that they
// print.
var memoryExamples = map[string][]string{
	"growing_buffer": {
		"The buffer grew 4 times, by 2097152 bytes each, and its address never changed.",
		"One copy read all of it back, across the pieces.",
	},
	"graph": {
		"129 copies and 4 events are one model.",
		"It ran 1000 times, and every result is right.",
	},
	"pool": {
		"100 buffers of 2097152 bytes came from the pool, which allocated only 2097152 from the device.",
		"All of it was freed.",
	},
	"share": {
		"The second process read the 2097152 bytes that the first had written.",
		"It changed every byte, and the first process sees the change.",
	},
	"notify": {
		"The stream of the first process waits for the notify.",
		"The second process has copied, and recorded the notify.",
		"All 2097152 bytes were there when the waiting copy ran.",
	},
}

// TestMemoryExamples builds them with their Makefile and runs each, also with launch blocking, which must change
// nothing that a program can see; but a stream that waits for another process would block the one that starts it.
func TestMemoryExamples(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	dir := copyTree(t, "examples/c")
	home := []string{"ASCEND_HOME_PATH=" + kit, "LD_LIBRARY_PATH=" + kit + "/lib64"}
	command(t, dir, home, "make")
	for name, lines := range memoryExamples {
		for _, env := range [][]string{nil, {"ASCEND_LAUNCH_BLOCKING=1"}} {
			if name == "notify" && env != nil {
				continue
			}
			if got, want := passes(t, append(env, home...), filepath.Join(dir, name)), strings.Join(lines, "\n")+
				"\n"; got != want {
				t.Errorf("%s %v prints\n%swant\n%s", name, env, got, want)
			}
		}
	}

	// They do nothing wrong.
	for name := range memoryExamples {
		r := run(t, home, filepath.Join(kit, "bin", "ropeway"), "check", filepath.Join(dir, name))
		if r.code != 0 || !strings.Contains(r.stdout+r.stderr, "no findings") {
			t.Errorf("checked, %s ends with %d:\n%s%s", name, r.code, r.stdout, r.stderr)
		}
	}

	// On a product without the feature the program says which call failed, with which code and why.
	r := run(t, append(home, "ROPEWAY_PRODUCT=950"), filepath.Join(dir, "pool"))
	if r.code != 1 || !strings.Contains(r.stderr, "aclrtMemPoolCreate") || !strings.Contains(r.stderr, "error 207000") {
		t.Errorf("pool on a product without pools: exit code %d\n%s", r.code, r.stderr)
	}
}
