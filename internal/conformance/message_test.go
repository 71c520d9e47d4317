package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/testenv"
)

func init() {
	behaves("aclGetRecentErrMsg", func(e *env) {
		if text := e.th.GetRecentErrMsg(); text != "" {
			e.Errorf("before any error: %q", text)
		}
		e.th.Done(e.th.CreateStream(nil))
		e.th.Done(e.th.SynchronizeStreamWithTimeout(0, 0))
		text := e.th.GetRecentErrMsg()
		lines := strings.Split(text, "\n")
		head := regexp.MustCompile(`^\[PID: ` + fmt.Sprint(os.Getpid()) +
			`\] (\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)\.\d{3}\.\d{3} \w+\((E[HE]\d{4})\): (.+)$`)
		var found []string
		for _, i := range []int{0, 3} {
			if len(lines) <= i || !head.MatchString(lines[i]) {
				e.Fatalf("line %d has another shape:\n%s", i, text)
			}
			m := head.FindStringSubmatch(lines[i])
			at, err := time.ParseInLocation("2006-01-02-15:04:05", m[1], time.Local)
			if err != nil || time.Since(at) > time.Hour || time.Until(at) > time.Hour {
				e.Errorf("at %q", m[1])
			}
			if !strings.HasPrefix(lines[i+1], "        Possible Cause: ") || !strings.HasPrefix(lines[i+2],
				"        Solution: ") {
				e.Errorf("no cause or solution:\n%s", text)
			}
			found = append(found, m[2], m[3])
		}
		want := []string{"EH0002", "aclrtCreateStream: stream: is NULL", "EE1001",
			"aclrtSynchronizeStreamWithTimeout: timeout: is 0"}
		for i := range want {
			if found[i] != want[i] {
				e.Errorf("%q, want %q", found[i], want[i])
			}
		}
		if tail := strings.Join(lines[6:], "\n"); !strings.HasPrefix(tail,
			"TraceBack (most recent call last):\n        aclrtCreateStream: ") ||
			!strings.Contains(tail, "\n        aclrtSynchronizeStreamWithTimeout: timeout: is 0") || strings.Count(tail,
			"\n") != 3 {
			e.Errorf("the traceback is\n%s", tail)
		}
		// Reading clears it; other threads have their own; a thread of a Go context remembers nothing.
		if text := e.th.GetRecentErrMsg(); text != "" {
			e.Errorf("read twice: %q", text)
		}
		e.th.Done(e.th.CreateStream(nil))
		if text := e.sibling().GetRecentErrMsg(); text != "" {
			e.Errorf("another thread reads %q", text)
		}
		in := e.rt.ThreadIn(here(e))
		in.Done(in.CreateStream(nil))
		if text := in.GetRecentErrMsg(); text != "" {
			e.Errorf("a thread that remembers nothing reads %q", text)
		}
		// Only the last 32 are kept.
		for i := range int32(40) {
			e.th.Done(e.th.SetDevice(100 + i))
		}
		text = e.th.GetRecentErrMsg()
		if n := strings.Count(text, "[PID: "); n != 32 || strings.Contains(text, ": 107 is no") ||
			!strings.Contains(text, ": 108 is no") || !strings.Contains(text, ": 139 is no") {
			e.Errorf("%d texts:\n%s", n, text)
		}
		// Without a context the call itself fails inside, and says so.
		th := e.stranger()
		text = th.GetRecentErrMsg()
		if !strings.Contains(text, "(EE1018): ") || process.PeekAtLastError(th, 0) != abi.ErrRTContextNull {
			e.Errorf("without a context: last error %d, text %q", process.PeekAtLastError(th, 0), text)
		}
	})
}

// TestErrMsgMode shows err_msg_mode "1": texts of all threads, read by any.
func TestErrMsgMode(t *testing.T) {
	e := newEnv(t, machine{})
	file := filepath.Join(t.TempDir(), "acl.json")
	testenv.OK(t, os.WriteFile(file, []byte(`{"err_msg_mode": "1"}`), 0o600))
	e.ok(process.Init(e.th, cstr(file)))
	other := e.sibling()
	other.Done(other.CreateStream(nil))
	e.th.Done(e.th.CreateStream(nil))
	if text := e.th.GetRecentErrMsg(); strings.Count(text, "[PID: ") != 2 {
		t.Errorf("the process has\n%s", text)
	}
	if text := other.GetRecentErrMsg(); text != "" {
		t.Errorf("read twice: %q", text)
	}
}

// TestMessageClasses shows that every code has a kind of text, and the layer of the code decides whose.
func TestMessageClasses(t *testing.T) {
	e := newEnv(t, machine{})
	number := regexp.MustCompile(`\((E[HE]\d{4})\): `)
	for code := abi.Code(100000); code < 508000; code++ {
		if code.Name() == "" {
			continue
		}
		th := e.sibling()
		th.Done(&core.Error{Code: code, API: "aclrtAny", Index: -1, Text: "something"})
		m := number.FindStringSubmatch(th.GetRecentErrMsg())
		if m == nil {
			t.Errorf("%d has no text", code)
			continue
		}
		layer := "EH"
		if k := code / 1000; k == 107 || k == 207 || k == 507 {
			layer = "EE"
		}
		if !strings.HasPrefix(m[1], layer) && code != abi.ErrFeatureUnsupported && code != abi.ErrBadAlloc {
			t.Errorf("%d has %s", code, m[1])
		}
	}
}
