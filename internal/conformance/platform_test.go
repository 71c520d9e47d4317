package conformance

import (
	"slices"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
)

// written is the text that a call wrote into b.
func written(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

// platform is what aclplatformGetDeviceInfo says; "" if there is nothing.
func platform(e *env, info abi.PlatformDevInfo) string {
	e.Helper()
	b := slices.Repeat([]byte{0x5A}, 32)
	if err := process.PlatformGetDeviceInfo(e.stranger(), info, &b[0], 32); err != nil {
		e.want(err, abi.ErrInvalidParam)
		return ""
	}
	return written(b)
}

// platformValues are those of the table, by product.
var platformValues = map[string]string{
	"A2": "24 196608 24 48 201326592 68719476736 1850 - 1024 " +
		"65536 65536 131072 524288 Ascend910B1 AIC-C-220 2201 -",
	"A3": "24 196608 24 48 201326592 68719476736 1850 - 1024 " +
		"65536 65536 131072 524288 Ascend910_9391 AIC-C-220 2201 -",
	"950": "36 253952 36 72 134217728 137438953472 1800 1800 4096 " +
		"65536 65536 262144 524288 Ascend950PR_9599 AIC-C-310 3510 0",
	"310B": "1 253952 1 1 4194304 34359738368 1224 1224 1024 " +
		"65536 65536 131072 1048576 Ascend310B1 AIC-M-300 3002 0",
	"310P": "8 262144 - 7 16777216 24000000000 1060 1000 - " +
		"65536 65536 262144 1048576 Ascend310P3 AIC-M-200 2002 0",
	"910": "32 262144 - 0 33554432 - 1000 - - " +
		"65536 65536 262144 1048576 Ascend910A AIC-C-100 1001 -",
}

func init() {
	prove("aclplatformGetDeviceInfo", "no-device-opened", func(e *env) *core.Error {
		b, o := make([]byte, 32), e.on(machine{bare: true})
		err := process.PlatformGetDeviceInfo(o.th, 0, &b[0], 32)
		o.ok(o.th.SetDevice(1)) // any device will do, and a call before does no harm
		o.ok(o.th.ResetDevice(1))
		o.ok(process.PlatformGetDeviceInfo(o.th, 0, &b[0], 32))
		return err
	})
	prove("aclplatformGetDeviceInfo", "no-such-value", func(e *env) *core.Error {
		for name, values := range platformValues {
			o := e.on(machine{product: name})
			for i, want := range strings.Fields(values) {
				if want == "-" {
					want = ""
				}
				is(e, name+" "+abi.PlatformDevInfo(i).String(), platform(o, abi.PlatformDevInfo(i)), want)
			}
		}
		b := make([]byte, 32)
		return process.PlatformGetDeviceInfo(e.th, abi.PlatformDevInfo(7), &b[0], 32)
	})
	prove("aclplatformGetDeviceInfo", "maxLen-too-small", func(e *env) *core.Error {
		b := []byte("xxxxxxxxxxxxxxxx")
		const name = abi.PlatformDevInfoSocVersion
		e.ok(process.PlatformGetDeviceInfo(e.th, name, &b[0], 12))
		is(e, "the text and its end", string(b), "Ascend910B1\x00xxxx")
		return process.PlatformGetDeviceInfo(e.th, name, &b[0], 11)
	})
	behaves("aclplatformGetDeviceInfo", func(e *env) { // limits of device 0 count
		o := e.on(machine{})
		o.ok(process.SetDeviceResLimit(o.th, 0, abi.DevResCubeCore, 5))
		o.ok(process.SetDeviceResLimit(o.th, 0, abi.DevResVectorCore, 6))
		for info, want := range map[abi.PlatformDevInfo]string{0: "5", 2: "5", 3: "6"} {
			is(e, info.String(), platform(o, info), want)
		}
		o.ok(process.ResetDeviceResLimit(o.th, 0))
		is(e, "afterwards", platform(o, 0), "24")
	})

	instruction := func(e *env, typ abi.PlatformCoreType, name string, max uint32) (string, *core.Error) {
		b, n := make([]byte, 64), append([]byte(name), 0)
		err := process.PlatformGetInstructionInfo(e.th, typ, &n[0], &b[0], max)
		return written(b), err
	}
	prove("aclplatformGetInstructionInfo", "no-device-opened", func(e *env) *core.Error {
		_, err := instruction(e.on(machine{bare: true}), 0, "Intrinsic_vadd", 64)
		return err
	})
	prove("aclplatformGetInstructionInfo", "no-such-instruction", func(e *env) *core.Error {
		_, err := instruction(e.on(machine{product: "310P"}), 0, "Intrinsic_vadd", 64)
		e.want(err, abi.ErrInvalidParam)
		_, err = instruction(e, 0, "vadd", 64)
		return err
	})
	prove("aclplatformGetInstructionInfo", "maxLen-too-small", func(e *env) *core.Error {
		_, err := instruction(e, 0, "Intrinsic_vrec", 15)
		return err
	})
	behaves("aclplatformGetInstructionInfo", func(e *env) {
		for name, want := range map[string]string{
			"Intrinsic_vadd": "float16,float32,int32,int16", "Intrinsic_vrec": "float16,float32"} {
			for _, typ := range []abi.PlatformCoreType{0, 1} {
				got, err := instruction(e, typ, name, uint32(len(want))+1)
				e.ok(err)
				is(e, name, got, want)
			}
		}
	})
}
