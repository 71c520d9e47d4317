package conformance

import (
	"encoding/binary"
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// overflows queues a sum on s whose floats overflow.
func overflows(e *env, s core.Handle) {
	e.Helper()
	a := sum64(e)
	a.typ, a.stream = abi.DataTypeFloat, s
	most := binary.LittleEndian.AppendUint32(nil, math.Float32bits(math.MaxFloat32))
	e.write(a.src, most)
	e.write(a.dst, most)
	e.ok(reduceAsync(e, a))
}

// statusBy reads the overflow status of s with one of the calls that do.
func statusBy(e *env, read func(*core.Thread, core.Addr, uint64, core.Handle) *core.Error, s core.Handle) (n uint64) {
	e.Helper()
	p := e.device(64)
	e.ok(transfer.Memset(e.th, p, 64, 0x5A, 64))
	e.ok(read(e.th, p, 64, s))
	e.ok(e.th.SynchronizeStream(s))
	b := e.read(p, 64)
	e.holds(p+8, make([]byte, 56))
	return binary.LittleEndian.Uint64(b)
}

func overflowStatus(e *env, s core.Handle) uint64 {
	e.Helper()
	return statusBy(e, process.GetOverflowStatus, s)
}

// overflowRead proves how a call reads the status: in the order of the stream, 64 bytes, faults when the task runs.
func overflowRead(e *env, read func(*core.Thread, core.Addr, uint64, core.Handle) *core.Error) {
	want := make([]byte, 80)
	for i := 64; i < 80; i++ {
		want[i] = 0x5A
	}
	for _, s := range []core.Handle{e.stream(), 0} {
		p := e.device(80)
		e.ok(transfer.Memset(e.th, p, 80, 0x5A, 80))
		release := e.block(s)
		e.ok(read(e.th, p, 64, s))
		is(e, "in order of the stream", e.read(p, 1)[0], 0x5A)
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.holds(p, want)
	}
	p := e.pinned(64) // found out when the task runs
	bytes(p, 64)[0] = 7
	e.ok(read(e.th, p, 64, 0))
	e.want(e.th.SynchronizeStream(0), abi.ErrRTSysDma)
	is(e, "host memory", bytes(p, 64)[0], 7)
	e.faults.Fail(faulty.Task, 1, driver.ErrLost)
	e.ok(read(e.th, e.device(64), 64, 0))
	e.want(e.th.SynchronizeStream(0), abi.ErrRTLostHeartbeat)
	d := e.device(64)
	e.want(e.whileAborting(func() *core.Error { return read(e.th, d, 64, 0) }), abi.ErrRTDeviceTaskAbort)
}

// overflowClear proves how a call clears the status: in the order of the stream.
func overflowClear(e *env, clear func(*core.Thread, core.Handle) *core.Error) {
	s := e.stream()
	overflows(e, s)
	is(e, "before", overflowStatus(e, s), 1)
	release := e.block(s)
	e.ok(clear(e.th, s))
	var status abi.StreamStatus
	e.ok(e.th.StreamQuery(s, &status))
	is(e, "queued", status, abi.StreamStatusNotReady)
	release()
	is(e, "after", overflowStatus(e, s), 0)
	e.ok(clear(e.th, 0))
	e.ok(e.th.SynchronizeStream(0))
}

func init() {
	prove("aclrtSynchronizeStream", "overflow", func(e *env) *core.Error {
		s := e.stream()
		e.ok(e.th.SetStreamOverflowSwitch(s, 1))
		overflows(e, s)
		err := e.th.SynchronizeStream(s)
		e.ok(e.th.SynchronizeStream(s))
		is(e, "counted as well", overflowStatus(e, s), 1)
		e.ok(e.th.SetStreamOverflowSwitch(s, 0))
		overflows(e, s)
		e.ok(e.th.SynchronizeStream(s))
		return err
	})
	behaves("aclrtGetOverflowStatus", func(e *env) {
		overflowRead(e, process.GetOverflowStatus)
		a, b := e.stream(), e.stream()
		overflows(e, a)
		overflows(e, a)
		is(e, "the stream", overflowStatus(e, a), 2)
		is(e, "another stream has its own counter", overflowStatus(e, b), 0)
		is(e, "reading does not clear", overflowStatus(e, a), 2)
		overflowOfContext(e)
	})
	behaves("aclrtGetFloatOverflowStatus", func(e *env) {
		overflowRead(e, process.GetFloatOverflowStatus)
		overflows(e, 0)
		is(e, "the same status", statusBy(e, process.GetFloatOverflowStatus, 0), 1)
	})
	behaves("aclrtResetOverflowStatus", func(e *env) { overflowClear(e, process.ResetOverflowStatus) })
	behaves("aclrtResetFloatOverflowStatus", func(e *env) { overflowClear(e, process.ResetFloatOverflowStatus) })
	behaves("aclrtNpuClearFloatOverFlowStatus", func(e *env) {
		overflowClear(e, func(t *core.Thread, s core.Handle) *core.Error {
			return process.NpuClearFloatOverFlowStatus(t, 7, s)
		})
	})
	behaves("aclrtNpuGetFloatOverFlowStatus", func(e *env) {
		s, p, cell := e.stream(), e.device(64), e.device(8)
		e.ok(transfer.Memset(e.th, p, 64, 0x5A, 64))
		overflows(e, s)
		release := e.block(s)
		e.ok(process.NpuGetFloatOverFlowStatus(e.th, cell, 64, 7, s))
		e.write(cell, binary.LittleEndian.AppendUint64(nil, uint64(p))) // it is read when the task runs
		release()
		e.ok(e.th.SynchronizeStream(s))
		e.holds(p, append([]byte{1}, make([]byte, 63)...))
		e.write(cell, make([]byte, 8))
		e.ok(process.NpuGetFloatOverFlowStatus(e.th, cell, 64, 0, s))
		e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
		e.ok(process.NpuGetFloatOverFlowStatus(e.th, e.pinned(8), 64, 0, s))
		e.want(e.th.SynchronizeStream(s), abi.ErrRTSysDma)
	})
}

// overflowOfContext: products without counters have one buffer of a context, which kernels can write to.
func overflowOfContext(e *env) {
	for _, name := range []string{"310B", "310P", "910"} {
		o := e.on(machine{product: name})
		a, b := o.stream(), o.stream()
		overflows(o, a)
		o.ok(o.th.SynchronizeStream(a))
		is(e, name+": all streams of the context", overflowStatus(o, b), 1)
		o.ok(process.ResetOverflowStatus(o.th, a))
		is(e, name+": cleared", overflowStatus(o, a), 0)
		var at core.Addr
		o.ok(o.th.CtxGetFloatOverflowAddr(&at))
		o.write(at, []byte{3})
		o.write(at+511, []byte{9}) // the buffer has 512 bytes
		is(e, name+": what a kernel wrote", overflowStatus(o, b), 3)
		o.ok(process.ResetOverflowStatus(o.th, 0))
		o.ok(o.th.SynchronizeStream(0))
		o.holds(at, make([]byte, 512))
	}
}
