package capitest

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRough: programs that do what they should not, or what few do, get a result or their own crash; none hangs.
func TestRough(t *testing.T) {
	program := compile(t, []string{"rough.c"}, "-rdynamic", "-Wl,--as-needed")
	library := filepath.Join(toolkit(t), "lib64/libascendcl.so")
	plugin := filepath.Join(t.TempDir(), "plugin.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", plugin,
		"testdata/plugin.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, mode := range []string{"setenv", "cancel", "keys", "plugin"} {
		t.Run(mode, func(t *testing.T) { passes(t, nil, program, mode, library, plugin) })
	}
	for _, where := range []string{"hostfunc", "report", "state"} {
		t.Run("crash in "+where, func(t *testing.T) {
			if r := run(t, nil, program, "crash", library, where); r.signal != syscall.SIGSEGV {
				t.Errorf("ended with code %d and signal %v, want its own SIGSEGV\n%s", r.code, r.signal, r.stderr)
			}
		})
	}
}
