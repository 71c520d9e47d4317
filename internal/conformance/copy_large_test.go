package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// memAvailable is how much memory the machine has left, 0 if it does not say.
func memAvailable() (kib uint64) {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// large is an env with one device of at least 6 GiB.
func large(t *testing.T) *env {
	t.Helper()
	p, err := product.Find("A2", "EP")
	testenv.OK(t, err)
	e := &env{T: t, faults: faulty.Wrap(coretest.Open(t, soft.Options{Devices: 1, Memory: 6 << 30}))}
	e.rt = core.New(core.Options{Driver: e.faults, Product: p})
	t.Cleanup(func() {
		if err := e.rt.Close(); err != nil {
			t.Error(err)
		}
	})
	e.th = e.rt.NewThread(1)
	e.ok(e.th.SetDevice(0))
	return e
}

// tiled is size bytes of host memory that repeat one tile, which alone takes memory.
func tiled(e *env, tile []byte, size int) core.Addr {
	e.Helper()
	fd, err := unix.MemfdCreate("tile", unix.MFD_CLOEXEC)
	testenv.OK(e, err)
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, tile, 0); err != nil {
		e.Fatal(err)
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	testenv.OK(e, err)
	e.Cleanup(func() { unix.Munmap(b) })
	for at := 0; at < size; at += len(tile) {
		n := min(len(tile), size-at)
		p := unsafe.Pointer(&b[at])
		if _, err := unix.MmapPtr(fd, 0, p, uintptr(n), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
			e.Fatal(err)
		}
	}
	return core.AddrOf(b)
}

// TestLargeCopies copies more than 4 GiB at once: no size has 32 bits on the way.
func TestLargeCopies(t *testing.T) {
	testenv.Long(t, "it copies 4 GiB twice")
	if memAvailable() < 8<<30 {
		t.Skip("needs 8 GiB of free memory")
	}
	e := large(t)
	const size, step = 4<<30 + 4097, 65 << 20 // 4 GiB is no multiple of it: what is 4 GiB apart differs
	tile := noise(step, 1)
	q := tiled(e, tile, 4<<30+8192)
	e.ok(memory.HostRegisterV2(e.th, q, size, abi.HostRegPinned))
	p, s, b := e.device(size), e.stream(), make([]byte, step)
	check := func(what string) {
		t.Helper()
		for at := uint64(0); at < size; at += step {
			n := min(step, size-at)
			e.ok(transfer.Memcpy(e.th, core.AddrOf(b), n, p+core.Addr(at), n, d2h))
			if !slices.Equal(b[:n], tile[:n]) {
				t.Fatalf("%s: the bytes from %d on are wrong", what, at)
			}
		}
	}
	e.ok(transfer.MemcpyAsync(e.th, p, size, q, size, h2d, s))
	e.ok(e.th.SynchronizeStream(s))
	check("asynchronous copy")

	e.ok(transfer.MemsetAsync(e.th, p, size, 0xEE, size, s))
	e.ok(e.th.SynchronizeStream(s))
	for _, at := range []core.Addr{0, 4<<30 - 4096, size - 4097} {
		e.holds(p+at, repeat(0xEE, 4097))
	}
	a := oneSegment(e, host, dev)
	a.dsts[0], a.srcs[0], a.sizes[0], a.destMaxs[0], a.stream = p, q, size, size, s
	e.ok(batchAsync(e, a))
	e.ok(e.th.SynchronizeStream(s))
	check("batch")
}

// TestDescriptorOf4GiB checks that a descriptor of exactly 4 GiB, whose length would be stored as 0, is refused
// although the memory is there.
func TestDescriptorOf4GiB(t *testing.T) {
	e := large(t)
	var p core.Addr
	if err := memory.Malloc(e.th, &p, 4<<30, abi.MemMallocHugeFirst); err != nil {
		t.Skip(err) // the machine is too small
	}
	a := across(e)
	a.src, a.dst, a.count = p, p, 4<<30
	err := setDesc(e, a)
	e.want(err, abi.ErrRTParamInvalid)
	if err.Arg != "count" {
		t.Errorf("it blames %s: %v", err.Arg, err)
	}
	e.holds(a.desc, noise(64, 3))
	a.count--
	e.ok(setDesc(e, a))
	e.holds(a.desc, append(desc32(1<<32-1, p, p), noise(64, 3)[32:]...))
}
