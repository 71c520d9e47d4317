package process

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/readfile"
)

// GetVersion is aclrtGetVersion: the version of the API.
func GetVersion(t *core.Thread, majorVersion, minorVersion, patchVersion *int32) *core.Error {
	if err := checkGetVersion(t, majorVersion, minorVersion, patchVersion); err != nil {
		return err
	}
	*majorVersion, *minorVersion, *patchVersion = abi.MajorVersion, abi.MinorVersion, abi.PatchVersion
	return nil
}

// packages are the directories with the version of a package, by ropeway's choice.
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

// packageVersion returns the version text of an installed package: the Version line of its version.info, below
// share/info of the installation or in a directory of its own.
func packageVersion(rt *core.Runtime, name string) (string, bool) {
	if rt.Home == "" || name == "" || strings.ContainsRune(name, filepath.Separator) {
		return "", false
	}
	for _, dir := range []string{filepath.Join("share", "info", name), name} {
		data, err := readfile.Regular(filepath.Join(rt.Home, dir, "version.info"), readfile.Text)
		if err != nil {
			continue
		}
		if v := versionLine(string(data)); v != "" {
			return v, true
		}
	}
	return "", false
}

// versionLine returns the value of the line Version=…, "" if there is none.
func versionLine(info string) string {
	for line := range strings.Lines(info) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.EqualFold(strings.TrimSpace(key), "version") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func noVersion(rt *core.Runtime, api, arg, name string) *core.Error {
	if rt.Home == "" {
		return core.Fail(api, abi.ErrInvalidFile, arg,
			"ASCEND_HOME_PATH is not set, so nobody knows where packages are")
	}
	return core.Fail(api, abi.ErrInvalidFile, arg, "%q has no version.info with a line Version=… in %s", name,
		filepath.Join(rt.Home, "share", "info"))
}

// SysGetCANNVersion is aclsysGetCANNVersion. Missing parts are "0".
func SysGetCANNVersion(t *core.Thread, name abi.CANNPackageName, version *abi.CANNPackageVersion) *core.Error {
	const api = "aclsysGetCANNVersion"
	if err := checkSysGetCANNVersion(t, name, version); err != nil {
		return err
	}
	if name < 0 || int(name) >= len(packages) {
		return core.Invalid(api, "name", "%d is no aclCANNPackageName", name)
	}
	text, ok := packageVersion(t.Runtime, packages[name])
	if !ok {
		return noVersion(t.Runtime, api, "name", packages[name])
	}
	var v abi.CANNPackageVersion
	parts := append(strings.Split(text, "."), "0", "0", "0")
	if !core.PutString(v.Version[:], text) || !core.PutString(v.MajorVersion[:], parts[0]) ||
		!core.PutString(v.MinorVersion[:], parts[1]) ||
		!core.PutString(v.ReleaseVersion[:], parts[2]) || !core.PutString(v.PatchVersion[:], parts[3]) {
		return tooLong(api, "version", text)
	}
	*version = v
	return nil
}

func tooLong(api, arg, text string) *core.Error {
	return core.Fail(api, abi.ErrInternalError, arg, "the version text has %d bytes, more than there is room for",
		len(text))
}

// SysGetVersionStr is aclsysGetVersionStr.
func SysGetVersionStr(t *core.Thread, pkgName *byte, versionStr *[abi.PkgVersionMaxSize]byte) *core.Error {
	text, err := checkSysGetVersionStr(t, pkgName, versionStr)
	if err != nil {
		return err
	}
	if !core.PutString(versionStr[:], text) {
		return tooLong("aclsysGetVersionStr", "versionStr", text)
	}
	return nil
}

// SysGetVersionNum is aclsysGetVersionNum.
func SysGetVersionNum(t *core.Thread, pkgName *byte, versionNum *int32) *core.Error {
	text, err := checkSysGetVersionNum(t, pkgName, versionNum)
	if err != nil {
		return err
	}
	n, ok := versionNumber(text)
	if !ok {
		return core.Fail("aclsysGetVersionNum", abi.ErrInternalError, "pkgName",
			"the version %q is not major.minor.patch with an optional alpha, beta or rc", text)
	}
	*versionNum = n
	return nil
}

// versionOf returns the version of a package.
func versionOf(t *core.Thread, api string, pkgName *byte) (string, *core.Error) {
	name := core.CString(pkgName)
	text, ok := packageVersion(t.Runtime, name)
	if !ok {
		return "", noVersion(t.Runtime, api, "pkgName", name)
	}
	return text, nil
}

var (
	versionText = regexp.MustCompile(`(?i)^(\d+)\.(\d+)\.(\d+)(?:[.-]?(alpha|beta|rc)\.?(\d*))?$`)
	stages      = map[string]int64{"": 0, "alpha": -300, "beta": -200, "rc": -100}
)

// versionNumber converts a version text to a number that grows with the version; false if the text is invalid.
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
func GetSocName(t *core.Thread) string { return t.Runtime.Product.Chip }

// cannAttrs are the attributes of 950, A3 and A2; other products have none. Compiling operators is not built, so no
// product has that attribute.
var cannAttrs = [...]abi.CannAttr{abi.CannAttrInfNan, abi.CannAttrBF16}

// GetCannAttributeList is aclGetCannAttributeList. The program must not change the list.
func GetCannAttributeList(t *core.Thread, cannAttrList *core.Addr, num *uint64) *core.Error {
	if err := checkGetCannAttributeList(t, cannAttrList, num); err != nil {
		return err
	}
	*cannAttrList, *num = core.AddressOf(&cannAttrs), 0
	if t.Runtime.Product.Modern {
		*num = uint64(len(cannAttrs))
	}
	return nil
}

// GetCannAttribute is aclGetCannAttribute.
func GetCannAttribute(t *core.Thread, cannAttr abi.CannAttr, value *int32) *core.Error {
	const api = "aclGetCannAttribute"
	if err := checkGetCannAttribute(t, cannAttr, value); err != nil {
		return err
	}
	if cannAttr < abi.CannAttrInfNan || cannAttr > abi.CannAttrJitCompile {
		return core.Invalid(api, "cannAttr", "%d is no aclCannAttr", cannAttr)
	}
	*value = 0
	for _, a := range cannAttrs {
		if a == cannAttr && t.Runtime.Product.Modern {
			*value = 1
		}
	}
	return nil
}

// AclGetDeviceCapability is aclGetDeviceCapability.
func AclGetDeviceCapability(t *core.Thread, deviceID uint32, deviceInfo abi.DeviceInfo, value *int64) *core.Error {
	const api = "aclGetDeviceCapability"
	if err := checkAclGetDeviceCapability(t, deviceID, deviceInfo, value); err != nil {
		return err
	}
	n, err := countDevices(t, api)
	if err != nil {
		return err
	}
	if deviceID >= n {
		return core.Invalid(api, "deviceId", "%d is no usable device; %s", deviceID, t.Runtime.DeviceRange())
	}
	p := t.Runtime.Product
	switch deviceInfo {
	case abi.DeviceInfoAiCoreNum:
		*value = p.CubeCores
	case abi.DeviceInfoVectorCoreNum:
		*value = p.VectorCores
	case abi.DeviceInfoL2Size:
		*value = p.L2Bytes
	default:
		return core.Invalid(api, "deviceInfo", "%d is no aclDeviceInfo", deviceInfo)
	}
	return nil
}
