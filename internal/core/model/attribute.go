package model

import (
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// MdlRIKernelTaskGetAttribute is aclmdlRIKernelTaskGetAttribute.
func MdlRIKernelTaskGetAttribute(t *core.Thread, task core.Handle, attrID abi.LaunchKernelAttrId,
	attrValue *abi.LaunchKernelAttrValue) *core.Error {
	const api = "aclmdlRIKernelTaskGetAttribute"
	if err := checkMdlRIKernelTaskGetAttribute(t, task, attrID, attrValue); err != nil {
		return err
	}
	m, i, err := taskOf(t, api, task)
	if err != nil {
		return core.Refused(api, "task", "%s", err.Text)
	}
	v, err := core.Under(&m.mu, func() (abi.LaunchKernelAttrValue, *core.Error) {
		if m.typeOf(i) != abi.ModelRiTaskKernel {
			return abi.LaunchKernelAttrValue{}, core.Refused(api, "task", "task %d of model %d is no kernel", i, m.id)
		}
		return attributeOf(api, m.tasks[i].work.op.Launch, attrID)
	})
	if err != nil {
		return err
	}
	*attrValue = v
	return nil
}

// attributeOf returns an attribute of a launch.
func attributeOf(api string, l *driver.Launch, attrID abi.LaunchKernelAttrId) (v abi.LaunchKernelAttrValue,
	_ *core.Error) {
	switch attrID {
	case abi.LaunchKernelAttrSchemMode:
		*v.SchemMode() = bit(l.Together)
	case abi.LaunchKernelAttrDynUbufSize:
		*v.DynUBufSize() = l.Shared
	case abi.LaunchKernelAttrDataDump:
		*v.IsDataDump() = bit(kernelOf(l).Failed().Dumps)
	case abi.LaunchKernelAttrTimeout:
		*v.Timeout() = uint16(l.Limit / time.Second)
	case abi.LaunchKernelAttrTimeoutUs:
		us := uint64(l.Limit / time.Microsecond)
		*v.TimeoutUs() = abi.TimeoutUs{TimeoutLow: uint32(us), TimeoutHigh: uint32(us >> 32)}
	default:
		return v, core.Refused(api, "attrId", "%d cannot be read of a kernel in a model", attrID)
	}
	return v, nil
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
