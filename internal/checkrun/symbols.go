package checkrun

import (
	"path/filepath"
	"sync"

	"ropeway/internal/finding"
	"ropeway/internal/symbol"
)

// symbols is made for the first process that cannot name its own frames.
var symbols = sync.OnceValue(symbol.New)

// lookUp names the frames of a process that could not name them: a forked child has no core to do it. The record has
// the files and the addresses of its functions.
func lookUp(r *finding.Record) {
	if r.Finding == nil {
		return
	}
	if f := r.Finding; f.Rule == forkAfterInit && len(f.Offence.Stack) > 0 && f.Offence.Stack[0].Address == 0 {
		// of an interpreter
		f.Summary, f.Advice, f.Offence.Call = finding.Python.Text(f.Summary), finding.Python.Text(f.Advice),
			finding.Python.Text(f.Offence.Call)
	}
	named(&r.Finding.Offence)
	for i := range r.Finding.Others {
		named(&r.Finding.Others[i])
	}
}

func named(s *finding.Site) {
	var stack []finding.Frame
	for i, f := range s.Stack {
		if f.Offset == 0 {
			if stack != nil {
				stack = append(stack, f)
			}
			continue
		}
		if stack == nil {
			stack = append(make([]finding.Frame, 0, len(s.Stack)), s.Stack[:i]...)
		}
		for _, known := range symbols().InFile(f.Module, f.Offset) {
			known.Module, known.Address = filepath.Base(f.Module), f.Address
			if known.Function == "" {
				known.Function = f.Function
			}
			stack = append(stack, known)
		}
	}
	if stack != nil {
		s.Stack = finding.Trim(stack)
	}
}
