package dl

import (
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// TestProcess: what is loaded already need not be opened.
func TestProcess(t *testing.T) {
	abs, err := Process().Symbol("labs")
	testenv.OK(t, err)
	if got := Call(abs, ^uintptr(8)); got != 9 {
		t.Errorf("labs(-9) = %d", got)
	}
}

func TestMissing(t *testing.T) {
	if _, err := Open("libno-such-library.so"); err == nil || !strings.Contains(err.Error(), "libno-such-library.so") {
		t.Errorf("opening a library that is not there: %v", err)
	}
	l, err := Open("libc.so.6")
	testenv.OK(t, err)
	if _, err := l.Symbol("no_such_symbol"); err == nil || !strings.Contains(err.Error(), "no_such_symbol") {
		t.Errorf("looking for a symbol that is not there: %v", err)
	}
}
