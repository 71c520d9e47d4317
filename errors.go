package ropeway

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/setup"
)

// Code is a return code of AscendCL. It is an error, so that errors.Is and errors.As find it in every error of this
// package:
//
//	if errors.Is(err, ropeway.ErrRTMemoryAllocation) { … }
//
// The codes that this package returns are constants; ropeway explain CODE gives advice about one.
type Code int32

// Error returns the number, the name in C and the meaning.
func (c Code) Error() string { return abi.Code(c).Error() }

// Name returns the name in C, "" if the number is not a code of AscendCL.
func (c Code) Name() string { return abi.Code(c).Name() }

// Meaning returns the meaning of the code in a sentence; "" if the number is not a code of AscendCL.
func (c Code) Meaning() string { return abi.Code(c).Meaning() }

// Error describes why a call was refused, or how queued work failed.
type Error struct {
	Code  Code   // code that a C program gets
	API   string // the equivalent C function, as its header spells it, or a function of this package
	Arg   string // invalid parameter of that function, as its header spells it; "": none
	Index int    // element of Arg, or copy of a [Batch]; -1 if Arg is not a list
	Text  string // what is wrong, with the value and the limit
	Err   error  // the driver's error, or nil
}

// Error returns a line that names the method:
//
//	Stream.CopyBatch: sizes[3]: 4096 bytes do not fit into 64 (100000)
func (e *Error) Error() string {
	c := core.Error{API: cmp.Or(abi.GoName(e.API), e.API), Arg: e.Arg, Index: e.Index, Text: e.Text, Err: e.Err}
	switch {
	case errors.Is(c.Err, driver.ErrNoMemory) && c.Text != "":
		c.Arg = "" // the text begins with the size
	case c.Text == "" && c.Err == nil:
		c.Text = e.Code.Meaning()
	}
	return fmt.Sprintf("%s (%d)", c.Reason(), e.Code)
}

// Unwrap returns the code and, if there is one, the driver's error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Err}
}

// openError is the error of Open.
type openError struct{ err *setup.Error }

func (e *openError) Error() string { return "ropeway: " + strings.Join(e.err.Lines, "\n") }

// Unwrap returns the code and, if there is one, the cause.
func (e *openError) Unwrap() []error {
	if e.err.Err == nil {
		return []error{Code(e.err.Code)}
	}
	return []error{Code(e.err.Code), e.err.Err}
}

// result converts the error of a core call, and reports it to a checker.
func (d *Device) result(e *core.Error) error {
	if e == nil {
		return nil
	}
	return d.r.failed(e)
}

// failed converts an error of the core, and reports it to a checker.
func (r *Runtime) failed(e *core.Error) error {
	r.t.ReportRefused(e)
	return public(e)
}

// refuse is misuse with the kind of mistake, for memory at addr.
func (r *Runtime) refuse(api, arg, text string, m core.Cause, addr core.Addr) error {
	e := core.Error{Code: abi.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text, Cause: m, Value: addr}
	return r.failed(&e)
}

// misuse returns the error for a call that this package refuses itself.
func misuse(api, arg, text string) error {
	return &Error{Code: ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}
