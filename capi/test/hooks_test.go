package capitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHooks proves what aclrtApiInjectionSetFunc and GetFunc do in a program: hooks alone and in a chain, in threads,
// over aclFinalize, and the names that can be hooked.
func TestHooks(t *testing.T) {
	program := compile(t, []string{"hooks.c"}, "-Wno-deprecated-declarations")
	for _, mode := range []string{"chain", "stays", "names", "threads"} {
		t.Run(mode, func(t *testing.T) { passes(t, nil, program, mode) })
	}
}

// hookTool compiles a tool whose entry has a name.
func hookTool(t *testing.T, name, entry string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	buildC(t, "gcc", file, []string{"testdata/hook_tool.c"}, "-DENTRY_NAME="+entry, "-fPIC", "-shared",
		"-fvisibility=hidden", "-I"+toolkit(t)+"/include", "-L"+toolkit(t)+"/lib64", "-lascendcl")
	return file
}

// TestHookTool proves that ACL_API_INJECTION loads a tool before the first call, that the tool sees each call once,
// and that a program runs without a tool that cannot be loaded or fails, which it says in a line.
func TestHookTool(t *testing.T) {
	program := compile(t, []string{"hooks.c"}, "-Wno-deprecated-declarations")
	tool, empty := hookTool(t, "libtool.so", "acltoolInitialize"), hookTool(t, "libempty.so", "other")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, tool)
	if err != nil {
		t.Fatal(err)
	}
	const counts = "aclrtMemcpy 3\naclrtMalloc 1\naclrtFree 1\naclrtCreateStream 1\naclrtDestroyStream 1\n" +
		"aclrtSetDevice 1\naclrtResetDevice 1\naclrtSynchronizeDevice 1\n"
	for _, tt := range []struct{ name, path, result, stdout, stderr string }{
		{"absolute", tool, "", counts, ""},
		{"relative", relative, "", counts, ""},
		{"a name to search", "libtool.so", "", counts, ""},
		{"none", "", "", "", ""},
		{"missing", "/no/such/tool.so", "", "", "ropeway: ACL_API_INJECTION: cannot load the tool: /no/such/tool.so"},
		{"without an entry", empty, "", "", "has no function acltoolInitialize"},
		{"failed", tool, "3", "", "acltoolInitialize of " + tool + " returned 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := []string{"ACL_API_INJECTION=" + tt.path, "LD_LIBRARY_PATH=" + filepath.Dir(tool)}
			if tt.result != "" {
				env = append(env, "TOOL_RESULT="+tt.result)
			}
			r := run(t, env, program, "counted")
			if r.code != 0 || r.stdout != tt.stdout {
				t.Errorf("exit code %d, counts %q, want %q\n%s", r.code, r.stdout, tt.stdout, r.stderr)
			}
			if !strings.Contains(r.stderr, tt.stderr) || (tt.stderr == "") != (r.stderr == "") {
				t.Errorf("it says %q, want %q", r.stderr, tt.stderr)
			}
		})
	}
}
