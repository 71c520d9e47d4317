package check

import (
	"testing"

	"ropeway/internal/abi"
)

// TestFunctionNames proves the classes of functions by their names.
func TestFunctionNames(t *testing.T) {
	for _, tt := range []struct {
		name string
		is   func(api string) bool
		yes  string
		no   string
	}{
		{"makes", makesObject, "aclrtCreateStream", "aclrtDestroyStream"},
		{"releases", releasesObject, "aclrtDestroyStream", "aclrtCreateStream"},
		{"frees", freesMemory, "aclrtFreeHost", "aclrtDestroyStream"},
		{"asks", asksOnly, "aclrtStreamQuery", "aclrtSynchronizeStream"},
		{"may be dropped", mayDropCode, "aclrtProcessReport", "aclrtMemcpyAsync"},
	} {
		if !tt.is(tt.yes) || tt.is(tt.no) {
			t.Errorf("%s: %s %v, %s %v", tt.name, tt.yes, tt.is(tt.yes), tt.no, tt.is(tt.no))
		}
	}
}

// TestCodesOfFunctions proves the classes of codes.
func TestCodesOfFunctions(t *testing.T) {
	if !ordinaryCode(abi.ErrRTStreamSyncTimeout) || ordinaryCode(abi.ErrRTParamInvalid) {
		t.Error("ordinary codes")
	}
	if !unsupportedCode(abi.ErrRTFeatureNotSupport) || unsupportedCode(abi.ErrRTParamInvalid) {
		t.Error("unsupported codes")
	}
	if got := codeName(abi.ErrRTStreamCaptured); got != " (ACL_ERROR_RT_STREAM_CAPTURED)" || codeName(7) != "" {
		t.Errorf("names %q and %q", got, codeName(7))
	}
	for code, named := range map[abi.Code]bool{abi.ErrRTStreamCaptured: false, abi.ErrStreamTaskGroupStatus: true,
		abi.ErrRTTaskTypeNotSupport: true, abi.ErrRTSubAclgraphIsCapturing: true} {
		if codeOfCapture(code, false) == named || !codeOfCapture(code, true) {
			t.Errorf("%d is of a capture: %v, named %v", code, codeOfCapture(code, false), codeOfCapture(code, true))
		}
		if losesCapture(code) != named || named && captureAdvice[code] == "" {
			t.Errorf("%d: loses a capture %v, advice %q", code, losesCapture(code), captureAdvice[code])
		}
	}
}
