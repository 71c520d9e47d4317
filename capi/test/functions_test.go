package capitest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// part is a run of the functions program: the argument, and what is added to functionsEnv.
type part struct {
	name string
	env  []string
}

// parts are the runs of the functions program.
var parts = []part{
	{"init", nil},
	{"core", nil},
	{"310P", []string{"ROPEWAY_PRODUCT=310P"}},
}

// more are the runs of what not every driver can do: memory that is mapped, shared, managed, pooled or waited for.
var more = []part{
	{"memory", nil},
	{"kernels", nil},
	{"rt", nil},
	{"950", []string{"ROPEWAY_PRODUCT=950"}},
	{"A3", []string{"ROPEWAY_PRODUCT=A3"}},
	{"310B", []string{"ROPEWAY_PRODUCT=310B"}},
	{"RC", []string{"ROPEWAY_PRODUCT=310P", "ROPEWAY_FORM=RC"}},
}

// TestFunctions proves of every core function that it does something and refuses something.
func TestFunctions(t *testing.T) {
	t.Parallel()
	program := functionsProgram(t)
	proven := map[string]bool{}
	marked := part{"marked", []string{"ROPEWAY_TRACE=" + t.TempDir()}} // marks are on while the program is recorded
	for _, p := range append(slices.Concat(parts, more), marked) {
		if testDriver == "cuda" && (p.name == "kernels" || p.name == "rt" || p.name == "RC") {
			continue // its kernels are those of a CPU, and no GPU has the form RC; TestKernelsCUDA has the others
		}
		for _, line := range strings.Split(passes(t, append(functionsEnv(t), p.env...), program, p.name), "\n") {
			if name, ok := strings.CutPrefix(line, "function "); ok {
				proven[name] = true
			}
		}
	}
	if testDriver == "cuda" {
		return // not all parts ran
	}
	wanted := map[string]bool{}
	for _, f := range loadTable(t).Functions {
		if f.Status == table.Core {
			wanted[f.Name] = true
		}
	}
	if len(wanted) < 150 {
		t.Fatalf("the table has only %d functions", len(wanted))
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if !proven[name] {
			t.Errorf("%s: not proven", name)
		}
	}
	for name := range proven {
		if !wanted[name] {
			t.Errorf("%s: proven, and it is no core function", name)
		}
	}
}

// functionsProgram builds the program that proves the functions; see parts for how to run it.
func functionsProgram(t *testing.T, flags ...string) string {
	t.Helper()
	return proofProgram(t, "functions_*.c", flags...)
}

// functionsEnv is the machine the functions program expects: four small devices, a log, and an installed package.
func functionsEnv(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	info := filepath.Join(home, "share", "info", "runtime")
	testenv.OK(t, os.MkdirAll(info, 0o755))
	testenv.OK(t, os.WriteFile(filepath.Join(info, "version.info"), []byte("Version=8.5.0.alpha1\n"), 0o644))
	kernels := compile(t, []string{"kernels/functions.c"}, "-shared", "-fPIC")
	return []string{"ROPEWAY_TEST_KERNELS=" + kernels, "ROPEWAY_DEVICES=4", "ROPEWAY_DEVICE_MEMORY=256M",
		"ASCEND_HOME_PATH=" + home, "ASCEND_PROCESS_LOG_PATH=" + t.TempDir()}
}

// TestClasses proves that the library fits C++: classes, exceptions, std::thread, the overloads of acl_rt_api.h.
func TestClasses(t *testing.T) {
	t.Parallel()
	passes(t, nil, classesProgram(t))
}

// classesProgram builds the C++ program.
func classesProgram(t *testing.T, flags ...string) string {
	t.Helper()
	return compile(t, []string{"functions_classes.cpp"}, append([]string{"-O0", "-Itestdata"}, flags...)...)
}
