package transfer

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
)

// Memcpy is aclrtMemcpy: the bytes have arrived when it returns. The direction follows from the addresses; the copy is
// not ordered with any stream.
func Memcpy(t *core.Thread, dst core.Addr, destMax uint64, src core.Addr, count uint64,
	kind abi.MemcpyKind) *core.Error {
	done, err := checkMemcpy(t, dst, destMax, src, count, kind)
	if !done {
		err = memcpy(t, "aclrtMemcpy", dst, src, count, kind)
	}
	return t.Bounded(err, "destMax", dst, destMax, count)
}

// memcpy copies for a call whose arguments were checked.
func memcpy(t *core.Thread, api string, dst, src core.Addr, count uint64, kind abi.MemcpyKind) *core.Error {
	if dst == src {
		return nil
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if err := c.Aborting(api); err != nil {
		return err
	}
	if err := t.WhileCaptured(api, c); err != nil {
		return err
	}
	return copyNow(t, api, c.Device, dst, src, count, kind)
}

// fitsInto refuses more bytes than destMax has room for.
func fitsInto(_ *core.Thread, api string, dst core.Addr, destMax, count uint64) *core.Error {
	if count <= destMax {
		return nil
	}
	return tooMuch(api, dst, count, destMax)
}

func tooMuch(api string, dst core.Addr, count, destMax uint64) *core.Error {
	return core.Refused(api, "count", "%d bytes do not fit into destMax, %d", count, destMax).Because(core.OutOfBounds,
		0).Of(dst, count)
}

// copyNow copies in the calling thread, for device d.
func copyNow(t *core.Thread, api string, d *core.Device, dst, src core.Addr, n uint64,
	kind abi.MemcpyKind) *core.Error {
	to, err := t.Runtime.Locate(api, "dst", dst, n)
	if err != nil {
		return err
	}
	from, err := t.Runtime.Locate(api, "src", src, n)
	if err != nil {
		return err
	}
	if err := Peers(t, api, d, dst, src, from, to); err != nil {
		return err
	}
	err = t.Run(api, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n})
	return t.Compare(err, kind, from.Place, to.Place, src, n)
}

// MemcpyAsync is aclrtMemcpyAsync. With pinned memory and between devices it only queues the copy; with pageable
// memory it waits for the stream and copies before it returns.
func MemcpyAsync(t *core.Thread, dst core.Addr, destMax uint64, src core.Addr, count uint64, kind abi.MemcpyKind,
	stream core.Handle) *core.Error {
	if t.RepeatCopy(dst, destMax, src, count, kind, stream) {
		return nil
	}
	s, c, done, err := checkMemcpyAsync(t, dst, destMax, src, count, kind, stream)
	if !done {
		err = memcpyAsync(t, "aclrtMemcpyAsync", c, s, dst, src, count, kind, stream)
	}
	return t.Bounded(err, "destMax", dst, destMax, count)
}

// MemcpyAsyncWithCondition is aclrtMemcpyAsyncWithCondition, the older name of MemcpyAsync.
func MemcpyAsyncWithCondition(t *core.Thread, dst core.Addr, destMax uint64, src core.Addr, count uint64,
	kind abi.MemcpyKind, stream core.Handle) *core.Error {
	s, c, done, err := checkMemcpyAsyncWithCondition(t, dst, destMax, src, count, kind, stream)
	if !done {
		err = memcpyAsync(t, "aclrtMemcpyAsyncWithCondition", c, s, dst, src, count, kind, stream)
	}
	return t.Bounded(err, "destMax", dst, destMax, count)
}

// memcpyAsync copies for a call whose arguments were checked. s is nil if stream is the default one.
func memcpyAsync(t *core.Thread, api string, c *core.Context, s *core.Stream, dst, src core.Addr, count uint64,
	kind abi.MemcpyKind, stream core.Handle) *core.Error {
	hosts := kind == abi.MemcpyHostToHost && !t.Runtime.OneMemory
	late := t.Runtime.Product.LateHostErrors
	if hosts && (t.Runtime.Product.NoHostKind || t.Runtime.Strict && !late) {
		return noHostKind(api)
	}
	if t.Runtime.Aligned {
		if err := alignedCopy(api, dst, src); err != nil {
			return err
		}
	}
	if hosts && late {
		return failLater(t, api, c, s, kind)
	}
	if kind == abi.MemcpyHostToBufToDevice && !t.Runtime.OneMemory {
		return copyBuffered(t, api, c, s, dst, src, count)
	}
	epoch := t.Runtime.Epoch.Load()
	from, err := t.Runtime.Locate(api, "src", src, count)
	if err != nil {
		return err
	}
	to, err := t.Runtime.Locate(api, "dst", dst, count)
	if err != nil {
		return err
	}
	pageable := false
	if from.Place == driver.OnDevice && to.Place == driver.Host || from.Place == driver.Host &&
		to.Place == driver.OnDevice {
		// The usual case needs no table: the real direction replaces kind.
	} else if t.Runtime.OneMemory {
		pageable = (from.Place == driver.Pageable || to.Place == driver.Pageable) &&
			kind != abi.MemcpyHostToHost && kind != abi.MemcpyDeviceToDevice
	} else {
		real, ok := core.CorrectKind(kind, from.Place, to.Place)
		if !ok {
			return core.Refused(api, "kind", "%v does not go with a copy from %s to %s", kind,
				core.PlaceName(from.Place), core.PlaceName(to.Place)).Because(core.WrongDirection, 0)
		}
		if real == abi.MemcpyHostToHost && !late {
			return noHostKind(api)
		}
		if dst == src {
			return nil
		}
		pageable = core.HostIsPageable(real, from.Place, to.Place) || core.ToPageable(from.Place, to.Place)
		if late && (pageable || real == abi.MemcpyHostToHost) {
			return failLater(t, api, c, s, real)
		}
	}
	if dst == src {
		return nil
	}
	if pageable {
		err := copyPageable(t, api, c, s, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: count})
		return t.Compare(err, kind, from.Place, to.Place, src, count)
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	if err := Peers(t, api, c.Device, dst, src, from, to); err != nil {
		return err
	}
	if from.Place == driver.Managed || to.Place == driver.Managed {
		return memory.LaunchManaged(t, api, s, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: count})
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	if l := s.Lane(); l != nil && l.KeepCopy(t, dst, src, count) {
		return nil
	}
	s.PutCopy(api, t, dst, src, count, from, to)
	t.RememberRoute(s, dst, src, from, to, epoch)
	t.Compare(nil, kind, from.Place, to.Place, src, count)
	return s.WaitIfBlocking(api, t)
}

// noHostKind refuses an asynchronous copy from host to host.
func noHostKind(api string) *core.Error {
	return core.Unsupported(api, "kind",
		"host to host cannot be copied asynchronously; use aclrtMemcpy").NotRecorded().Because(core.HostToHost, 0)
}

// copyAlign is the alignment of the addresses of asynchronous copies, if that is checked.
const copyAlign = 64

// alignedCopy refuses addresses that are not multiples of copyAlign.
func alignedCopy(api string, dst, src core.Addr) *core.Error {
	switch {
	case src%copyAlign != 0:
		return misalignedCopy(api, "src", src)
	case dst%copyAlign != 0:
		return misalignedCopy(api, "dst", dst)
	}
	return nil
}

func misalignedCopy(api, arg string, addr core.Addr) *core.Error {
	return core.Refused(api, arg, "%#x is not a multiple of %d", addr, copyAlign).Because(core.Misaligned, addr)
}

// Peers checks that d, which carries out a copy from device memory to device memory, can access both ends. The host can
// access every device.
func Peers(t *core.Thread, api string, d *core.Device, dst, src core.Addr, from, to driver.Location) *core.Error {
	if from.Place != driver.OnDevice || to.Place != driver.OnDevice {
		return nil
	}
	if err := t.Runtime.PeerDenied(api, "src", d, src, from); err != nil {
		return err
	}
	return t.Runtime.PeerDenied(api, "dst", d, dst, to)
}

// copyPageable waits for the stream, reports its failures, and then carries out op in the calling thread. If the stream
// is bound to a model, op does not become a part of it. The stream may belong to another context.
func copyPageable(t *core.Thread, api string, c *core.Context, s *core.Stream, op driver.Op) *core.Error {
	if s.IsCaptured() {
		return core.Refused(api, "stream",
			"stream %d is being captured, and memory that is not pinned cannot be part of a model", s.ID)
	}
	return copyAfter(t, api, c, s, op, abi.ErrRTCaptureModeBlockAsync)
}

// copyAfter is copyPageable for any stream. code is the error code if the stream is being captured.
func copyAfter(t *core.Thread, api string, c *core.Context, s *core.Stream, op driver.Op, code abi.Code) *core.Error {
	if s == nil {
		s = c.Default
	}
	err := t.ObserveWait(api, s, func(began int64) *core.Error {
		if err := s.Wait(api, core.WaitLimit{}); err != nil {
			return err
		}
		if err := c.Aborting(api); err != nil {
			return err
		}
		if t.RefusesCopies(c) {
			return t.CaptureInTheWay(api, c, code)
		}
		return t.RunWithin(api, op, began)
	})
	if err == nil {
		t.WarnPageable(op)
	}
	return err
}

// copyBuffered copies the host bytes to a buffer of the runtime during the call, so that the caller may change them at
// once, and queues the copy from there to the device.
func copyBuffered(t *core.Thread, api string, c *core.Context, s *core.Stream, dst, src core.Addr,
	n uint64) *core.Error {
	if l := t.Runtime.Driver.Locate(src); l.Place == driver.OnDevice {
		return core.Refused(api, "src",
			"is device memory, but ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE copies from the host").
			Because(core.WrongDirection, 0)
	}
	if l := t.Runtime.Driver.Locate(dst); l.Place != driver.OnDevice {
		return core.Refused(api, "dst", "is %s, but ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE copies to a device",
			core.PlaceName(l.Place)).Because(core.WrongDirection, 0)
	}
	if _, err := t.Runtime.Locate(api, "src", src, n); err != nil {
		return err
	}
	if _, err := t.Runtime.Locate(api, "dst", dst, n); err != nil {
		return err
	}
	s, err := c.On(api, s)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	buf, e := t.Runtime.Driver.AllocHost(n)
	if e != nil {
		return core.FromDriver(api, "count", e)
	}
	drop := func() { t.Runtime.Driver.FreeHost(buf) } //nolint:errcheck // ours, allocated above
	if err := t.Run(api, driver.Op{Kind: driver.OpCopy, Dst: buf, Src: src, N: n}); err != nil {
		drop()
		return err
	}
	return s.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpCopy, Dst: dst, Src: buf, N: n, Done: drop}})
}

// failLater handles copies that the 310 cannot make as the 310 does: it accepts them, and they fail when they run.
func failLater(t *core.Thread, api string, c *core.Context, s *core.Stream, kind abi.MemcpyKind) *core.Error {
	s, err := c.On(api, s)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	why := "its host memory is not pinned"
	if kind != abi.MemcpyHostToHost {
		t.Warn(core.PageableFails, 0, 0, "the device cannot reach it: the copy will fail when it runs")
	} else {
		t.Warn(core.HostToHostAsync, 0, 0, "the copy will fail when it runs")
		why = "it goes from host to host"
	}
	return s.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpFail, Err: lateError(why)}})
}

// lateError is the error of an accepted copy that failed.
type lateError string

func (e lateError) Error() string  { return "the device cannot make this copy: " + string(e) }
func (e lateError) Code() abi.Code { return abi.ErrRTSysDma }
