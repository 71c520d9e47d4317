package dl

import (
	"runtime"
	"sync"
	"testing"

	"ropeway/internal/testenv"
)

// TestCall proves that a call by address passes its words on and allocates nothing.
func TestCall(t *testing.T) {
	l, err := Open("libc.so.6")
	testenv.OK(t, err)
	if _, err := l.Symbol("no_such_symbol"); err == nil {
		t.Error("a symbol that is not there has an address")
	}
	abs, err := l.Symbol("labs")
	testenv.OK(t, err)
	if got := Call(abs, ^uintptr(6)); got != 7 {
		t.Errorf("labs(-7) = %d", got)
	}
	if n := testing.AllocsPerRun(100, func() { Call(abs, 1) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// TestCallInt proves that a function that returns an int gets all of its words, in registers and on the stack, and
// that nothing is allocated.
func TestCallInt(t *testing.T) {
	l, err := Open("libc.so.6")
	testenv.OK(t, err)
	abs, err := l.Symbol("abs")
	testenv.OK(t, err)
	if got := CallInt(abs, ^uintptr(6)); got != 7 {
		t.Errorf("abs(-7) = %d", got)
	}
	if n := testing.AllocsPerRun(100, func() { CallInt(abs, 1) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
	print, err := l.Symbol("snprintf")
	testenv.OK(t, err)
	text := cText("%d %d %d %d %d %d %d %d %d %d %d")
	out := make([]byte, 64)
	n := CallInt(print, cAddr(out), uintptr(len(out)), cAddr(text), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	if got := string(out[:max(n, 0)]); got != "1 2 3 4 5 6 7 8 9 10 11" {
		t.Errorf("C has printed %q", got)
	}
	runtime.KeepAlive(text)
	for name, call := range map[string]func(){
		"no function": func() { CallInt(0) }, "fifteen": func() { CallInt(abs, make([]uintptr, 15)...) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is called", name)
				}
			}()
			call()
		}()
	}
}

// TestCallIntAmongOthers proves that calls from many goroutines, with stacks that grow in between, come back where
// they began.
func TestCallIntAmongOthers(t *testing.T) {
	abs, err := Process().Symbol("abs")
	testenv.OK(t, err)
	var deep func(n int) int32
	deep = func(n int) int32 {
		if n == 0 {
			return 0
		}
		return deep(n-1) + CallInt(abs, ^uintptr(0))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := deep(1000); got != 1000 {
					t.Errorf("%d calls returned, want 1000", got)
				}
			}
		})
	}
	for range 20 {
		runtime.GC()
	}
	wg.Wait()
}

func BenchmarkCall(b *testing.B) {
	abs, err := Process().Symbol("abs")
	testenv.OK(b, err)
	b.Run("Call", func(b *testing.B) {
		for b.Loop() {
			Call(abs, 1, 2, 3, 4)
		}
	})
	b.Run("CallInt", func(b *testing.B) {
		for b.Loop() {
			CallInt(abs, 1, 2, 3, 4)
		}
	})
}
