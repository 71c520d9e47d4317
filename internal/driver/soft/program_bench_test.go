package soft

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/graph"
)

// BenchmarkProgram compares scattered copies as a program, as a batch and as single copies; the metric is nanoseconds
// for each copy.
func BenchmarkProgram(b *testing.B) {
	for _, shape := range []struct {
		count int
		bytes uintptr
	}{{4096, 64}, {4096, 4096}, {1 << 20, 64}} {
		d := open(b, Options{Devices: 1, Memory: 1 << 30})
		dev, err := d.Open(0)
		if err != nil {
			b.Fatal(err)
		}
		dst, _ := dev.Alloc(uint64(shape.count)*uint64(shape.bytes), driver.PageNormal)
		src, _ := d.AllocHost(uint64(shape.count) * uint64(shape.bytes))
		r := rand.New(rand.NewPCG(1, 2))
		to, from := r.Perm(shape.count), r.Perm(shape.count)
		tasks := make([]graph.Task, shape.count)
		for i := range tasks {
			tasks[i].Op = &driver.Op{Kind: driver.OpCopy, Dst: dst + uintptr(to[i])*shape.bytes,
				Src: src + uintptr(from[i])*shape.bytes, N: uint64(shape.bytes)}
		}
		g := graph.New(tasks, nil)
		q := dev.NewQueue(logged())
		for _, way := range []struct {
			name string
			do   func()
		}{
			{"program", func() { q.Submit(driver.Op{Kind: driver.OpProgram, Program: g.Program()}) }},
			{"batch", func() {
				segs := driver.NewSegments()
				for i := range tasks {
					segs.Add(tasks[i].Op.Dst, tasks[i].Op.Src, tasks[i].Op.N)
				}
				q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
			}},
			{"copies", func() {
				for i := range tasks {
					q.Copy(tasks[i].Op.Dst, tasks[i].Op.Src, tasks[i].Op.N, driver.Tag{})
				}
			}},
		} {
			b.Run(fmt.Sprintf("%dx%d/%s", shape.count, shape.bytes, way.name), func(b *testing.B) {
				for b.Loop() {
					way.do()
					q.Wait(0, nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(shape.count), "ns/copy")
			})
		}
		q.Close()
		dev.Close()
		d.Close()
	}
}
