package process

import (
	"reflect"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// configRuntime is a runtime with two devices to check configurations against.
func configRuntime(t *testing.T, name string) *core.Thread {
	t.Helper()
	p, err := product.Find(name, "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 2, Memory: 64 << 20})
	testenv.OK(t, err)
	rt := core.New(core.Options{Driver: d, Product: p})
	t.Cleanup(func() { rt.Close() }) //nolint:errcheck // nothing was made
	return rt.NewThread(1)
}

func checkConfig(th *core.Thread, text string) (*initConfig, *core.Error) {
	c, err := parseConfig("aclInit", text)
	if err == nil {
		err = c.checkMessages()
	}
	if err == nil {
		err = c.checkDump()
	}
	if err == nil {
		err = c.checkRest(th)
	}
	return c, err
}

func TestConfig(t *testing.T) {
	type limits = map[abi.DeviceLimit]uint64
	all := `{"StackSize": {"aicore_stack_size": 40000, "simt_stack_size": 1000, "simt_divergence_stack_size": 0},
		"simt_printf_fifo_size": 1048577, "simd_printf_fifo_size_per_core": 67108864}`
	for _, tt := range []struct {
		name, product, text string
		code                abi.Code
		device, eventMode   int32 // as in initConfig
		texts               bool
		limits              limits // other than the default
	}{
		{"empty", "A2", `{}`, 0, -1, -1, false, nil},
		{"nothing known", "A2", `{"max_opqueue_num": "1", "else": [1, 2]}`, 0, -1, -1, false, nil},
		{"no object", "A2", `[{"err_msg_mode": 5}]`, 0, -1, -1, false, nil},
		{"sections", "A2", `{"dump": {"a": 1}, "profiler": {"b": 1}, "defaultDevice": {}, "acl_graph": {}}`, 0, -1, -1,
			false, nil},
		{"device", "A2", `{"defaultDevice": {"default_device": "1"}, "err_msg_mode": "1"}`, 0, 1, -1, true, nil},
		{"device 0", "A2", `{"defaultDevice": {"default_device": "0"}, "err_msg_mode": "0"}`, 0, 0, -1, false, nil},
		{"graphs", "A3", `{"acl_graph": {"event_mode": 0}}`, 0, -1, 0, false, nil},
		{"sizes on the 950", "950", all, 0, -1, -1, false, limits{0: 1024, 1: 0, 2: 48 << 10, 3: 64 << 20, 4: 1048584}},
		{"sizes on the A2", "A2", all, 0, -1, -1, false, limits{2: 48 << 10, 3: 64 << 20}},
		{"sizes on the 310B", "310B", all, 0, -1, -1, false, limits{2: 48 << 10}},
		{"sizes on the 910", "910", all, 0, -1, -1, false, nil},
		{"small stack", "A2", `{"StackSize": {"aicore_stack_size": 32768}}`, 0, -1, -1, false, nil},
		{"range of what is not known", "310P", `{"simd_printf_fifo_size_per_core": 1}`, 0, -1, -1, false, nil},

		{"not JSON", "A2", `{"a": }`, abi.ErrParseFile, 0, 0, false, nil},
		{"nothing in the file", "A2", ` `, abi.ErrParseFile, 0, 0, false, nil},
		{"two values", "A2", `{} {}`, abi.ErrParseFile, 0, 0, false, nil},
		{"err_msg_mode is a number", "A2", `{"err_msg_mode": 1}`, abi.ErrInvalidParam, 0, 0, false, nil},
		{"err_msg_mode is an object", "A2", `{"err_msg_mode": {}}`, abi.ErrInvalidParam, 0, 0, false, nil},
		{"StackSize is a number", "A2", `{"StackSize": 5}`, abi.ErrFailure, 0, 0, false, nil},
		{"stack is text", "A2", `{"StackSize": {"aicore_stack_size": "65536"}}`, abi.ErrFailure, 0, 0, false, nil},
		{"stack is a fraction", "A2", `{"StackSize": {"aicore_stack_size": 1.5}}`, abi.ErrFailure, 0, 0, false, nil},
		{"stack is negative", "A2", `{"StackSize": {"aicore_stack_size": -1}}`, abi.ErrFailure, 0, 0, false, nil},
		{"unknown stack is text", "A2", `{"StackSize": {"simt_stack_size": ""}}`, abi.ErrFailure, 0, 0, false, nil},
		{"defaultDevice is text", "A2", `{"defaultDevice": "1"}`, abi.ErrFailure, 0, 0, false, nil},
		{"acl_graph is a list", "A2", `{"acl_graph": []}`, abi.ErrInvalidParam, 0, 0, false, nil},
		{"device is a number", "A2", `{"defaultDevice": {"default_device": 0}}`, abi.ErrFailure, 0, 0, false, nil},
		{"device is no number", "A2", `{"defaultDevice": {"default_device": "01"}}`, abi.ErrFailure, 0, 0, false, nil},
		{"device is empty", "A2", `{"defaultDevice": {"default_device": ""}}`, abi.ErrFailure, 0, 0, false, nil},
		{"device is not there", "A2", `{"defaultDevice": {"default_device": "2"}}`, abi.ErrRTInvalidDeviceid, 0, 0,
			false, nil},
		{"device is enormous", "A2", `{"defaultDevice": {"default_device": "4294967296"}}`, abi.ErrRTInvalidDeviceid, 0,
			0, false, nil},
		{"printf is null", "A2", `{"simd_printf_fifo_size_per_core": null}`, abi.ErrFailure, 0, 0, false, nil},
		{"printf is small", "A2", `{"simd_printf_fifo_size_per_core": 1023}`, abi.ErrRTParamInvalid, 0, 0, false, nil},
		{"printf is large", "950", `{"simt_printf_fifo_size": 67108865}`, abi.ErrRTParamInvalid, 0, 0, false, nil},
		{"event mode is 2", "A2", `{"acl_graph": {"event_mode": 2}}`, abi.ErrInvalidParam, 0, 0, false, nil},
		{"event mode is text", "A2", `{"acl_graph": {"event_mode": "1"}}`, abi.ErrInvalidParam, 0, 0, false, nil},
		{"event mode on the 910", "910", `{"acl_graph": {"event_mode": 1}}`, abi.ErrRTFeatureNotSupport, 0, 0, false,
			nil},
		{"dump is a list", "A2", `{"dump": []}`, abi.ErrInvalidDumpConfig, 0, 0, false, nil},
		{"profiler is a list", "A2", `{"profiler": []}`, abi.ErrInvalidParam, 0, 0, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			th := configRuntime(t, tt.product)
			c, err := checkConfig(th, tt.text)
			if tt.code != 0 {
				if err == nil || err.Code != tt.code {
					t.Fatalf("got %v, want %v", err, tt.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.device != tt.device || c.eventMode != tt.eventMode || c.texts != tt.texts {
				t.Errorf("got device %d, event mode %d, texts %t", c.device, c.eventMode, c.texts)
			}
			configure(th.Runtime, c)
			var got limits
			for i := range processOf(th.Runtime).limits {
				if v := processOf(th.Runtime).limits[i].Load(); v != defaultLimits[i] {
					if got == nil {
						got = limits{}
					}
					got[abi.DeviceLimit(i)] = v
				}
			}
			if !reflect.DeepEqual(got, tt.limits) {
				t.Errorf("limits are %v, want %v", got, tt.limits)
			}
			if d := th.Runtime.DefaultDevice.Load(); d != tt.device+1 {
				t.Errorf("the default device is %d", d-1)
			}
		})
	}
}
