// Package codes knows what functions do by their names, and what it means that they return a code.
package codes

import (
	"slices"
	"strings"

	"ropeway/internal/abi"
)

// contains reports whether one of some words is in the name of a function.
func contains(api string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(api, w) })
}

// Makes reports whether a function makes something that the program has to release.
func Makes(api string) bool {
	return contains(api, "Malloc", "Create", "Reserve", "Import", "Register")
}

// Releases reports whether a function releases something.
func Releases(api string) bool {
	return contains(api, "Free", "Destroy", "Unregister", "Unmap", "Release")
}

// Frees reports whether a function frees or unregisters memory.
func Frees(api string) bool { return contains(api, "Free", "Unregister") }

// Asks reports whether a function is a query.
func Asks(api string) bool { return contains(api, "Get", "Query", "Can", "Capabilit", "Peek") }

// MayDrop reports whether programs drop the code of a function for good reasons. A thread that serves reports calls
// repeatedly, before streams are subscribed and after they no longer are. Names for a recording fail where nothing
// records.
func MayDrop(api string) bool {
	return api == "aclrtProcessReport" || api == "aclrtProcessHostFunc" || strings.HasPrefix(api, "aclprof")
}

// Name is the name of a code in parentheses, after a space; "" if it has none.
func Name(code abi.Code) string {
	if name := code.Name(); name != "" {
		return " (" + name + ")"
	}
	return ""
}

// Ordinary are codes that a program may well expect: it initialises again what others have initialised, or waits for a
// time that it chose, or has aborted its tasks itself.
func Ordinary(code abi.Code) bool {
	switch code {
	case abi.ErrRepeatInitialize, abi.ErrRepeatFinalize, abi.ErrRTDeviceTaskAbort, abi.ErrRTStreamAbort,
		abi.ErrRTWaitTimeout, abi.ErrRTStreamSyncTimeout, abi.ErrRTEventSyncTimeout, abi.ErrRTReportTimeout,
		abi.ErrRTTimeout:
		return true
	}
	return false
}

// Unsupported reports whether a code says that something does not exist here: a program may call to find out.
func Unsupported(code abi.Code) bool {
	return code == abi.ErrRTFeatureNotSupport || code == abi.ErrFeatureUnsupported || code == abi.ErrApiNotSupport
}
