package capitest

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

func TestSmoke(t *testing.T) {
	passes(t, nil, compile(t, []string{"smoke.c"}))
}

// TestReserve: addresses that programs ask for are not the core's. Where the core lies is drawn for each process.
func TestReserve(t *testing.T) {
	program := compile(t, []string{"reserve.c"})
	for range 16 {
		passes(t, []string{"ROPEWAY_PRODUCT=A3"}, program)
	}
}

// TestRounds: a process that initialises, works and finalises again and again does not grow.
func TestRounds(t *testing.T) {
	passes(t, nil, compile(t, []string{"rounds.c"}))
}

// TestWait: time that runs out leaves no trace, everything else is as with the function that waits for ever.
func TestWait(t *testing.T) {
	passes(t, nil, compile(t, []string{"wait.c"}))
}

// TestUnbuilt: a function that is not built checks its arguments, and says once on standard error what it is.
func TestUnbuilt(t *testing.T) {
	r := run(t, nil, compile(t, []string{"unbuilt.c"}))
	if r.code != 0 || strings.Count(r.stderr, "aclrtSnapShotProcessLock is not built in ropeway yet") != 1 ||
		strings.Count(r.stderr, "\n") != 2 {
		t.Errorf("exit code %d:\n%s", r.code, r.stderr)
	}
}

// TestUnbuiltWithoutArguments: so do those that have no arguments.
func TestUnbuiltWithoutArguments(t *testing.T) {
	api, err := table.Load()
	testenv.OK(t, err)
	var names []string
	for _, f := range api.Functions {
		if f.Status == table.Later && len(f.C.Params) == 0 {
			names = append(names, f.Name)
		}
	}
	passes(t, nil, compile(t, []string{"unbuilt_noargs.c"}), names...)
}
