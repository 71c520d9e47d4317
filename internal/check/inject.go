package check

import (
	"fmt"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
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

	seen, fired int // guarded by Checker.mu
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

// fires counts a call and reports whether it is the one to fail. Checker.mu is held.
func (i *Injection) fires(function string, stream int32, run bool) bool {
	if i.Function != function || i.Run != run || i.Stream >= 0 && i.Stream != stream {
		return false
	}
	i.seen++
	if i.Nth != 0 && i.seen != i.Nth {
		return false
	}
	i.fired++
	return true
}

// fires is the same for a fault of the checker, which says at once that it is made. mu is held.
func (c *Checker) fires(i *Injection, function string, stream int32, run bool) bool {
	if !i.fires(function, stream, run) {
		return false
	}
	if !c.ended {
		c.sink.Fired(finding.Shot{What: i.What, Times: i.fired})
	}
	return true
}

// injected is how an injected task fails.
type injected struct{ code abi.Code }

func (e injected) Error() string  { return "injected" }
func (e injected) Code() abi.Code { return e.code }

// arm makes a task fail if it is one that is to fail when it runs. mu is held.
func (c *Checker) arm(t *task) {
	if len(c.inject) == 0 || t.from.site == nil {
		return
	}
	name := c.function(t.from.site)
	for _, i := range c.inject {
		if c.fires(i, name, t.q.stream, true) {
			t.fails = injected{i.Code}
		}
	}
}

// Injecting reports whether faults are injected at all.
func (c *Checker) Injecting() bool { return len(c.inject) > 0 }

// Before is called by a face before it carries a call out; if it returns an error, the call returns that instead.
// stream is the handle that the call is given, 0 if it takes none.
func (c *Checker) Before(function string, stream core.Handle) *core.Error {
	if !c.Injecting() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	number := int32(-1)
	if h := c.handles[uintptr(stream)]; h != nil {
		number = h.r.Number
	}
	for _, i := range c.inject {
		if c.fires(i, function, number, false) {
			return &core.Error{API: function, Code: i.Code, Index: -1, Text: "injected by --inject " + i.What,
				Injected: true}
		}
	}
	return nil
}
