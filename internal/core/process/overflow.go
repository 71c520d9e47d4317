package process

import (
	"encoding/binary"
	"runtime"

	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// GetOverflowStatus is aclrtGetOverflowStatus. An outputAddr that is not device memory fails when the task runs, as on
// a device.
func GetOverflowStatus(t *core.Thread, outputAddr core.Addr, outputSize uint64, stream core.Handle) *core.Error {
	s, c, err := checkGetOverflowStatus(t, outputAddr, outputSize, stream)
	if err != nil {
		return err
	}
	return readOverflow(t, "aclrtGetOverflowStatus", c, s, outputAddr)
}

// GetFloatOverflowStatus is aclrtGetFloatOverflowStatus.
func GetFloatOverflowStatus(t *core.Thread, outputAddr core.Addr, outputSize uint64, stream core.Handle) *core.Error {
	s, c, err := checkGetFloatOverflowStatus(t, outputAddr, outputSize, stream)
	if err != nil {
		return err
	}
	return readOverflow(t, "aclrtGetFloatOverflowStatus", c, s, outputAddr)
}

func readOverflow(t *core.Thread, api string, c *core.Context, s *core.Stream, to core.Addr) *core.Error {
	return overflowTask(t, api, c, s, driver.Op{Dst: to, N: core.OverflowBytes}, func(s *core.Stream) error {
		return writeStatus(s, to)
	})
}

// writeStatus writes the status to an address, which is device memory or a fault.
func writeStatus(s *core.Stream, to core.Addr) error {
	if s.Runtime.Driver.Locate(to).Place != driver.OnDevice && !s.Runtime.OneMemory {
		return driver.ErrFault
	}
	return s.WriteOverflow(to)
}

// NpuGetFloatOverFlowStatus is aclrtNpuGetFloatOverFlowStatus: outputAddr is device memory that holds the address of
// the status, and is read when the task runs.
func NpuGetFloatOverFlowStatus(t *core.Thread, outputAddr core.Addr, outputSize uint64, checkMode uint32,
	stream core.Handle) *core.Error {
	const api = "aclrtNpuGetFloatOverFlowStatus"
	s, c, err := checkNpuGetFloatOverFlowStatus(t, outputAddr, outputSize, checkMode, stream)
	if err != nil {
		return err
	}
	return overflowTask(t, api, c, s, driver.Op{Src: outputAddr, N: addrBytes}, func(s *core.Stream) error {
		if s.Runtime.Driver.Locate(outputAddr).Place != driver.OnDevice { // the products have no RC form
			return driver.ErrFault
		}
		cell := make([]byte, addrBytes)
		err := s.Runtime.Caps.Base.Run(driver.Op{Kind: driver.OpCopy, Dst: core.AddrOf(cell),
			Src: outputAddr, N: addrBytes})
		runtime.KeepAlive(cell)
		if err != nil {
			return err
		}
		return writeStatus(s, core.Addr(binary.LittleEndian.Uint64(cell)))
	})
}

// addrBytes is the size of an address.
const addrBytes = 8

// ResetOverflowStatus is aclrtResetOverflowStatus.
func ResetOverflowStatus(t *core.Thread, stream core.Handle) *core.Error {
	s, c, err := checkResetOverflowStatus(t, stream)
	if err != nil {
		return err
	}
	return overflowTask(t, "aclrtResetOverflowStatus", c, s, driver.Op{}, (*core.Stream).ClearOverflow)
}

// ResetFloatOverflowStatus is aclrtResetFloatOverflowStatus.
func ResetFloatOverflowStatus(t *core.Thread, stream core.Handle) *core.Error {
	s, c, err := checkResetFloatOverflowStatus(t, stream)
	if err != nil {
		return err
	}
	return overflowTask(t, "aclrtResetFloatOverflowStatus", c, s, driver.Op{}, (*core.Stream).ClearOverflow)
}

// NpuClearFloatOverFlowStatus is aclrtNpuClearFloatOverFlowStatus.
func NpuClearFloatOverFlowStatus(t *core.Thread, checkMode uint32, stream core.Handle) *core.Error {
	s, c, err := checkNpuClearFloatOverFlowStatus(t, checkMode, stream)
	if err != nil {
		return err
	}
	return overflowTask(t, "aclrtNpuClearFloatOverFlowStatus", c, s, driver.Op{}, (*core.Stream).ClearOverflow)
}

// overflowTask queues work on s, a stream of c; op has the memory of the program that it touches.
func overflowTask(t *core.Thread, api string, c *core.Context, s *core.Stream, op driver.Op,
	work func(s *core.Stream) error) *core.Error {
	if !s.CountsOverflow() {
		if _, err := c.OverflowBuffer(); err != nil {
			return core.FromDriver(api, "", err)
		}
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	op.Kind, op.Work = driver.OpCompute, func() error { return work(s) }
	s.Put(api, t, core.Task{Op: op})
	return nil
}
