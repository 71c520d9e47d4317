package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
	"ropeway/internal/kernel"
)

// blocks reports a kernel that runs with another number of blocks than it was launched with: a device takes 16 bits of
// the number. Checker.mu is held.
func (j *judge) blocks(w *work) {
	runs, s := w.op.Launch.Blocks, w.from.site
	if w.from.is().model != nil || s == nil {
		return
	}
	asked := runs
	if given := s.arguments(); len(given) > 1 && uint32(given[1]) > 0xFFFF && uint32(given[1])&0xFFFF == runs &&
		strings.HasPrefix(j.report.function(s), "aclrtLaunchKernel") {
		asked = uint32(given[1])
	}
	if runs != 0 && asked == runs {
		return
	}
	how := fmt.Sprintf("runs with %s", finding.Plural(int(runs), "block"))
	if asked != runs {
		how = fmt.Sprintf("is launched with %d blocks and runs with %d", asked, runs)
	}
	j.report.add(draft{
		rule: "out-of-bounds", least: finding.Warning, role: "submitted", offence: w.from, detail: "blocks",
		summary: fmt.Sprintf("kernel %s %s: a device takes the low 16 bits of their number", w.from.is().kernel, how),
		advice:  "Launch at most 65535 blocks, and let each do more.",
	})
}

// freedOperand reports that a kernel is given or touches freed memory, and returns whether at is in such memory. No
// allocation has at. Checker.mu is held.
func (j *judge) freedOperand(w *work, at uintptr, how string) bool {
	a := j.ledger.findGone(at)
	if a == nil || a.pooled {
		return false
	}
	if slices.Contains(w.lost, a) {
		return true // reported when it was freed
	}
	j.report.add(draft{
		rule: "use-after-free", role: "submitted", offence: w.from, lo: at, hi: a.end(), memory: a,
		summary: fmt.Sprintf("kernel %s is %s %s memory that was freed", w.from.is().kernel, how, a.kind()),
	})
	return true
}

// farthest is the greatest distance from the end of an allocation at which a fault is attributed to it.
const farthest = 1 << 20

// fault judges the access of a kernel that ended with a fault in device memory: unallocated pages are closed while it
// runs. words are its arguments. Checker.mu is held.
func (j *judge) fault(w *work, words []uintptr, err error) {
	var f *kernel.Fault
	if !errors.As(err, &f) || f.Signal != syscall.SIGSEGV && f.Signal != syscall.SIGBUS {
		return
	}
	at := j.ledger.canonical(uintptr(f.Address))
	if j.ledger.find(at) != nil {
		return
	}
	if a := j.ledger.findGone(at); a != nil {
		for _, w := range words {
			if j.ledger.find(w) == nil && j.ledger.findGone(w) == a {
				return // reported when it was about to run
			}
		}
		j.freedOperand(w, at, "using")
		return
	}
	_, a := upTo(&j.ledger.memory, at)
	if a == nil || a.ofHost() || at-a.end() >= farthest {
		return
	}
	j.report.add(draft{
		rule: "out-of-bounds", role: how(w.from), offence: w.from, lo: at, hi: at + 1, memory: a,
		summary: fmt.Sprintf("kernel %s touched what lies %s past the end of %d bytes of %s memory", w.from.is().kernel,
			count(at-a.end()), a.size, a.kind()),
	})
}

// account has the accesses of a kernel that has run: those that it declared, and the pages that it was seen to touch.
type account struct {
	said, seen       []kernel.Touch
	allSaid, allSeen bool
}

// asks makes a launch report its accesses to k.
func (k *account) asks(l *driver.Launch) {
	l.Touched = func(list []kernel.Touch, all bool) { k.said, k.allSaid = list, all }
	l.Seen = func(list []kernel.Touch, all bool) { k.seen, k.allSeen = list, all }
}

// kernel judges the accesses of a kernel that has run. words are its arguments. Checker.mu is held.
func (j *judge) kernel(w *work, p *past, words []uintptr, k *account) {
	declares := len(k.said) > 0 && k.allSaid
	for _, at := range words {
		if a := j.ledger.find(at); a != nil && !declares && !(k.allSeen && a.what == core.DeviceMemory) {
			a.written.Add(a.start, a.end())
		}
	}
	if !declares && !k.allSeen && len(k.seen) > 0 { // it may have read more addresses from memory
		j.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
			a.written.Add(a.start, a.end())
			return true
		})
	}
	for _, write := range []bool{false, true} { // it read before it wrote
		for _, m := range k.said {
			lo := j.ledger.canonical(m.Addr)
			hi := lo + uintptr(m.N)
			if m.Write != write || hi < lo {
				continue
			}
			a := j.used(w.born, lo)
			if a == nil {
				j.freedOperand(w, lo, "using")
				continue
			}
			j.bounds(&w.from, nil, j.ledger.find(lo), lo, hi, write)
			if !write && !a.left && w.born >= a.born {
				j.neverWritten(&w.from, a, lo, hi, nil, "read by kernel "+w.from.is().kernel)
			}
			j.access(w.line, p, a, lo, hi, write)
		}
	}
	j.seen(w, p, k, declares)
	j.repeatedKernel(w.line, k)
}

// Unloading a binary does not wait for its kernels. Here they keep their code; on hardware they may lose it. So it is a
// mistake if a kernel is in flight when its binary is unloaded, or if a model runs it later.

// loaded is a binary on a device with the launches of its kernels.
type loaded struct {
	last launches
	gone bool   // it was unloaded
	by   origin // where it was unloaded
}

// launched is a launch of a kernel, or an execution of a model.
type launched struct {
	line uint32
	n    uint64 // number on its line
	from origin
}

// launches has the last launch on each line.
type launches []launched

// add replaces the launch on t's line by t.
func (list *launches) add(w *work) {
	now := launched{w.line.id, w.n, w.from}
	if i := slices.IndexFunc(*list, func(l launched) bool { return l.line == now.line }); i >= 0 {
		(*list)[i] = now
		return
	}
	*list = append(*list, now)
}

// pending returns a launch that is not known to be complete, or nil.
func (list launches) pending(known clock) *launched {
	if i := slices.IndexFunc(list, func(l launched) bool { return !known.Has(l.line, l.n) }); i >= 0 {
		return &list[i]
	}
	return nil
}

// usesModule records the launch of a binary's kernel, and reports a model that launches it after the binary was
// unloaded: the core refuses other launches. Checker.mu is held.
func (j *judge) usesModule(w *work) {
	m := j.ledger.module(w.op.Launch.Module)
	if m.gone {
		j.report.add(draft{
			rule: "use-after-free", role: "submitted", offence: w.from, others: []other{{"unloaded", m.by}},
			summary: fmt.Sprintf("%s runs after its binary was unloaded", j.report.task(w.from)),
			advice:  "Destroy the model before aclrtBinaryUnLoad, or execute it no more.",
		})
	}
	m.last.add(w)
}
