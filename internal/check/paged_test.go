package check

import (
	"slices"
	"testing"

	"ropeway/internal/kernel"
)

const base = 0x10000

// TestInner: a page counts if every byte of the allocation on it is in the range.
func TestInner(t *testing.T) {
	for _, tt := range []struct {
		name               string
		lo, hi, start, end uintptr
		wantLo, wantHi     uintptr // equal: nothing
	}{
		{"all of it", base, base + 3*pageBytes, base, base + 3*pageBytes, base, base + 3*pageBytes},
		{"part of a page", base + 64, base + 128, base, base + 3*pageBytes, 0, 0},
		{"a byte short of a page", base + 1, base + pageBytes, base, base + 3*pageBytes, 0, 0},
		{"the page in the middle", base + 64, base + 2*pageBytes + 64, base, base + 3*pageBytes, base + pageBytes,
			base + 2*pageBytes},
		{"a short last page", base + 2*pageBytes, base + 2*pageBytes + 10, base, base + 2*pageBytes + 10,
			base + 2*pageBytes, base + 2*pageBytes + 10},
		{"most of a short last page", base + 2*pageBytes, base + 2*pageBytes + 9, base, base + 2*pageBytes + 10, 0, 0},
		{"an allocation of 64 bytes", base, base + 64, base, base + 64, base, base + 64},
		{"more than the allocation", base - 64, base + pageBytes, base, base + 64, base, base + 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, hi := innerPages(tt.lo, tt.hi, tt.start, tt.end)
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
	for n, want := range map[uintptr]int{1: 1, pageBytes: 1, pageBytes + 1: 2, 3 * pageBytes: 3} {
		if got := countPages(base, base+n); got != want {
			t.Errorf("%d bytes are on %d pages, want %d", n, got, want)
		}
	}
	if got := countPages(base+pageBytes-1, base+pageBytes+1); got != 2 {
		t.Errorf("two bytes around a border are on %d pages", got)
	}
}

// TestOutside: a page is declared if a byte of it is, and a write needs a declared write.
func TestOutside(t *testing.T) {
	read := func(page, pages int) kernel.Touch {
		return kernel.Touch{Addr: base + uintptr(page)*pageBytes, N: uint64(pages) * pageBytes}
	}
	write := func(page, pages int) kernel.Touch {
		x := read(page, pages)
		x.Write = true
		return x
	}
	few := kernel.Touch{Addr: base + pageBytes + 100, N: 8}
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
			if got := outsidePages(tt.seen, tt.declared); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
