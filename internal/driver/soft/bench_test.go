package soft

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
)

// BenchmarkCopy64 is the shortest path there is: a small copy on a queue at rest.
func BenchmarkCopy64(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	dst, _ := dev.Alloc(4096, driver.PageNormal)
	src, _ := d.AllocHost(4096)
	q := dev.NewQueue(driver.QueueOptions{Sink: &log{make(chan error, 1)}})
	for b.Loop() {
		q.Copy(dst, src, 64, driver.Tag{})
	}
}

// BenchmarkRun64 is the same for a copy that is made at once.
func BenchmarkRun64(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	dst, _ := dev.Alloc(4096, driver.PageNormal)
	src, _ := d.AllocHost(4096)
	for b.Loop() {
		if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 64}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMap maps and unmaps 2 MiB. The metric says how that compares with the system calls under it.
func BenchmarkMap(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	for _, tt := range []struct {
		name   string
		device int
		touch  bool
		calls  int
	}{{"device", 0, false, 1}, {"device and touch", 0, true, 1}, {"host", driver.OnHost, false, 2}} {
		b.Run(tt.name, func(b *testing.B) {
			r, err := d.Reserve(64<<20, 0)
			if err != nil {
				b.Fatal(err)
			}
			m, err := d.Create(tt.device, 2<<20, driver.PageHugeFirst)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := d.Map(r, m); err != nil {
					b.Fatal(err)
				}
				if tt.touch {
					d.Run(driver.Op{Kind: driver.OpFill, Dst: r, N: 64, Width: 1})
				}
				if err := d.Unmap(r); err != nil {
					b.Fatal(err)
				}
			}
			ours := float64(b.Elapsed()) / float64(b.N)
			m.Free()
			d.Release(r)

			fd, err := arena.Memfd("bench", 2<<20)
			if err != nil {
				b.Fatal(err)
			}
			defer unix.Close(fd)
			at, err := arena.Reserve(64 << 20)
			if err != nil {
				b.Fatal(err)
			}
			defer arena.Unreserve(at, 64<<20) //nolint:errcheck // address space
			begin := time.Now()
			for range b.N {
				for range tt.calls {
					arena.MapFile(at, 2<<20, readWrite, fd, 0) //nolint:errcheck // measured only
				}
				if tt.touch {
					bytesAt(at, 1)[0] = 1
				}
				for range tt.calls {
					arena.Vacate(at, 2<<20) //nolint:errcheck // measured only
				}
			}
			bare := float64(time.Since(begin)) / float64(b.N)
			b.ReportMetric(ours/bare, "x-the-system-calls")
		})
	}
}
