package capitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnvironment: what a C program sees of each variable, good and bad. What they mean is proven in internal/setup.
func TestEnvironment(t *testing.T) {
	program := compile(t, []string{"environment.c"})
	logs := filepath.Join(t.TempDir(), "log")
	for _, tt := range []struct {
		name           string
		env            []string
		stdout, stderr []string // what must be there
		never          string   // what must not, on either
	}{
		{"nothing set", nil, []string{"init 0", "count 0 8", "set 0", "soc Ascend910B1", "refused 107000"},
			nil, "error line"},
		{"product and form", []string{"ROPEWAY_PRODUCT=310b", "ROPEWAY_FORM=RC"}, []string{"set 0", "soc Ascend310B"},
			nil, "refused: "},
		{"unknown product", []string{"ROPEWAY_PRODUCT=911"},
			[]string{"init 100000", "count 100000 99", "set 100000", "says ROPEWAY_PRODUCT", "soc none", "size 0",
				"batch 100000 SIZE_MAX"},
			[]string{`ropeway: ROPEWAY_PRODUCT="911"`}, ""},
		{"two bad values", []string{"ROPEWAY_DEVICES=many", "ROPEWAY_DEVICE_MEMORY=-1"}, []string{"set 100000"},
			[]string{"ROPEWAY_DEVICES=", "ROPEWAY_DEVICE_MEMORY="}, ""},
		{"bad launch blocking", []string{"ASCEND_LAUNCH_BLOCKING=yes"}, []string{"set 100000"},
			[]string{"ASCEND_LAUNCH_BLOCKING="}, ""},
		{"a driver that is not built", []string{"ROPEWAY_DRIVER=ascend"}, []string{"set 207000"},
			[]string{"ROPEWAY_DRIVER="}, ""},
		{"no devices", []string{"ROPEWAY_DEVICES=0"}, []string{"init 0", "count 207004"}, nil, "refused: "},
		{"devices and memory", []string{"ROPEWAY_DEVICES=3", "ROPEWAY_DEVICE_MEMORY=1G"}, []string{"count 0 3",
			"at most 1 GiB: 1"}, nil, ""},
		{"visible devices", []string{"ASCEND_RT_VISIBLE_DEVICES=2,5,x,6"}, []string{"count 0 2"},
			[]string{"ASCEND_RT_VISIBLE_DEVICES"}, ""},
		{"launch blocking", []string{"ASCEND_LAUNCH_BLOCKING=1"}, []string{"ran 1"}, nil, ""},
		{"log to stdout", []string{"ASCEND_SLOG_PRINT_TO_STDOUT=1"}, []string{"an error line, 7", "107000"},
			nil, "debug line"},
		{"log everything, by the other name", []string{"ASCEND_LOG_PRINT_TO_STDOUT=1", "ASCEND_GLOBAL_LOG_LEVEL=0"},
			[]string{"a debug line", "an error line, 7", "device is set"}, nil, ""},
		{"log nothing", []string{"ASCEND_SLOG_PRINT_TO_STDOUT=1", "ASCEND_GLOBAL_LOG_LEVEL=4"}, nil, nil, "error line"},
		{"bad log level", []string{"ASCEND_GLOBAL_LOG_LEVEL=loud"}, []string{"set 0"},
			[]string{"ASCEND_GLOBAL_LOG_LEVEL="}, ""},
		{"log to a file", []string{"ASCEND_PROCESS_LOG_PATH=" + logs}, []string{"set 0"}, nil, "error line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, tt.env, program)
			if r.code != 0 {
				t.Errorf("exit code %d, signal %v", r.code, r.signal)
			}
			for _, want := range tt.stdout {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("standard output lacks %q", want)
				}
			}
			for _, want := range tt.stderr {
				if strings.Count(r.stderr, want) != 1 {
					t.Errorf("standard error has %q not once", want)
				}
			}
			if tt.never != "" && strings.Contains(r.stdout+r.stderr, tt.never) {
				t.Errorf("a line says %q", tt.never)
			}
			if t.Failed() {
				t.Logf("%s%s", r.stdout, r.stderr)
			}
		})
	}
	files, _ := filepath.Glob(filepath.Join(logs, "debug/plog/plog-*.log"))
	if len(files) != 1 {
		t.Fatalf("log files: %v", files)
	}
	if text, err := os.ReadFile(files[0]); err != nil || !strings.Contains(string(text), "an error line, 7") {
		t.Errorf("the log file: %v\n%s", err, text)
	}
}
