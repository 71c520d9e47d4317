package dl

import "testing"

// TestCall proves that a call by address passes its words on and allocates nothing.
func TestCall(t *testing.T) {
	l, err := Open("libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Symbol("no_such_symbol"); err == nil {
		t.Error("a symbol that is not there has an address")
	}
	abs, err := l.Symbol("labs")
	if err != nil {
		t.Fatal(err)
	}
	if got := Call(abs, ^uintptr(6)); got != 7 {
		t.Errorf("labs(-7) = %d", got)
	}
	if n := testing.AllocsPerRun(100, func() { Call(abs, 1) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}
