package ropeway

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Code is an ACL return code. It is an error, so that errors.Is(err, ropeway.ErrRTParamInvalid) works.
type Code = abi.Code

// Error says why a call was refused, or how queued work failed: the code, the C entry point, the argument and its index
// in a batch (-1 elsewhere), what is wrong with it, and the cause.
type Error = core.Error

// asError keeps a nil *Error from becoming an error that is not nil.
func asError(e *core.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// misuse is the error for what the Go API itself refuses.
func misuse(api, arg, text string) error {
	return &Error{Code: abi.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}
