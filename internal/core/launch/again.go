package launch

import (
	"bytes"
	"slices"

	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
)

// A plain launch has no attributes, no placeholders and no threads. The first one of a function passes all rules, and
// the launch that it makes is kept. Later ones use a copy of it: again checks only what depends on the thread, the
// stream and the moment. If one of these checks fails, the call checks all rules in their order.

// remember keeps the launch of f that has passed all checks.
func (f *function) remember(l *driver.Launch) {
	r := f.ready.Load()
	if r == nil || r.module != l.Module || r.again.Load() != nil || f.k.Type == kernel.AICPU {
		return
	}
	r.again.Store(&driver.Launch{Module: l.Module, Code: l.Code, Per: l.Per, Together: l.Together})
}

// again returns the launch of f that remember has kept, and the stream it goes to, which is s or the default one of c,
// the context of the thread. With these the call can fail only for want of memory. It returns nil if the rules have to
// be checked.
func (f *function) again(t *core.Thread, c *core.Context, s *core.Stream) (*core.Stream, *driver.Launch) {
	r := f.ready.Load()
	if r == nil || c == nil || r.dev != c.Device.Opened.Load() {
		return nil, nil
	}
	if s == nil {
		s = c.Default
	}
	as := r.again.Load()
	if as == nil || s.Context != c || !s.TakesLaunch() {
		return nil, nil
	}
	return s, as
}

// LaunchKernelWithBytes is LaunchKernelWithHostArgs with arguments of a Go program, which may be on a stack.
func LaunchKernelWithBytes(t *core.Thread, funcHandle core.Handle, numBlocks uint32, stream core.Handle,
	args []byte) *core.Error {
	const api = "aclrtLaunchKernelWithHostArgs"
	if f := stateOf(t.Runtime).functions.Get(funcHandle); f != nil && numBlocks != 0 {
		if s, err := t.Stream(api, "stream", stream); err == nil {
			if s, as := f.again(t, t.Current(), s); as != nil {
				return copyAgain(t, f, s, as, numBlocks, args)
			}
		}
	}
	kept := slices.Clone(args)
	return LaunchKernelWithHostArgs(t, funcHandle, numBlocks, stream, nil, core.AddrOf(kept), uint64(len(kept)), nil, 0)
}

// copyAgain makes a launch that is as another one, with a copy of arguments.
func copyAgain(t *core.Thread, f *function, s *core.Stream, as *driver.Launch, blocks uint32, args []byte) *core.Error {
	n := uint64(len(args))
	p, err := stateOf(t.Runtime).memory.room(n)
	if err != nil {
		return core.FromDriver("aclrtLaunchKernelWithHostArgs", "", err)
	}
	if room := p.bytes(n); !bytes.Equal(room, args) {
		copy(room, args)
	}
	p.put(t, f, s, as, blocks, p.room, n, true)
	return nil
}

// launchAgain makes a launch that is as another one, with arguments in device memory.
func launchAgain(t *core.Thread, f *function, s *core.Stream, as *driver.Launch, blocks uint32, args Addr,
	size uint64) *core.Error {
	p, err := stateOf(t.Runtime).memory.room(0)
	if err != nil {
		return core.FromDriver("aclrtLaunchKernel", "", err)
	}
	p.put(t, f, s, as, blocks, args, size, false)
	return nil
}

// put queues a launch that is as another one. The thread that ran the last launch of p has its memory in its cache, and
// a write takes it away from there, which costs more than all the rest: so what stays the same is not written.
func (p *pending) put(t *core.Thread, f *function, s *core.Stream, as *driver.Launch, blocks uint32, args Addr,
	size uint64, copied bool) {
	as.Module.Hold()
	if blocks, limit := blocksOf(blocks), process.OpLimit(t.Runtime); p.as != as || p.Blocks != blocks ||
		p.Args != args || p.Size != size || p.Copied != copied || p.Limit != limit {
		p.f, p.class, p.dumps, p.args, p.as = f, f.k.Type, false, nil, as
		p.Launch = *as
		p.Blocks, p.Args, p.Size, p.Copied, p.Over, p.Limit = blocks, args, size, copied, p, limit
	}
	s.PutLaunch(t, &p.Launch)
}
