package capitest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// stranger is a user that owns nothing.
const stranger = 12345

// TestSecure proves that a set-user-ID program obeys nothing of its caller's environment: no file appears where only
// the program's owner may write, and neither the library nor the Go runtime does what the variables say.
func TestSecure(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a program that runs with more rights than its caller")
	}
	dir, err := os.MkdirTemp("", "ropeway-secure") // t.TempDir is closed to others
	testenv.OK(t, err)
	defer os.RemoveAll(dir)
	inner := filepath.Join(dir, "inner")
	code, err := os.ReadFile(compile(t, []string{"secure.c"}, "-Wl,--as-needed"))
	testenv.OK(t, err)
	program := filepath.Join(dir, "program")
	for _, err := range []error{
		os.Chmod(dir, 0o755), os.Mkdir(inner, 0o700), os.WriteFile(program, code, 0o755),
		os.Chmod(program, 0o755|os.ModeSetuid),
	} {
		testenv.OK(t, err)
	}
	env := []string{
		"ROPEWAY_TRACE=" + inner + "/trace", "ROPEWAY_CHECK=1", "ROPEWAY_CHECK_REPORT=" + inner + "/socket",
		"ROPEWAY_INJECT=aclInit:1=100000", "ACL_API_INJECTION=" + inner + "/missing.so",
		"ROPEWAY_SUPPRESS=" + inner + "/known",
		"ROPEWAY_PRODUCT=310P", "ROPEWAY_DEVICES=3",
		"ASCEND_PROCESS_LOG_PATH=" + inner + "/log", "ASCEND_GLOBAL_LOG_LEVEL=0", "ASCEND_SLOG_PRINT_TO_STDOUT=1",
		"GODEBUG=schedtrace=1", "GOMAXPROCS=many", "OTHER=stays",
	}
	want := "secure 1\ninit 0\nset 0\ndevices 8\nsoc Ascend910B1\nchecked 0\nother stays\n"
	for name, args := range map[string][]string{"linked": nil, "loaded later": {"moved"}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), hang)
			defer cancel()
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(ctx, program, append([]string{library(t)}, args...)...)
			cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/", &out, &errs
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
			err := cmd.Run()
			if strings.HasPrefix(out.String(), "secure 0") {
				t.Skip("the system lets no program in " + dir + " change its user")
			}
			if err != nil || out.String() != want || errs.Len() > 0 {
				t.Errorf("%v; it says\n%s%s\nwant\n%s", err, out.String(), errs.String(), want)
			}
			files, err := os.ReadDir(inner)
			if err != nil || len(files) > 0 {
				t.Errorf("%v, %v: it made files for its caller", files, err)
			}
		})
	}
}
