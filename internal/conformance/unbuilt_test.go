package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ropeway/internal/abi"
)

// TestUnbuilt calls every function that is not built with arguments for which a rule decides, and with good ones.
func TestUnbuilt(t *testing.T) {
	onlySoft(t)
	w := worlds{t, map[machine]*env{}}
	for i, c := range ruleCases {
		if ruleCalls[c.function] != nil {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", ruleID(c.function, c.rule), i), func(t *testing.T) {
			err := c.run(w.at(t, c))
			if codeOf(err) != c.code {
				t.Fatalf("%v on %s%s: %v, want %d", c.args, c.product, c.form, err, c.code)
			}
			if err == nil {
				return
			}
			if err.API != c.function || err.Text == "" || c.at != "" && err.Arg != c.at {
				t.Errorf("%+v", err)
			}
			if says := strings.Contains(err.Text, "not built in ropeway yet"); says != (c.rule == "") {
				t.Error(err)
			}
		})
	}
}

// TestUnbuiltMessage: a function that is not built does not advise another product; one that the product lacks says so.
func TestUnbuiltMessage(t *testing.T) {
	e := newEnv(t, machine{})
	const fn = "aclrtSnapShotProcessLock"
	args := []uint64{uint64(os.Getpid()), 0}
	e.want(e.th.NotBuilt(fn, args), abi.ErrRTFeatureNotSupport)
	e.th.Done(e.th.NotBuilt(fn, args))
	text := e.th.GetRecentErrMsg()
	if strings.Contains(text, "another product") || !strings.Contains(text, "not built in ropeway yet") {
		t.Error(text)
	}
	err := e.th.NotBuilt("acltdtCreateDataset", nil) // of another part of the toolkit: never
	if e.want(err, abi.ErrRTFeatureNotSupport); !strings.Contains(err.Text, "ropeway explain acltdtCreateDataset") {
		t.Error(err)
	}
	o := e.on(machine{product: "310P"})
	err = o.th.NotBuilt("aclrtSnapShotCallbackRegister", []uint64{0, 1, 0})
	if o.want(err, abi.ErrRTFeatureNotSupport); err.Text != "310P does not have this function" {
		t.Error(err)
	}
	err = e.th.NotBuilt("aclrtSnapShotCallbackRegister", []uint64{1<<32 - 2, 1, 0})
	if e.want(err, abi.ErrRTParamInvalid); !strings.HasSuffix(err.Text, "it is -2") || err.Arg != "stage" {
		t.Error(err)
	}
}
