package capitest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// opener compiles the program that opens the library at run time; it is not linked with it.
func opener(t *testing.T) string {
	t.Helper()
	return compile(t, []string{"loading.c"}, "-Wl,--as-needed")
}

func library(t *testing.T) string { return filepath.Join(toolkit(t), "lib64/libascendcl.so") }

// libraryNames is the variable by which the opener gets all names of the library.
func libraryNames() string {
	var names []string
	for _, name := range append([]string{"ascendcl"}, also...) {
		names = append(names, "lib"+name+".so", "stub/lib"+name+".so", "../devlib/lib"+name+".so")
	}
	return "NAMES=" + strings.Join(names, " ")
}

// TestLoading proves that the library can be opened and closed at will, under all its names, as one with one state.
func TestLoading(t *testing.T) {
	program := opener(t)
	for _, mode := range []string{
		"open_close", "local", "global", "closed_fork", "closed_unused_fork", "names", "moved", "init_finalize",
		"keys", "together", "opened_elsewhere",
	} {
		t.Run(mode, func(t *testing.T) {
			passes(t, []string{libraryNames()}, program, mode, library(t))
		})
	}
}

// TestRelativePath proves that a library found by a relative LD_LIBRARY_PATH finds its core after the program has
// changed its directory.
func TestRelativePath(t *testing.T) {
	program := opener(t)
	dir := toolkit(t)
	for _, path := range []string{"lib64", "./lib64", "include/../lib64"} {
		cmd := exec.Command(program, "moved", "libascendcl.so")
		cmd.Dir = dir
		cmd.Env = append(cleanEnv(), "LD_LIBRARY_PATH="+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("LD_LIBRARY_PATH=%s: %v\n%s", path, err, out)
		}
	}
}

// TestCoreMissing proves that a library without a core that fits says so in one line and in every call.
func TestCoreMissing(t *testing.T) {
	program := opener(t)
	shim, err := os.ReadFile(library(t))
	testenv.OK(t, err)
	for _, tt := range []struct {
		name string
		core func(path string)
		says string
	}{
		{"missing", func(string) {}, "must lie beside libascendcl.so"},
		{"not a library", func(path string) {
			testenv.OK(t, os.WriteFile(path, []byte("text"), 0o644))
		}, "cannot load the core"},
		{"of another version", func(path string) {
			buildC(t, "gcc", path, []string{fakeDir + "/core.c"}, "-fPIC", "-shared", "-DFAKE_TABLE=1")
		}, "is of another version than libascendcl.so"},
		{"of another library", func(path string) {
			buildC(t, "gcc", path, []string{shimDir + "/names.c"}, "-fPIC", "-shared")
		}, "is of another version than libascendcl.so"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			testenv.OK(t, os.WriteFile(dir+"/libascendcl.so", shim, 0o755))
			tt.core(dir + "/libropeway_core.so")
			r := run(t, nil, program, "refused", dir+"/libascendcl.so")
			if r.code != 0 {
				t.Fatalf("exit code %d, signal %v\n%s", r.code, r.signal, r.stderr)
			}
			if !strings.Contains(r.stdout, tt.says) {
				t.Errorf("aclGetRecentErrMsg says %q, not %q", r.stdout, tt.says)
			}
			if strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "ropeway: aclInit: ") ||
				!strings.Contains(r.stderr, tt.says) {
				t.Errorf("not one line that says %q:\n%s", tt.says, r.stderr)
			}
		})
	}
}

// TestLittleAddressSpace proves that a program whose address space is limited works with less memory or gets an error
// that says what to do.
func TestLittleAddressSpace(t *testing.T) {
	program := compile(t, []string{"smoke.c"})
	for _, kib := range []string{"1000000", "4000000", "100000000"} {
		r := run(t, nil, "sh", "-c", "ulimit -v "+kib+"; exec "+program)
		if r.signal != nil || r.code > 1 || !strings.Contains(r.stderr, "ulimit -v") {
			t.Errorf("ulimit -v %s: exit code %d, signal %v\n%s", kib, r.code, r.signal, r.stderr)
		}
	}
}

// TestSymbols proves that the library exports every function of the table, weak where the table says so, the older
// names, and nothing else but names that begin with ropeway_.
func TestSymbols(t *testing.T) {
	api, err := table.Load()
	testenv.OK(t, err)
	file, err := elf.Open(library(t))
	testenv.OK(t, err)
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	testenv.OK(t, err)
	exported := map[string]elf.SymBind{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_VISIBILITY(s.Other) == elf.STV_DEFAULT {
			exported[s.Name] = elf.ST_BIND(s.Info)
		}
	}
	if len(api.Functions) < 511 {
		t.Errorf("the table has %d functions, want 511 or more", len(api.Functions))
	}
	for _, f := range api.Functions {
		want := elf.STB_GLOBAL
		if f.Weak {
			want = elf.STB_WEAK
		}
		bind, ok := exported[f.Name]
		if !ok {
			t.Errorf("%s is not exported", f.Name)
		} else if bind != want {
			t.Errorf("%s is exported as %v, want %v", f.Name, bind, want)
		}
		delete(exported, f.Name)
	}
	for name := range exported {
		if !strings.HasPrefix(name, "ropeway_") {
			t.Errorf("%s is exported and not in the table", name)
		}
	}
	if name, err := file.DynString(elf.DT_SONAME); err != nil || len(name) != 1 || name[0] != "libascendcl.so" {
		t.Errorf("the library's own name is %q, %v", name, err)
	}
}
