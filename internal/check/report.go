package check

import (
	"fmt"
	"os"

	"ropeway/internal/abi"
	"ropeway/internal/finding"
)

// mostKept limits the number of different findings.
const mostKept = 10_000

// drop is a sink that drops everything.
type drop struct{}

func (drop) Start(finding.Start)       {}
func (drop) Finding(*finding.Finding)  {}
func (drop) Note(string)               {}
func (drop) Fired(finding.Shot)        {}
func (drop) Unclosed(*finding.Finding) {}
func (drop) End(finding.End)           {}

// foldKey is the identity of a finding: findings with equal keys are reported as one.
type foldKey struct {
	rule   string
	here   *stack
	there  *stack
	within *stack // the captured call
	detail string
}

// draft is a finding without names. Folding does not need them, and most folded findings are never written.
type draft struct {
	rule    string
	summary string
	calls   bool             // summary has %s for the offence and for the first other, calls that were captured
	least   finding.Severity // instead of the rule's
	role    string           // what happened at the offence
	offence origin
	others  []other
	times   []int   // number of calls that each of others stands for; nil: one
	lo, hi  uintptr // the bytes; lo == hi: none
	memory  *allocation
	advice  string // instead of the rule's
	inGo    string // instead of that, in a Go program; "": the same
	code    abi.Code
	detail  string // distinguishes findings that have the same stacks
	does    string // verbs of the accesses of the offence and, did, of the first other; "": any
	did     string
	whole   access // the whole range of the offence's access; lo == hi: just the bytes
}

// access is a range of bytes that something touches.
type access struct{ lo, hi uintptr }

type other struct {
	role string
	from origin
}

// on reports whether a rule is enabled.
func (c *Checker) on(rule string) bool { return !c.off[rule] }

// report sends a finding to the sink, or counts it if an equal one was reported before. mu is held.
func (c *Checker) report(d draft) {
	c.drafts++
	if c.held != nil {
		*c.held = append(*c.held, d)
		return
	}
	if c.ended || c.off[d.rule] || d.offence.site != nil && d.offence.site.ignored {
		return
	}
	c.blame(d.offence)
	c.nameCaptured(&d)
	key := foldKey{rule: d.rule, here: stackOf(d.offence), within: capturedIn(d.others), detail: d.detail}
	if len(d.others) > 0 {
		key.there = stackOf(d.others[0].from)
	}
	if i, ok := c.folded[key]; ok {
		c.again(i)
		return
	}
	if len(c.counts) >= mostKept {
		c.note(fmt.Sprintf("there are more than %d different findings; the others are not reported", mostKept))
		return
	}
	f := c.finding(d)
	// Stacks may differ and still read alike: the instructions of one memcpy.
	same := f.Key() + d.detail
	if i, ok := c.alike[same]; ok {
		c.folded[key] = i
		c.again(i)
		return
	}
	c.folded[key], c.alike[same] = len(c.counts), len(c.counts)
	c.counts = append(c.counts, 1)
	c.kept = append(c.kept, f)
	c.tiring = false
	f.Told = c.telling > 0
	c.sink.Finding(f)
}

// finding makes a finding of a draft, with its names. mu is held.
func (c *Checker) finding(d draft) *finding.Finding {
	rule, l := finding.ByName(d.rule), c.languageOf(d.offence)
	if d.offence.site == nil && len(d.others) > 0 {
		l = c.languageOf(d.others[0].from)
	}
	f := &finding.Finding{
		Rule: d.rule, Severity: rule.Severity, Summary: l.Text(d.summary), Advice: rule.AdviceIn(l),
		Offence: c.at(d.role, d.offence), Seed: c.seed, Process: os.Getpid(), Server: c.server, Count: 1,
		Code: int32(d.code),
	}
	if d.advice != "" {
		f.Advice = l.Text(d.advice)
	}
	if l == finding.Go && d.inGo != "" {
		f.Advice = d.inGo
	}
	if d.least != "" {
		f.Severity = d.least
	}
	for i, o := range d.others {
		if by := d.offence; o.role == d.role && by.task != 0 && o.from.site == by.site && o.from.task == by.task {
			continue // two tasks of one run of a model
		}
		s := c.at(o.role, o.from)
		if i < len(d.times) && d.times[i] > 1 {
			s.Count, s.Thread = d.times[i], 0 // the calls may be of many threads
		}
		f.Others = append(f.Others, s)
	}
	if d.calls {
		f.Summary = fmt.Sprintf(f.Summary, c.nameCall(d.offence, &f.Offence),
			c.nameCall(d.others[0].from, &f.Others[0]))
	}
	if a := d.memory; a != nil {
		if d.role != "allocated" {
			f.Others = append(f.Others, c.at("allocated", a.by))
		}
		if a.freed {
			f.Others = append(f.Others, c.at("freed", a.freedBy))
		}
	}
	if d.hi > d.lo {
		f.Bytes = c.bytes(d.lo, d.hi, d.memory)
	}
	return f
}

// again counts a finding that was reported before. mu is held.
func (c *Checker) again(i int) {
	c.counts[i]++
	c.kept[i].Count++
	c.tiring = c.counts[i] >= often
}

// often is the number of times that a mistake is found before pages are left open because of it, so that a loop
// proceeds.
const often = 256

// bytes describes a range of memory.
func (c *Checker) bytes(lo, hi uintptr, a *allocation) *finding.Bytes {
	b := &finding.Bytes{Address: uint64(lo), Length: uint64(hi - lo)}
	if a != nil {
		b.Offset = int64(lo - a.start)
		b.Allocation = &finding.Allocation{Kind: a.kind(), Device: a.device, Start: uint64(a.start), Size: a.size,
			Freed: a.freed}
	}
	return b
}

func stackOf(o origin) *stack {
	if o.site == nil {
		return nil
	}
	return o.site.stack
}

// note reports a limitation of this run, once. mu is held.
func (c *Checker) note(text string) {
	if !c.noted[text] {
		c.noted[text] = true
		c.sink.Note(text)
	}
}

// end sends the summary, once.
func (c *Checker) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	e := finding.End{Counts: c.counts, Tasks: c.tasks, Calls: c.calls.Load()}
	for _, i := range c.inject {
		e.Injected = append(e.Injected, i.Shot())
	}
	c.sink.End(e)
}
