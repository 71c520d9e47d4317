package core

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"ropeway/internal/abi"
)

// GetVersion is aclrtGetVersion: the version of the API.
func (t *Thread) GetVersion(majorVersion, minorVersion, patchVersion *int32) *Error {
	if err := t.checkGetVersion(majorVersion, minorVersion, patchVersion); err != nil {
		return err
	}
	*majorVersion, *minorVersion, *patchVersion = abi.MajorVersion, abi.MinorVersion, abi.PatchVersion
	return nil
}

// packages are the directories that hold the version of a package (our choice).
var packages = [...]string{
	abi.PkgNameCann:      "cann",
	abi.PkgNameRuntime:   "runtime",
	abi.PkgNameCompiler:  "compiler",
	abi.PkgNameHccl:      "hccl",
	abi.PkgNameToolkit:   "toolkit",
	abi.PkgNameOpp:       "opp",
	abi.PkgNameOppKernel: "opp_kernel",
	abi.PkgNameDriver:    "driver",
}

// version is the version text of an installed package: the Version line of its version.info, below share/info of
// the installation or in a directory of its own.
func (rt *Runtime) version(name string) (string, bool) {
	if rt.home == "" || name == "" || strings.ContainsRune(name, filepath.Separator) {
		return "", false
	}
	for _, dir := range []string{filepath.Join("share", "info", name), name} {
		data, err := os.ReadFile(filepath.Join(rt.home, dir, "version.info"))
		if err != nil {
			continue
		}
		if v := versionLine(string(data)); v != "" {
			return v, true
		}
	}
	return "", false
}

// versionLine is the value of the line Version=…, "" if there is none.
func versionLine(info string) string {
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "version") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (rt *Runtime) noVersion(api, arg, name string) *Error {
	if rt.home == "" {
		return fail(api, abi.ErrInvalidFile, arg, "ASCEND_HOME_PATH is not set, so nobody knows where packages are")
	}
	return fail(api, abi.ErrInvalidFile, arg, "%q has no version.info with a line Version=… in %s", name, filepath.Join(rt.home, "share", "info"))
}

// SysGetCANNVersion is aclsysGetCANNVersion. Parts the text does not have are "0".
func (t *Thread) SysGetCANNVersion(name abi.CANNPackageName, version *abi.CANNPackageVersion) *Error {
	const api = "aclsysGetCANNVersion"
	if err := t.checkSysGetCANNVersion(name, version); err != nil {
		return err
	}
	if name < 0 || int(name) >= len(packages) {
		return invalid(api, "name", "%d is no aclCANNPackageName", name)
	}
	text, ok := t.rt.version(packages[name])
	if !ok {
		return t.rt.noVersion(api, "name", packages[name])
	}
	var v abi.CANNPackageVersion
	parts := append(strings.Split(text, "."), "0", "0", "0")
	if !putString(v.Version[:], text) || !putString(v.MajorVersion[:], parts[0]) || !putString(v.MinorVersion[:], parts[1]) ||
		!putString(v.ReleaseVersion[:], parts[2]) || !putString(v.PatchVersion[:], parts[3]) {
		return tooLong(api, "version", text)
	}
	*version = v
	return nil
}

func tooLong(api, arg, text string) *Error {
	return fail(api, abi.ErrInternalError, arg, "the version text has %d bytes, more than there is room for", len(text))
}

// SysGetVersionStr is aclsysGetVersionStr.
func (t *Thread) SysGetVersionStr(pkgName *byte, versionStr *[abi.PkgVersionMaxSize]byte) *Error {
	const api = "aclsysGetVersionStr"
	if versionStr == nil {
		return isNull(api, "versionStr")
	}
	text, err := t.versionOf(api, pkgName)
	if err != nil {
		return err
	}
	if !putString(versionStr[:], text) {
		return tooLong(api, "versionStr", text)
	}
	return nil
}

// SysGetVersionNum is aclsysGetVersionNum.
func (t *Thread) SysGetVersionNum(pkgName *byte, versionNum *int32) *Error {
	const api = "aclsysGetVersionNum"
	if versionNum == nil {
		return isNull(api, "versionNum")
	}
	text, err := t.versionOf(api, pkgName)
	if err != nil {
		return err
	}
	n, ok := versionNumber(text)
	if !ok {
		return fail(api, abi.ErrInternalError, "pkgName", "the version %q is not major.minor.patch with an optional alpha, beta or rc", text)
	}
	*versionNum = n
	return nil
}

func (t *Thread) versionOf(api string, pkgName *byte) (string, *Error) {
	if pkgName == nil {
		return "", isNull(api, "pkgName")
	}
	name := cString(pkgName)
	text, ok := t.rt.version(name)
	if !ok {
		return "", t.rt.noVersion(api, "pkgName", name)
	}
	return text, nil
}

var (
	versionText = regexp.MustCompile(`(?i)^(\d+)\.(\d+)\.(\d+)(?:[.-]?(alpha|beta|rc)\.?(\d*))?$`)
	stages      = map[string]int64{"": 0, "alpha": -300, "beta": -200, "rc": -100}
)

// versionNumber turns a version text into a number that grows with the version; false if it is no such text.
func versionNumber(text string) (int32, bool) {
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	sum := stages[strings.ToLower(m[4])]
	for i, weight := range map[int]int64{1: 10_000_000, 2: 100_000, 3: 1000, 5: 1} {
		if m[i] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i], 10, 32)
		if err != nil {
			return 0, false
		}
		sum += n * weight
	}
	return int32(sum), sum == int64(int32(sum))
}

// GetSocName is aclrtGetSocName.
func (t *Thread) GetSocName() string { return t.rt.prod.Chip }

// cannAttrs are the attributes of 950, A3 and A2; other products have none. Compiling operators is not built, so
// nobody has that one.
var cannAttrs = [...]abi.CannAttr{abi.CannAttrInfNan, abi.CannAttrBF16}

// GetCannAttributeList is aclGetCannAttributeList. The list is not to be written to.
func (t *Thread) GetCannAttributeList(cannAttrList *Addr, num *uint64) *Error {
	if err := t.checkGetCannAttributeList(cannAttrList, num); err != nil {
		return err
	}
	*cannAttrList, *num = addressOf(&cannAttrs), 0
	if t.rt.prod.Modern {
		*num = uint64(len(cannAttrs))
	}
	return nil
}

// GetCannAttribute is aclGetCannAttribute.
func (t *Thread) GetCannAttribute(cannAttr abi.CannAttr, value *int32) *Error {
	const api = "aclGetCannAttribute"
	if err := t.checkGetCannAttribute(cannAttr, value); err != nil {
		return err
	}
	if cannAttr < abi.CannAttrInfNan || cannAttr > abi.CannAttrJitCompile {
		return invalid(api, "cannAttr", "%d is no aclCannAttr", cannAttr)
	}
	*value = 0
	for _, a := range cannAttrs {
		if a == cannAttr && t.rt.prod.Modern {
			*value = 1
		}
	}
	return nil
}

// AclGetDeviceCapability is aclGetDeviceCapability.
func (t *Thread) AclGetDeviceCapability(deviceID uint32, deviceInfo abi.DeviceInfo, value *int64) *Error {
	const api = "aclGetDeviceCapability"
	if err := t.checkAclGetDeviceCapability(deviceID, deviceInfo, value); err != nil {
		return err
	}
	n, err := t.countDevices(api)
	if err != nil {
		return err
	}
	if deviceID >= n {
		return invalid(api, "deviceId", "%d is no usable device; %s", deviceID, t.rt.deviceRange())
	}
	p := t.rt.prod
	switch deviceInfo {
	case abi.DeviceInfoAiCoreNum:
		*value = p.CubeCores
	case abi.DeviceInfoVectorCoreNum:
		*value = p.VectorCores
	case abi.DeviceInfoL2Size:
		*value = p.L2Bytes
	default:
		return invalid(api, "deviceInfo", "%d is no aclDeviceInfo", deviceInfo)
	}
	return nil
}
