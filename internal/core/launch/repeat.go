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
// its launch is kept. Later ones copy it: repeatable checks only what depends on the thread, the stream and the moment.
// If one of these checks fails, the call checks all rules in their order.

// remember keeps the launch of f that has passed all checks.
func (f *function) remember(l *driver.Launch) {
	r := f.ready.Load()
	if r == nil || r.module != l.Module || r.plain.Load() != nil || f.k.Type == kernel.AICPU {
		return
	}
	r.plain.Store(&driver.Launch{Module: l.Module, Code: l.Code, Per: l.Per, Together: l.Together})
}

// repeatable returns the kept launch of f and its stream: s, or the default stream of c, the thread's context. A copy
// of that launch can fail only for lack of memory. It returns nil if the rules have to be checked.
func (f *function) repeatable(c *core.Context, s *core.Stream) (*core.Stream, *driver.Launch) {
	r := f.ready.Load()
	if r == nil || c == nil || r.dev != c.Device.Opened.Load() {
		return nil, nil
	}
	if s == nil {
		s = c.Default
	}
	as := r.plain.Load()
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
			if s, as := f.repeatable(t.Current(), s); as != nil {
				return repeatCopied(t, f, s, as, numBlocks, args)
			}
		}
	}
	kept := slices.Clone(args)
	return LaunchKernelWithHostArgs(t, funcHandle, numBlocks, stream, nil, core.AddrOf(kept), uint64(len(kept)), nil, 0)
}

// repeatCopied queues a copy of the launch as, with a copy of args.
func repeatCopied(t *core.Thread, f *function, s *core.Stream, as *driver.Launch, blocks uint32,
	args []byte) *core.Error {
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

// repeatLaunch queues a copy of the launch as, with arguments in device memory.
func repeatLaunch(t *core.Thread, f *function, s *core.Stream, as *driver.Launch, blocks uint32, args Addr,
	size uint64) *core.Error {
	p, err := stateOf(t.Runtime).memory.room(0)
	if err != nil {
		return core.FromDriver("aclrtLaunchKernel", "", err)
	}
	p.put(t, f, s, as, blocks, args, size, false)
	return nil
}

// put queues a copy of as, rewriting only the fields that differ. The memory of p is in the cache of the core that ran
// its last launch; a write would move the line, which costs more than the rest of the call.
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
