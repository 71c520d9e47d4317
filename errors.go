package ropeway

import (
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/setup"
)

// Code is a return code of AscendCL. It is an error, so that errors.Is and errors.As find it in every error of this
// package:
//
//	if errors.Is(err, ropeway.ErrRTMemoryAllocation) { … }
//
// The codes that this package returns are constants; ropeway explain CODE says what to do about one.
type Code int32

// Error returns the number, the name in C and the meaning.
func (c Code) Error() string { return abi.Code(c).Error() }

// Name returns the name in C, "" if the number is no code of AscendCL.
func (c Code) Name() string { return abi.Code(c).Name() }

// Meaning returns what the code means, in a sentence; "" if the number is no code of AscendCL.
func (c Code) Meaning() string { return abi.Code(c).Meaning() }

// Error says why a call was refused, or how queued work failed.
type Error struct {
	Code  Code   // what a C program gets
	API   string // C function that does the same, as its header spells it, or a function of this package
	Arg   string // parameter of that function that is at fault, as its header spells it; "" if there is none
	Index int    // element of Arg, or copy of a [Batch]; -1 if Arg is no list
	Text  string // what is wrong, with the value and the limit
	Err   error  // what the driver says, or nil
}

// Error reads like
//
//	aclrtMemcpyBatchAsync: sizes[3]: 4096 bytes do not fit into 64: ACL error 100000 (ACL_ERROR_INVALID_PARAM): …
func (e *Error) Error() string {
	return (&core.Error{Code: abi.Code(e.Code), API: e.API, Arg: e.Arg, Index: e.Index, Text: e.Text,
		Err: e.Err}).Error()
}

// Unwrap returns the code and, if there is one, the driver's error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// openError says why Open failed.
type openError struct{ err *setup.Error }

func (e *openError) Error() string { return "ropeway: " + strings.Join(e.err.Lines, "\n") }

// Unwrap returns the code and, if there is one, the cause.
func (e *openError) Unwrap() []error {
	if e.err.Err == nil {
		return []error{Code(e.err.Code)}
	}
	return []error{Code(e.err.Code), e.err.Err}
}

// result is what a call of the device returns. Errors are reported to a checker.
func (d *Device) result(e *core.Error) error {
	if e == nil {
		return nil
	}
	return d.r.failed(e)
}

// failed makes an error of this package from one of the core, and reports it to a checker.
func (r *Runtime) failed(e *core.Error) error {
	r.t.ReportRefused(e)
	return public(e)
}

// refuse is misuse that shows what kind of mistake it is, of memory at addr.
func (r *Runtime) refuse(api, arg, text string, m core.Cause, addr core.Addr) error {
	e := core.Error{Code: abi.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text, Cause: m, Value: addr}
	return r.failed(&e)
}

// misuse is the error for what this package itself refuses.
func misuse(api, arg, text string) error {
	return &Error{Code: ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}
