package kernel

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"ropeway/internal/testenv"
)

// object loads functions of the process.
func object(t *testing.T, list map[string]Func) (CPU, SharedObject) {
	t.Helper()
	image := Functions(list)
	cpu, err := OnCPU(image)
	testenv.OK(t, err)
	o, err := cpu.Load("functions", image)
	testenv.OK(t, err)
	t.Cleanup(func() { Forget(image) })
	return cpu, o
}

// TestFunctionBlocks: every call of a launch is made once and knows its block and its half, whichever thread makes it.
func TestFunctionBlocks(t *testing.T) {
	var mu sync.Mutex
	seen := map[[2]uint32]int{}
	count := func(add uint32) Func {
		return func(b *Block) error {
			mu.Lock()
			defer mu.Unlock()
			seen[[2]uint32{b.Index, add + b.Sub}]++
			return nil
		}
	}
	cpu, o := object(t, map[string]Func{"cube": count(0), "vector": count(10)})
	cube, _ := o.Symbol("cube")
	vector, _ := o.Symbol("vector")
	if _, err := o.Symbol("none"); err == nil {
		t.Error("a function that is not there is found")
	}
	call := Call{Code: [2]uintptr{cube, vector}, Per: [2]uint32{1, 2}, Blocks: 5, First: 3}
	for name, work := range map[string]func(r Run){
		"one":      func(r Run) { r.Work(nil) },
		"together": func(r Run) { r.Together(func() { r.Work(nil) }) },
		"several": func(r Run) {
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() { r.Work(nil) })
			}
			wg.Wait()
		},
	} {
		clear(seen)
		r := cpu.NewRun()
		r.Begin(o, &call)
		work(r)
		if f := r.End(); f != nil {
			t.Errorf("%s: %v", name, f)
		}
		for i := range uint32(5) {
			for _, half := range []uint32{0, 10, 11} {
				if n := seen[[2]uint32{3 + i, half}]; n != 1 {
					t.Errorf("%s: block %d, half %d was called %d times", name, 3+i, half, n)
				}
			}
		}
		if len(seen) != 15 {
			t.Errorf("%s: %v", name, seen)
		}
	}
}

// TestFunctionStops: a launch that is stopped, late or not, makes no more calls, and a stop of another one does
// nothing; a failure before it counts.
func TestFunctionStops(t *testing.T) {
	var r Run
	var turn uint64
	calls := 0
	cpu, o := object(t, map[string]Func{
		"stops": func(b *Block) error { calls++; r.Stop(turn, true); return nil },
		"other": func(b *Block) error { calls++; r.Stop(turn+1, true); return nil },
		"fails": func(b *Block) error { return errors.New("no luck") },
	})
	r = cpu.NewRun()
	run := func(name string) *Fault {
		code, _ := o.Symbol(name)
		calls = 0
		turn = r.Begin(o, &Call{Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: 4})
		r.Work(nil)
		return r.End()
	}
	if f := run("stops"); f == nil || !f.Late || calls != 1 {
		t.Errorf("stopped: %v after %d calls", f, calls)
	}
	if f := run("other"); f != nil || calls != 4 {
		t.Errorf("another launch stopped: %v after %d calls", f, calls)
	}
	if f := run("fails"); f == nil || f.Late || !strings.Contains(f.Error(), "block 0 of the kernel failed: no luck") {
		t.Errorf("%v", f)
	}
	r.Stop(turn, true) // has ended
}

// TestFunctionTouches: what blocks say they touch is kept once, where it is wanted, and as much as there is room for.
func TestFunctionTouches(t *testing.T) {
	n := uint64(0)
	cpu, o := object(t, map[string]Func{"says": func(b *Block) error {
		b.Touch(4096, 16, true)
		b.Touch(4096, 0, false)
		for i := range n {
			b.Touch(uintptr(i), 1, false)
		}
		return nil
	}})
	r := cpu.NewRun()
	code, _ := o.Symbol("says")
	says := func(watch bool) ([]Touch, bool) {
		r.Begin(o, &Call{Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: 3, Watch: watch})
		r.Work(nil)
		if f := r.End(); f != nil {
			t.Fatal(f)
		}
		return r.Touched()
	}
	if list, all := says(true); !all || !slices.Equal(list, []Touch{{4096, 16, true}}) {
		t.Errorf("%v, all: %v", list, all)
	}
	n = MostTouches
	if list, all := says(true); all || len(list) != MostTouches {
		t.Errorf("%d, all: %v", len(list), all)
	}
	if list, all := says(false); !all || len(list) != 0 {
		t.Errorf("%v, all: %v", list, all)
	}
}

// TestFunctionImages: an image leads to functions until it is forgotten; other bytes, and images of other processes,
// lead nowhere.
func TestFunctionImages(t *testing.T) {
	f := func(*Block) error { return nil }
	image := Functions(map[string]Func{"b_7": f, "a": f})
	if FormatOf(image) != InProcess || FormatOf(image[:20]) == InProcess {
		t.Error("the format of an image")
	}
	table, err := Read(image, Options{})
	if err != nil || table.Find("a") == nil || table.Find("b_7") == nil || table.FindNumber(7) != table.Find("b_7") {
		t.Errorf("%v, %+v", err, table)
	}
	Forget(image)
	Forget([]byte("no image"))
	if _, err := Read(image, Options{}); err == nil {
		t.Error("functions that were forgotten are found")
	}
	if _, err := (inProcess{}).Load("x", image); err == nil {
		t.Error("functions that were forgotten are loaded")
	}
	for _, list := range []map[string]Func{{"": f}, {"x": nil}, {strings.Repeat("x", 5000): f}} {
		if _, err := Read(Functions(list), Options{}); err == nil {
			t.Errorf("%d functions without name or code are kernels", len(list))
		}
	}
}
