package check

import (
	"fmt"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/check/codes"
	"ropeway/internal/core"
	"ropeway/internal/discard"
	"ropeway/internal/finding"
)

// Errors that no other rule is about are findings too: warnings where the program drops the code that a call
// returned, which its own code shows, and notes where it has it, because most programs that have it look at it.

// failure is a call that failed.
type failure struct {
	from origin
	api  string
	code abi.Code
}

// mostFailures is how many failed calls and tasks are remembered, for findings that follow from them.
const mostFailures = 64

// failed remembers a call. mu is held.
func (c *Checker) failed(from origin, err *core.Error) {
	c.failures = keepLast(c.failures, failure{from, err.API, err.Code})
}

// keepLast appends to a list of the last mostFailures things.
func keepLast[T any](list []T, last T) []T {
	if len(list) == mostFailures {
		list = append(list[:0], list[1:]...)
	}
	return append(list, last)
}

// taskName is a task, by its stream and its number there.
type taskName struct {
	stream int32
	task   uint32
}

// blame notes that a finding is about a task, if from is one. mu is held.
func (c *Checker) blame(from origin) {
	if from.task == 0 {
		return
	}
	if c.blamed == nil || len(c.blamed) >= mostGone {
		c.blamed = map[taskName]struct{}{}
	}
	c.blamed[taskName{from.stream, from.task}] = struct{}{}
}

// failedOn is the last call that failed and should have written to an allocation, nil if there is none: destinations
// are first arguments. mu is held.
func (c *Checker) failedOn(a *allocation) *failure {
	for i := len(c.failures) - 1; i >= 0; i-- {
		f := &c.failures[i]
		if s := f.from.site; s != nil && s.given > 0 && uintptr(s.room[0]) >= a.start && uintptr(s.room[0]) < a.end() {
			return f
		}
	}
	return nil
}

// notMade is the last call of a thread that failed and should have made something, nil if there is none. mu is held.
func (c *Checker) notMade(thread uint32) *failure {
	for i := len(c.failures) - 1; i >= 0; i-- {
		f := &c.failures[i]
		if f.from.thread == thread && codes.Makes(f.api) {
			return f
		}
	}
	return nil
}

// apiError makes a finding of a call that failed and that no other rule is about; false if it is none. mu is held.
func (c *Checker) apiError(d *draft, by core.Caller, err *core.Error) bool {
	coded, ok := by.(interface{ ReturnsCode() bool })
	if !ok || !coded.ReturnsCode() || err.Minor || codes.MayDrop(err.API) ||
		codes.Ordinary(err.Code) {
		return false // a Go program has an error in its hands
	}
	if _, found := c.blamed[taskName{err.Stream, err.Task}]; found && err.Task != 0 {
		return false // there is a finding that says why the task failed
	}
	dropped := c.drops(by, d.offence.site)
	null := err.Text == "is NULL"
	harmless := null && codes.Releases(err.API) // as free in C: nothing is left to do
	if !dropped && (codes.Asks(err.API) || codes.Unsupported(err.Code) || err.Injected) {
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
	d.summary = fmt.Sprintf("%s returned %d%s, and %s%s", err.API, err.Code, codes.Name(err.Code), how, why)
	for _, from := range c.failedTasks {
		if err.Task != 0 && from.stream == err.Stream && from.task == err.Task {
			d.others = []other{{"submitted", from}}
		}
	}
	if null {
		if f := c.notMade(d.offence.thread); f != nil {
			d.others = append(d.others, other{"failed", f.from})
			d.summary += fmt.Sprintf("; %s had failed before with %d", f.api, f.code)
		}
	}
	return true
}

// drops reports whether the program drops the code that the call of a thread returns: its interpreter knows, or its
// machine code shows. mu is held.
func (c *Checker) drops(by core.Caller, s *site) bool {
	if i, ok := by.(interface {
		Drops() (dropped, interpreted bool)
	}); ok {
		if dropped, interpreted := i.Drops(); interpreted {
			return dropped
		}
	}
	if s == nil || s.stack == nil || s.stack.InGo {
		return false
	}
	if !s.stack.Of.asked {
		s.stack.Of.asked, s.stack.Of.drops = true, discard.By(s.stack.PCs, discard.Self)
	}
	return s.stack.Of.drops
}
