package setup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// opened opens what variables say, on small devices, and returns what it warned of. It is closed when the test ends.
func opened(t *testing.T, vars ...string) (*core.Runtime, string) {
	t.Helper()
	s, err := Read(environment(append(vars, "ROPEWAY_DEVICE_MEMORY=64M")...))
	testenv.OK(t, err)
	var warn bytes.Buffer
	rt, err := s.Open(&warn)
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt, warn.String()
}

func TestOpenIsWhatTheVariablesSay(t *testing.T) {
	rt, warned := opened(t, "ROPEWAY_PRODUCT=310B", "ROPEWAY_FORM=RC", "ROPEWAY_DEVICES=3", "ROPEWAY_DRIVER=soft")
	if warned != "" {
		t.Errorf("warned: %s", warned)
	}
	if p := rt.Product; p.Name != "310B" || !p.RC {
		t.Errorf("product %s, RC %t", p.Name, p.RC)
	}
	if d := rt.Driver; d.Name() != "soft" || d.Devices() != 3 {
		t.Errorf("driver %s with %d devices", d.Name(), d.Devices())
	}
	th := rt.NewThread(1)
	if err := th.SetDevice(2); err != nil {
		t.Fatal(err)
	}
	var free, total uint64
	if err := memory.GetMemInfo(th, abi.MemAttrDDRMem, &free, &total); err != nil {
		t.Fatal(err)
	}
	if total != 64<<20 {
		t.Errorf("a device has %d bytes", total)
	}
}

func TestOpenWithoutDevices(t *testing.T) {
	rt, warned := opened(t, "ROPEWAY_DEVICES=0")
	if warned != "" {
		t.Errorf("warned: %s", warned)
	}
	th := rt.NewThread(1)
	var n uint32
	if err := process.GetDeviceCount(th, &n); err == nil || err.Code != abi.ErrRTNoDevice {
		t.Errorf("aclrtGetDeviceCount: %v", err)
	}
	if err := th.SetDevice(0); err == nil || err.Code != abi.ErrRTInvalidDeviceid {
		t.Errorf("aclrtSetDevice: %v", err)
	}
}

// TestVisibleDevices: a list that is read to its end passes without a word, one that is cut short is reported in one
// line.
func TestVisibleDevices(t *testing.T) {
	for _, tt := range []struct {
		list  string
		count uint32
		says  []string // nil: nothing
	}{
		{"0,1,2,3", 4, nil},
		{" 1 , 3 ", 2, nil},
		{"", 0, nil},
		{"1,x,2", 1, []string{`="1,x,2"`, `up to "x"`, "0 to 3", "visible are 1"}},
		{"0,1,9", 2, []string{`up to "9"`, "visible are 0,1"}},
		{"2,1", 1, []string{`up to "1"`, "visible are 2"}},
		{"1,", 1, []string{`up to ""`, "visible are 1"}},
		{"-1", 0, []string{`up to "-1"`, "no device is visible"}},
	} {
		t.Run(tt.list, func(t *testing.T) {
			rt, warned := opened(t, "ROPEWAY_DEVICES=4", "ASCEND_RT_VISIBLE_DEVICES="+tt.list)
			var n uint32
			if err := process.GetDeviceCount(rt.NewThread(1), &n); (err == nil) != (tt.count > 0) || n != tt.count {
				t.Errorf("%d devices are visible, %v", n, err)
			}
			if tt.says == nil {
				if warned != "" {
					t.Errorf("warned: %s", warned)
				}
				return
			}
			for _, want := range append(tt.says, "ropeway: ASCEND_RT_VISIBLE_DEVICES=") {
				if !strings.Contains(warned, want) {
					t.Errorf("%q does not say %q", warned, want)
				}
			}
			if strings.Count(warned, "\n") != 1 {
				t.Errorf("not one line: %q", warned)
			}
		})
	}
}

func TestOpenPrintsNotes(t *testing.T) {
	_, warned := opened(t, "ASCEND_GLOBAL_LOG_LEVEL=loud", "ASCEND_LOG_PRINT_TO_STDOUT=x")
	if strings.Count(warned, "\n") != 2 || strings.Count(warned, "ropeway: ASCEND_") != 2 {
		t.Errorf("got %q", warned)
	}
}

func TestOpenBlocking(t *testing.T) {
	for value, want := range map[string]bool{"0": false, "1": true} {
		rt, _ := opened(t, "ASCEND_LAUNCH_BLOCKING="+value)
		th := rt.NewThread(1)
		var s core.Handle
		testenv.OK(t, errors.Join(asError(th.SetDevice(0)), asError(th.CreateStream(&s))))
		gate, ran := make(chan struct{}), false
		if want {
			close(gate) // it is waited for
		}
		if err := th.LaunchHostFunc(s, func(core.Addr) { <-gate; ran = true }, 0); err != nil {
			t.Fatal(err)
		}
		if want && !ran {
			t.Error("launch blocking does not block")
		}
		if !want {
			close(gate) // it could not have returned otherwise
		}
		if err := th.SynchronizeStream(s); err != nil {
			t.Fatal(err)
		}
	}
}

// asError keeps a nil *core.Error from becoming an error that is not nil.
func asError(err *core.Error) error {
	if err == nil {
		return nil
	}
	return err
}

func TestOpenHome(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "share", "info", "runtime")
	testenv.OK(t, os.MkdirAll(dir, 0o755))
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "version.info"), []byte("Version=8.5.0\n"), 0o644))
	rt, _ := opened(t, "ASCEND_HOME_PATH="+home)
	var n int32
	name := []byte("runtime\x00")
	if err := process.SysGetVersionNum(rt.NewThread(1), &name[0], &n); err != nil || n != 80500000 {
		t.Errorf("got version %d, %v", n, err)
	}
}

// TestOpenErrors: a driver that does not open is one line with a code.
func TestOpenErrors(t *testing.T) {
	for err, code := range map[error]abi.Code{
		driver.ErrNoMemory:          abi.ErrRTMemoryAllocation,
		driver.ErrUnsupported:       abi.ErrRTFeatureNotSupport,
		errors.New("no\nsuch\nlib"): abi.ErrRTDrvInternalError,
	} {
		e := openError("soft", fmt.Errorf("library: %w", err))
		if !errors.Is(e, code) || !errors.Is(e, err) || len(e.Lines) != 1 || strings.Contains(e.Lines[0], "\n") {
			t.Errorf("%v became %d: %q", err, e.Code, e.Lines)
		}
	}
	s, err := Read(environment())
	testenv.OK(t, err)
	s.Driver = "ascend"
	if _, err := s.Open(nil); !errors.Is(err, abi.ErrRTFeatureNotSupport) {
		t.Errorf("got %v", err)
	}
	s.Driver, s.Devices = softDriver, 1<<20
	if _, err := s.Open(nil); err == nil || !strings.Contains(err.Error(), EnvDevices) {
		t.Errorf("got %v", err)
	}
}
