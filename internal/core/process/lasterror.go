package process

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// PeekAtLastError is aclrtPeekAtLastError: the thread's last runtime error, 0 when there was none. Success of a call
// does not change it.
func PeekAtLastError(t *core.Thread, level abi.LastErrLevel) abi.Code {
	if level != abi.ThreadLevel {
		return t.Done(badLevel("aclrtPeekAtLastError", level))
	}
	return t.Last
}

// GetLastError is aclrtGetLastError: PeekAtLastError that clears the error.
func GetLastError(t *core.Thread, level abi.LastErrLevel) abi.Code {
	if level != abi.ThreadLevel {
		return t.Done(badLevel("aclrtGetLastError", level))
	}
	code := t.Last
	if code != abi.Success { // a thread of ThreadIn has none and is never written
		t.Last = abi.Success
	}
	return code
}

func badLevel(api string, level abi.LastErrLevel) *core.Error {
	return core.Invalid(api, "level", "%d is not ACL_RT_THREAD_LEVEL (0), the only level there is", level)
}
