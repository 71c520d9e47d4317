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

// answer keeps a nil *Error from becoming an error that is not nil. A checker is told of the others.
func (d *Device) answer(e *core.Error) error {
	if e == nil {
		return nil
	}
	d.r.tell(e)
	return e
}

// tell tells a checker, if there is one, that a call is answered with e.
func (r *Runtime) tell(e *core.Error) {
	if w := r.rt.Watch(); w != nil {
		w.Refused(r.t, e)
	}
}

// refuse is misuse that shows what kind of mistake it is, of memory at addr.
func (r *Runtime) refuse(api, arg, text string, m core.Mistake, addr Ptr) error {
	e := misuse(api, arg, text).(*Error)
	e.Mistake, e.Value = m, addr
	r.tell(e)
	return e
}

// misuse is the error for what the Go API itself refuses.
func misuse(api, arg, text string) error {
	return &Error{Code: abi.ErrRTParamInvalid, API: api, Arg: arg, Index: -1, Text: text}
}
