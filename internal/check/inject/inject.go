// Package inject reads which faults are to be made, and counts the calls that they are for.
package inject

import (
	"fmt"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/finding"
)

// Injection is a fault to be made: the nth call of a function fails, or the task it submits does when it runs.
type Injection struct {
	What     string   // as it was asked for
	Function string   // C name
	Stream   int32    // number of the stream; -1: any
	Nth      int      // from 1; 0: every one
	Code     abi.Code // what the program gets
	Run      bool     // when the task runs, not at the call

	// The checker's lock guards these.
	called int // calls of Function on Stream
	seen   int // those that could fail: for Run, those with a task
	armed  int // those that are to fail
	fired  int // failures
}

// DeviceCodes is where the codes of devices begin: what has one of them goes wrong when a task runs.
const DeviceCodes = 507000

// ParseInjection reads FUNCTION[@streamN]:NTH=CODE[/run|/submit]. NTH is a number from 1, or * for every call. Codes
// from 507000 on are given when the task runs, others by the call, unless the end says otherwise. FUNCTION may have
// its Python name, too.
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

// ParseInjections reads a list with semicolons between its elements.
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

// isFor reports whether a call is one of those that are counted.
func (i *Injection) isFor(function string, stream int32) bool {
	return i.Function == function && (i.Stream < 0 || i.Stream == stream)
}

// Called counts a call, whether it can fail or not.
func (i *Injection) Called(function string, stream int32) {
	if i.isFor(function, stream) {
		i.called++
	}
}

// Fires counts a call that could fail, or for run the task of one, and reports whether it is the one to fail.
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

// Shot is what has become of it so far.
func (i *Injection) Shot() finding.Shot {
	return finding.Shot{What: i.What, Times: i.fired, Calls: i.called, Able: i.seen, Armed: i.armed}
}
