package process

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Faults of a device's memory and cores. No driver reports any yet, except that a device is lost, so there is nothing
// to list and nothing to repair; arguments are checked all the same.

// GetMemUceInfo is aclrtGetMemUceInfo. memUceInfoArray points to arraySize entries.
func GetMemUceInfo(t *core.Thread, deviceID int32, memUceInfoArray *abi.MemUceInfo, arraySize uint64,
	retSize *uint64) *core.Error {
	d, err := checkGetMemUceInfo(t, deviceID, memUceInfoArray, arraySize, retSize)
	if err == nil {
		err = uceDevice(t, "aclrtGetMemUceInfo", d)
	}
	if err == nil {
		*retSize = 0
	}
	return err
}

// MemUceRepair is aclrtMemUceRepair. memUceInfoArray points to arraySize entries. A range without a fault needs no
// repair.
func MemUceRepair(t *core.Thread, deviceID int32, memUceInfoArray *abi.MemUceInfo, arraySize uint64) *core.Error {
	d, err := checkMemUceRepair(t, deviceID, memUceInfoArray, arraySize)
	if err != nil {
		return err
	}
	return uceDevice(t, "aclrtMemUceRepair", d)
}

// notReserved refuses entries that use reserved bytes.
func notReserved(_ *core.Thread, api string, memUceInfoArray *abi.MemUceInfo, arraySize uint64) *core.Error {
	for i, u := range core.Array(memUceInfoArray, arraySize) {
		// Of the 112 reserved bytes the first 14 are compared.
		if u.Reserved[0] != 0 || u.Reserved[1]<<16 != 0 {
			return core.Invalid(api, "memUceInfoArray", "the reserved bytes are not 0").At(i)
		}
	}
	return nil
}

// uceDevice refuses a device that is lost for a call about uncorrectable memory errors. A thread that has no context
// takes that of the configured default device, and may then ask about that device only.
func uceDevice(t *core.Thread, api string, d *core.Device) *core.Error {
	if def := t.Runtime.DefaultDevice.Load() - 1; def >= 0 && t.Explicit == nil && t.Primary == nil && !t.Shared {
		if def != d.User {
			return core.Fail(api, abi.ErrRTContextNull, "deviceId",
				"this thread has no context and the default device is %d, not %d; call aclrtSetDevice first", def,
				d.User)
		}
		t.Current() // takes the default device's
	}
	if err := health(d); err != nil {
		return core.FromDriver(api, "deviceId", err)
	}
	return nil
}

// health is why the device can no longer be used, or nil. A device that is not open is well.
func health(d *core.Device) error {
	if dev := d.Opened.Load(); dev != nil {
		return dev.Healthy()
	}
	return nil
}

// GetErrorVerbose is aclrtGetErrorVerbose. A device that is lost has a fault of another kind, without detail, that
// cannot be repaired.
func GetErrorVerbose(t *core.Thread, deviceID int32, errorInfo *abi.ErrorInfo) *core.Error {
	d, err := checkGetErrorVerbose(t, deviceID, errorInfo)
	if err != nil {
		return err
	}
	*errorInfo = abi.ErrorInfo{ErrorType: abi.ErrorTypeNoError}
	if health(d) != nil {
		errorInfo.ErrorType = abi.ErrorTypeErrorOthers
	}
	return nil
}

// RepairError is aclrtRepairError. What passes its checks needs no repair.
func RepairError(t *core.Thread, deviceID int32, errorInfo *abi.ErrorInfo) *core.Error {
	_, err := checkRepairError(t, deviceID, errorInfo)
	return err
}

// repairable refuses a kind of fault that the product cannot repair.
func repairable(t *core.Thread, api string, errorInfo *abi.ErrorInfo) *core.Error {
	if repairs(t.Runtime, errorInfo.ErrorType) {
		return nil
	}
	return core.Refused(api, "errorInfo", "%v cannot be repaired on %s", errorInfo.ErrorType, t.Runtime.Product.Name)
}

// repairs reports whether the product can repair a kind of fault.
func repairs(rt *core.Runtime, kind abi.ErrorType) bool {
	switch kind {
	case abi.ErrorTypeErrorMemory:
		return true
	case abi.ErrorTypeNoError:
		return rt.Product.Name != "950"
	case abi.ErrorTypeErrorL2, abi.ErrorTypeErrorAicore, abi.ErrorTypeErrorLink, abi.ErrorTypeErrorL3Port:
		return rt.Product.Name == "950"
	}
	return false
}
