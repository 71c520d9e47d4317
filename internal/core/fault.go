package core

import "ropeway/internal/abi"

// Faults of a device's memory and cores. No driver reports any yet, except that a device is lost, so there is nothing
// to list and nothing to repair; arguments are checked all the same.

// GetMemUceInfo is aclrtGetMemUceInfo. memUceInfoArray points to arraySize entries.
func (t *Thread) GetMemUceInfo(deviceID int32, memUceInfoArray *abi.MemUceInfo, arraySize uint64, retSize *uint64) *Error {
	const api = "aclrtGetMemUceInfo"
	switch {
	case memUceInfoArray == nil:
		return isNull(api, "memUceInfoArray")
	case retSize == nil:
		return isNull(api, "retSize")
	}
	d, err := t.uceDevice(api, deviceID)
	if err != nil {
		return err
	}
	if err := d.health(); err != nil {
		return fromDriver(api, "deviceId", err)
	}
	*retSize = 0
	return nil
}

// MemUceRepair is aclrtMemUceRepair. memUceInfoArray points to arraySize entries. A range without a fault needs no
// repair.
func (t *Thread) MemUceRepair(deviceID int32, memUceInfoArray *abi.MemUceInfo, arraySize uint64) *Error {
	const api = "aclrtMemUceRepair"
	if err := t.checkMemUceRepair(deviceID, memUceInfoArray, arraySize); err != nil {
		return err
	}
	for i, u := range array(memUceInfoArray, arraySize) {
		// Of the 112 reserved bytes the first 14 are compared.
		if u.Reserved[0] != 0 || u.Reserved[1]<<16 != 0 {
			return invalid(api, "memUceInfoArray", "the reserved bytes are not 0").at(i)
		}
	}
	d, err := t.uceDevice(api, deviceID)
	if err != nil {
		return err
	}
	if err := d.health(); err != nil {
		return fromDriver(api, "deviceId", err)
	}
	return nil
}

// uceDevice is the device a call about uncorrectable memory errors is for. A thread that has no context takes that of
// the configured default device, and may then ask about that device only.
func (t *Thread) uceDevice(api string, deviceID int32) (*Device, *Error) {
	if !t.rt.prod.Modern {
		return nil, unsupported(api, "", "%s does not report uncorrectable memory errors", t.rt.prod.Name).quiet()
	}
	d := t.rt.device(deviceID)
	if d == nil {
		return nil, t.noDevice(api, "deviceId", int64(deviceID))
	}
	if def := t.rt.defaultDevice.Load() - 1; def >= 0 && t.explicit == nil && t.primary == nil && !t.shared {
		if def != deviceID {
			return nil, fail(api, abi.ErrRTContextNull, "deviceId", "this thread has no context and the default device is %d, not %d; call aclrtSetDevice first", def, deviceID)
		}
		t.current() // takes the default device's
	}
	return d, nil
}

// health is why the device can no longer be used, or nil. A device that is not open is well.
func (d *Device) health() error {
	if dev := d.dev.Load(); dev != nil {
		return dev.Healthy()
	}
	return nil
}

// GetErrorVerbose is aclrtGetErrorVerbose. A device that is lost has a fault of another kind, without detail, that
// cannot be repaired.
func (t *Thread) GetErrorVerbose(deviceID int32, errorInfo *abi.ErrorInfo) *Error {
	const api = "aclrtGetErrorVerbose"
	if errorInfo == nil {
		return isNull(api, "errorInfo")
	}
	if err := t.noFaults(api); err != nil {
		return err
	}
	d := t.rt.device(deviceID)
	if d == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	*errorInfo = abi.ErrorInfo{ErrorType: abi.ErrorTypeNoError}
	if d.health() != nil {
		errorInfo.ErrorType = abi.ErrorTypeErrorOthers
	}
	return nil
}

// RepairError is aclrtRepairError.
func (t *Thread) RepairError(deviceID int32, errorInfo *abi.ErrorInfo) *Error {
	const api = "aclrtRepairError"
	if errorInfo == nil {
		return isNull(api, "errorInfo")
	}
	if err := t.noFaults(api); err != nil {
		return err
	}
	if errorInfo.TryRepair == 0 {
		return refused(api, "errorInfo", "tryRepair is 0: aclrtGetErrorVerbose says that a repair is no use")
	}
	d := t.rt.device(deviceID)
	if d == nil {
		return t.noDevice(api, "deviceId", int64(deviceID))
	}
	if !d.isSet() {
		return fail(api, abi.ErrRTDevSetupError, "deviceId", "device %d is not set in this process; call aclrtSetDevice first", deviceID)
	}
	if !t.rt.repairs(errorInfo.ErrorType) {
		return refused(api, "errorInfo", "%v cannot be repaired on %s", errorInfo.ErrorType, t.rt.prod.Name)
	}
	return nil
}

// noFaults is the answer of a product that does not tell of its faults, or nil.
func (t *Thread) noFaults(api string) *Error {
	if t.rt.prod.Modern {
		return nil
	}
	return unsupported(api, "", "%s does not tell of its faults", t.rt.prod.Name)
}

// repairs tells whether the product can repair a kind of fault.
func (rt *Runtime) repairs(kind abi.ErrorType) bool {
	switch kind {
	case abi.ErrorTypeErrorMemory:
		return true
	case abi.ErrorTypeNoError:
		return rt.prod.Name != "950"
	case abi.ErrorTypeErrorL2, abi.ErrorTypeErrorAicore, abi.ErrorTypeErrorLink, abi.ErrorTypeErrorL3Port:
		return rt.prod.Name == "950"
	}
	return false
}
