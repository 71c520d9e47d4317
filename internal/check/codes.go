package check

import (
	"slices"
	"strings"

	"ropeway/internal/abi"
)

// containsAny reports whether the name of a function contains one of some words.
func containsAny(api string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(api, w) })
}

// makesObject reports whether a function makes an object that the program has to release.
func makesObject(api string) bool {
	return containsAny(api, "Malloc", "Create", "Reserve", "Import", "Register")
}

// releasesObject reports whether a function releases an object.
func releasesObject(api string) bool {
	return containsAny(api, "Free", "Destroy", "Unregister", "Unmap", "Release", "UnLoad")
}

// freesMemory reports whether a function frees or unregisters memory.
func freesMemory(api string) bool { return containsAny(api, "Free", "Unregister") }

// asksOnly reports whether a function is a query.
func asksOnly(api string) bool { return containsAny(api, "Get", "Query", "Can", "Capabilit", "Peek") }

// mayDropCode reports whether programs have good reasons to drop the code of a function. A thread that serves reports
// calls repeatedly, before streams are subscribed and after they are unsubscribed. Naming things for a recording fails
// without a recording.
func mayDropCode(api string) bool {
	return api == "aclrtProcessReport" || strings.HasPrefix(api, "aclprof")
}

// codeName returns the name of a code in parentheses, after a space; "" if it has none.
func codeName(code abi.Code) string {
	if name := code.Name(); name != "" {
		return " (" + name + ")"
	}
	return ""
}

// ordinaryCode reports whether a program may well expect a code: it initialises again, waits with a limit, or has
// aborted its tasks itself.
func ordinaryCode(code abi.Code) bool {
	switch code {
	case abi.ErrRepeatInitialize, abi.ErrRepeatFinalize, abi.ErrRTDeviceTaskAbort, abi.ErrRTStreamAbort,
		abi.ErrRTWaitTimeout, abi.ErrRTStreamSyncTimeout, abi.ErrRTEventSyncTimeout, abi.ErrRTReportTimeout,
		abi.ErrRTTimeout:
		return true
	}
	return false
}

// unsupportedCode reports whether a code says that a feature does not exist here: a program may call to find out.
func unsupportedCode(code abi.Code) bool {
	return code == abi.ErrRTFeatureNotSupport || code == abi.ErrFeatureUnsupported || code == abi.ErrApiNotSupport
}
