package codes

import (
	"testing"

	"ropeway/internal/abi"
)

// TestFunctions proves what names say of functions.
func TestFunctions(t *testing.T) {
	for _, tt := range []struct {
		name string
		is   func(api string) bool
		yes  string
		no   string
	}{
		{"makes", Makes, "aclrtCreateStream", "aclrtDestroyStream"},
		{"releases", Releases, "aclrtDestroyStream", "aclrtCreateStream"},
		{"frees", Frees, "aclrtFreeHost", "aclrtDestroyStream"},
		{"asks", Asks, "aclrtStreamQuery", "aclrtSynchronizeStream"},
		{"may be dropped", MayDrop, "aclrtProcessReport", "aclrtMemcpyAsync"},
	} {
		if !tt.is(tt.yes) || tt.is(tt.no) {
			t.Errorf("%s: %s %v, %s %v", tt.name, tt.yes, tt.is(tt.yes), tt.no, tt.is(tt.no))
		}
	}
}

// TestCodes proves what codes say.
func TestCodes(t *testing.T) {
	if !Ordinary(abi.ErrRTStreamSyncTimeout) || Ordinary(abi.ErrRTParamInvalid) {
		t.Error("ordinary codes")
	}
	if !Unsupported(abi.ErrRTFeatureNotSupport) || Unsupported(abi.ErrRTParamInvalid) {
		t.Error("unsupported codes")
	}
	if got := Name(abi.ErrRTStreamCaptured); got != " (ACL_ERROR_RT_STREAM_CAPTURED)" || Name(7) != "" {
		t.Errorf("names %q and %q", got, Name(7))
	}
	for code, named := range map[abi.Code]bool{abi.ErrRTStreamCaptured: false, abi.ErrStreamTaskGroupStatus: true,
		abi.ErrRTTaskTypeNotSupport: true, abi.ErrRTSubAclgraphIsCapturing: true} {
		if OfCapture(code, false) == named || !OfCapture(code, true) {
			t.Errorf("%d is of a capture: %v, named %v", code, OfCapture(code, false), OfCapture(code, true))
		}
		if LosesCapture(code) != named || named && CaptureAdvice(code) == "" {
			t.Errorf("%d: loses a capture %v, advice %q", code, LosesCapture(code), CaptureAdvice(code))
		}
	}
}
