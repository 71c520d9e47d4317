package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// A kernel of a program goes to the stream like a copy. CUDA reads its arguments at the launch, so the owner gets the
// launch back as soon as the next kernel is on the stream; the last one is kept until it is over, to name the kernel of
// a fault. A launch that is observed, that has a time limit, or whose arguments contain addresses of other arguments
// has a mark, and is kept until the mark has happened.
//
// The host reads arguments in device memory when all earlier tasks are over.

// latestKernel is a queue's state of the kernels on its stream.
type latestKernel struct {
	upto   uint64         // task number, from 1, of the last of them
	since  int            // number of kernels since the stream was last idle
	launch *driver.Launch // the last launch; nil: a mark has it, or there is none
	tag    driver.Tag
	kept   bool // a program keeps it
}

// giveBack returns the last launch to its owner, unless a program keeps it.
func (k *latestKernel) giveBack() {
	if k.launch != nil && !k.kept {
		k.launch.Return()
	}
	k.launch = nil
}

// flying reports whether a kernel may be on the stream. Mu is held.
func (q *queue) flying() bool { return q.kernels.upto > q.Completed() }

// noteKernel records that task number n is a kernel on the stream. Mu is held.
func (q *queue) noteKernel(n uint64, tag driver.Tag, l *driver.Launch) {
	q.noteKernels(1, latestKernel{upto: n, tag: tag, launch: l})
}

// noteKernels records count kernels; k is the last. Mu is held.
func (q *queue) noteKernels(count int, k latestKernel) {
	q.kernels.giveBack()
	if k.since = count; q.flying() {
		k.since += q.kernels.since
	}
	q.kernels = k
	q.load += fenceFrom // a launch takes as long
}

// kernelsOver returns the last launch to its owner, if it is over. Mu is held.
func (q *queue) kernelsOver() {
	if !q.flying() {
		q.kernels.giveBack()
	}
}

// launch is start for a kernel: it puts the kernel on the stream, and into m what its end needs. Mu is held, the GPU is
// entered.
func (q *queue) launch(l *driver.Launch, m *mark) bool {
	if !l.Copied {
		return false
	}
	if l.Limit > 0 {
		m.limit = l.Limit
		if q.v.gpu.recordBefore(m, q.stream) != libcuda.Success {
			return false
		}
	}
	if !q.put(l) {
		q.v.gpu.forgetBefore(m)
		return false
	}
	if l.Within || l.Limit > 0 || m.done != nil || q.Events.Ran != nil {
		m.launch = l
	}
	return true
}

// put puts a kernel on the stream; false if the host has to launch it. Mu is held.
func (q *queue) put(l *driver.Launch) bool {
	if q.repeats == nil {
		q.repeats = q.v.gpu.repeatsOf(q.stream)
	}
	r, err := q.v.gpu.launch(l, l.Args, q.stream, &q.room, q.repeats)
	return err == nil && r == libcuda.Success
}

// startLaunch is start for a kernel that needs no mark. Like startCopy it does not enter the GPU. Mu is held, and the
// stream is not in use.
func (q *queue) startLaunch(op *driver.Op) bool {
	l := op.Launch
	plain := q.Events.Ran == nil && op.Done == nil && l.Copied && !l.Within && l.Limit == 0
	if !plain || q.stream == 0 || q.v.gpu.Lost() || !q.put(l) {
		return false
	}
	q.latest = op.Tag
	q.noteKernel(q.Taken()+1, op.Tag, op.Launch)
	return true
}

// recordBefore records an event before the kernel of m, to measure the kernel. The GPU is entered.
func (c *engine) recordBefore(m *mark, stream uintptr) libcuda.Result {
	event, r := c.Event(libcuda.TimedEvent)
	if r != libcuda.Success {
		return r
	}
	if r = c.d.lib.EventRecord(event, stream); r != libcuda.Success {
		c.GiveEvent(event, libcuda.TimedEvent)
		return r
	}
	m.before = event
	return libcuda.Success
}

func (c *engine) forgetBefore(m *mark) {
	if m.before != 0 {
		c.GiveEvent(m.before, libcuda.TimedEvent)
		m.before = 0
	}
}

// late returns an error if a kernel took longer than its limit; CUDA cannot stop it.
func (c *engine) late(m *mark) error {
	defer c.forgetBefore(m)
	if m.before == 0 || m.made != libcuda.Success {
		return nil
	}
	c.Enter()
	ms, r := c.d.lib.EventElapsedTime(m.before, m.event)
	c.Leave()
	if took := time.Duration(float64(ms) * 1e6); r == libcuda.Success && took > m.limit {
		return &driver.KernelError{Failure: driver.KernelTimeout, Launch: m.launch,
			Err: fmt.Errorf("the kernel took %v, and may take %v; a GPU does not stop it", took, m.limit)}
	}
	return nil
}

// failureOf returns the failure of a kernel after which CUDA returned r.
func failureOf(r libcuda.Result) driver.KernelFailure {
	switch r {
	case libcuda.DeviceAssert, libcuda.IllegalInstruction, libcuda.LaunchFailed:
		return driver.KernelTrap
	case libcuda.LaunchTimeout:
		return driver.KernelTimeout
	}
	return driver.KernelException
}

// blame makes m the mark of the kernel that may have broken the GPU. That happens once. Mu is held.
func (q *queue) blame(m *mark) *latestKernel {
	k := q.kernels
	q.kernels = latestKernel{}
	if m.launch == nil && k.launch != nil {
		m.launch, m.tag, m.kept = k.launch, k.tag, k.kept
	} else {
		k.giveBack()
	}
	return &k
}

// kernelFault returns the error of a kernel after which CUDA returned r. It may be any of the last since kernels; l may
// be nil.
func (c *engine) kernelFault(l *driver.Launch, r libcuda.Result, since int) *driver.KernelError {
	name, note := "a kernel", ""
	if l != nil {
		if f, err := c.codeOf(l); err == nil {
			name = "kernel " + f.name
		}
	}
	if since > 1 {
		note = fmt.Sprintf("; it can be any of the last %d kernels: ASCEND_LAUNCH_BLOCKING=1 shows which", since)
	}
	word, text := c.d.lib.Describe(r)
	return &driver.KernelError{Failure: failureOf(r), Launch: l,
		Err: fmt.Errorf("%s broke GPU %d: %s: %s%s", name, c.Ordinal, word, text, note)}
}

// codeOf returns the function of a launch. It refuses a launch that needs an NPU.
func (c *engine) codeOf(l *driver.Launch) (*function, error) {
	m, ok := l.Module.(*module)
	if !ok || m.c != c {
		return nil, fmt.Errorf("BUG: %w: a kernel of another device", driver.ErrUnsupported)
	}
	at := 0
	if l.Per[0] == 0 || l.Code[0] == 0 {
		at = 1
	}
	switch f := (*m.functions.Load())[l.Code[at]]; {
	case f == nil:
		return nil, fmt.Errorf("BUG: %w: no function of the module", driver.ErrUnsupported)
	case l.Code[1-at] != 0 && l.Per[1-at] != 0:
		return nil, fmt.Errorf("%w: %s has two halves, which a GPU does not run at the same time",
			driver.ErrUnsupported,
			f.name)
	case l.First != 0:
		return nil, fmt.Errorf("%w: blocks of %s begin with number %d, on a GPU with 0", driver.ErrUnsupported, f.name,
			l.First)
	default:
		return f, nil
	}
}

// room is memory for the parameters of a launch. It is on the heap, and reused.
type room struct {
	libcuda.Shape
	words []byte // arguments in which addresses were replaced
}

// set fills s with the parameters of a launch.
func (s *room) set(f *function, l *driver.Launch, args uintptr) error {
	s.Shape = libcuda.Shape{Blocks: l.Grid, Threads: l.Threads, Shared: l.Shared, Together: l.Together, Args: args,
		Bytes: l.Size}
	if l.Grid == [3]uint32{} {
		s.Blocks, s.Threads = [3]uint32{l.Blocks, 1, 1}, [3]uint32{f.threads, 1, 1}
	}
	if f.known {
		if l.Size < f.bytes {
			return fmt.Errorf("%s has %d bytes of parameters, and the launch %d of arguments", f.name, f.bytes, l.Size)
		}
		s.Bytes = f.bytes
	}
	if s.Bytes > mostArgs {
		return fmt.Errorf("%w: %d bytes of arguments", driver.ErrUnsupported, s.Bytes)
	}
	return nil
}

// launch puts a kernel on a stream, with arguments that the host can read; the error reports a bad launch. Any context
// may be current, if there is one: CUDA returns an error if it is the wrong one. again, the repeats of the stream, may
// be nil.
func (c *engine) launch(l *driver.Launch, args, stream uintptr, s *room, again *repeats) (libcuda.Result, error) {
	f, r, err := c.shape(l, args, s)
	if err != nil || r != libcuda.Success {
		return r, err
	}
	if c.d.Moved() && s.Bytes > 0 {
		c.d.Gone.RLock()
		defer c.d.Gone.RUnlock()
		c.d.translate(s)
	}
	if again != nil && !s.Together && again.launch(c, l.Module.(*module), f, &s.Shape, stream) {
		return libcuda.Success, nil
	}
	return c.d.lib.LaunchShaped(f.code, &s.Shape, stream), nil
}

// shape fills s with the parameters of a launch, with the program's addresses.
func (c *engine) shape(l *driver.Launch, args uintptr, s *room) (*function, libcuda.Result, error) {
	f, err := c.codeOf(l)
	if err != nil {
		return nil, libcuda.Success, err
	}
	if err := s.set(f, l, args); err != nil {
		return nil, libcuda.Success, err
	}
	if was := f.shared.Load(); s.Shared > was {
		if r := c.d.lib.FuncAllowShared(f.code, s.Shared); r != libcuda.Success {
			return nil, r, nil
		}
		f.shared.CompareAndSwap(was, s.Shared)
	}
	return f, libcuda.Success, nil
}

// translate replaces addresses in arguments that differ for CUDA: device addresses of registered memory, and of memory
// that CUDA has mapped elsewhere. Space.Gone is held.
func (d *Driver) translate(s *room) {
	s.words = append(s.words[:0], bytesAt(s.Args, s.Bytes)...)
	changed := false
	for args := s.words; len(args) >= 8; args = args[8:] {
		addr := uintptr(binary.LittleEndian.Uint64(args))
		to := d.Translate(addr)
		if to != addr {
			binary.LittleEndian.PutUint64(args, uint64(to))
			changed = true
		}
	}
	if changed {
		s.Args = startOf(s.words)
	}
}

// mostArgs is the most bytes of arguments; CUDA accepts fewer.
const mostArgs = 64 << 10

// launchNow runs a kernel for the host's part of the queue, when all earlier tasks are over, and waits for the kernel.
func (q *queue) launchNow(l *driver.Launch) error {
	c, args := q.v.gpu, l.Args
	if !l.Copied && l.Size > 0 {
		n := min(l.Size, mostArgs)
		words := make([]byte, n)
		var pin runtime.Pinner // keeps words on the heap
		pin.Pin(&words[0])
		defer pin.Unpin()
		args = startOf(words)
		if err := q.v.d.carry(&driver.Op{Kind: driver.OpCopy, Dst: args, Src: l.Args, N: n}, true); err != nil {
			return err
		}
	}
	q.Mu.Lock()
	entered, stream := q.enter(), q.stream
	q.Mu.Unlock()
	if !entered {
		return fmt.Errorf("%w: GPU %d has no stream", driver.ErrLost, c.Ordinal)
	}
	defer c.Leave()
	m := mark{launch: l, limit: l.Limit, timed: l.Limit > 0}
	if m.event, m.made = c.Event(m.kind()); m.made != libcuda.Success {
		return c.Check("cuEventCreate", m.made)
	}
	defer c.GiveEvent(m.event, m.kind())
	if l.Limit > 0 {
		if r := c.recordBefore(&m, stream); r != libcuda.Success {
			return c.Check("cuEventRecord", r)
		}
	}
	defer c.forgetBefore(&m)
	r, err := c.launch(l, args, stream, new(room), nil)
	if err == nil {
		err = c.Check("cuLaunchKernel", r)
	}
	switch {
	case r.Sticky() && errors.Is(err, driver.ErrFault): // an earlier fault on the stream, unnoticed until now
		return c.kernelFault(l, r, 1)
	case errors.Is(err, driver.ErrLost):
		return err
	case err != nil:
		return &driver.KernelError{Failure: driver.KernelException, Launch: l, Err: err}
	}
	if r = c.d.lib.EventRecord(m.event, stream); r == libcuda.Success {
		r = c.d.lib.EventSynchronize(m.event)
	}
	if err := c.Check("a kernel", r); r.Sticky() {
		return c.kernelFault(l, r, 1)
	} else if err != nil {
		return err
	}
	return c.late(&m)
}
