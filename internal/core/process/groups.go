package process

import (
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// A 310P can be divided into groups of cores if the program runs on its control CPU (RC form). Here it has one group
// with all its cores; seen from a host it has none.

// groupInfo has the attributes of a group, by aclrtGroupAttr.
type groupInfo [abi.GroupGroupidInt + 1]int32

// groupArray is a result of aclrtCreateGroupInfo: room for the groups of a device.
type groupArray struct {
	mu   sync.Mutex
	list []groupInfo // guarded by mu
}

const sdmaEngines = 1 // of the one group, by ropeway's choice

// groupsOf returns the groups of the devices.
func groupsOf(rt *core.Runtime) []groupInfo {
	p := rt.Product
	if !p.RC || p.Name != "310P" && p.Name != "310" {
		return nil
	}
	return []groupInfo{{
		abi.GroupAicoreInt: int32(p.CubeCores), abi.GroupAivInt: int32(p.VectorCores), abi.GroupAicInt: int32(p.AICPUs),
		abi.GroupSdmanumInt: sdmaEngines, abi.GroupAsqnumInt: int32(p.Streams), abi.GroupGroupidInt: 0,
	}}
}

// SetGroup is aclrtSetGroup. There is at most one group, so nothing changes.
func SetGroup(t *core.Thread, groupID int32) *core.Error {
	const api = "aclrtSetGroup"
	if _, err := checkSetGroup(t, groupID); err != nil {
		return err
	}
	for _, g := range groupsOf(t.Runtime) {
		if g[abi.GroupGroupidInt] == groupID {
			return nil
		}
	}
	return core.Fail(api, abi.ErrRTGroupNotCreate, "groupId", "the device has no group %d", groupID)
}

// GetGroupCount is aclrtGetGroupCount.
func GetGroupCount(t *core.Thread, count *uint32) *core.Error {
	if _, err := checkGetGroupCount(t, count); err != nil {
		return err
	}
	*count = uint32(len(groupsOf(t.Runtime)))
	return nil
}

// CreateGroupInfo is aclrtCreateGroupInfo.
func CreateGroupInfo(t *core.Thread) core.Handle {
	n := len(groupsOf(t.Runtime))
	if n == 0 || t.Current() == nil {
		return 0
	}
	return processOf(t.Runtime).groups.Add(&groupArray{list: make([]groupInfo, n)})
}

// DestroyGroupInfo is aclrtDestroyGroupInfo.
func DestroyGroupInfo(t *core.Thread, groupInfo core.Handle) *core.Error {
	const api = "aclrtDestroyGroupInfo"
	if err := checkDestroyGroupInfo(t, groupInfo); err != nil {
		return err
	}
	if processOf(t.Runtime).groups.Remove(groupInfo) == nil {
		return noGroups(api, groupInfo)
	}
	return nil
}

func noGroups(api string, h core.Handle) *core.Error {
	return core.Fail(api, abi.ErrRTInvalidHandle, "groupInfo", "%#x is not of aclrtCreateGroupInfo, or was destroyed",
		uintptr(h)).Because(core.Gone, uintptr(h))
}

// GetAllGroupInfo is aclrtGetAllGroupInfo.
func GetAllGroupInfo(t *core.Thread, groupInfo core.Handle) *core.Error {
	const api = "aclrtGetAllGroupInfo"
	if _, err := checkGetAllGroupInfo(t, groupInfo); err != nil {
		return err
	}
	groups := groupsOf(t.Runtime)
	if len(groups) == 0 {
		return core.Fail(api, abi.ErrRTGroupNotCreate, "", "the device has no group")
	}
	a := processOf(t.Runtime).groups.Get(groupInfo)
	if a == nil {
		return noGroups(api, groupInfo)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	copy(a.list, groups)
	return nil
}

// GetGroupInfoDetail is aclrtGetGroupInfoDetail.
func GetGroupInfoDetail(t *core.Thread, groupInfo core.Handle, groupIndex int32, attr abi.GroupAttr,
	attrValue core.Addr, valueLen uint64, paramRetSize *uint64) *core.Error {
	const api, size = "aclrtGetGroupInfoDetail", 4
	_, err := checkGetGroupInfoDetail(t, groupInfo, groupIndex, attr, attrValue, valueLen, paramRetSize)
	if err != nil {
		return err
	}
	n := len(groupsOf(t.Runtime))
	switch {
	case groupIndex < 0 || int(groupIndex) >= n:
		return core.Invalid(api, "groupIndex", "%d is none of the %d groups", groupIndex, n)
	case attr < 0 || attr > abi.GroupGroupidInt:
		return core.Invalid(api, "attr", "%d is not 0 to %d", attr, abi.GroupGroupidInt)
	case valueLen < size:
		return core.Invalid(api, "valueLen", "%d is less than %d", valueLen, size)
	}
	a := processOf(t.Runtime).groups.Get(groupInfo)
	if a == nil {
		return noGroups(api, groupInfo)
	}
	var value int32
	core.Locked(&a.mu, func() { value = a.list[groupIndex][attr] })
	*core.Pointer[int32](attrValue) = value
	*paramRetSize = size
	return nil
}
