// Package older has the layer below the API: functions rt... that programs link from libruntime.so. Most of them call a
// function of the API (older.go); of the others, those that need nothing of another package are here.
package older

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// renamed returns the error of a function of the API as one of this layer, which has no ACL layer above it.
func renamed(api string, err *core.Error) *core.Error {
	if err == nil {
		return nil
	}
	e := *err
	e.API = api
	switch e.Code {
	case abi.ErrInvalidParam:
		e.Code = abi.ErrRTParamInvalid
	case abi.ErrFeatureUnsupported:
		e.Code = abi.ErrRTFeatureNotSupport
	}
	return &e
}

// policies are the policies for pages, by the bit of a memory type that asks for them. Without a bit it is huge pages
// first.
var policies = []struct {
	bit    uint32
	policy abi.MemMallocPolicy
}{
	{0x800, abi.MemMallocHugeOnly}, {0x1000, abi.MemMallocNormalOnly}, {0x2000, abi.MemMallocHugeFirstP2P},
	{0x4000, abi.MemMallocHugeOnlyP2P}, {0x8000, abi.MemMallocNormalOnlyP2P}, {0x10000, abi.MemMallocHuge1GOnly},
	{0x20000, abi.MemMallocHuge1GOnlyP2P},
}

// policy returns the policy for pages that a memory type has.
func policy(kind uint32) abi.MemMallocPolicy {
	for _, p := range policies {
		if kind&p.bit != 0 {
			return p.policy
		}
	}
	return abi.MemMallocHugeFirst
}

// direction returns the direction of a copy as the API numbers it.
func direction(kind int32) abi.MemcpyKind {
	switch k := abi.RTMemcpyKind(kind); k {
	case abi.RtMemcpyManaged, abi.RtMemcpyAddrDeviceToDevice, abi.RtMemcpyDeviceToHostEx, abi.RtMemcpyDefault:
		return abi.MemcpyDefault
	case abi.RtMemcpyHostToDeviceEx:
		return abi.MemcpyHostToBufToDevice
	}
	return abi.MemcpyKind(kind)
}

// clamped returns a priority that streams have.
func clamped(priority int32) uint32 { return uint32(min(max(priority, 0), 7)) }

// serverPids returns the processes of one server; none if num is negative.
func serverPids(sdid uint32, pid core.Addr, num int32) *abi.ServerPid {
	return &abi.ServerPid{Sdid: sdid, Pid: uintptr(pid), Num: uint64(max(num, 0))}
}
