//go:build ignore

package graph_test

import (
	"testing"
	"unsafe"

	"ropeway/internal/core/tracing"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/graph"
	"ropeway/internal/observe"
)

type sink struct{ t *testing.T }

func (s sink) TaskFailed(_ driver.Tag, err error) { s.t.Error(err) }

type tracer struct{ observe.Tracer }

func (tracer) Sites() bool { return false }

// TestReverse runs the new kind on a queue and in a program, between copies that it must not overtake.
func TestReverse(t *testing.T) {
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	dev, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const n = 16
	host, err := d.AllocHost(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(host)), 4*n)
	at := func(i int) uintptr { return host + uintptr(i*n) }
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink{t}.TaskFailed}})
	defer q.Close()
	op := func(kind driver.OpKind, dst, src int) driver.Op {
		return driver.Op{Kind: kind, Dst: at(dst), Src: at(src), N: n}
	}
	ops := []driver.Op{op(driver.OpCopy, 1, 0), op(driver.OpReverse, 2, 1), op(driver.OpCopy, 3, 2)}
	check := func() {
		t.Helper()
		if !q.Wait(0, nil) {
			t.Fatal("did not end")
		}
		for i := range n {
			if bytes[3*n+i] != bytes[n-1-i] {
				t.Fatalf("byte %d is %d, not %d", i, bytes[3*n+i], bytes[n-1-i])
			}
		}
	}
	for i := range n {
		bytes[i] = byte(i + 1)
	}
	for _, o := range ops {
		q.Submit(o)
	}
	check()
	var tasks []graph.Task
	for _, o := range ops {
		tasks = append(tasks, graph.Task{Op: &o})
	}
	g := graph.New(tasks, nil)
	if g.Depth() != 3 || g.Program().Bytes != 3*n {
		t.Errorf("%d levels, %d bytes", g.Depth(), g.Program().Bytes)
	}
	for i := range n {
		bytes[i] = byte(100 + i)
	}
	q.Submit(driver.Op{Kind: driver.OpProgram, Program: g.Program()})
	check()
	if w := tracing.New(d, tracer{}).Task(&ops[1]); w.Kind != observe.Copy || w.Bytes != n ||
		w.Direction != observe.HostToHost {
		t.Errorf("traced as %+v", w)
	}
}
