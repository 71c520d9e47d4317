package soft

import (
	"testing"

	"ropeway/internal/testenv"
)

// TestBeside proves that Beside returns the range of bytes that the program wrote on either side of pinned memory, and
// nothing for a new allocation.
func TestBeside(t *testing.T) {
	d, err := New(Options{Devices: 1, Memory: 64 << 20, Guard: true})
	testenv.OK(t, err)
	defer d.Close() //nolint:errcheck // the test is over
	for _, n := range []uint64{1, 40, 64, 1000, 4032, 4095, 4096, 100_000} {
		addr, err := d.AllocHost(roundUp(n, 64)) // as the core does
		testenv.OK(t, err)
		d.Fence(addr, n)
		end := addr + uintptr(n)
		if before, behind := d.Beside(addr, n); before != [2]uintptr{} || behind != [2]uintptr{} {
			t.Fatalf("%d new bytes at %#x: %#x, %#x", n, addr, before, behind)
		}
		if room := ceil(end) - end; room > 0 {
			bytesAt(end, 1)[0], bytesAt(ceil(end)-1, 1)[0] = 0, 255
			if before, behind := d.Beside(addr, n); before != [2]uintptr{} || behind != [2]uintptr{end, ceil(end)} {
				t.Errorf("%d bytes at %#x, %d behind it written: %#x, %#x", n, addr, room, before, behind)
			}
		}
		if addr > floor(addr) {
			bytesAt(addr-8, 1)[0], bytesAt(addr-4, 1)[0] = 1, 2
			if before, _ := d.Beside(addr, n); before != [2]uintptr{addr - 8, addr - 3} {
				t.Errorf("%d bytes at %#x, bytes before it written: %#x", n, addr, before)
			}
		}
		testenv.OK(t, d.FreeHost(addr))
	}
}

// TestShade proves that Shade receives every byte around pinned memory, and the memory itself when it is freed and
// allocated again, and that nothing is forbidden after the driver is closed.
func TestShade(t *testing.T) {
	forbidden := map[uintptr]bool{} // by address, every eighth
	d, err := New(Options{Devices: 1, Memory: 64 << 20, Shade: func(lo, hi uintptr, yes bool) {
		for at := (lo + 7) &^ 7; at < hi; at += 8 {
			if yes {
				forbidden[at] = true
			} else {
				delete(forbidden, at)
			}
		}
	}})
	testenv.OK(t, err)
	const far = 64 << 10
	all := func(what string, lo, hi uintptr, want bool) {
		t.Helper()
		for at := lo; at < hi; at += 8 {
			if forbidden[at] != want {
				t.Fatalf("%s: %#x is forbidden: %v", what, at, forbidden[at])
			}
		}
	}
	for _, n := range []uint64{8, 1000, 4096, 100_000} {
		p, err := d.AllocHost(roundUp(n, 64))
		must(t, err)
		d.Fence(p, n)
		end := p + uintptr(n)
		all("before", p-far, p, true)
		all("inside", p, end, false)
		all("behind", end, end+far, true)
		must(t, d.FreeHost(p))
		all("freed", p, end, true)
	}
	must(t, d.Close())
	if len(forbidden) != 0 {
		t.Errorf("%d places stay forbidden", len(forbidden))
	}
}
