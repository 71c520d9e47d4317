package core

import (
	"errors"
	"fmt"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Error says why a call was refused, or how queued work failed. The code is what a C caller receives; the rest is for
// people.
type Error struct {
	Code     abi.Code
	API      string // entry point as the header spells it
	Arg      string // parameter as the header spells it; "" when none is at fault
	Index    int    // element of Arg in a batch; -1 otherwise
	Text     string // what is wrong, with the value and the limit
	Err      error  // the driver's own error, or nil
	Quiet    bool   // does not become the thread's last error
	Unbuilt  bool   // the function is not built: no product would help
	Injected bool   // no mistake of the program: it is to see what happens
	Minor    bool   // an ordinary end of a call: no message is kept, and the log has it at info

	Stream int32  // of Task, or a stream that a capture is about
	Task   uint32 // the task that failed, by its number on the stream; 0: the call itself did

	Cause  Cause   // what kind of mistake it shows, if that is clear
	Value  uintptr // the address or handle it is about, 0 if that is not clear
	Length uint64  // bytes at that address, 0 if that is not clear
	Model  uint32  // the model, or the capture of one, that it is about; 0: none
}

// Error reads like: aclrtMemcpyBatchAsync: sizes[3]: 4096 bytes do not fit into 64: ACL error 100000 (…).
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.API)
	if e.Arg != "" {
		b.WriteString(": ")
		b.WriteString(e.Arg)
		if e.Index >= 0 {
			fmt.Fprintf(&b, "[%d]", e.Index)
		}
	}
	if e.Text != "" {
		b.WriteString(": ")
		b.WriteString(e.Text)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	b.WriteString(": ")
	b.WriteString(e.Code.Error())
	return b.String()
}

// Is makes errors.Is(err, code) true whatever the call and the argument.
func (e *Error) Is(target error) bool { c, ok := target.(abi.Code); return ok && c == e.Code }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Recorded reports whether the error becomes the thread's last error: errors of the ACL layer never do.
func (e *Error) Recorded() bool {
	switch e.Code / 1000 {
	case 107, 207, 507:
		return !e.Quiet
	}
	return false
}

// NotRecorded marks e as one that does not become the last error.
func (e *Error) NotRecorded() *Error {
	if e != nil {
		e.Quiet = true
	}
	return e
}

// Fail makes an Error; format and args say what is wrong.
func Fail(api string, code abi.Code, arg, format string, args ...any) *Error {
	return &Error{Code: code, API: api, Arg: arg, Index: -1, Text: fmt.Sprintf(format, args...)}
}

// IsNull is the error for a NULL argument in the ACL layer.
func IsNull(api, arg string) *Error {
	return Fail(api, abi.ErrInvalidParam, arg, "is NULL")
}

// Invalid is the error of the ACL layer for a bad argument.
func Invalid(api, arg, format string, args ...any) *Error {
	return Fail(api, abi.ErrInvalidParam, arg, format, args...)
}

// Refused is the error of the runtime for a bad argument.
func Refused(api, arg, format string, args ...any) *Error {
	return Fail(api, abi.ErrRTParamInvalid, arg, format, args...)
}

// Unsupported is the error of a product, a form or a driver that lacks a feature.
func Unsupported(api, arg, format string, args ...any) *Error {
	return Fail(api, abi.ErrRTFeatureNotSupport, arg, format, args...)
}

// At names the element of the argument that is at fault.
func (e *Error) At(i int) *Error { e.Index = i; return e }

// FromDriver turns a driver's refusal of a call into an Error.
func FromDriver(api, arg string, err error) *Error {
	return &Error{Code: CallCode(err), API: api, Arg: arg, Index: -1, Err: err}
}

// coded is an error that brings its own code, as injected faults may.
type coded interface{ Code() abi.Code }

// CallCode is the code for a driver error seen inside a call.
func CallCode(err error) abi.Code {
	switch {
	case errors.Is(err, driver.ErrFault), errors.Is(err, driver.ErrNotAllocated):
		return abi.ErrRTParamInvalid
	case errors.Is(err, driver.ErrClosed):
		return abi.ErrRTContextNull
	case errors.Is(err, driver.ErrOverlap):
		return abi.ErrHostMemoryAlreadyRegistered
	case errors.Is(err, driver.ErrNotRegister):
		return abi.ErrHostMemoryNotRegistered
	case errors.Is(err, driver.ErrNoMemory):
		return abi.ErrRTMemoryAllocation
	case errors.Is(err, driver.ErrUnsupported):
		return abi.ErrRTFeatureNotSupport
	}
	return TaskCode(err)
}

// TaskCode is the code for a driver error of a task that ran.
func TaskCode(err error) abi.Code {
	var c coded
	var k *driver.KernelError
	switch {
	case errors.As(err, &c):
		return c.Code()
	case errors.As(err, &k):
		return kernelCode(k)
	case errors.Is(err, driver.ErrFault):
		return abi.ErrRTSysDma
	case errors.Is(err, driver.ErrTimeout):
		return abi.ErrRTTaskTimeout
	case errors.Is(err, driver.ErrLost):
		return abi.ErrRTLostHeartbeat
	case errors.Is(err, driver.ErrNoMemory):
		return abi.ErrRTMemoryAllocation
	}
	return abi.ErrRTDrvInternalError
}
