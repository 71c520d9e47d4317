package capitest

import (
	"bufio"
	"context"
	"os/exec"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// TestSignals proves what docs/c.md says of signals: what the Go runtime takes, and that the program's handlers, masks
// and stacks go on working.
func TestSignals(t *testing.T) {
	program := compile(t, []string{"signals.c"})
	for _, mode := range []string{
		"dispositions", "dispositions_handled", "dispositions_blocked",
		"segv_before", "segv_before_onstack", "segv_after", "segv_after_onstack",
		"wild", "wild_handled", "wild_chained",
		"handlers_before", "handlers_after", "burst", "raised", "raised_ignored", "interrupted", "waited",
		"waited_before", "altstack", "altstack_lent",
	} {
		t.Run(mode, func(t *testing.T) {
			passes(t, nil, program, mode)
		})
	}
}

// TestDeadlySignals proves that a signal which ends a program still does, with that signal as its end.
func TestDeadlySignals(t *testing.T) {
	program := compile(t, []string{"signals_end.c"})
	for _, tt := range []struct {
		mode string
		end  syscall.Signal // 0: it goes on and exits with 0
	}{
		{"broken_pipe", syscall.SIGPIPE},
		{"broken_pipe_ignored", 0},
		{"broken_pipe_handled", 0},
		{"crash", syscall.SIGSEGV},
		{"crash_on_device_memory", syscall.SIGSEGV},
		{"crash_elsewhere", syscall.SIGSEGV},
		{"crash_dividing", syscall.SIGFPE},
		{"aborts", syscall.SIGABRT},
		{"asks_to_die", syscall.SIGTERM},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			if tt.end == 0 {
				passes(t, nil, program, tt.mode)
				return
			}
			if r := run(t, nil, program, tt.mode); r.signal != tt.end {
				t.Errorf("ended with code %d, signal %v, want signal %v\n%s%s", r.code, r.signal, tt.end,
					r.stdout, r.stderr)
			}
		})
	}
}

// TestInterrupt proves that Ctrl-C ends a program that waits in the library, or reaches its handler.
func TestInterrupt(t *testing.T) {
	program := compile(t, []string{"signals_end.c"})
	for _, tt := range []struct {
		mode string
		code int // of the program's own handler; -1: the signal ends it
	}{
		{"wait_stream", -1}, {"wait_event", -1}, {"wait_device", -1}, {"wait_report", -1},
		{"wait_handled", 40 + int(syscall.SIGINT)},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), hang)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, tt.mode)
			cmd.Env = cleanEnv()
			out, err := cmd.StdoutPipe()
			testenv.OK(t, err)
			testenv.OK(t, cmd.Start())
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "waiting\n" {
				t.Fatalf("it says %q, %v", line, err)
			}
			testenv.OK(t, cmd.Process.Signal(syscall.SIGINT))
			cmd.Wait() //nolint:errcheck // the state says how it ended
			if ctx.Err() != nil {
				t.Fatal("the program does not end")
			}
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if end := ended(cmd.ProcessState); tt.code < 0 && end != syscall.SIGINT {
				t.Errorf("signal %v, want %v", end, syscall.SIGINT)
			}
		})
	}
}

// TestLateHandlers: handlers set between aclInit and aclrtSetDevice are made fit for the core's stacks.
func TestLateHandlers(t *testing.T) {
	passes(t, nil, compile(t, []string{"handlers.c"}))
}
