package launch

import (
	"fmt"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// Changes makes launches of kernels of one binary from other launches, for a model that changes its kernels while it
// runs.
type Changes struct {
	api string        // immutable, like all fields
	c   *core.Context // of the model
	b   *binary
}

// ChangesOf returns the Changes of a binary, whose code it loads on the device of c.
func ChangesOf(t *core.Thread, api string, c *core.Context, bin core.Handle) (*Changes, *core.Error) {
	b, err := findBinary(t, api, "info", bin)
	if err != nil {
		return nil, err
	}
	if err := notCPU(t, api, b); err != nil {
		return nil, err
	}
	if _, err := b.place(api, c, true); err != nil {
		return nil, err
	}
	return &Changes{api, c, b}, nil
}

// Make returns a launch of the kernel with number entry that replaces l, with the arguments and attributes of l. left
// is the launch to return to its owner now: l itself, unless it has the memory of the arguments.
func (m *Changes) Make(l *driver.Launch, entry uint64, blocks uint32) (fresh, left *driver.Launch, err error) {
	k := m.b.table.FindNumber(entry)
	if k == nil || m.b.old {
		return nil, nil, fmt.Errorf("no kernel of the binary has the number %d", entry)
	}
	p, e := m.b.place(m.api, m.c, true)
	if e != nil {
		return nil, nil, e
	}
	f := m.b.function(m.c.Runtime, p, k)
	if f == nil {
		return nil, nil, fmt.Errorf("the binary with kernel %s was unloaded", k.Name)
	}
	code, e := f.resolve(m.api, m.c)
	if e != nil {
		return nil, nil, e
	}
	n, err := stateOf(m.c.Runtime).memory.alloc(0)
	if err != nil {
		return nil, nil, err
	}
	old := l.Owner().(*pending)
	n.Launch = *l
	n.f, n.class, n.dumps, n.Over = f, f.k.Type, old.dumps, n
	n.ByAddress = n.class == kernel.AICPU
	n.Module, n.Code, n.Blocks = code.module, code.code, blocksOf(blocks)
	n.Per = (&request{f: f, c: m.c}).per()
	n.Module.Hold()
	if n.args, old.args = old.args, nil; n.args == nil {
		n.args = old // it has the memory of the arguments, and is kept until the last launch with them is over
		return &n.Launch, nil, nil
	}
	return &n.Launch, l, nil
}
