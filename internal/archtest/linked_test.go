package archtest

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestLinked: a program that only copies on the software device has neither PTX nor a reader of DWARF in its binary;
// one that imports the checker and the cuda driver has both, so the test looks in the right places.
func TestLinked(t *testing.T) {
	for name, want := range map[string]bool{"copies": false, "everything": true} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), name)
			build := exec.Command("go", "build", "-o", program, "./testdata/"+name)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			text, err := os.ReadFile(program)
			testenv.OK(t, err)
			if got := bytes.Contains(text, []byte(".visible .entry")); got != want {
				t.Errorf("PTX in the binary: %t, want %t", got, want)
			}
			symbols := functions(t, program)
			others := []string{"internal/check.", "internal/symbol.", "internal/driver/cuda."}
			for _, pkg := range []string{"debug/dwarf.", "debug/elf.", module + others[0], module + others[1],
				module + others[2]} {
				if got := hasPrefix(symbols, pkg); got != want {
					t.Errorf("functions of %s in the binary: %t, want %t", pkg, got, want)
				}
			}
			if !hasPrefix(symbols, module+"internal/driver/soft.") {
				t.Error("no functions of the software device in the binary")
			}
			t.Logf("%d bytes", len(text))
		})
	}
}

// functions are the names of a program's functions.
func functions(t *testing.T, program string) []string {
	t.Helper()
	f, err := elf.Open(program)
	testenv.OK(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	testenv.OK(t, err)
	var names []string
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	return names
}

func hasPrefix(names []string, prefix string) bool {
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	return false
}
