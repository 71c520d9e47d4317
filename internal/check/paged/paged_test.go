package paged

import (
	"slices"
	"testing"

	"ropeway/internal/kernel"
)

const base = 0x10000

// TestInner: only pages count of which every byte of the allocation is in the range.
func TestInner(t *testing.T) {
	for _, tt := range []struct {
		name               string
		lo, hi, start, end uintptr
		wantLo, wantHi     uintptr // equal: nothing
	}{
		{"all of it", base, base + 3*Bytes, base, base + 3*Bytes, base, base + 3*Bytes},
		{"part of a page", base + 64, base + 128, base, base + 3*Bytes, 0, 0},
		{"a byte short of a page", base + 1, base + Bytes, base, base + 3*Bytes, 0, 0},
		{"the page in the middle", base + 64, base + 2*Bytes + 64, base, base + 3*Bytes, base + Bytes,
			base + 2*Bytes},
		{"a short last page", base + 2*Bytes, base + 2*Bytes + 10, base, base + 2*Bytes + 10, base + 2*Bytes,
			base + 2*Bytes + 10},
		{"most of a short last page", base + 2*Bytes, base + 2*Bytes + 9, base, base + 2*Bytes + 10, 0, 0},
		{"an allocation of 64 bytes", base, base + 64, base, base + 64, base, base + 64},
		{"more than the allocation", base - 64, base + Bytes, base, base + 64, base, base + 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi := Inner(tt.lo, tt.hi, tt.start, tt.end)
			if tt.wantLo == tt.wantHi {
				if lo < hi {
					t.Errorf("%#x to %#x, want nothing", lo, hi)
				}
			} else if lo != tt.wantLo || hi != tt.wantHi {
				t.Errorf("%#x to %#x, want %#x to %#x", lo, hi, tt.wantLo, tt.wantHi)
			}
		})
	}
}

// TestCount: a page counts if one byte of it is in the range.
func TestCount(t *testing.T) {
	for n, want := range map[uintptr]int{1: 1, Bytes: 1, Bytes + 1: 2, 3 * Bytes: 3} {
		if got := Count(base, base+n); got != want {
			t.Errorf("%d bytes are on %d pages, want %d", n, got, want)
		}
	}
	if got := Count(base+Bytes-1, base+Bytes+1); got != 2 {
		t.Errorf("two bytes around a border are on %d pages", got)
	}
}

// TestOutside: a page is declared if a byte of it is, and a write needs a declared write.
func TestOutside(t *testing.T) {
	read := func(page, pages int) kernel.Touch {
		return kernel.Touch{Addr: base + uintptr(page)*Bytes, N: uint64(pages) * Bytes}
	}
	write := func(page, pages int) kernel.Touch {
		x := read(page, pages)
		x.Write = true
		return x
	}
	few := kernel.Touch{Addr: base + Bytes + 100, N: 8}
	for _, tt := range []struct {
		name                 string
		seen, declared, want []kernel.Touch
	}{
		{"nothing was declared", []kernel.Touch{read(0, 2)}, nil, []kernel.Touch{read(0, 2)}},
		{"all was", []kernel.Touch{read(0, 2), write(4, 1)}, []kernel.Touch{read(0, 2), write(4, 1)}, nil},
		{"a few bytes in the middle", []kernel.Touch{read(0, 3)}, []kernel.Touch{few},
			[]kernel.Touch{read(0, 1), read(2, 1)}},
		{"a read, and it writes", []kernel.Touch{write(0, 1)}, []kernel.Touch{read(0, 1)}, []kernel.Touch{write(0, 1)}},
		{"a write, and it reads", []kernel.Touch{read(0, 1)}, []kernel.Touch{write(0, 1)}, nil},
		{"no bytes", []kernel.Touch{read(0, 1)}, []kernel.Touch{{Addr: base}}, []kernel.Touch{read(0, 1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Outside(tt.seen, tt.declared); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
