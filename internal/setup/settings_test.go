package setup

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/testenv"
)

// environment is a lookup in NAME=value texts.
func environment(vars ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range vars {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value, true
			}
		}
		return "", false
	}
}

func TestReadWithoutVariables(t *testing.T) {
	s, err := Read(environment())
	testenv.OK(t, err)
	if s.Product.Name != "A2" || s.Product.RC {
		t.Errorf("the product is %s, RC %t", s.Product.Name, s.Product.RC)
	}
	s.Product = nil
	want := Settings{Devices: 8, Driver: "soft", Log: LogSettings{Level: slog.LevelError}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestReadGoodValues(t *testing.T) {
	for _, tt := range []struct {
		vars string // with spaces between them
		get  func(Settings) any
		want any
	}{
		{"ROPEWAY_PRODUCT=a3", func(s Settings) any { return s.Product.Name }, "A3"},
		{"ROPEWAY_PRODUCT=", func(s Settings) any { return s.Product.Name }, "A2"},
		{"ROPEWAY_PRODUCT=310P ROPEWAY_FORM=rc", func(s Settings) any { return s.Product.RC }, true},
		{"ROPEWAY_PRODUCT=310P ROPEWAY_FORM=EP", func(s Settings) any { return s.Product.RC }, false},
		{"ROPEWAY_DEVICES=0", func(s Settings) any { return s.Devices }, 0},
		{"ROPEWAY_DEVICES=1", func(s Settings) any { return s.Devices }, 1},
		{"ROPEWAY_DEVICES=64", func(s Settings) any { return s.Devices }, 64},
		{"ROPEWAY_DEVICES=8", func(s Settings) any { return s.Counted }, true},
		{"ROPEWAY_DEVICES=", func(s Settings) any { return s.Counted }, false},
		{"ROPEWAY_DEVICES=", func(s Settings) any { return s.Devices }, 8},
		{"ROPEWAY_DEVICE_MEMORY=64M", func(s Settings) any { return s.DeviceMemory }, uint64(64 << 20)},
		{"ROPEWAY_DEVICE_MEMORY=67108864", func(s Settings) any { return s.DeviceMemory }, uint64(64 << 20)},
		{"ROPEWAY_DEVICE_MEMORY=2gib", func(s Settings) any { return s.DeviceMemory }, uint64(2 << 30)},
		{"ROPEWAY_DRIVER=soft", func(s Settings) any { return s.Driver }, "soft"},
		{"ROPEWAY_DRIVER=Soft", func(s Settings) any { return s.Driver }, "soft"},
		{"ROPEWAY_KERNELS=/kernels", func(s Settings) any { return s.Kernels }, "/kernels"},
		{"ROPEWAY_CUDA_SHARE=25", func(s Settings) any { return s.CUDAShare }, 25},
		{"ROPEWAY_CUDA_SHARE=", func(s Settings) any { return s.CUDAShare }, 0},
		{"ASCEND_RT_VISIBLE_DEVICES=1,3", func(s Settings) any { return *s.Visible }, "1,3"},
		{"ASCEND_RT_VISIBLE_DEVICES=", func(s Settings) any { return *s.Visible }, ""},
		// judged when the devices are known
		{"ASCEND_RT_VISIBLE_DEVICES=x", func(s Settings) any { return *s.Visible }, "x"},
		{"ASCEND_LAUNCH_BLOCKING=1", func(s Settings) any { return s.Blocking }, true},
		{"ROPEWAY_STRICT=1", func(s Settings) any { return s.Strict }, true},
		{"ROPEWAY_STRICT=0", func(s Settings) any { return s.Strict }, false},
		{"ASCEND_LAUNCH_BLOCKING=0", func(s Settings) any { return s.Blocking }, false},
		{"ASCEND_LAUNCH_BLOCKING=", func(s Settings) any { return s.Blocking }, false},
		{"ASCEND_GLOBAL_LOG_LEVEL=0", func(s Settings) any { return s.Log.Level }, slog.LevelDebug},
		{"ASCEND_GLOBAL_LOG_LEVEL=1", func(s Settings) any { return s.Log.Level }, slog.LevelInfo},
		{"ASCEND_GLOBAL_LOG_LEVEL=2", func(s Settings) any { return s.Log.Level }, slog.LevelWarn},
		{"ASCEND_GLOBAL_LOG_LEVEL=3", func(s Settings) any { return s.Log.Level }, slog.LevelError},
		{"ASCEND_GLOBAL_LOG_LEVEL=4", func(s Settings) any { return s.Log.Level }, noLines},
		{"ASCEND_SLOG_PRINT_TO_STDOUT=1", func(s Settings) any { return s.Log.Stdout }, true},
		{"ASCEND_LOG_PRINT_TO_STDOUT=1", func(s Settings) any { return s.Log.Stdout }, true},
		{"ASCEND_SLOG_PRINT_TO_STDOUT=0 ASCEND_LOG_PRINT_TO_STDOUT=1", func(s Settings) any { return s.Log.Stdout },
			true},
		{"ASCEND_SLOG_PRINT_TO_STDOUT=0", func(s Settings) any { return s.Log.Stdout }, false},
		{"ASCEND_PROCESS_LOG_PATH=/var/log/x", func(s Settings) any { return s.Log.Dir }, "/var/log/x"},
		{"ASCEND_HOME_PATH=/opt/toolkit", func(s Settings) any { return s.Home }, "/opt/toolkit"},
	} {
		t.Run(tt.vars, func(t *testing.T) {
			s, err := Read(environment(strings.Split(tt.vars, " ")...))
			testenv.OK(t, err)
			if got := tt.get(s); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if len(s.Notes) != 0 {
				t.Errorf("complains: %q", s.Notes)
			}
		})
	}
}

// TestReadRefuses: a value that nothing can be opened with is one line with the variable, the value and what is
// accepted.
func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		variable, accepts string
		code              abi.Code
	}{
		{"ROPEWAY_PRODUCT=A9", "A3", abi.ErrInvalidParam},
		{"ROPEWAY_FORM=XP", "neither EP nor RC", abi.ErrInvalidParam},
		{"ROPEWAY_FORM=RC", "310B, 310P and 310 have one", abi.ErrInvalidParam}, // the A2 has none
		{"ROPEWAY_DEVICES=many", "0 to 64", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICES=-1", "0 to 64", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICES=65", "0 to 64", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICES=1.5", "0 to 64", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICES=99999999999999999999", "0 to 64", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICE_MEMORY=lots", "512M or 64GiB", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICE_MEMORY=1GB", "512M or 64GiB", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICE_MEMORY=0", "at least 64M", abi.ErrInvalidParam},
		{"ROPEWAY_DEVICE_MEMORY=67108863", "at least 64M", abi.ErrInvalidParam},
		{"ROPEWAY_DRIVER=hard", "takes soft", abi.ErrInvalidParam},
		{"ROPEWAY_DRIVER=ascend", "not built yet", abi.ErrRTFeatureNotSupport},
		{"ROPEWAY_CUDA_SHARE=0", "1 to 100", abi.ErrInvalidParam},
		{"ROPEWAY_CUDA_SHARE=101", "1 to 100", abi.ErrInvalidParam},
		{"ROPEWAY_CUDA_SHARE=10%", "1 to 100", abi.ErrInvalidParam},
		{"ASCEND_LAUNCH_BLOCKING=2", "0 or 1", abi.ErrInvalidParam},
		{"ROPEWAY_STRICT=yes", "0 or 1", abi.ErrInvalidParam},
		{"ASCEND_LAUNCH_BLOCKING=true", "0 or 1", abi.ErrInvalidParam},
	} {
		t.Run(tt.variable, func(t *testing.T) {
			_, err := Read(environment(tt.variable))
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, tt.code) || len(e.Lines) != 1 {
				t.Fatalf("got %v, want one line and %v", err, tt.code)
			}
			name, value, _ := strings.Cut(tt.variable, "=")
			for _, want := range []string{name + `="` + value + `"`, tt.accepts} {
				if !strings.Contains(e.Lines[0], want) {
					t.Errorf("%q does not say %q", e.Lines[0], want)
				}
			}
			if strings.Contains(e.Error(), "\n") {
				t.Errorf("not one line: %q", e)
			}
		})
	}
}

// TestReadNotes: a bad value that only concerns the log is noted, and the default counts.
func TestReadNotes(t *testing.T) {
	for _, tt := range []struct{ variable, accepts string }{
		{"ASCEND_GLOBAL_LOG_LEVEL=5", "0 (debug)"},
		{"ASCEND_GLOBAL_LOG_LEVEL=-1", "0 (debug)"},
		{"ASCEND_GLOBAL_LOG_LEVEL=error", "0 (debug)"},
		{"ASCEND_SLOG_PRINT_TO_STDOUT=yes", "0 or 1"},
		{"ASCEND_LOG_PRINT_TO_STDOUT=2", "0 or 1"},
	} {
		t.Run(tt.variable, func(t *testing.T) {
			s, err := Read(environment(tt.variable))
			testenv.OK(t, err)
			if s.Log != (LogSettings{Level: slog.LevelError}) {
				t.Errorf("got %+v", s.Log)
			}
			name, _, _ := strings.Cut(tt.variable, "=")
			if len(s.Notes) != 1 || !strings.HasPrefix(s.Notes[0], name+"=") ||
				!strings.Contains(s.Notes[0], tt.accepts) {
				t.Errorf("notes are %q", s.Notes)
			}
		})
	}
}

// TestReadTellsEverything: all bad values are in one error, a line each, and the first decides on the code.
func TestReadTellsEverything(t *testing.T) {
	_, err := Read(environment("ROPEWAY_PRODUCT=A9", "ROPEWAY_FORM=XP", "ROPEWAY_DEVICES=x", "ROPEWAY_DEVICE_MEMORY=x",
		"ROPEWAY_DRIVER=ascend", "ASCEND_LAUNCH_BLOCKING=x", "ASCEND_GLOBAL_LOG_LEVEL=x"))
	var e *Error
	if !errors.As(err, &e) || e.Code != abi.ErrInvalidParam {
		t.Fatalf("got %v", err)
	}
	var names []string
	for line := range strings.Lines(e.Error()) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	want := []string{EnvProduct, EnvForm, EnvDevices, EnvDeviceMemory, EnvDriver, EnvBlocking}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("lines are about %v, want %v", names, want)
	}
}

// TestReadQuotesValues: no value can break a line or a terminal.
func TestReadQuotesValues(t *testing.T) {
	_, err := Read(environment("ROPEWAY_DRIVER=a\nb\x1b[31m"))
	if err == nil || strings.ContainsAny(err.Error(), "\n\x1b") {
		t.Errorf("got %q", err)
	}
}
