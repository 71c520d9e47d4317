package core

import (
	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// Memcpy is aclrtMemcpy: the bytes have arrived when it returns. Where they go is found from the addresses; it orders
// itself against no stream.
func (t *Thread) Memcpy(dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind) *Error {
	return t.bounded(t.memcpy("aclrtMemcpy", dst, destMax, src, count, kind), "destMax", dst, destMax, count)
}

func (t *Thread) memcpy(api string, dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind) *Error {
	if count == 0 {
		return nil
	}
	if err := checkCopy(api, dst, src, kind); err != nil {
		return err
	}
	if destMax == 0 {
		return refused(api, "destMax", "is 0, but %d bytes are to be copied", count)
	}
	if count > destMax {
		return tooMuch(api, dst, count, destMax)
	}
	if dst == src {
		return nil
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if err := c.aborting(api); err != nil {
		return err
	}
	return t.copyNow(api, c.dev, dst, src, count, kind)
}

// checkCopy is what the ACL layer looks at in a single copy.
func checkCopy(api string, dst, src Addr, kind abi.MemcpyKind) *Error {
	if dst == 0 {
		return isNull(api, "dst")
	}
	if src == 0 {
		return isNull(api, "src")
	}
	if kind < 0 || kind > abi.MemcpyHostToBufToDevice {
		return invalid(api, "kind", "%d is not 0 to 5", kind)
	}
	return nil
}

func tooMuch(api string, dst Addr, count, destMax uint64) *Error {
	return refused(api, "count", "%d bytes do not fit into destMax, %d", count, destMax).because(OutOfBounds, 0).of(dst, count)
}

// copyNow copies in the calling thread, for device d.
func (t *Thread) copyNow(api string, d *Device, dst, src Addr, n uint64, kind abi.MemcpyKind) *Error {
	to, err := t.rt.locate(api, "dst", dst, n)
	if err != nil {
		return err
	}
	from, err := t.rt.locate(api, "src", src, n)
	if err != nil {
		return err
	}
	if err := t.peers(api, d, dst, src, from, to); err != nil {
		return err
	}
	err = t.run(api, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n})
	return t.compare(err, kind, from.Place, to.Place, src, n)
}

// run has the driver carry op out now.
func (t *Thread) run(api string, op driver.Op) *Error {
	began, ended, err := t.carryOut(api, op, t.call.start)
	if t.rt.observer != nil {
		t.ranNow(api, began, ended, err)
	}
	return err
}

// carryOut is run as a part of a call that its caller accounts for, and that began at a time, if anybody wants to know.
func (t *Thread) carryOut(api string, op driver.Op, call int64) (began, ended int64, err *Error) {
	var ran func(done bool)
	if t.rt.watch != nil {
		ran = t.tellNow(op)
	}
	var e error
	if t.rt.observer == nil {
		e = t.rt.drv.Run(op)
	} else {
		began, ended, e = t.runObserved(op, call)
	}
	if e != nil {
		err = fromDriver(api, "", e)
	}
	if ran != nil {
		ran(e == nil)
	}
	return began, ended, err
}

// MemcpyAsync is aclrtMemcpyAsync. With pinned memory and between devices it only queues the copy; with pageable
// memory it waits for the stream and copies before it returns.
func (t *Thread) MemcpyAsync(dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind, stream Handle) *Error {
	if t.copyAgain(dst, destMax, src, count, kind, stream) {
		return nil
	}
	return t.bounded(t.memcpyAsync("aclrtMemcpyAsync", dst, destMax, src, count, kind, stream), "destMax", dst, destMax, count)
}

// MemcpyAsyncWithCondition is aclrtMemcpyAsyncWithCondition, the older name of MemcpyAsync.
func (t *Thread) MemcpyAsyncWithCondition(dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind, stream Handle) *Error {
	err := t.memcpyAsync("aclrtMemcpyAsyncWithCondition", dst, destMax, src, count, kind, stream)
	return t.bounded(err, "destMax", dst, destMax, count)
}

func (t *Thread) memcpyAsync(api string, dst Addr, destMax uint64, src Addr, count uint64, kind abi.MemcpyKind, stream Handle) *Error {
	if count == 0 {
		return nil
	}
	if err := checkCopy(api, dst, src, kind); err != nil {
		return err
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if count > destMax {
		return tooMuch(api, dst, count, destMax)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	hosts := kind == abi.MemcpyHostToHost && !t.rt.open
	if hosts && (t.rt.prod.NoHostKind || t.rt.strict) {
		return noHostKind(api)
	}
	if t.rt.aligned {
		if err := alignedCopy(api, dst, src); err != nil {
			return err
		}
	}
	if hosts && t.rt.prod.LateHostErrors {
		return t.failLater(api, c, s, kind)
	}
	if kind == abi.MemcpyHostToBufToDevice && !t.rt.open {
		return t.copyBuffered(api, c, s, dst, src, count)
	}
	if !t.shared {
		t.pass = pass{} // what nearSrc and nearDst say is about this copy from here on
	}
	epoch := t.rt.epoch.Load()
	from, err := t.locate(api, "src", &t.nearSrc, epoch, src, count)
	if err != nil {
		return err
	}
	to, err := t.locate(api, "dst", &t.nearDst, epoch, dst, count)
	if err != nil {
		return err
	}
	pageable := false
	if from.Place == driver.OnDevice && to.Place == driver.Host || from.Place == driver.Host && to.Place == driver.OnDevice {
		// The usual case needs no table: the real direction replaces kind.
	} else if t.rt.open {
		pageable = (from.Place == driver.Pageable || to.Place == driver.Pageable) &&
			kind != abi.MemcpyHostToHost && kind != abi.MemcpyDeviceToDevice
	} else {
		real, ok := correct(kind, from.Place, to.Place)
		if !ok {
			return refused(api, "kind", "%v does not go with a copy from %s to %s", kind, placeName(from.Place), placeName(to.Place)).because(WrongDirection, 0)
		}
		if real == abi.MemcpyHostToHost && (t.rt.strict || !t.rt.prod.LateHostErrors) {
			return noHostKind(api)
		}
		if dst == src {
			return nil
		}
		pageable = hostIsPageable(real, from.Place, to.Place) || toPageable(from.Place, to.Place)
		if t.rt.prod.LateHostErrors && (pageable || real == abi.MemcpyHostToHost) {
			return t.failLater(api, c, s, real)
		}
	}
	if dst == src {
		return nil
	}
	if pageable {
		err := t.copyPageable(api, c, s, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: count})
		return t.compare(err, kind, from.Place, to.Place, src, count)
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	if err := t.peers(api, c.dev, dst, src, from, to); err != nil {
		return err
	}
	if from.Place == driver.Managed || to.Place == driver.Managed {
		return t.launchManaged(api, s, driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: count})
	}
	if err := s.admit(api); err != nil {
		return err
	}
	s.putCopy(api, t, dst, src, count, &from, &to)
	t.passed(c, s, stream, from, to)
	t.compare(nil, kind, from.Place, to.Place, src, count)
	return s.settle(api, t)
}

// noHostKind refuses an asynchronous copy from host to host.
func noHostKind(api string) *Error {
	return unsupported(api, "kind", "host to host cannot be copied asynchronously; use aclrtMemcpy").quiet().because(HostToHost, 0)
}

// copyAlign is what the addresses of asynchronous copies have to be multiples of, where somebody looks.
const copyAlign = 64

// alignedCopy refuses addresses that are no multiples of copyAlign.
func alignedCopy(api string, dst, src Addr) *Error {
	switch {
	case src%copyAlign != 0:
		return misalignedCopy(api, "src", src)
	case dst%copyAlign != 0:
		return misalignedCopy(api, "dst", dst)
	}
	return nil
}

func misalignedCopy(api, arg string, addr Addr) *Error {
	return refused(api, arg, "%#x is not a multiple of %d", addr, copyAlign).because(Misaligned, addr)
}

// peers checks that d, which carries a copy from device memory to device memory out, reaches both ends. The host reaches
// every device.
func (t *Thread) peers(api string, d *Device, dst, src Addr, from, to driver.Location) *Error {
	if from.Place != driver.OnDevice || to.Place != driver.OnDevice {
		return nil
	}
	if err := t.rt.peerDenied(api, "src", d, src, from); err != nil {
		return err
	}
	return t.rt.peerDenied(api, "dst", d, dst, to)
}

// copyPageable waits for the stream, reports what failed on it, and then carries op out in the calling thread. The
// stream may belong to another context.
func (t *Thread) copyPageable(api string, c *Context, s *Stream, op driver.Op) *Error {
	if s == nil {
		s = c.def
	}
	err := t.waits(api, s, func(began int64) *Error {
		if err := s.wait(api, waiting{}); err != nil {
			return err
		}
		if err := c.aborting(api); err != nil {
			return err
		}
		_, _, err := t.carryOut(api, op, began)
		return err
	})
	if err == nil {
		t.doubtPageable(op)
	}
	return err
}

// copyBuffered copies the host bytes into a buffer of the runtime during the call, so that the caller may change them
// at once, and queues the way from there to the device.
func (t *Thread) copyBuffered(api string, c *Context, s *Stream, dst, src Addr, n uint64) *Error {
	if l := t.rt.drv.Locate(src); l.Place == driver.OnDevice {
		return refused(api, "src", "is device memory, but ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE copies from the host").because(WrongDirection, 0)
	}
	if l := t.rt.drv.Locate(dst); l.Place != driver.OnDevice {
		return refused(api, "dst", "is %s, but ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE copies to a device", placeName(l.Place)).because(WrongDirection, 0)
	}
	if _, err := t.rt.locate(api, "src", src, n); err != nil {
		return err
	}
	if _, err := t.rt.locate(api, "dst", dst, n); err != nil {
		return err
	}
	s, err := c.on(api, s)
	if err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	buf, e := t.rt.drv.AllocHost(n)
	if e != nil {
		return fromDriver(api, "count", e)
	}
	drop := func() { t.rt.drv.FreeHost(buf) } //nolint:errcheck // ours, allocated above
	if err := t.run(api, driver.Op{Kind: driver.OpCopy, Dst: buf, Src: src, N: n}); err != nil {
		drop()
		return err
	}
	return s.launch(api, t, task{op: driver.Op{Kind: driver.OpCopy, Dst: dst, Src: buf, N: n, Done: drop}})
}

// failLater is what the 310 does with copies it cannot make: it takes them, and they fail when they run.
func (t *Thread) failLater(api string, c *Context, s *Stream, kind abi.MemcpyKind) *Error {
	s, err := c.on(api, s)
	if err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	if t.rt.strict {
		return refused(api, "", "the host memory is not pinned, and the copy would fail when it runs on the %s", t.rt.prod.Name)
	}
	why := "its host memory is not pinned"
	if kind != abi.MemcpyHostToHost {
		t.doubt(PageableFails, 0, 0, "the device cannot reach it: the copy will fail when it runs")
	} else {
		t.doubt(HostToHostAsync, 0, 0, "the copy will fail when it runs")
		why = "it goes from host to host"
	}
	return s.launch(api, t, task{op: driver.Op{Kind: driver.OpFail, Err: lateError(why)}})
}

// lateError is why an accepted copy failed.
type lateError string

func (e lateError) Error() string  { return "the device cannot make this copy: " + string(e) }
func (e lateError) Code() abi.Code { return abi.ErrRTSysDma }
