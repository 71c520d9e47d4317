package conformance

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// TestUnbuilt calls every function that is not built with arguments for which a rule decides, and with good ones.
func TestUnbuilt(t *testing.T) {
	onlySoft(t)
	page := make([]byte, 4096)
	worlds := map[machine]*env{}
	for _, c := range unbuiltCases {
		m := machine{product: c.product, form: c.form}
		e := worlds[m]
		if e == nil {
			e = newEnv(t, m)
			worlds[m] = e
		}
		values := map[string]uint64{
			"NULL": 0, "memory": uint64(uintptr(unsafe.Pointer(&page[0]))), "live": uint64(e.kept()),
			"elsewhere": uint64(e.foreign()), "dead": uint64(garbage), "self": uint64(os.Getpid()),
		}
		th := e.th
		if !c.context {
			th = e.stranger()
		}
		var args []uint64
		for _, text := range c.args {
			v, symbol := values[text]
			if !symbol {
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				v = uint64(n)
			}
			args = append(args, v)
		}
		id := ruleID(c.function, c.rule)
		err := th.NotBuilt(c.function, args)
		if codeOf(err) != c.code {
			t.Errorf("%s %v on %s%s: %v, want %d", id, c.args, c.product, c.form, err, c.code)
			continue
		}
		if err == nil {
			continue
		}
		if err.API != c.function || err.Text == "" || err.Quiet != c.quiet {
			t.Errorf("%s: %+v", id, err)
		}
		if says := strings.Contains(err.Text, "not built in ropeway yet"); says != (c.rule == 0) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// kept is a stream that all cases of an env share.
func (e *env) kept() core.Handle {
	e.Helper()
	var s core.Handle
	e.ok(e.th.CtxGetCurrentDefaultStream(&s))
	return s
}

// TestUnbuiltMessage: a function that is not built does not advise another product; one that the product lacks says so.
func TestUnbuiltMessage(t *testing.T) {
	e := newEnv(t, machine{})
	const fn = "aclrtCreateLabel"
	e.want(e.th.NotBuilt(fn, []uint64{uint64(uintptr(unsafe.Pointer(new(uint64))))}), abi.ErrRTFeatureNotSupport)
	e.th.Done(e.th.NotBuilt(fn, []uint64{uint64(uintptr(unsafe.Pointer(new(uint64))))}))
	text := e.th.GetRecentErrMsg()
	if strings.Contains(text, "another product") || !strings.Contains(text, "not built in ropeway yet") {
		t.Error(text)
	}
	o := e.on(machine{product: "310P"})
	err := o.th.NotBuilt("aclrtSnapShotCallbackRegister", []uint64{0, 1, 0})
	if o.want(err, abi.ErrRTFeatureNotSupport); err.Text != "310P does not have this function" {
		t.Error(err)
	}
	err = e.th.NotBuilt("aclmdlRICaptureBegin", []uint64{uint64(e.stream()), 1<<32 - 1})
	if e.want(err, abi.ErrRTParamInvalid); !strings.HasSuffix(err.Text, "it is -1") || err.Arg != "mode" {
		t.Error(err)
	}
}
