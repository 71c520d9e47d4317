package core_test

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// logging is a thread of a runtime with one device that logs to w from a level on.
func logging(t *testing.T, w io.Writer, level slog.Level) *core.Thread {
	t.Helper()
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	timeless := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: timeless}))
	rt := core.New(core.Options{Driver: d, Product: p, Log: log})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt.NewThread(42)
}

func cText(text string) *byte { return &append([]byte(text), 0)[0] }

func TestLogErrors(t *testing.T) {
	var log bytes.Buffer
	th := logging(t, &log, slog.LevelError)
	th.Done(th.SetDevice(0))
	th.Done(th.SetDevice(9))
	th.Done(transfer.Memcpy(th, 0, 1, 0, 1, 0))
	want := `level=ERROR msg="deviceId: 9 is no usable device; there are 0 to 0" code=107001 function=aclrtSetDevice tid=42
level=ERROR msg="dst: is NULL" code=100000 function=aclrtMemcpy tid=42
`
	if log.String() != want {
		t.Errorf("got:\n%swant:\n%s", &log, want)
	}
}

func TestLogInfo(t *testing.T) {
	var log bytes.Buffer
	th := logging(t, &log, slog.LevelInfo)
	for _, err := range []*core.Error{
		process.Init(th, nil), th.SetDevice(0), th.SynchronizeDevice(), th.ResetDevice(0), process.Finalize(th),
	} {
		must(t, err)
	}
	want := `level=INFO msg="the library is initialised" config="" function=aclInit tid=42
level=INFO msg="device is set" device=0 function=aclrtSetDevice tid=42
level=INFO msg="device is reset" device=0 function=aclrtResetDevice tid=42
level=INFO msg="the library is finalised" function=aclFinalize tid=42
`
	if log.String() != want {
		t.Errorf("got:\n%swant:\n%s", &log, want)
	}
}

// TestAppLogLevels: lines below the level are not written, what is out of range counts as the nearest level, and a
// line is one line whatever is in it.
func TestAppLogLevels(t *testing.T) {
	var log bytes.Buffer
	th := logging(t, &log, slog.LevelWarn)
	for level := abi.LogLevel(-1); level <= 4; level++ {
		th.AppLog(level, cText("run"), cText("a.c"), 3, cText("two\nlines\n"))
		if got, want := th.Runtime.Logs(level), level >= abi.LogLevelWarning; got != want {
			t.Errorf("level %d: written is %t", level, got)
		}
	}
	line := ` msg="a.c:3 run: two\nlines" tid=42` + "\n"
	if want := "level=WARN" + line + "level=ERROR" + line + "level=ERROR" + line; log.String() != want {
		t.Errorf("got:\n%swant:\n%s", &log, want)
	}
}

// TestLogOffCostsNothing: without a log, or below its level, nothing is put together.
func TestLogOffCostsNothing(t *testing.T) {
	const runs = 100
	var log strings.Builder
	th := logging(t, &log, slog.LevelError+4)
	_, plain := newRuntime(t, "A2")
	must(t, th.SetDevice(0))
	function, file, text := cText("run"), cText("a.c"), cText("text")
	for name, th := range map[string]*core.Thread{"below the level": th, "without a log": plain} {
		var host, dev core.Addr
		must(t, memory.MallocHost(th, &host, 4096))
		must(t, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
		refused := transfer.MemcpyAsync(th, 0, 0, 0, 1, 0, 0)
		for what, call := range map[string]func(){
			"aclAppLog":      func() { th.AppLog(abi.LogLevelError, function, file, 1, text) },
			"aclrtSetDevice": func() { th.SetDevice(0) },
			"a copy": func() {
				th.Done(transfer.MemcpyAsync(th, dev, 4096, host, 64, abi.MemcpyHostToDevice,
					0))
			},
			"a known refusal": func() { th.Done(refused) },
		} {
			for range 64 { // the room for remembered errors is full
				call()
			}
			if n := testing.AllocsPerRun(runs, call); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, what, n)
			}
		}
	}
	if log.Len() != 0 {
		t.Errorf("written: %s", &log)
	}
}

// TestLogReportTimeout: polling with aclrtProcessReport is ordinary. A time-out sets the last error, but is a line at
// info, and no message.
func TestLogReportTimeout(t *testing.T) {
	for level, lines := range map[slog.Level]int{slog.LevelError: 0, slog.LevelInfo: 3} {
		var log strings.Builder
		th := logging(t, &log, level)
		if err := th.SetDevice(0); err != nil {
			t.Fatal(err)
		}
		var stream core.Handle
		if err := th.CreateStream(&stream); err != nil {
			t.Fatal(err)
		}
		th.SetPthread(7)
		if err := th.SubscribeReport(7, stream); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if code := th.Done(th.ProcessReport(1)); code != abi.ErrRTReportTimeout {
				t.Fatalf("got %v", code)
			}
		}
		if got := strings.Count(log.String(), "no callback arrived"); got != lines || strings.Contains(log.String(),
			"level=ERROR") {
			t.Errorf("at %v: %d lines, want %d:\n%s", level, got, lines, log.String())
		}
		if text := th.GetRecentErrMsg(); text != "" {
			t.Errorf("a message is kept: %s", text)
		}
		if last := process.PeekAtLastError(th, abi.ThreadLevel); last != abi.ErrRTReportTimeout {
			t.Errorf("the last error is %v", last)
		}
	}
}
