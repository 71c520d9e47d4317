package soft

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// virtualBytes returns the bytes of address space that the process uses.
func virtualBytes(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	testenv.OK(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[0])
	testenv.OK(t, err)
	return pages * os.Getpagesize()
}

// forThreads is address space that new threads may take: 72 MiB each with the race detector, for a stack and an arena
// of malloc.
const forThreads = 2 << 30

// Registering and unregistering repeatedly leaks nothing.
func TestRegisterGivesBack(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 256 << 20})
	b, err := unix.Mmap(-1, 0, 1<<20, readWrite, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(t, err)
	defer unix.Munmap(b)
	round := func() {
		if _, err := d.Register(addressOf(b), 5000, true, 0); err != nil {
			t.Fatal(err)
		}
		testenv.OK(t, d.Unregister(addressOf(b)))
	}
	round()
	before := virtualBytes(t)
	for range 2000 { // 2 MiB each
		round()
	}
	if grown := virtualBytes(t) - before; grown > forThreads {
		t.Errorf("2,000 mapped registrations cost %d MiB of address space", grown>>20)
	}
	if _, err := d.Register(addressOf(b), 5000, true, 0); err != nil {
		t.Fatal(err)
	}
	testenv.OK(t, d.Close())
}

// TestRegisterNothing proves that the first page, which is never mapped, cannot be registered. The Go runtime reports a
// fault there as a nil pointer, which is a panic that would leave the queue Inline.
func TestRegisterNothing(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 1 << 20})
	for _, addr := range []uintptr{1, 4095, 1<<64 - 1} {
		if _, err := d.Register(addr, 64, false, 0); !errors.Is(err, driver.ErrFault) {
			t.Errorf("%#x: %v, want ErrFault", addr, err)
		}
	}
}

// Close releases all address space.
func TestCloseGivesBack(t *testing.T) {
	var before int
	for i := range 10 {
		d := open(t, Options{Devices: 4, Memory: 1 << 30})
		dev, err := d.Open(i % 4)
		testenv.OK(t, err)
		if _, err := d.AllocHost(1 << 20); err != nil {
			t.Fatal(err)
		}
		if _, err := dev.Alloc(1<<20, driver.PageNormal); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if _, err := d.Register(addressOf(b), 100, true, 0); err != nil {
			t.Fatal(err)
		}
		testenv.OK(t, d.Close())
		if i == 0 {
			before = virtualBytes(t)
		}
	}
	if grown := virtualBytes(t) - before; grown > forThreads { // one window of each is 9 GiB
		t.Errorf("9 drivers left %d MiB of address space behind", grown>>20)
	}
}

// A 2-D copy whose rows reach from one allocation into the next is refused whole, large or small.
func TestCopy2DOverTwoAllocations(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 256 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	testenv.OK(t, err)
	defer dev.Close()
	const n = 1<<20 - 100
	first, err := dev.Alloc(n, driver.PageNormal)
	testenv.OK(t, err)
	second, err := dev.Alloc(n, driver.PageNormal)
	testenv.OK(t, err)
	if second != first+1<<20 {
		t.Skip("the second allocation is elsewhere")
	}
	host, err := d.AllocHost(2 << 20)
	testenv.OK(t, err)
	clear(bytesAt(host, 2<<20))
	testenv.OK(t, d.Run(driver.Op{Kind: driver.OpFill, Dst: first, N: n, Width: 1, Value: 7}))
	for _, height := range []uint64{5, 511} {
		op := driver.Op{
			Kind: driver.OpCopy2D, Src: host, Dst: first, N: 1100, Height: height,
			DstPitch: 2 << 20 / (height + 1), SrcPitch: 2048,
		}
		if err := d.Run(op); err == nil {
			t.Errorf("%d rows: no error", height)
		}
		testenv.OK(t, d.Run(driver.Op{Kind: driver.OpCopy, Dst: host, Src: first, N: n}))
		for i, v := range bytesAt(host, n) {
			if v != 7 {
				t.Fatalf("%d rows: byte %d was written, with an error", height, i)
			}
		}
		clear(bytesAt(host, n))
	}
}

// Registrations come and go beside copies and lookups of others.
func TestHammerRegister(t *testing.T) { hammerRegister(t, newGround(t), 500) }

// With Guard each registration moves memory to a file and back, beside that of others.
func TestHammerRegisterGuard(t *testing.T) {
	hammerRegister(t, newGroundWith(t, Options{Guard: true}), 50)
}

func hammerRegister(t *testing.T, g *ground, times int) {
	dev, err := g.dev.Alloc(1<<20, driver.PageNormal)
	testenv.OK(t, err)
	const each = 1 << 20
	all, err := unix.Mmap(-1, 0, 8*each, readWrite, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(t, err)
	defer unix.Munmap(all)
	g.crowd(8, func(i int, rnd *rand.Rand) {
		q, failed := g.queue()
		mine := all[i*each : (i+1)*each]
		for n := range rounds(times) {
			at := addressOf(mine) + uintptr(rnd.IntN(1000))
			size := uint64(rnd.IntN(each-2000) + 1)
			alias, err := g.d.Register(at, size, n%2 == 0, 0)
			if err != nil {
				t.Error(err)
				return
			}
			if l := g.d.Locate(at + uintptr(size) - 1); l.Place != driver.Host || l.Room != 1 {
				t.Errorf("the last byte is %+v", l)
			}
			q.Copy(at, dev, size, driver.Tag{})
			if alias != 0 {
				q.Copy(alias, dev, size, driver.Tag{})
			}
			q.Wait(0, nil)
			if err := g.d.Unregister(at); err != nil {
				t.Error(err)
			}
			if l := g.d.Locate(at); l.Place != driver.Pageable {
				t.Errorf("unregistered is %+v", l)
			}
		}
		if failed.n.Load() != 0 {
			t.Errorf("%d copies failed", failed.n.Load())
		}
	})
}
