// Package inject parses faults to inject, and counts the calls that they apply to.
package inject

import (
	"fmt"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/finding"
)

// Injection is a fault to inject: the nth call of a function fails, or the task that it submits.
type Injection struct {
	What     string   // text of the injection
	Function string   // C name
	Stream   int32    // number of the stream; -1: any
	Nth      int      // from 1; 0: every call
	Code     abi.Code // code that the program gets
	Run      bool     // when the task runs, not at the call

	// The checker's lock guards these.
	called int // calls of Function on Stream
	seen   int // calls that could fail: for Run, those with a task
	armed  int // calls or tasks that are to fail
	fired  int // failures
}

// DeviceCodes is the first code of devices: by default a task fails with such a code when it runs.
const DeviceCodes = 507000

// ParseInjection reads FUNCTION[@streamN]:NTH=CODE[/run|/submit]. NTH is a number from 1, or * for every call. Codes of
// 507000 and above are returned when the task runs, others by the call, unless the suffix says otherwise. FUNCTION may
// be the Python name.
func ParseInjection(text string) (Injection, error) {
	i := Injection{What: text, Stream: -1}
	bad := func(why string) (Injection, error) {
		return i,
			fmt.Errorf("%q is no injection: %s; it takes FUNCTION[@streamN]:NTH=CODE[/run|/submit], like "+
				"aclrtMalloc:3=207001", text, why)
	}
	left, right, ok := strings.Cut(text, "=")
	if !ok {
		return bad("there is no =CODE")
	}
	function, nth, ok := strings.Cut(left, ":")
	if !ok {
		return bad("there is no :NTH")
	}
	function, stream, at := strings.Cut(function, "@")
	if i.Function = finding.CName(function); !strings.HasPrefix(function, "acl") {
		return bad("a function of AscendCL begins with acl")
	}
	if at {
		n, err := strconv.ParseInt(strings.TrimPrefix(stream, "stream"), 10, 32)
		if err != nil || n < 0 || !strings.HasPrefix(stream, "stream") {
			return bad("a stream is @stream and its number")
		}
		i.Stream = int32(n)
	}
	if nth != "*" {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 {
			return bad("NTH is a number from 1 on, or *")
		}
		i.Nth = n
	}
	code, when, said := strings.Cut(right, "/")
	n, err := strconv.ParseInt(code, 10, 32)
	if err != nil || n == 0 {
		return bad("CODE is an error code")
	}
	i.Code, i.Run = abi.Code(n), n >= DeviceCodes
	switch {
	case !said:
	case when == "run":
		i.Run = true
	case when == "submit":
		i.Run = false
	default:
		return bad("after / comes run or submit")
	}
	return i, nil
}

// ParseInjections reads a list of injections separated by semicolons.
func ParseInjections(text string) (list []Injection, err error) {
	for _, word := range strings.Split(text, ";") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		i, err := ParseInjection(word)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// isFor reports whether the injection counts a call.
func (i *Injection) isFor(function string, stream int32) bool {
	return i.Function == function && (i.Stream < 0 || i.Stream == stream)
}

// Called counts a call, whether it can fail or not.
func (i *Injection) Called(function string, stream int32) {
	if i.isFor(function, stream) {
		i.called++
	}
}

// Fires counts a call that could fail, or for run its task, and reports whether it fails.
func (i *Injection) Fires(function string, stream int32, run bool) bool {
	if i.Run != run || !i.isFor(function, stream) {
		return false
	}
	i.seen++
	if i.Nth != 0 && i.seen != i.Nth {
		return false
	}
	i.armed++
	return true
}

// Fired counts a failure: a task of a model may fail each time it runs.
func (i *Injection) Fired() { i.fired++ }

// Shot returns the counts so far.
func (i *Injection) Shot() finding.Shot {
	return finding.Shot{What: i.What, Times: i.fired, Calls: i.called, Able: i.seen, Armed: i.armed}
}
