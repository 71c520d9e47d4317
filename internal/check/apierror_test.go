package check

import (
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// codeCaller is a program in a language in which calls return codes.
type codeCaller struct{ drops, void bool }

func (codeCaller) Calling() (uint32, []uint64, bool)    { return 0, nil, true }
func (codeCaller) Stack([]uintptr) int                  { return 0 }
func (codeCaller) Frames([][2]uint32) int               { return 0 }
func (c codeCaller) ReturnsCode() bool                  { return !c.void }
func (c codeCaller) Drops() (dropped, interpreted bool) { return c.drops, true }
func failing(api string, code abi.Code) *core.Error {
	return &core.Error{API: api, Code: code, Index: -1, Text: "why"}
}
func injectedFailure(api string, code abi.Code) *core.Error {
	e := failing(api, code)
	e.Injected = true
	return e
}

// TestAPIErrors: whether a failed call is a finding depends on what the program does with the code.
func TestAPIErrors(t *testing.T) {
	const none = finding.Severity("")
	minor := failing("aclrtProcessReport", abi.ErrRTParamInvalid)
	minor.Minor = true
	for _, tt := range []struct {
		name       string
		err        *core.Error
		dropped    finding.Severity // if the program drops the code
		has        finding.Severity // if it has the code
		afterwards bool             // a note is reported only if the program fails
	}{
		{"an argument", failing("aclrtMemcpy", abi.ErrInvalidParam), finding.Warning, finding.Notice, false},
		{"the runtime", failing("aclrtMemcpy", abi.ErrRTParamInvalid), finding.Warning, finding.Notice, false},
		{"a task", failing("aclrtSynchronizeStream", abi.ErrRTSysDma), finding.Warning, finding.Notice, false},
		{"memory", failing("aclrtMalloc", abi.ErrRTMemoryAllocation), finding.Warning, finding.Notice, true},
		{"streams", failing("aclrtCreateStream", abi.ErrRTNoStreamResource), finding.Warning, finding.Notice, true},
		{"NULL", &core.Error{API: "aclrtMemset", Code: abi.ErrInvalidParam, Arg: "devPtr", Index: -1,
			Text: "is NULL"}, finding.Warning, finding.Notice, false},
		{"NULL that is freed", &core.Error{API: "aclrtFree", Code: abi.ErrInvalidParam, Arg: "devPtr", Index: -1,
			Text: "is NULL"}, finding.Notice, finding.Notice, false},
		{"a feature", failing("aclrtMemcpyBatch", abi.ErrRTFeatureNotSupport), finding.Warning, none, false},
		{"a question", failing("aclrtGetMemInfo", abi.ErrRTParamInvalid), finding.Warning, none, false},
		{"a query", failing("aclrtQueryEvent", abi.ErrRTParamInvalid), finding.Warning, none, false},
		{"a fault of --inject", injectedFailure("aclrtMalloc", abi.ErrRTMemoryAllocation), finding.Warning, none,
			false},
		{"a second initialisation", failing("aclInit", abi.ErrRepeatInitialize), none, none, false},
		{"a time limit", failing("aclrtSynchronizeStreamWithTimeout", abi.ErrRTStreamSyncTimeout), none, none, false},
		{"a report", failing("aclrtProcessReport", abi.ErrRTThreadSubscribe), none, none, false},
		{"no report", minor, none, none, false},
		{"a name for a recording", failing("aclprofPush", abi.ErrInvalidParam), none, none, false},
		{"an abort", failing("aclrtSynchronizeStream", abi.ErrRTDeviceTaskAbort), none, none, false},
	} {
		for _, drops := range []bool{true, false} {
			p := begin(t)
			p.SetCaller(codeCaller{drops: drops})
			p.Done(tt.err)
			p.SetCaller(nil)
			want := tt.has
			if drops {
				want = tt.dropped
			}
			if want == none {
				p.silent()
				continue
			}
			f := p.only("api-error")
			if f.Severity != want || f.Code != int32(tt.err.Code) || f.Aside() != (tt.afterwards && !drops) ||
				!strings.Contains(f.Summary, tt.err.API+" returned ") {
				t.Errorf("%s, dropped %v: found %s", tt.name, drops, show(f))
			}
			if n := p.c.Findings(); (n == 1) != (want == finding.Warning) {
				t.Errorf("%s, dropped %v: %d findings count", tt.name, drops, n)
			}
		}
	}
}

// TestAPIErrorsElsewhere: a Go program has errors as values, and a function without a code has none to drop.
func TestAPIErrorsElsewhere(t *testing.T) {
	p := begin(t)
	p.Done(failing("aclrtMemcpy", abi.ErrRTParamInvalid))
	p.SetCaller(codeCaller{drops: true, void: true})
	p.Done(failing("aclGetRecentErrMsg", abi.ErrRTContextNull))
	p.SetCaller(nil)
	p.silent()
}

// TestAPIErrorOfATask: the failure of a task names the task, unless there is a finding about it.
func TestAPIErrorOfATask(t *testing.T) {
	for _, known := range []bool{false, true} {
		p := beginOn(t, "310") // the 310 accepts copies of ordinary memory, and fails them
		s, mine, dev := p.stream(), p.mapped(4096), p.dev(4096)
		p.ok(transfer.MemcpyAsync(p.Thread, dev, 64, mine, 64, abi.MemcpyHostToDevice, s))
		err := p.SynchronizeStream(s)
		p.only("pageable-async")
		if known {
			p.c.report.blame(origin{stream: err.Stream, task: err.Task})
		}
		p.SetCaller(codeCaller{drops: true})
		p.Done(err)
		p.SetCaller(nil)
		list := p.findings()
		switch {
		case known && len(list) != 1, !known && len(list) != 2:
			t.Fatalf("known %v: %d findings", known, len(list))
		case known:
		case list[1].Rule != "api-error" || len(list[1].Others) != 1 || list[1].Others[0].Role != "submitted" ||
			list[1].Others[0].Task != err.Task:
			t.Errorf("found %s", show(list[1]))
		}
	}
}
