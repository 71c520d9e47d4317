package cuda

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/kernels"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// ground is a GPU with device and host memory.
type ground struct {
	d            *Driver
	q            driver.Queue
	device, host uintptr // groundBytes each; twice that on the device
}

const groundBytes = 1 << 30

func newGround(b *testing.B) *ground {
	b.Helper()
	g := &ground{d: openGPU(b)}
	b.Cleanup(func() { g.d.Close() })
	v, err := g.d.Open(0)
	testenv.OK(b, err)
	if g.device, err = v.Alloc(2*groundBytes, driver.PageHugeFirst); err != nil {
		b.Fatal(err)
	}
	if g.host, err = g.d.AllocHost(groundBytes); err != nil {
		b.Fatal(err)
	}
	g.q = v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failing{b}.TaskFailed}})
	return g
}

// failing fails the benchmark if a task fails.
type failing struct{ testing.TB }

func (f failing) TaskFailed(_ driver.Tag, err error) { f.Error(err) }

// ends returns the two addresses of a copy in a direction.
func (g *ground) ends(way string) (dst, src uintptr) {
	switch way {
	case "h2d":
		return g.device, g.host
	case "d2h":
		return g.host, g.device
	}
	return g.device, g.device + groundBytes
}

var waysToGo = []string{"h2d", "d2h", "d2d"}

func BenchmarkSubmit(b *testing.B) {
	g := newGround(b)
	for i := 0; b.Loop(); i++ {
		g.q.Copy(g.device, g.host, 64, driver.Tag{})
		if i%512 == 511 { // a full stream makes its submitter wait
			b.StopTimer()
			g.q.Wait(0, nil)
			b.StartTimer()
		}
	}
	g.q.Wait(0, nil)
}

func BenchmarkRoundTrip(b *testing.B) {
	g := newGround(b)
	for b.Loop() {
		g.q.Copy(g.device, g.host, 64, driver.Tag{})
		g.q.Wait(0, nil)
	}
}

func BenchmarkBulk(b *testing.B) {
	g := newGround(b)
	for _, way := range waysToGo {
		for _, n := range []int64{1 << 20, 64 << 20, groundBytes} {
			b.Run(fmt.Sprintf("way=%s/size=%d", way, n), func(b *testing.B) {
				dst, src := g.ends(way)
				b.SetBytes(n)
				for b.Loop() {
					g.q.Copy(dst, src, uint64(n), driver.Tag{})
					g.q.Wait(0, nil)
				}
			})
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	g := newGround(b)
	const count = 4096
	for _, way := range waysToGo {
		for _, n := range []int{256, 4096, 65536} {
			b.Run(fmt.Sprintf("way=%s/segments=%d/size=%d", way, count, n), func(b *testing.B) {
				dst, src := g.ends(way)
				random := rand.New(rand.NewPCG(1, 1))
				to, from := random.Perm(groundBytes/n), random.Perm(groundBytes/n)
				b.SetBytes(int64(count * n))
				for b.Loop() {
					segs := driver.NewSegments()
					for i := range count {
						segs.Add(dst+uintptr(to[i]*n), src+uintptr(from[i]*n), uint64(n))
					}
					g.q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
					g.q.Wait(0, nil)
				}
			})
		}
	}
}

// BenchmarkWays measures batches of few segments in all three ways: the prices in package kernels are set by it.
func BenchmarkWays(b *testing.B) {
	g := newGround(b)
	for _, way := range waysToGo {
		for _, n := range []int{4 << 10, 64 << 10, 256 << 10} {
			for _, count := range []int{2, 3, 4, 8, 16} {
				for by, name := range []string{kernels.ByKernel: "kernel", kernels.ByLoop: "loop",
					kernels.ByBatch: "batch"} {
					b.Run(fmt.Sprintf("way=%s/size=%d/segments=%d/by=%s", way, n, count, name), func(b *testing.B) {
						g.d.best = func(kernels.Direction, kernels.Share, bool, bool,
							bool) kernels.Way {
							return kernels.Way(by)
						}
						dst, src := g.ends(way)
						for b.Loop() {
							segs := driver.NewSegments()
							for i := range uintptr(count) {
								segs.Add(dst+2*i*uintptr(n), src+2*i*uintptr(n), uint64(n))
							}
							g.q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
							g.q.Wait(0, nil)
						}
					})
				}
			}
		}
	}
}

// idle is a GPU that does nothing, so that only the driver's own work is measured.
type idle struct{ *fake }

func (idle) LaunchKernel(uintptr, int, int, []byte, uintptr) libcuda.Result { return libcuda.Success }
func (idle) EventRecord(event, stream uintptr) libcuda.Result               { return libcuda.Success }

// BenchmarkBatchHost measures the host's time for a batch: 4,096 segments checked, planned and written to the table. It
// needs no GPU.
func BenchmarkBatchHost(b *testing.B) {
	const count, size = 4096, 4096
	for _, name := range []string{"one", "many"} {
		b.Run("allocations="+name, func(b *testing.B) {
			d, err := start(idle{newFake(1)}, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			v, err := d.Open(0)
			if err != nil {
				b.Fatal(err)
			}
			defer v.Close()
			host, err := d.AllocHost(count * size)
			if err != nil {
				b.Fatal(err)
			}
			var blocks [16]uintptr
			for i := range blocks {
				if blocks[i], err = v.Alloc(count*size, driver.PageHugeFirst); err != nil {
					b.Fatal(err)
				}
			}
			q := v.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failing{b}.TaskFailed}}).(*queue)
			segs := driver.NewSegments()
			for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(count) {
				block := blocks[0]
				if name == "many" {
					block = blocks[i%len(blocks)]
				}
				segs.Add(block+uintptr(k*size), host+uintptr(i*size), size)
			}
			q.Submit(driver.Op{Kind: driver.OpBatch, Segs: driver.NewSegments()}) // creates the stream
			for b.Loop() {
				if !q.v.gpu.putBatch(segs, q.stream, true) {
					b.Fatal("the host is asked")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/segment")
		})
	}
}

// BenchmarkPageable measures copies of ordinary memory that was used before.
func BenchmarkPageable(b *testing.B) {
	g := newGround(b)
	heap := make([]byte, 256<<20)
	for i := range heap {
		heap[i] = byte(i)
	}
	for _, way := range waysToGo[:2] {
		for _, n := range []uint64{64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 256 << 20} {
			b.Run(fmt.Sprintf("way=%s/size=%d", way, n), func(b *testing.B) {
				op := driver.Op{Kind: driver.OpCopy, Dst: g.device, Src: startOf(heap), N: n}
				if way == "d2h" {
					op.Dst, op.Src = op.Src, op.Dst
				}
				b.SetBytes(int64(n))
				for b.Loop() {
					if err := g.d.Run(op); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	heap[0]++
}

// BenchmarkLaunch measures a nearly empty kernel: with a wait, and 1,000 in a row; and the same with only the calls of
// CUDA.
func BenchmarkLaunch(b *testing.B) {
	g := newGround(b)
	m, err := g.d.LoadModule(0, "kernels", []byte(drivertest.PTX))
	testenv.OK(b, err)
	code, err := m.Code("times")
	testenv.OK(b, err)
	args := bytesAt(g.host, 16)
	binary.LittleEndian.PutUint64(args, uint64(g.device))
	binary.LittleEndian.PutUint64(args[8:], 256)
	l := &driver.Launch{Module: m, Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: 4, Args: g.host, Size: 16,
		Copied: true}
	op, q := driver.Op{Kind: driver.OpLaunch, Launch: l}, g.q.(*queue)
	q.Submit(op) // so that there is a stream
	q.Wait(0, nil)
	for _, way := range []struct {
		name         string
		submit, wait func()
	}{
		{"driver", func() { q.Submit(op) }, func() { q.Wait(0, nil) }},
		{"cuda", func() {
			if r, err := q.v.gpu.launch(l, l.Args, q.stream, &q.room, nil); r != libcuda.Success || err != nil {
				b.Fatal(r, err)
			}
		}, func() {
			for g.d.lib.StreamQuery(q.stream) == libcuda.NotReady {
			}
		}},
	} {
		for _, row := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", way.name, row), func(b *testing.B) {
				q.v.gpu.Enter()
				defer q.v.gpu.Leave()
				for b.Loop() {
					for range row {
						way.submit()
					}
					way.wait()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(row), "ns/launch")
			})
		}
	}
}
