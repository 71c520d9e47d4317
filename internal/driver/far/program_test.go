package far

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/graph"
	"ropeway/internal/testenv"
)

// TestPrograms proves that programs with copies to, from and inside memory of another server, which is mapped twice,
// have the same result as their tasks one after another.
func TestPrograms(t *testing.T) {
	b := setUp(t)
	h := b.x.Handle()
	again := must[driver.Memory](t)(b.b.ImportFar(h[:], 1))
	b.ok(b.b.Map(b.at+size, again))
	defer func() {
		b.ok(b.b.Unmap(b.at + size))
		b.ok(again.Free())
	}()
	r := testenv.Rand(t)(1)
	for round, shape := range []struct{ tasks, most, room int }{
		{2, 64, 200}, {40, 100, 2000}, {60, 3000, 60_000}, {12, 1 << 20, size}, {80, 40, 400},
	} {
		// three regions, the first at two addresses
		want := [][]byte{make([]byte, size), make([]byte, size), make([]byte, size)}
		got := [][]byte{b.their(), b.onDev(), b.pinned()}
		for i := range want {
			for j := range shape.room {
				want[i][j] = byte(r.Uint32())
			}
			copy(got[i], want[i])
		}
		var tasks []graph.Task
		var ran, runs int
		pick := func(n int) (addr uintptr, of []byte) {
			i, off := r.IntN(4), r.IntN(shape.room-n+1)
			base := [...]uintptr{b.at, b.local, b.pin, b.at + size}[i]
			return base + uintptr(off), want[i%3][off:]
		}
		for range shape.tasks {
			n := 1 + r.IntN(shape.most)
			dst, to := pick(n)
			src, from := pick(n)
			op := driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: uint64(n)}
			switch r.IntN(10) {
			case 0:
				op = driver.Op{Kind: driver.OpFill, Dst: dst, N: uint64(n), Width: 1, Value: uint32(r.IntN(256))}
				copy(to, bytes.Repeat([]byte{byte(op.Value)}, n))
			case 1:
				op = driver.Op{Kind: driver.OpFunc, Fn: func() { ran++ }}
				runs++
			default:
				copy(to[:n], from[:n])
			}
			tasks = append(tasks, graph.Task{Op: &op, Anything: op.Kind == driver.OpFunc})
		}
		var done int
		b.q.Submit(driver.Op{Kind: driver.OpProgram, Program: graph.New(tasks, b.b.Driver.Caps().Sole).Program(),
			Done: func() { done++ }})
		if err := b.wait(); err != nil || done != 1 || ran != runs {
			t.Fatalf("round %d: %v; done %d times, %d of %d functions ran", round, err, done, ran, runs)
		}
		for i := range want {
			if !bytes.Equal(got[i][:shape.room], want[i][:shape.room]) {
				t.Errorf("round %d: other bytes in region %d", round, i)
			}
		}
	}
}

// TestProgramFails proves that a program ends with the first step that fails, on this server or the other, that only
// this step is reported, and that the queue continues.
func TestProgramFails(t *testing.T) {
	b := setUp(t)
	gone := must[uintptr](t)(b.dev.Alloc(1000, driver.PageHugeFirst))
	b.ok(b.dev.Free(gone))
	step := func(dst, src uintptr) driver.Step {
		return driver.Step{Op: &driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 8}}
	}
	run := func(name string, want error, steps ...driver.Step) {
		t.Helper()
		copy(b.pinned(), "original........written.")
		copy(b.their(), "original")
		ran := false
		steps = append(steps, step(b.at, b.pin+16), step(b.pin, b.pin+16),
			driver.Step{Op: &driver.Op{Kind: driver.OpFunc, Fn: func() { ran = true }}}, step(b.at, b.pin+16))
		var done int
		b.q.Submit(driver.Op{Kind: driver.OpProgram, Program: &driver.Program{Steps: steps}, Done: func() { done++ }})
		if err := b.wait(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if len(b.sink.errs) > 0 || done != 1 {
			t.Errorf("%s: failed again: %v; done %d times", name, <-b.sink.errs, done)
		}
		if ran || string(b.their()[:8]) != "original" || string(b.pinned()[:8]) != "original" {
			t.Errorf("%s: what follows was done: %v %q %q", name, ran, b.their()[:8], b.pinned()[:8])
		}
	}
	run("here, before a step there", driver.ErrFault, step(gone, b.pin))
	run("here, after one there", driver.ErrFault, step(b.local, b.at), step(gone, b.pin))
	run("there", driver.ErrFault, step(b.local, b.pin), step(b.at+8, gone))
	b.q.Copy(b.at, b.pin+16, 8, driver.Tag{})
	if err := b.wait(); err != nil || string(b.their()[:8]) != "written." {
		t.Errorf("a copy after programs that failed: %v", err)
	}
	b.a.node.Close()
	b.q.Submit(driver.Op{Kind: driver.OpProgram, Program: &driver.Program{Steps: []driver.Step{
		step(b.local, b.at), step(b.pin, b.pin+16), {Op: step(b.at, b.local).Op, Task: 7}}}})
	if err := b.wait(); !errors.Is(err, driver.ErrLost) || len(b.sink.errs) > 0 {
		t.Errorf("with a server that has ended: %v", err)
	} else if fmt.Sprint(err)[:len("task 0 of the model")] != "task 0 of the model" {
		t.Errorf("the failure is %v", err)
	}
}
