package soft

import (
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// BenchmarkQueue measures a queue: a copy that runs in its submitter and a wait for it; a copy that is queued and run
// by the waiting goroutine, or by a worker if the wait has a limit; and a queue that is parked at a flag.
func BenchmarkQueue(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(b, err)
	defer dev.Close()
	dst, _ := dev.Alloc(1<<20, driver.PageNormal)
	src, _ := d.AllocHost(1 << 20)
	q := dev.NewQueue(logged())
	nothing := func() {}
	for _, tt := range []struct {
		name string
		do   func()
	}{
		{"inline", func() { q.Copy(dst, src, 64, driver.Tag{}); q.Wait(0, nil) }},
		{"list", func() {
			q.Copy(dst, src, inlineBytes+1, driver.Tag{})
			q.Wait(0, nil)
		}},
		{"16 host functions", func() {
			for range 16 {
				q.Submit(driver.Op{Kind: driver.OpHostFunc, Fn: nothing})
			}
			q.Wait(0, nil)
		}},
		{"worker", func() {
			q.Copy(dst, src, inlineBytes+1, driver.Tag{})
			q.Wait(time.Minute, nil)
		}},
		{"flag", func() {
			f := d.NewFlag()
			q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
			f.Set()
			q.Wait(0, nil)
		}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tt.do()
			}
		})
	}
}
