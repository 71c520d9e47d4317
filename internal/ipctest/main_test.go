//go:build linux

package ipctest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ropeway/internal/testenv"
)

// role says to a process of this binary that it is a worker.
const role = "ROPEWAY_IPC_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		work(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// worker is another process.
type worker struct{ *testenv.Process }

// start starts a worker; how may change the command before.
func start(t testing.TB, how ...func(*exec.Cmd)) *worker {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{role + "=worker"}
	for _, f := range how {
		f(cmd)
	}
	return &worker{testenv.StartProcess(t, cmd)}
}

// fails has the worker do something that must fail with a code and a message of words.
func (w *worker) fails(code int, words []string, format string, args ...any) {
	w.T.Helper()
	s := w.Ask(format, args...)
	for _, word := range append(words, fmt.Sprint("error ", code, " ")) {
		if !strings.Contains(s, word) {
			w.T.Errorf("%s: got %q, which does not say %q", fmt.Sprintf(format, args...), s, word)
		}
	}
}
