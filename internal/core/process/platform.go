package process

import (
	"slices"
	"strconv"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// PlatformGetDeviceInfo is aclplatformGetDeviceInfo: a text about the product of device 0.
func PlatformGetDeviceInfo(t *core.Thread, infoType abi.PlatformDevInfo, value *byte, maxLen uint32) *core.Error {
	const api = "aclplatformGetDeviceInfo"
	if err := checkPlatformGetDeviceInfo(t, infoType, value, maxLen); err != nil {
		return err
	}
	if err := everOpened(t, api); err != nil {
		return err
	}
	text := t.Runtime.Product.Platform(int(infoType))
	if text == "" {
		return core.Invalid(api, "infoType", "the %s has no %v", t.Runtime.Product.Name, infoType)
	}
	if kind, ok := limitOf(infoType); ok {
		if n, ok := t.Runtime.Devices[0].Limits.Get(kind); ok {
			text = strconv.FormatUint(uint64(n), 10)
		}
	}
	return putText(api, text, value, maxLen)
}

// limitOf returns the type of cores that a value counts.
func limitOf(info abi.PlatformDevInfo) (abi.DevResLimitType, bool) {
	switch info {
	case abi.PlatformDevInfoAicoreCnt, abi.PlatformDevInfoCubeCoreCnt:
		return abi.DevResCubeCore, true
	case abi.PlatformDevInfoVectorCoreCnt:
		return abi.DevResVectorCore, true
	}
	return 0, false
}

// PlatformGetInstructionInfo is aclplatformGetInstructionInfo.
func PlatformGetInstructionInfo(t *core.Thread, typ abi.PlatformCoreType, instruction, value *byte,
	maxLen uint32) *core.Error {
	const api = "aclplatformGetInstructionInfo"
	if err := checkPlatformGetInstructionInfo(t, typ, instruction, value, maxLen); err != nil {
		return err
	}
	if err := everOpened(t, api); err != nil {
		return err
	}
	name := core.CString(instruction)
	text := t.Runtime.Product.Instruction(name)
	if text == "" {
		return core.Invalid(api, "instruction", "%q is no instruction of the %s that is known", name,
			t.Runtime.Product.Name)
	}
	return putText(api, text, value, maxLen)
}

// everOpened refuses a call before any device was opened in this process.
func everOpened(t *core.Thread, api string) *core.Error {
	if slices.ContainsFunc(t.Runtime.Devices, func(d *core.Device) bool { return d.EverOpened.Load() }) {
		return nil
	}
	return core.Fail(api, abi.ErrInternalError, "", "no device was opened in this process; call aclrtSetDevice first")
}

// putText writes text with a terminator.
func putText(api, text string, value *byte, maxLen uint32) *core.Error {
	if uint64(len(text)) >= uint64(maxLen) {
		return core.Invalid(api, "maxLen", "%d bytes are too few for %q and its end", maxLen, text)
	}
	room := core.Array(value, uint64(len(text))+1)
	room[copy(room, text)] = 0
	return nil
}
