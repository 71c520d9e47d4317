package process

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// Faults of a device's memory and cores. Drivers only report that a device is lost, so there is nothing to list and
// nothing to repair, but arguments are checked.

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
		// The first 14 of the 112 reserved bytes are compared.
		if u.Reserved[0] != 0 || u.Reserved[1]<<16 != 0 {
			return core.Invalid(api, "memUceInfoArray", "the reserved bytes are not 0").At(i)
		}
	}
	return nil
}

// uceDevice refuses a lost device for a call about uncorrectable memory errors. A thread without a context takes that
// of the configured default device, and may then only ask about that device.
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

// health returns why the device can no longer be used, or nil. A device that is not open is healthy.
func health(d *core.Device) error {
	if dev := d.Opened.Load(); dev != nil {
		return dev.Healthy()
	}
	return nil
}

// GetErrorVerbose is aclrtGetErrorVerbose. A lost device has a fault of the kind "other", without details, which cannot
// be repaired.
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

// RepairError is aclrtRepairError. A call that passes its checks has nothing to repair.
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
