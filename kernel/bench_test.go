package kernel_test

import (
	"context"
	"testing"

	"ropeway"
	"ropeway/internal/testenv"
	"ropeway/kernel"
)

// BenchmarkLaunch is a launch of an empty kernel, and beside it a copy of 64 bytes, which it is compared with: 1,000 in
// a row, then a wait that does not count.
func BenchmarkLaunch(b *testing.B) {
	rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20))
	testenv.OK(b, err)
	defer rt.Close()
	d, err := rt.Device(0)
	testenv.OK(b, err)
	defer d.Close()
	m, err := kernel.LoadFuncs(d, map[string]kernel.Func{"empty": func(*kernel.Block) error { return nil }})
	testenv.OK(b, err)
	k, err := m.Kernel("empty")
	testenv.OK(b, err)
	s, err := d.NewStream()
	testenv.OK(b, err)
	host, err := d.AllocPinned(64)
	testenv.OK(b, err)
	mem, err := d.Alloc(64)
	testenv.OK(b, err)
	for name, call := range map[string]func() error{
		"launch": func() error { return k.Launch(s, 1) },
		"copy":   func() error { return s.Copy(mem.All(), host.All()) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; n < b.N; n++ {
				if err := call(); err != nil {
					b.Fatal(err)
				}
				if n%1000 == 999 {
					b.StopTimer()
					if err := s.Synchronize(context.Background()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			if err := s.Synchronize(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
