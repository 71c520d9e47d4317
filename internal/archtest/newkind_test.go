package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestNewKindOfOperation adds a kind of operation, a copy that ends in reverse, to a copy of three files, and runs it
// on the software device: on a queue, in a program between copies that depend on it, and in a trace. The checker, pods
// and models learn from [driver.Op] what it touches. A GPU's driver refuses it until it has a case in two more files.
func TestNewKindOfOperation(t *testing.T) {
	edits := map[string][]string{ // pairs of what is replaced and by what
		"internal/driver/op.go": {
			"	OpProgram\n)", "	OpProgram\n	OpReverse // N bytes from Src to Dst, the last one first\n)",
			"OpProgram: Runs,", "OpProgram: Runs, OpReverse: Moves,",
			"	case OpCopy:\n		_ = give(", "	case OpCopy, OpReverse:\n		_ = give(",
		},
		"internal/driver/soft/exec.go": {
			"	case driver.OpBatch:\n		return d.batch(",
			`	case driver.OpReverse:
		dst, err := d.resolve(op.Dst, op.N, pageable)
		if err != nil {
			return err
		}
		src, err := d.resolve(op.Src, op.N, pageable)
		if err != nil {
			return err
		}
		for i := range op.N {
			bytesAt(dst, op.N)[op.N-1-i] = bytesAt(src, op.N)[i]
		}
		return nil
	case driver.OpBatch:
		return d.batch(`,
		},
		"internal/core/tracing/view.go": {
			"driver.OpProgram: observe.Other,", "driver.OpProgram: observe.Other, driver.OpReverse: observe.Copy,",
		},
	}
	top, err := filepath.Abs(root)
	testenv.OK(t, err)
	dir, replace := t.TempDir(), map[string]string{}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(top, name))
		testenv.OK(t, err)
		return string(b)
	}
	put := func(name, text string) {
		at := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		testenv.OK(t, os.WriteFile(at, []byte(text), 0o600))
		replace[filepath.Join(top, name)] = at
	}
	for name, pairs := range edits {
		text := read(name)
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(text, pairs[i]) != 1 {
				t.Fatalf("%s has %q %d times", name, pairs[i], strings.Count(text, pairs[i]))
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		put(name, text)
	}
	text := read("internal/archtest/testdata/newkind/reverse.go")
	put("internal/graph/reverse_test.go", strings.TrimPrefix(text, "//go:build ignore\n"))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	testenv.OK(t, err)
	file := filepath.Join(dir, "overlay.json")
	testenv.OK(t, os.WriteFile(file, overlay, 0o600))
	run := exec.Command("go", "test", "-overlay="+file, "-run=^TestReverse$", "-v", "./internal/graph")
	run.Dir = top
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestReverse") {
		t.Fatalf("%v\n%s", err, out)
	}
}
