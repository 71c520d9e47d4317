package setup

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/testenv"
)

// logged is what the files below a log directory hold, and their names.
func logged(t *testing.T, dir string) (names []string, text string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "debug", "plog", "*"))
	testenv.OK(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		testenv.OK(t, err)
		text += string(b)
	}
	return names, text
}

// TestLogFile: the directory and the file appear with the first line, and a line has time, process, text and place.
func TestLogFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	rt, warned := opened(t, "ASCEND_PROCESS_LOG_PATH="+dir)
	th := rt.NewThread(7)
	th.Done(th.SetDevice(0))
	if _, err := os.Stat(dir); err == nil {
		t.Error("made before there was anything to log")
	}
	th.Done(th.SetDevice(99))
	names, text := logged(t, dir)
	file := regexp.MustCompile(fmt.Sprintf(`^plog-%d_\d{17}\.log$`, os.Getpid()))
	if len(names) != 1 || !file.MatchString(filepath.Base(names[0])) {
		t.Errorf("files are %v", names)
	}
	line := regexp.MustCompile(
		fmt.Sprintf(
			`^time=\S+ level=ERROR msg="deviceId: 99 [^"]*" pid=%d code=107001 function=aclrtSetDevice tid=7\n$`,
			os.Getpid()))
	if !line.MatchString(text) {
		t.Errorf("got %q", text)
	}
	if warned != "" {
		t.Errorf("warned: %s", warned)
	}
}

// TestLogGetsWarnings: what is said on standard error is in the log too, at level warning.
func TestLogGetsWarnings(t *testing.T) {
	for level, want := range map[string]int{"0": 1, "2": 1, "3": 0, "4": 0} {
		dir := t.TempDir()
		opened(t, "ASCEND_PROCESS_LOG_PATH="+dir, "ASCEND_GLOBAL_LOG_LEVEL="+level, "ASCEND_RT_VISIBLE_DEVICES=0,x")
		if _, text := logged(t, dir); strings.Count(text, "level=WARN msg=\"ASCEND_RT_VISIBLE_DEVICES=") != want {
			t.Errorf("level %s: %q", level, text)
		}
	}
}

// TestLogNowhere: unless a variable says where, nothing is written and nothing is made ready to be.
func TestLogNowhere(t *testing.T) {
	for _, vars := range [][]string{
		nil,
		{"ASCEND_GLOBAL_LOG_LEVEL=0"},
		{"ASCEND_GLOBAL_LOG_LEVEL=4", "ASCEND_LOG_PRINT_TO_STDOUT=1", "ASCEND_PROCESS_LOG_PATH=" + t.TempDir()},
	} {
		rt, _ := opened(t, vars...)
		if rt.Logs(abi.LogLevelError) {
			t.Errorf("%q: errors are logged", vars)
		}
	}
}

// TestLogUnwritable: a log that cannot be written is one line on standard error, and the program goes on.
func TestLogUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(file, nil, 0o644))
	var warn bytes.Buffer
	log := LogSettings{Level: slog.LevelError, Dir: filepath.Join(file, "below")}.logger(&warn)
	for range 3 {
		log.Error("x")
	}
	if got := warn.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got,
		"ropeway: ASCEND_PROCESS_LOG_PATH=") {
		t.Errorf("got %q", got)
	}
}

func TestLogStdout(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.OK(t, err)
	old := os.Stdout
	os.Stdout = w
	log := LogSettings{Level: slog.LevelInfo, Stdout: true}.logger(io.Discard)
	os.Stdout = old
	log.Debug("hidden")
	log.Info("shown")
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), "msg=shown") {
		t.Errorf("got %q, %v", text, err)
	}
}

// pieces is a writer that notes each write.
type pieces struct{ list []string }

func (p *pieces) Write(b []byte) (int, error) { p.list = append(p.list, string(b)); return len(b), nil }

// TestLogLinesDoNotMix: many goroutines log, to two places, and each place gets whole lines, one at a time.
func TestLogLinesDoNotMix(t *testing.T) {
	const goroutines, lines = 8, 200
	dir := t.TempDir()
	var first pieces // the handler locks
	log := newLogger(slog.LevelInfo, &first, &logFile{dir: dir, warn: io.Discard})
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range lines {
				log.Info(fmt.Sprintf("%d.%d ", g, i) + strings.Repeat("x", 300))
			}
		})
	}
	all.Wait()
	_, text := logged(t, dir)
	if strings.Join(first.list, "") != text {
		t.Error("the two places hold different lines")
	}
	line := regexp.MustCompile(`^time=\S+ level=INFO msg="(\d+\.\d+) x{300}" pid=\d+\n$`)
	seen := map[string]bool{}
	for _, l := range first.list {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("a line is %q", l)
		}
		seen[m[1]] = true
	}
	if len(seen) != goroutines*lines {
		t.Errorf("%d lines of %d", len(seen), goroutines*lines)
	}
}

// TestLogOffAllocatesNothing: a call that is not logged costs nothing.
func TestLogOffAllocatesNothing(t *testing.T) {
	rt, _ := opened(t, "ASCEND_PROCESS_LOG_PATH="+t.TempDir())
	th := rt.NewThread(1)
	text := []byte("text\x00")
	call := func() {
		th.AppLog(abi.LogLevelWarning, &text[0], &text[0], 1, &text[0])
		th.Done(nil)
	}
	if n := testing.AllocsPerRun(100, call); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
