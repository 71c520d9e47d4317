package testenv

import (
	"syscall"
	"testing"
	"time"
)

// recorder is a test that only notes how it ended.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Skip(...any)           { r.skipped = true; panic(r) }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; panic(r) }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(r) }

// record runs f the way a test would, and catches the end of one that failed or was skipped.
func record(f func(testing.TB)) (r *recorder) {
	r = &recorder{}
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f(r)
	return r
}

func TestNeed(t *testing.T) {
	const absent = "no-such-tool-anywhere"
	for _, tt := range []struct {
		name, ci, tool  string
		skipped, failed bool
	}{
		{"present", "", "go", false, false},
		{"present in CI", "true", "go", false, false},
		{"absent", "", absent, true, false},
		{"absent in CI", "true", absent, false, true},
		{"CI with another value", "1", absent, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CI", tt.ci)
			r := record(func(tb testing.TB) { Need(tb, tt.tool) })
			if r.skipped != tt.skipped || r.failed != tt.failed {
				t.Errorf("skipped %t, failed %t; want %t, %t", r.skipped, r.failed, tt.skipped, tt.failed)
			}
		})
	}
}

func TestTimeOfSoak(t *testing.T) {
	for _, tt := range []struct {
		value           string
		want            time.Duration
		skipped, failed bool
	}{
		{"10m", 10 * time.Minute, false, false},
		{"", 0, true, false},
		{"soon", 0, false, true},
		{"-1s", 0, false, true},
	} {
		t.Run("SOAK="+tt.value, func(t *testing.T) {
			t.Setenv("SOAK", tt.value)
			var got time.Duration
			r := record(func(tb testing.TB) { got = Soak(tb) })
			if got != tt.want || r.skipped != tt.skipped || r.failed != tt.failed {
				t.Errorf("%v, skipped %t, failed %t; want %v, %t, %t", got, r.skipped, r.failed, tt.want,
					tt.skipped, tt.failed)
			}
		})
	}
}

func TestNeedProcess(t *testing.T) {
	if r := record(func(tb testing.TB) { NeedProcess(tb, nil) }); r.skipped {
		t.Error("an ordinary process cannot be started")
	}
	if r := record(func(tb testing.TB) {
		NeedProcess(tb,
			&syscall.SysProcAttr{Chroot: "/no-such-directory"})
	}); !r.skipped {
		t.Error("a process in no directory can be started")
	}
}
