package core

import (
	"errors"
	"fmt"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Error describes why a call was refused or how queued work failed. A C caller receives the code; the rest is for
// messages.
type Error struct {
	Code     abi.Code
	API      string // entry point as the header spells it
	Arg      string // parameter as the header spells it; "" when none is at fault
	Index    int    // element of Arg in a batch; -1 otherwise
	Text     string // the reason, with the value and the limit
	Err      error  // the driver's own error, or nil
	Quiet    bool   // does not become the thread's last error
	Unbuilt  bool   // the function is not built, for any product
	Injected bool   // the checker injected it
	Minor    bool   // an expected end of a call: no message is kept, and it is logged at info

	Stream int32  // of Task, or a stream of the capture
	Task   uint32 // the number of the failed task on the stream; 0 if the call itself failed

	Cause  Cause   // the kind of mistake, if known
	Value  uintptr // the address or handle concerned, or 0
	Length uint64  // bytes at that address, or 0
	Model  uint32  // the model or capture concerned, or 0
}

// Error returns a text like: aclrtMemcpyBatchAsync: sizes[3]: 4096 bytes do not fit into 64: ACL error 100000 (…).
func (e *Error) Error() string { return e.Reason() + ": " + e.Code.Error() }

// Reason returns the text without the code.
func (e *Error) Reason() string {
	var b strings.Builder
	b.WriteString(e.API)
	if e.Arg != "" {
		b.WriteString(": ")
		b.WriteString(e.Argument())
	}
	if e.Text != "" {
		b.WriteString(": ")
		b.WriteString(e.Text)
	}
	if e.Err != nil && (e.Text == "" || !errors.Is(e.Err, driver.ErrNoMemory)) { // else the text has the numbers
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Argument returns the parameter at fault, with the element of a list: sizes[3].
func (e *Error) Argument() string {
	if e.Index < 0 {
		return e.Arg
	}
	return fmt.Sprintf("%s[%d]", e.Arg, e.Index)
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

// Fail returns an Error; format and args describe the reason.
func Fail(api string, code abi.Code, arg, format string, args ...any) *Error {
	return &Error{Code: code, API: api, Arg: arg, Index: -1, Text: fmt.Sprintf(format, args...)}
}

// IsNull returns the ACL layer's error for a NULL argument.
func IsNull(api, arg string) *Error {
	return Fail(api, abi.ErrInvalidParam, arg, "is NULL")
}

// Invalid returns the ACL layer's error for a bad argument.
func Invalid(api, arg, format string, args ...any) *Error {
	return Fail(api, abi.ErrInvalidParam, arg, format, args...)
}

// Refused returns the runtime's error for a bad argument.
func Refused(api, arg, format string, args ...any) *Error {
	return Fail(api, abi.ErrRTParamInvalid, arg, format, args...)
}

// Unsupported returns the error for a feature that the product, the form or the driver lacks.
func Unsupported(api, arg, format string, args ...any) *Error {
	return Fail(api, abi.ErrRTFeatureNotSupport, arg, format, args...)
}

// At sets the element of the argument that is at fault.
func (e *Error) At(i int) *Error { e.Index = i; return e }

// FromDriver converts a driver's refusal of a call.
func FromDriver(api, arg string, err error) *Error {
	return &Error{Code: CallCode(err), API: api, Arg: arg, Index: -1, Err: err}
}

// coded is an error with a code of its own, such as an injected fault.
type coded interface{ Code() abi.Code }

// CallCode returns the code for a driver error during a call.
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

// TaskCode returns the code for a driver error of a task.
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
