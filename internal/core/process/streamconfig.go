package process

import (
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// A stream configuration is a struct of the header in memory of the library, which programs may read and write as
// well, and of which they may have their own.

// streamConfigs are the configurations that were made.
type streamConfigs struct {
	mu   sync.Mutex
	live map[*abi.StreamConfigHandle]bool // guarded by mu
	// guarded by mu; destroyed, to be used again. Their memory is never freed: a program that writes to a configuration
	// after it has destroyed it changes nothing but another one.
	spare []*abi.StreamConfigHandle
}

// add makes a configuration of zeros.
func (s *streamConfigs) add() *abi.StreamConfigHandle {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c *abi.StreamConfigHandle
	if n := len(s.spare); n > 0 {
		c, s.spare = s.spare[n-1], s.spare[:n-1]
		*c = abi.StreamConfigHandle{}
	} else {
		c = new(abi.StreamConfigHandle) // live and spare keep it, and Go does not move it
	}
	if s.live == nil {
		s.live = map[*abi.StreamConfigHandle]bool{}
	}
	s.live[c] = true
	return c
}

// remove frees a configuration; false if it is none.
func (s *streamConfigs) remove(c *abi.StreamConfigHandle) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live[c] {
		return false
	}
	delete(s.live, c)
	s.spare = append(s.spare, c)
	return true
}

// CreateStreamConfigHandle is aclrtCreateStreamConfigHandle.
func CreateStreamConfigHandle(t *core.Thread) core.Addr {
	if t.Lacks("aclrtCreateStreamConfigHandle") != nil {
		return 0
	}
	return core.AddressOf(processOf(t.Runtime).configs.add())
}

// DestroyStreamConfigHandle is aclrtDestroyStreamConfigHandle.
func DestroyStreamConfigHandle(t *core.Thread, handle *abi.StreamConfigHandle) *core.Error {
	const api = "aclrtDestroyStreamConfigHandle"
	if err := checkDestroyStreamConfigHandle(t, handle); err != nil {
		return err
	}
	if !processOf(t.Runtime).configs.remove(handle) {
		at := core.AddressOf(handle)
		return core.Fail(api, abi.ErrRTInvalidHandle, "handle",
			"%#x is not of aclrtCreateStreamConfigHandle, or was destroyed", at).Because(core.Gone, at)
	}
	return nil
}

// SetStreamConfigOpt is aclrtSetStreamConfigOpt.
func SetStreamConfigOpt(t *core.Thread, handle *abi.StreamConfigHandle, attr abi.StreamConfigAttr, attrValue core.Addr,
	valueSize uint64) *core.Error {
	const api = "aclrtSetStreamConfigOpt"
	if err := checkSetStreamConfigOpt(t, handle, attr, attrValue, valueSize); err != nil {
		return err
	}
	switch attr {
	case abi.StreamWorkAddrPtr:
		handle.Workptr = *core.Pointer[core.Addr](attrValue)
	case abi.StreamWorkSize:
		handle.WorkSize = *core.Pointer[uint64](attrValue)
	case abi.StreamFlag:
		handle.Flag = *core.Pointer[uint64](attrValue)
	case abi.StreamPriority:
		priority := *core.Pointer[uint32](attrValue)
		if priority > core.LowestPriority {
			return core.Invalid(api, "attrValue", "the priority %d is above %d", priority, core.LowestPriority)
		}
		handle.Priority = priority
	}
	return nil
}

// CreateStreamV2 is aclrtCreateStreamV2.
func CreateStreamV2(t *core.Thread, stream *core.Handle, handle *abi.StreamConfigHandle) *core.Error {
	const api = "aclrtCreateStreamV2"
	if err := checkCreateStreamV2(t, stream, handle); err != nil {
		return err
	}
	var c abi.StreamConfigHandle
	if handle != nil {
		c = *handle
	}
	return t.CreateConfigured(api, "handle", stream, c.Priority, uint32(c.Flag))
}
