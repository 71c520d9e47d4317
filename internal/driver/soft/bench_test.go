package soft

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// BenchmarkCopy64 measures the shortest path: a small copy on a queue at rest.
func BenchmarkCopy64(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(b, err)
	defer dev.Close()
	dst, _ := dev.Alloc(4096, driver.PageNormal)
	src, _ := d.AllocHost(4096)
	q := dev.NewQueue(logged())
	for b.Loop() {
		q.Copy(dst, src, 64, driver.Tag{})
	}
}

// BenchmarkCopy64Mapped measures the same copy to memory mapped into a reservation.
func BenchmarkCopy64Mapped(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(b, err)
	defer dev.Close()
	r, err := d.Reserve(64<<20, 0)
	testenv.OK(b, err)
	m, err := d.Create(0, 2<<20, driver.PageHugeFirst)
	if err == nil {
		err = d.Map(r, m)
	}
	testenv.OK(b, err)
	src, _ := d.AllocHost(4096)
	q := dev.NewQueue(logged())
	for b.Loop() {
		q.Copy(r, src, 64, driver.Tag{})
	}
}

// BenchmarkRun64 measures the same copy by Run.
func BenchmarkRun64(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(b, err)
	defer dev.Close()
	dst, _ := dev.Alloc(4096, driver.PageNormal)
	src, _ := d.AllocHost(4096)
	for b.Loop() {
		if err := d.Run(driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: 64}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMap maps and unmaps 2 MiB. The metric compares that with the underlying system calls.
func BenchmarkMap(b *testing.B) {
	d := open(b, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(b, err)
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

// BenchmarkShare shares an allocation for the first time: its bytes move once. The metric compares that with a
// copy.
func BenchmarkShare(b *testing.B) {
	const n = 256 << 20
	d := open(b, Options{Devices: 1, Memory: 2 << 30})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(b, err)
	defer dev.Close()
	other, err := dev.Alloc(n, driver.PageNormal)
	testenv.OK(b, err)
	var moved, copied time.Duration
	b.SetBytes(n)
	for b.Loop() {
		p, err := dev.Alloc(n, driver.PageNormal)
		if err != nil {
			b.Fatal(err)
		}
		d.Run(driver.Op{Kind: driver.OpFill, Dst: p, N: n, Width: 1,
			Value: 1}) //nolint:errcheck // so that it has pages
		d.Run(driver.Op{Kind: driver.OpFill, Dst: other, N: n, Width: 1}) //nolint:errcheck // and the other
		begin := time.Now()
		d.Run(driver.Op{Kind: driver.OpCopy, Dst: other, Src: p, N: n}) //nolint:errcheck // measured only
		copied += time.Since(begin)
		begin = time.Now()
		s, err := d.ShareAt(p)
		if err != nil {
			b.Fatal(err)
		}
		moved += time.Since(begin)
		s.File.Close()
		if err := dev.Free(p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(moved)/float64(copied), "x-a-copy")
	b.ReportMetric(float64(moved.Microseconds())/float64(b.N), "us/share")
}

// BenchmarkImport imports, maps and unmaps 1 GiB. The metric compares that with the underlying system calls.
func BenchmarkImport(b *testing.B) {
	const n = 1 << 30
	d := open(b, Options{Devices: 1, Memory: 2 << 30})
	defer d.Close()
	m, err := d.Create(driver.OnHost, n, driver.PageNormal)
	testenv.OK(b, err)
	s, err := d.Share(m)
	testenv.OK(b, err)
	defer s.File.Close()
	r, err := d.Reserve(n, 0)
	testenv.OK(b, err)
	var ours, bare time.Duration
	for b.Loop() {
		begin := time.Now()
		in, err := d.Import(s)
		if err == nil {
			err = d.Map(r, in)
		}
		if err != nil {
			b.Fatal(err)
		}
		d.Unmap(r) //nolint:errcheck // measured only
		in.Free()  //nolint:errcheck // measured only
		ours += time.Since(begin)
		begin = time.Now()
		for range 2 { // the program's view and the engine's
			arena.MapFile(r, n, readWrite, int(s.File.Fd()), 0) //nolint:errcheck // measured only
		}
		for range 2 {
			arena.Vacate(r, n) //nolint:errcheck // measured only
		}
		bare += time.Since(begin)
	}
	b.ReportMetric(float64(ours)/float64(bare), "x-the-system-calls")
	d.Release(r) //nolint:errcheck // measured only
}
