package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/finding"
)

// ruleOf has the rules of causes; what has other causes is an api-error, unless more is found.
var ruleOf = map[core.Cause]string{
	core.OutOfBounds: "out-of-bounds", core.PastEnd: "out-of-bounds", core.WrongDirection: "wrong-direction",
	core.HostToHost: "host-to-host-async", core.BothWays: "mixed-directions", core.Misaligned: "misaligned",
	core.NoContext: "wrong-context", core.OtherContext: "wrong-context", core.Unreachable: "peer-access",
}

// Refused implements core.CheckHooks.
func (c *Checker) Refused(t *core.Thread, err *core.Error) {
	if err.Cause == core.NoContext && err.Quiet {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.judge.originOf(t)
	defer c.report.failed(from, err)
	d := draft{role: "called", offence: from, summary: err.API + ": " + err.Text, detail: err.API}
	if err.Arg != "" {
		d.summary = err.API + ": " + err.Argument() + ": " + err.Text
	}
	at := c.ledger.canonical(err.Value)
	a := c.ledger.find(at)
	if a != nil && err.Length > 0 {
		d.memory, d.lo, d.hi = a, at, at+uintptr(err.Length)
	}
	if c.ledger.judgeCapture(&d, err) {
		if d.rule != "" {
			c.report.add(d)
		}
		return
	}
	if c.ledger.usedUp(&d, t, err) {
		c.report.add(d)
		return
	}
	d.rule = ruleOf[err.Cause]
	switch err.Cause {
	case core.PastEnd:
		if a == nil {
			a = c.ledger.rounded(at)
		}
		if a != nil {
			left := max(at, a.end()) - at
			d.memory, d.lo, d.hi = a, at, at+uintptr(err.Length)
			d.summary = fmt.Sprintf("%s: %s: %s at %#x go past the end of %s of %s memory, which has %d left "+
				"from there",
				err.API, err.Argument(), count(uintptr(err.Length)), err.Value, count(uintptr(a.size)), a.kind(), left)
		}
	case core.Unreachable:
		d.memory = a
	case core.NotToFree:
		c.ledger.badFree(&d, err, a)
	case core.Gone:
		if m := c.ledger.models[err.Model]; m != nil && c.ledger.judgeStale(d.offence, m) {
			return
		}
		if !c.ledger.isGone(&d, err) && releasesObject(err.API) && (a != nil || c.ledger.strange(&d, t.Caller(), err)) {
			c.ledger.badFree(&d, err, a)
		}
	}
	if d.rule != "" || c.report.apiError(&d, t.Caller(), err) {
		if rest, ok := strings.CutPrefix(d.summary, err.API+":"); ok && d.offence.site.api != "" {
			d.summary = d.offence.site.api + ":" + rest // the method of the Go program
		}
		c.report.add(d)
	}
}

// strange reports whether a call frees memory that is in no allocation and drops the code. A program that looks at the
// code may be trying several functions. Checker.mu is held.
func (l *ledger) strange(d *draft, by core.Caller, err *core.Error) bool {
	if err.Value == 0 || !freesMemory(err.API) || !l.report.drops(by, d.offence.site) {
		return false
	}
	d.summary = fmt.Sprintf("%s: %s: %#x is in no memory that can be freed", err.API, err.Arg, err.Value)
	return true
}

// badFree makes a finding of an address that cannot be freed; a is the allocation around it, or nil. Checker.mu is
// held.
func (l *ledger) badFree(d *draft, err *core.Error, a *allocation) {
	d.rule, d.memory = "invalid-free", a
	if a != nil && a.start != err.Value {
		d.lo, d.hi = err.Value, a.end()
		d.summary = fmt.Sprintf("%s: %s: %#x lies %s inside %s of %s memory at %#x", err.API, err.Arg, err.Value,
			count(err.Value-a.start), count(uintptr(a.size)), a.kind(), a.start)
	}
}

// isGone makes a finding of the use of a released resource, and returns false if there never was one. Checker.mu is
// held.
func (l *ledger) isGone(d *draft, err *core.Error) bool {
	again := releasesObject(err.API)
	rule, how := "use-after-free", "is used"
	if again {
		rule, how = "double-free", "is freed again"
	}
	if h := l.handles[err.Value]; h != nil && h.freed {
		d.rule, d.summary = rule, fmt.Sprintf("%s %s after it was %s", h, how, h.gone())
		d.others = []other{{"freed", h.freedBy}, {"made", h.by}}
		if h.r.Kind == core.BinaryHandle || h.r.Kind == core.FunctionHandle { // the load is not kept
			d.others = []other{{"unloaded", h.freedBy}}
			d.advice = "Unload a binary once, after the last launch of its functions."
		}
		if h.swept {
			d.advice = "Destroy the context, or reset its device, after the last use of what was made in it."
			d.inGo = "Close the device after the last use of what was made on it."
			if again {
				how = "is " + h.gone()
				d.advice = "Destroy it before its context goes: aclrtDestroyContext, aclrtResetDevice and " +
					"aclFinalize take what was made there."
				d.inGo = "Close it before its device: Device.Close and Runtime.Close take what was made there."
			}
			d.summary = fmt.Sprintf("%s %s after it has gone with its context", h, how)
		}
		return true
	}
	a := l.findGone(err.Value)
	if r := l.unregistered[err.Value]; a == nil && again {
		a = r
	}
	if a == nil || again && a.start != err.Value {
		return false
	}
	d.rule, d.summary = rule, fmt.Sprintf("%s memory %s after it was %s", a.kind(), how, a.gone())
	if err.Index >= 0 {
		d.summary = err.Argument() + ": " + d.summary
	}
	d.memory, d.lo, d.hi = a, err.Value, a.end()
	return true
}

// Warned implements core.CheckHooks.
func (c *Checker) Warned(t *core.Thread, d core.Warning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	given := d.Addr
	d.Addr = c.ledger.canonical(given)
	a := c.ledger.find(d.Addr)
	if d.Kind == core.LargeLimit && !c.ledger.tooLarge(a, d) {
		return
	}
	if d.Kind == core.StrayFree {
		c.judge.strayFree(c.judge.originOf(t), a)
		return
	}
	f := draft{role: "called", offence: c.judge.originOf(t), lo: d.Addr, hi: d.Addr + uintptr(d.Length), memory: a}
	name := cmp.Or(c.report.name(f.offence.site), "the call")
	switch d.Kind {
	case core.WrongKind:
		f.rule, f.summary = "wrong-direction", name+": "+d.Text
		if stale, at := c.ledger.staleAlias(f.offence, given); stale != nil {
			f.rule, f.memory = "use-after-free", stale
			f.lo, f.hi = at, at+uintptr(d.Length)
			f.summary = name + ": registered memory is used by its device address after it was unregistered"
		}
	case core.Pageable:
		f.rule, f.summary = "pageable-async", name+" is asynchronous, but blocked and copied synchronously: "+d.Text
	case core.PageableFails:
		f.rule, f.summary = "pageable-async", name+" was given ordinary host memory: "+d.Text
	case core.HostToHostAsync:
		f.rule, f.summary = "host-to-host-async", name+" copies from host to host: "+d.Text
	case core.LargeLimit:
		f.rule, f.least = "out-of-bounds", finding.Warning
		f.summary = fmt.Sprintf("%s: %s is %d, but %d bytes are left from there of %s of %s memory", name, d.Text,
			d.Length, a.end()-d.Addr, count(uintptr(a.size)), a.kind())
		f.advice = "Pass the size of the destination, or what is left of it: it is the limit that catches a " +
			"wrong count."
		f.detail = "limit"
	case core.EarlyWait:
		if q := c.schedule.byStream[d.Stream]; q != nil {
			q.early = &earlyWait{from: f.offence, event: d.Text}
		}
		return
	default:
		return
	}
	c.report.add(f)
}

// staleAlias returns memory that was unregistered and that a call is given by its device address, at: addr or another
// argument. a is nil if there is none. Checker.mu is held.
func (l *ledger) staleAlias(from origin, addr uintptr) (a *allocation, at uintptr) {
	addresses := []uint64{uint64(addr)}
	if from.site != nil {
		addresses = append(addresses, from.site.arguments()...)
	}
	for _, x := range addresses {
		if a := l.findGone(uintptr(x)); a != nil && a.what == core.RegisteredMemory {
			return a, uintptr(x)
		}
	}
	return nil, 0
}

// tooLarge reports whether the limit of a call goes past the end of its destination, which is in a. After registered
// memory the program may own more. Checker.mu is held.
func (l *ledger) tooLarge(a *allocation, d core.Warning) bool {
	if a == nil || a.what == core.RegisteredMemory {
		return false
	}
	return d.Length > uint64(l.reachOf(a, d.Addr+uintptr(d.Length))-d.Addr)
}

// earlyWait is a wait of a stream for an event that was not recorded yet, and so orders nothing.
type earlyWait struct {
	from  origin
	event string // its name
}

// codeOfCapture reports whether a code says that a capture does not allow a call, or is invalid. named: the error names
// a model.
func codeOfCapture(code abi.Code, named bool) bool {
	switch code {
	case abi.ErrRTCaptureDependency, abi.ErrRTStreamUnjoined, abi.ErrRTStreamCaptured, abi.ErrRTEventCaptured,
		abi.ErrRTCaptureModeNotSupport, abi.ErrRTStreamCaptureImplicit, abi.ErrStreamCaptureConflict,
		abi.ErrStreamTaskGroupIntr, abi.ErrRTStreamCaptureUnmatched, abi.ErrRTStreamCaptureWrongThread,
		abi.ErrRTCaptureModeBlockAsync, abi.ErrRTStreamCaptureInvalidated:
		return true
	}
	return named && losesCapture(code)
}

// losesCapture reports whether an error with this code that names a model says why its capture is invalid or has ended
// without a model.
func losesCapture(code abi.Code) bool {
	switch code {
	case abi.ErrStreamCaptureConflict, abi.ErrStreamTaskGroupIntr, abi.ErrRTTaskTypeNotSupport,
		abi.ErrStreamTaskGroupStatus, abi.ErrRTSubAclgraphIsCapturing:
		return true
	}
	return false
}

// captureAdvice has the advice on calls that a capture does not allow, if it differs from the rule's.
var captureAdvice = map[abi.Code]string{
	abi.ErrRTCaptureModeNotSupport: "Copy before the capture or after its end; or begin it with " +
		"ACL_MODEL_RI_CAPTURE_MODE_RELAXED; or call aclmdlRICaptureThreadExchangeMode around the copy.",
	abi.ErrRTCaptureModeBlockAsync: "Copy pinned memory, which does not make the copy a synchronous one; or begin " +
		"the capture with ACL_MODEL_RI_CAPTURE_MODE_RELAXED.",
	abi.ErrRTCaptureDependency: "Record the event in the capture, or let the host wait for it before the capture " +
		"begins.",
	abi.ErrRTStreamUnjoined: "Record an event on the stream that joined, after its last task, and let the stream " +
		"where the capture began wait for it.",
	abi.ErrStreamTaskGroupIntr: "End the task group (aclmdlRICaptureTaskGrpEnd) before the capture is given " +
		"anything else.",
	abi.ErrRTTaskTypeNotSupport: "Make the call before aclmdlRICaptureTaskGrpBegin, or after " +
		"aclmdlRICaptureTaskGrpEnd.",
	abi.ErrStreamTaskGroupStatus: "End the task group (aclmdlRICaptureTaskGrpEnd) before the capture, and capture " +
		"again: this capture is over.",
	abi.ErrRTSubAclgraphIsCapturing: "End the captures into the sub-models before that of the model, and capture " +
		"again: this capture is over.",
	abi.ErrStreamCaptureConflict: "Give each capture events of its own.",
	abi.ErrRTStreamCaptureWrongThread: "End the capture in the thread that began it, or begin it with " +
		"ACL_MODEL_RI_CAPTURE_MODE_RELAXED. This capture is over, and its model stays until it is destroyed.",
	abi.ErrRTStreamCaptureUnmatched: "End the capture on the stream where it began.",
}

// theCapture returns the capture that a refused call is about, or nil: the one named by the error, that of a stream
// among the call's arguments, or the latest open one. Checker.mu is held.
func (l *ledger) theCapture(err *core.Error, from origin) *model {
	if m := l.modelOf(err.Model); m != nil {
		return m
	}
	if from.site != nil {
		for _, x := range from.site.arguments() {
			h := l.handles[uintptr(x)]
			if h == nil || h.r.Kind != core.StreamHandle {
				continue
			}
			if m := l.captureOf(h.r.Number); m != nil {
				return m
			}
		}
	}
	var latest *model
	for _, m := range l.models {
		if m.open && (latest == nil || m.id > latest.id) {
			latest = m
		}
	}
	return latest
}

// captureOf returns the open capture that a stream takes part in, or nil. Checker.mu is held.
func (l *ledger) captureOf(stream int32) *model {
	for _, m := range l.models {
		if m.open && slices.ContainsFunc(m.streams, func(s captured) bool { return s.stream == stream }) {
			return m
		}
	}
	return nil
}

// judgeCapture makes a finding of a call that a capture does not allow or that has invalidated it. It returns false if
// the call is neither. Checker.mu is held.
func (l *ledger) judgeCapture(d *draft, err *core.Error) bool {
	if !codeOfCapture(err.Code, err.Model != 0) {
		return false
	}
	m := l.theCapture(err, d.offence)
	if m == nil {
		return false
	}
	if err.Code == abi.ErrRTStreamCaptureInvalidated {
		return true // the call that broke it is a finding
	}
	d.rule, d.code, d.detail = "broken-capture", err.Code, fmt.Sprint(err.API, int(err.Code))
	d.others = []other{{"began", m.began}}
	first, why := m.streams[0].stream, ""
	joined := slices.IndexFunc(m.streams, func(s captured) bool { return s.stream == err.Stream })
	if joined > 0 {
		d.others = append(d.others, other{"joined", m.streams[joined].joined})
	}
	switch {
	case err.Code == abi.ErrRTStreamUnjoined:
		why = fmt.Sprintf("stream %d joined the capture of stream %d and was not joined back", err.Stream, first)
	case losesCapture(err.Code):
		why = err.Text
	case err.Code == abi.ErrRTEventCaptured:
		why = fmt.Sprintf("the event is part of the capture of stream %d%s", first, m.whose(d.offence))
	case err.Code == abi.ErrRTStreamCaptureWrongThread:
		why = fmt.Sprintf("another thread began the capture of stream %d", first)
	case joined > 0:
		why = fmt.Sprintf("stream %d has joined the capture of stream %d%s", err.Stream, first, m.whose(d.offence))
	default:
		why = fmt.Sprintf("stream %d is being captured%s", first, m.whose(d.offence))
	}
	d.summary = fmt.Sprintf("%s returned %d%s: %s", err.API, err.Code, codeName(err.Code), why)
	if a := captureAdvice[err.Code]; a != "" {
		d.advice = a
	}
	return true
}

// whose says, after a comma, whether the thread of a call began the capture; "" if that is unknown.
func (m *model) whose(call origin) string {
	switch {
	case m.began.thread == 0 || call.thread == 0:
		return ""
	case m.began.thread == call.thread:
		return ", and the same thread began that"
	}
	return ", and another thread began that"
}
