package check

import (
	"encoding/binary"

	"ropeway/internal/driver"
)

// Kernels take part in the order of their stream. Which memory they touch is not known: what their arguments lead to
// counts as written, so that nothing is reported that a kernel may have written, and is not judged.

// mostWords is how many words of arguments are looked at.
const mostWords = 8192

// launched notes what a kernel that is about to run may write: the allocations that its arguments name. mu is held.
func (c *Checker) launched(op *driver.Op) {
	l := op.Launch
	v, ok := driver.As[driver.HostViewer](c.under)
	if !ok || l.Size == 0 {
		return
	}
	args, err := v.View(l.Args, min(l.Size, 8*mostWords))
	if err != nil {
		return // the kernel will say so
	}
	for ; len(args) >= 8; args = args[8:] {
		if a := c.find(c.canonical(uintptr(binary.LittleEndian.Uint64(args)))); a != nil {
			a.written.add(a.start, a.end())
		}
	}
}
