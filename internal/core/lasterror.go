package core

import "ropeway/internal/abi"

// PeekAtLastError is aclrtPeekAtLastError: the thread's last runtime error, 0 when there was none. Success of a call
// does not change it.
func (t *Thread) PeekAtLastError(level abi.LastErrLevel) abi.Code {
	if level != abi.ThreadLevel {
		return t.Done(badLevel("aclrtPeekAtLastError", level))
	}
	return t.last
}

// GetLastError is aclrtGetLastError: PeekAtLastError, and the error is forgotten.
func (t *Thread) GetLastError(level abi.LastErrLevel) abi.Code {
	if level != abi.ThreadLevel {
		return t.Done(badLevel("aclrtGetLastError", level))
	}
	code := t.last
	if code != abi.Success { // a thread made by ThreadIn has none and is never written
		t.last = abi.Success
	}
	return code
}

func badLevel(api string, level abi.LastErrLevel) *Error {
	return invalid(api, "level", "%d is not ACL_RT_THREAD_LEVEL (0), the only level there is", level)
}
