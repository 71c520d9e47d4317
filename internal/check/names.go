package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/finding"
)

// containsAny reports whether the name of a function contains one of some words.
func containsAny(api string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(api, w) })
}

// makesObject reports whether a function makes an object that the program has to release.
func makesObject(api string) bool {
	return containsAny(api, "Malloc", "Create", "Reserve", "Import", "Register")
}

// releasesObject reports whether a function releases an object.
func releasesObject(api string) bool {
	return containsAny(api, "Free", "Destroy", "Unregister", "Unmap", "Release", "UnLoad")
}

// freesMemory reports whether a function frees or unregisters memory.
func freesMemory(api string) bool { return containsAny(api, "Free", "Unregister") }

// asksOnly reports whether a function is a query.
func asksOnly(api string) bool { return containsAny(api, "Get", "Query", "Can", "Capabilit", "Peek") }

// mayDropCode reports whether programs have good reasons to drop the code of a function. A thread that serves reports
// calls repeatedly, before streams are subscribed and after they are unsubscribed. Naming things for a recording fails
// without a recording.
func mayDropCode(api string) bool {
	return api == "aclrtProcessReport" || strings.HasPrefix(api, "aclprof")
}

// codeName returns the name of a code in parentheses, after a space; "" if it has none.
func codeName(code abi.Code) string {
	if name := code.Name(); name != "" {
		return " (" + name + ")"
	}
	return ""
}

// ordinaryCode reports whether a program may well expect a code: it initialises again, waits with a limit, or has
// aborted its tasks itself.
func ordinaryCode(code abi.Code) bool {
	switch code {
	case abi.ErrRepeatInitialize, abi.ErrRepeatFinalize, abi.ErrRTDeviceTaskAbort, abi.ErrRTStreamAbort,
		abi.ErrRTWaitTimeout, abi.ErrRTStreamSyncTimeout, abi.ErrRTEventSyncTimeout, abi.ErrRTReportTimeout,
		abi.ErrRTTimeout:
		return true
	}
	return false
}

// unsupportedCode reports whether a code says that a feature does not exist here: a program may call to find out.
func unsupportedCode(code abi.Code) bool {
	return code == abi.ErrRTFeatureNotSupport || code == abi.ErrFeatureUnsupported || code == abi.ErrApiNotSupport
}

// kinds has words for resources: the name, for memory the word before "memory"; the past participle for the release;
// and whether they have addresses that tasks use.
var kinds = map[core.ResourceKind]struct {
	name, gone string
	memory     bool
}{
	core.DeviceMemory:      {"device", "freed", true},
	core.PinnedMemory:      {"pinned", "freed", true},
	core.MappedMemory:      {"mapped", "unmapped", true},
	core.ImportedMemory:    {"imported", "closed", true},
	core.ManagedMemory:     {"managed", "freed", true},
	core.RegisteredMemory:  {"registered", "unregistered", true},
	core.EventHandle:       {"event", "destroyed", false},
	core.StreamHandle:      {"stream", "destroyed", false},
	core.ContextHandle:     {"context", "destroyed", false},
	core.NotifyHandle:      {"notify", "destroyed", false},
	core.CountNotifyHandle: {"count notify", "destroyed", false},
	core.PoolHandle:        {"memory pool", "destroyed", false},
	core.PhysicalMemory:    {"physical memory", "freed", false},
	core.AddressRange:      {"address range", "released", false},
	core.ModelHandle:       {"model", "destroyed", false},
	core.BinaryHandle:      {"binary", "unloaded", false},
	core.FunctionHandle:    {"function", "unloaded", false},
}

// besides says for people where bytes beside an allocation are.
func besides(a *allocation, lo, hi uintptr) string {
	where, off := "past the end", lo-a.end()
	if lo < a.start {
		where, off = "before the start", a.start-hi
	}
	far := "just"
	if off > 0 {
		far = count(off)
	}
	return fmt.Sprintf("%s %s of %s of %s memory", far, where, count(uintptr(a.size)), a.kind())
}

// does returns the verb of an access, for people.
func does(write bool) string {
	if write {
		return "writes"
	}
	return "reads"
}

// did returns the verb of an access that has been made, for people.
func did(p *past, wrote bool) string {
	switch p.Way {
	case frees:
		return "frees"
	case gives:
		return "gave out in the order of its stream"
	}
	return does(wrote)
}

// stillDoes names the task of an access in flight and what the task may still do.
func (r *report) stillDoes(f flight) string {
	still := f.does
	switch f.does {
	case did(&past{Way: gives}, false):
		still = "may not have given out yet"
	case does(false), does(true), did(&past{Way: frees}, false):
		still = "may still " + strings.TrimSuffix(f.does, "s")
	}
	return fmt.Sprintf("a pending %s %s", strings.TrimPrefix(r.task(f.from), "a "), still)
}

// task names a task for people.
func (r *report) task(from origin) string {
	name := cmp.Or(r.name(from.site), "a task")
	if k := from.is().kernel; k != "" {
		name = fmt.Sprintf("kernel %s of %s", k, name)
	}
	if m := from.is().model; m != nil {
		name = fmt.Sprintf("%s of model %d", name, m.id)
	}
	if from.task == 0 { // an allocation of pool memory, which is no task
		return fmt.Sprintf("%s (on stream %d)", name, from.stream)
	}
	return fmt.Sprintf("%s (task %d of stream %d)", name, from.task, from.stream)
}

// name returns the program's name of the function at a site, "" if it is not known or s is nil.
func (r *report) name(s *site) string {
	switch {
	case s == nil:
		return ""
	case s.api != "":
		return s.api
	}
	return r.languageOf(origin{site: s}).Name(r.function(s))
}

// function returns the name of the C function at a site, "" if it is not known.
func (r *report) function(s *site) string {
	if !s.inCall || r.front == nil {
		return ""
	}
	name, _ := r.front.Describe(s.function, nil)
	return name
}

// how returns the role of an origin: it submitted a task, or called.
func how(from origin) string {
	if from.task == 0 {
		return "called"
	}
	return "submitted"
}

// count formats a number of bytes.
func count(n uintptr) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// are returns the verb that follows count(n).
func are(n uintptr, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func done(write bool) string {
	if write {
		return "written"
	}
	return "read"
}

// usedBy returns what op does with the bytes that it reads, for people.
func usedBy(op *driver.Op) string {
	switch {
	case combines(op):
		return "combined"
	case op.Kind == driver.OpLaunch:
		return "read as arguments of kernel " + kernelOf(op)
	}
	return "copied"
}

// were returns for example "was 1".
func were(n int) string {
	switch n {
	case 0:
		return "was none"
	case 1:
		return "was 1"
	}
	return fmt.Sprintf("were %d", n)
}

// nameCall names a captured call, for a summary.
func (r *report) nameCall(from origin, s *finding.Site) string {
	name := cmp.Or(r.name(from.site), "task")
	if place := s.Line(); place != "" {
		return fmt.Sprintf("the %s captured at %s", name, place)
	}
	return fmt.Sprintf("the captured %s", name)
}

// amount says how many bytes two accesses share, or how many pages if the bytes are unknown.
func amount(a, b *past, lo, hi uintptr) string {
	if a.Paged || b.Paged {
		return "memory on " + finding.Plural(countPages(lo, hi), "page")
	}
	return count(hi - lo)
}
