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
	const api = "aclrtGetMemUceInfo"
	switch {
	case memUceInfoArray == nil:
		return core.IsNull(api, "memUceInfoArray")
	case retSize == nil:
		return core.IsNull(api, "retSize")
	}
	d, err := uceDevice(t, api, deviceID)
	if err != nil {
		return err
	}
	if err := health(d); err != nil {
		return core.FromDriver(api, "deviceId", err)
	}
	*retSize = 0
	return nil
}

// MemUceRepair is aclrtMemUceRepair. memUceInfoArray points to arraySize entries. A range without a fault needs no
// repair.
func MemUceRepair(t *core.Thread, deviceID int32, memUceInfoArray *abi.MemUceInfo, arraySize uint64) *core.Error {
	const api = "aclrtMemUceRepair"
	if err := checkMemUceRepair(t, deviceID, memUceInfoArray, arraySize); err != nil {
		return err
	}
	for i, u := range core.Array(memUceInfoArray, arraySize) {
		// Of the 112 reserved bytes the first 14 are compared.
		if u.Reserved[0] != 0 || u.Reserved[1]<<16 != 0 {
			return core.Invalid(api, "memUceInfoArray", "the reserved bytes are not 0").At(i)
		}
	}
	d, err := uceDevice(t, api, deviceID)
	if err != nil {
		return err
	}
	if err := health(d); err != nil {
		return core.FromDriver(api, "deviceId", err)
	}
	return nil
}

// uceDevice is the device a call about uncorrectable memory errors is for. A thread that has no context takes that of
// the configured default device, and may then ask about that device only.
func uceDevice(t *core.Thread, api string, deviceID int32) (*core.Device, *core.Error) {
	if !t.Runtime.Product.Modern {
		return nil, core.Unsupported(api, "", "%s does not report uncorrectable memory errors",
			t.Runtime.Product.Name).NotRecorded()
	}
	d := t.Runtime.Device(deviceID)
	if d == nil {
		return nil, t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if def := t.Runtime.DefaultDevice.Load() - 1; def >= 0 && t.Explicit == nil && t.Primary == nil && !t.Shared {
		if def != deviceID {
			return nil, core.Fail(api, abi.ErrRTContextNull, "deviceId",
				"this thread has no context and the default device is %d, not %d; call aclrtSetDevice first", def,
				deviceID)
		}
		t.Current() // takes the default device's
	}
	return d, nil
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
	const api = "aclrtGetErrorVerbose"
	if errorInfo == nil {
		return core.IsNull(api, "errorInfo")
	}
	if err := noFaults(t, api); err != nil {
		return err
	}
	d := t.Runtime.Device(deviceID)
	if d == nil {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	*errorInfo = abi.ErrorInfo{ErrorType: abi.ErrorTypeNoError}
	if health(d) != nil {
		errorInfo.ErrorType = abi.ErrorTypeErrorOthers
	}
	return nil
}

// RepairError is aclrtRepairError.
func RepairError(t *core.Thread, deviceID int32, errorInfo *abi.ErrorInfo) *core.Error {
	const api = "aclrtRepairError"
	if errorInfo == nil {
		return core.IsNull(api, "errorInfo")
	}
	if err := noFaults(t, api); err != nil {
		return err
	}
	if errorInfo.TryRepair == 0 {
		return core.Refused(api, "errorInfo", "tryRepair is 0: aclrtGetErrorVerbose says that a repair is no use")
	}
	d := t.Runtime.Device(deviceID)
	if d == nil {
		return t.NoDevice(api, "deviceId", int64(deviceID))
	}
	if !d.IsSet() {
		return core.Fail(api, abi.ErrRTDevSetupError, "deviceId",
			"device %d is not set in this process; call aclrtSetDevice first", deviceID)
	}
	if !repairs(t.Runtime, errorInfo.ErrorType) {
		return core.Refused(api, "errorInfo", "%v cannot be repaired on %s", errorInfo.ErrorType,
			t.Runtime.Product.Name)
	}
	return nil
}

// noFaults is the error of a product that does not report its faults, or nil.
func noFaults(t *core.Thread, api string) *core.Error {
	if t.Runtime.Product.Modern {
		return nil
	}
	return core.Unsupported(api, "", "%s does not report its faults", t.Runtime.Product.Name)
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
