package conformance

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// installed is a machine with packages installed: names to version texts. A name with a slash is a path of its own.
func installed(e *env, packages map[string]string) machine {
	e.Helper()
	home := e.TempDir()
	for name, version := range packages {
		dir := filepath.Join(home, "share", "info", name)
		if strings.Contains(name, "/") {
			dir = filepath.Join(home, name)
		}
		testenv.OK(e, os.MkdirAll(dir, 0o755))
		text := fmt.Sprintf("timestamp=20250101\n%s\n", version)
		testenv.OK(e, os.WriteFile(filepath.Join(dir, "version.info"), []byte(text), 0o644))
	}
	return machine{home: home, bare: true}
}

func init() {
	unhookable := []string{
		"aclInit", "aclprofInit", "aclrtmalloc", "aclrtMalloc ", "aclrtApiInjectionSetFunc", "rtMalloc", "",
	}
	prove("aclrtApiInjectionSetFunc", "name-unknown", func(e *env) *core.Error {
		e.ok(process.ApiInjectionSetFunc(e.stranger(), cText("aclrtMalloc"), 1))
		e.ok(process.ApiInjectionSetFunc(e.th, cText("aclmdlRIExecuteAsync"), 1))
		return lastOf(e, abi.ErrInvalidParam, unhookable, func(name string) *core.Error {
			return process.ApiInjectionSetFunc(e.th, cText(name), 1)
		})
	})
	prove("aclrtApiInjectionGetFunc", "name-unknown", func(e *env) *core.Error {
		e.ok(process.ApiInjectionGetFunc(e.stranger(), cText("aclrtMalloc"), nil, nil))
		return lastOf(e, abi.ErrInvalidParam, unhookable, func(name string) *core.Error {
			return process.ApiInjectionGetFunc(e.th, cText(name), nil, nil)
		})
	})
	behaves("aclrtGetVersion", func(e *env) {
		v := [3]int32{7, 7, 7}
		e.ok(process.GetVersion(e.stranger(), &v[0], &v[1], &v[2]))
		is(e, "version", v, [3]int32{1, 17, 0})
	})

	prove("aclsysGetCANNVersion", "name-unknown", func(e *env) *core.Error {
		return lastOf(e, abi.ErrInvalidParam, []int32{-1, 8}, func(n int32) *core.Error {
			return process.SysGetCANNVersion(e.th, abi.CANNPackageName(n), new(abi.CANNPackageVersion))
		})
	})
	prove("aclsysGetCANNVersion", "no-package", func(e *env) *core.Error {
		v := abi.CANNPackageVersion{Version: [128]byte{7}}
		e.want(process.SysGetCANNVersion(e.th, abi.PkgNameRuntime, &v), abi.ErrInvalidFile) // no ASCEND_HOME_PATH
		o := e.on(installed(e, map[string]string{"runtime": "Version=8.5.0", "opp": "nothing"}))
		e.want(process.SysGetCANNVersion(o.th, abi.PkgNameOpp, &v), abi.ErrInvalidFile) // no version in it
		err := process.SysGetCANNVersion(o.th, abi.PkgNameCompiler, &v)
		is(e, "untouched output", v, abi.CANNPackageVersion{Version: [128]byte{7}})
		return err
	})
	behaves("aclsysGetCANNVersion", func(e *env) {
		o := e.on(installed(e, map[string]string{
			"runtime": "Version=8.5.0", "cann": "Version=8.6.0", "opp/": "Version=7.3.T10.2.B528",
			"driver": "Version=24.1.rc1", "hccl": "Version=1",
		}))
		for name, want := range map[abi.CANNPackageName][5]string{
			abi.PkgNameRuntime: {"8.5.0", "8", "5", "0", "0"},
			abi.PkgNameCann:    {"8.6.0", "8", "6", "0", "0"},
			abi.PkgNameOpp:     {"7.3.T10.2.B528", "7", "3", "T10", "2"},
			abi.PkgNameDriver:  {"24.1.rc1", "24", "1", "rc1", "0"},
			abi.PkgNameHccl:    {"1", "1", "0", "0", "0"},
		} {
			var v abi.CANNPackageVersion
			e.ok(process.SysGetCANNVersion(o.th, name, &v))
			got := [5]string{goText(v.Version[:]), goText(v.MajorVersion[:]), goText(v.MinorVersion[:]),
				goText(v.ReleaseVersion[:]), goText(v.PatchVersion[:])}
			is(e, name.String(), got, want)
		}
		long := e.on(installed(e, map[string]string{"runtime": "Version=" + strings.Repeat("9", 64) + ".0.0"}))
		e.want(process.SysGetCANNVersion(long.th, abi.PkgNameRuntime, new(abi.CANNPackageVersion)),
			abi.ErrInternalError)
	})

	prove("aclsysGetVersionStr", "no-package", func(e *env) *core.Error {
		text := [128]byte{7}
		e.want(process.SysGetVersionStr(e.th, cText("runtime"), &text), abi.ErrInvalidFile)
		o := e.on(installed(e, map[string]string{"runtime": "Version=8.5.0"}))
		for _, name := range []string{"", "nobody", "../info/runtime", "share/info/runtime"} {
			e.want(process.SysGetVersionStr(o.th, cText(name), &text), abi.ErrInvalidFile)
		}
		err := process.SysGetVersionStr(o.th, cText("Runtime"), &text)
		is(e, "untouched output", text, [128]byte{7})
		return err
	})
	prove("aclsysGetVersionStr", "text-too-long", func(e *env) *core.Error {
		o := e.on(installed(e, map[string]string{"a": "Version=" + strings.Repeat("1", 128),
			"b": "Version=" + strings.Repeat("1", 127)}))
		text := [128]byte{7}
		err := process.SysGetVersionStr(o.th, cText("a"), &text)
		is(e, "untouched output", text, [128]byte{7})
		e.ok(process.SysGetVersionStr(o.th, cText("b"), &text))
		is(e, "longest text", goText(text[:]), strings.Repeat("1", 127))
		return err
	})
	behaves("aclsysGetVersionStr", func(e *env) {
		o := e.on(installed(e, map[string]string{"runtime": "Version=8.5.0.alpha001", "opp_kernel/": "Version = 7.0 "}))
		for name, want := range map[string]string{"runtime": "8.5.0.alpha001", "opp_kernel": "7.0"} {
			var text [128]byte
			e.ok(process.SysGetVersionStr(o.th, cText(name), &text))
			is(e, name, goText(text[:]), want)
		}
	})

	prove("aclsysGetVersionNum", "no-package", func(e *env) *core.Error {
		e.want(process.SysGetVersionNum(e.th, cText("runtime"), new(int32)), abi.ErrInvalidFile)
		return process.SysGetVersionNum(e.on(installed(e, map[string]string{"runtime": "Version=8.5.0"})).th,
			cText("nobody"), new(int32))
	})
	prove("aclsysGetVersionNum", "not-a-version", func(e *env) *core.Error {
		o := e.on(installed(e, map[string]string{"a": "Version=8.5", "b": "Version=8.0.RC1", "c": "Version=300.0.0",
			"d": "Version=8.5.0.1"}))
		n := int32(7)
		for _, name := range []string{"a", "b", "c"} {
			e.want(process.SysGetVersionNum(o.th, cText(name), &n), abi.ErrInternalError)
		}
		err := process.SysGetVersionNum(o.th, cText("d"), &n)
		is(e, "untouched output", n, 7)
		return err
	})
	behaves("aclsysGetVersionNum", func(e *env) {
		o := e.on(installed(e, map[string]string{"plain": "Version=8.5.1", "alpha": "Version=8.5.1.alpha2",
			"beta": "Version=8.5.1-beta.3", "rc": "Version=8.5.1.RC4"}))
		for name, want := range map[string]int32{"plain": 80501000, "alpha": 80500702, "beta": 80500803,
			"rc": 80500904} {
			var n int32
			e.ok(process.SysGetVersionNum(o.th, cText(name), &n))
			is(e, name, n, want)
		}
	})

	behaves("aclrtGetSocName", func(e *env) {
		for p, want := range map[string]string{"A2": "Ascend910B1", "A3": "Ascend910_9391", "950": "Ascend950PR_9599",
			"310P": "Ascend310P3"} {
			is(e, p, process.GetSocName(e.on(machine{product: p}).stranger()), want)
		}
	})

	behaves("aclGetCannAttributeList", func(e *env) {
		for p, want := range map[string]string{"A2": "[ACL_CANN_ATTR_INF_NAN ACL_CANN_ATTR_BF16]", "910": "[]"} {
			th := e.on(machine{product: p}).stranger()
			var at core.Addr
			n := uint64(7)
			e.ok(process.GetCannAttributeList(th, &at, &n))
			list := unsafe.Slice((*abi.CannAttr)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
			is(e, p, fmt.Sprint(list), want)
			for _, a := range list {
				var v int32
				e.ok(process.GetCannAttribute(th, a, &v))
				is(e, a.String(), v, 1)
			}
		}
	})

	prove("aclGetCannAttribute", "attribute-unknown", func(e *env) *core.Error {
		return lastOf(e, abi.ErrInvalidParam, []int32{-1, 3},
			func(a int32) *core.Error { return process.GetCannAttribute(e.th, abi.CannAttr(a), new(int32)) })
	})
	behaves("aclGetCannAttribute", func(e *env) {
		for p, want := range map[string][3]int32{"A2": {1, 1, 0}, "A3": {1, 1, 0}, "950": {1, 1, 0}, "910": {0, 0, 0}} {
			got := [3]int32{7, 7, 7}
			for a := range got {
				e.ok(process.GetCannAttribute(e.on(machine{product: p}).stranger(), abi.CannAttr(a), &got[a]))
			}
			is(e, p, got, want)
		}
	})

	prove("aclGetDeviceCapability", "no-device-count", func(e *env) *core.Error {
		err := process.AclGetDeviceCapability(e.on(hidden()).th, 9, 9, new(int64))
		e.want(err, abi.ErrRTNoDevice)
		is(e, "function named", err.API, "aclGetDeviceCapability")
		return err
	})
	prove("aclGetDeviceCapability", "deviceId-range", func(e *env) *core.Error {
		e.want(process.AclGetDeviceCapability(e.th, 1<<31, 9, new(int64)), abi.ErrInvalidParam)
		return blamed(e, "deviceId", process.AclGetDeviceCapability(e.th, 4, 9, new(int64)))
	})
	prove("aclGetDeviceCapability", "info-unknown", func(e *env) *core.Error {
		v := int64(7)
		err := lastOf(e, abi.ErrInvalidParam, []int32{-1, 3},
			func(i int32) *core.Error { return process.AclGetDeviceCapability(e.th, 3, abi.DeviceInfo(i), &v) })
		is(e, "untouched output", v, 7)
		return err
	})
	behaves("aclGetDeviceCapability", func(e *env) {
		for p, want := range map[string][3]int64{"A2": {24, 48, 192 << 20}, "310P": {8, 7, 16 << 20}} {
			var got [3]int64
			for i := range got {
				e.ok(process.AclGetDeviceCapability(e.on(machine{product: p}).stranger(), 3, abi.DeviceInfo(i),
					&got[i]))
			}
			is(e, p, got, want)
		}
	})

	behaves("aclAppLog", func(e *env) {
		e.th.AppLog(abi.LogLevelError, nil, nil, 0, nil) // without a writer nothing happens
		d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
		testenv.OK(e, err)
		p, _ := product.Find("A2", "")
		var lines strings.Builder
		timeless := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: timeless}))
		rt := core.New(core.Options{Driver: d, Product: p, Log: log})
		defer rt.Close()
		th := rt.NewThread(1)
		th.AppLog(abi.LogLevelWarning, cText("run"), cText("main.cpp"), 12, cText("one\ntwo 100%\n"))
		th.AppLog(abi.LogLevelInfo, nil, nil, 0, cText("bare"))
		th.AppLog(abi.LogLevelDebug, nil, nil, 0, cText("below the level"))
		is(e, "lines", lines.String(),
			`level=WARN msg="main.cpp:12 run: one\ntwo 100%" tid=1`+"\n"+`level=INFO msg=":0 : bare" tid=1`+"\n")
	})
}
