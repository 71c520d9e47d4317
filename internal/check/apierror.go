package check

import (
	"fmt"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/discard"
	"ropeway/internal/finding"
)

// Errors without a rule of their own are findings too: a warning if the program drops the code of the call, which its
// machine code shows, and a note if it takes the code, because most programs that take it look at it.

// failure is a call that failed.
type failure struct {
	from origin
	api  string
	code abi.Code
}

// mostFailures limits the failed calls and tasks that are kept, for findings that follow from them.
const mostFailures = 64

// failed keeps a call that failed. Checker.mu is held.
func (r *report) failed(from origin, err *core.Error) {
	r.failures = keepLast(r.failures, failure{from, err.API, err.Code})
}

// keepLast appends to a list, which keeps the last mostFailures elements.
func keepLast[T any](list []T, last T) []T {
	if len(list) == mostFailures {
		list = append(list[:0], list[1:]...)
	}
	return append(list, last)
}

// taskName identifies a task by its stream and its number there.
type taskName struct {
	stream int32
	task   uint32
}

// blame records that there is a finding about a task, if from is one. Checker.mu is held.
func (r *report) blame(from origin) {
	if from.task == 0 {
		return
	}
	if r.blamed == nil || len(r.blamed) >= mostGone {
		r.blamed = map[taskName]struct{}{}
	}
	r.blamed[taskName{from.stream, from.task}] = struct{}{}
}

// failedOn returns the last failed call whose first argument, the destination, is in an allocation, or nil. Checker.mu
// is held.
func (r *report) failedOn(a *allocation) *failure {
	for i := len(r.failures) - 1; i >= 0; i-- {
		f := &r.failures[i]
		if s := f.from.site; s != nil && s.given > 0 && uintptr(s.room[0]) >= a.start && uintptr(s.room[0]) < a.end() {
			return f
		}
	}
	return nil
}

// notMade returns the last failed call of a thread that should have made an object, or nil. Checker.mu is held.
func (r *report) notMade(thread uint32) *failure {
	for i := len(r.failures) - 1; i >= 0; i-- {
		f := &r.failures[i]
		if f.from.thread == thread && makesObject(f.api) {
			return f
		}
	}
	return nil
}

// apiError makes a finding of a failed call without a rule of its own, and returns false if it is none. Checker.mu is
// held.
func (r *report) apiError(d *draft, by core.Caller, err *core.Error) bool {
	coded, ok := by.(interface{ ReturnsCode() bool })
	if !ok || !coded.ReturnsCode() || err.Minor || mayDropCode(err.API) || ordinaryCode(err.Code) {
		return false // a Go program gets an error value
	}
	if _, found := r.blamed[taskName{err.Stream, err.Task}]; found && err.Task != 0 {
		return false // a finding says why the task failed
	}
	dropped := r.drops(by, d.offence.site)
	null := err.Text == "is NULL"
	harmless := null && releasesObject(err.API) // like free(NULL) in C
	if !dropped && (asksOnly(err.API) || unsupportedCode(err.Code) || err.Injected) {
		return false
	}
	how := "the program got the code"
	d.rule, d.code, d.detail = "api-error", err.Code, fmt.Sprint(err.API, int(err.Code))
	if dropped {
		how = "the program does not look at the code"
	}
	if !dropped || harmless {
		d.least, d.advice = finding.Notice,
			"Nothing, if the program goes on in another way after this; else correct the cause."
	}
	why := strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": "+err.Code.Error()), err.API)
	d.summary = fmt.Sprintf("%s returned %d%s, and %s%s", err.API, err.Code, codeName(err.Code), how, why)
	for _, from := range r.failedTasks {
		if err.Task != 0 && from.stream == err.Stream && from.task == err.Task {
			d.others = []other{{"submitted", from}}
		}
	}
	if null {
		if f := r.notMade(d.offence.thread); f != nil {
			d.others = append(d.others, other{"failed", f.from})
			d.summary += fmt.Sprintf("; %s had failed before with %d", f.api, f.code)
		}
	}
	return true
}

// drops reports whether the program drops the code that a call returns: its interpreter knows, or its machine code
// shows it. Checker.mu is held.
func (r *report) drops(by core.Caller, s *site) bool {
	if i, ok := by.(interface {
		Drops() (dropped, interpreted bool)
	}); ok {
		if dropped, interpreted := i.Drops(); interpreted {
			return dropped
		}
	}
	if s == nil || s.stack == nil || s.stack.inGo {
		return false
	}
	if !s.stack.asked {
		s.stack.asked, s.stack.drops = true, discard.By(s.stack.pcs, discard.Self)
	}
	return s.stack.drops
}
