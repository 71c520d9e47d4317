package cuda

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/libcuda"
)

// quickly is a fake that completes each copy at once.
type quickly struct{ *fake }

func (quickly) MemcpyAsync(uintptr, uintptr, uint64, uintptr) libcuda.Result { return libcuda.Success }
func (quickly) StreamQuery(uintptr) libcuda.Result                           { return libcuda.Success }

// BenchmarkHost measures the host's time for a copy on a GPU that takes no time: passed to the stream at once, with a
// wait, with a function at its end as a model of one copy has, and left to the runner.
func BenchmarkHost(b *testing.B) {
	for _, name := range []string{"copy", "copy and wait", "model and wait", "pending"} {
		b.Run(name, func(b *testing.B) {
			f := quickly{newFake(1)}
			d, err := start(f, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			dev, err := d.Open(0)
			if err != nil {
				b.Fatal(err)
			}
			defer dev.Close()
			at, err := dev.Alloc(4096, driver.PageNormal)
			if err != nil {
				b.Fatal(err)
			}
			pinned, err := d.AllocHost(4096)
			if err != nil {
				b.Fatal(err)
			}
			q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: failing{b}.TaskFailed}}).(*queue)
			if name == "pending" {
				pendingInName(q)
			}
			b.ReportAllocs()
			model := driver.Op{Kind: driver.OpCopy, Dst: at, Src: pinned, N: 64, Done: func() {}}
			for i := 0; b.Loop(); i++ {
				if name == "model and wait" {
					q.Submit(model)
				} else {
					q.Copy(at, pinned, 64, driver.Tag{})
				}
				if name == "copy and wait" || name == "model and wait" {
					q.Wait(0, nil)
				}
				if name == "pending" && i%1024 == 1023 {
					b.StopTimer()
					forgetPending(q, 1024)
					b.StartTimer()
				}
			}
			if name == "pending" {
				endPending(q)
			}
			q.Wait(0, nil)
		})
	}
}

// pendingInName makes copies pending, and forgetPending removes n of them, as if the runner had passed them to the
// stream.
func pendingInName(q *queue) { q.gather() }

func forgetPending(q *queue, n int) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.TookCopies(n)
	q.Over(q.Taken())
}

func endPending(q *queue) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.leave()
}
