package native

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ropeway/internal/kernel"
)

// step is one change of what a process has mapped.
type step struct {
	kernel.View
	remove  bool
	replace bool // something of ours is there
}

func endOf(v *kernel.View) uintptr { return v.Addr + uintptr(v.Size) }

// changes leads from one list of views to another; both are sorted, and views do not overlap. What is in both is not
// touched, not even for a moment: a kernel may be using it.
func changes(from, to []kernel.View) (steps []step) {
	for i := range from {
		without(&from[i], to, func(lo, hi uintptr) {
			steps = append(steps, step{View: kernel.View{Addr: lo, Size: uint64(hi - lo)}, remove: true})
		})
	}
	for _, v := range to {
		for lo := v.Addr; lo < endOf(&v); {
			hi, old := endOf(&v), (*kernel.View)(nil)
			if i := firstAfter(from, lo); i < len(from) && from[i].Addr < hi {
				if from[i].Addr > lo {
					hi = from[i].Addr
				} else {
					hi, old = min(hi, endOf(&from[i])), &from[i]
				}
			}
			part := kernel.View{Addr: lo, Size: uint64(hi - lo), Of: v.Of, Off: v.Off + uint64(lo-v.Addr)}
			if old == nil || old.Of != v.Of || v.Of != nil && old.Off+uint64(lo-old.Addr) != part.Off {
				steps = append(steps, step{View: part, replace: old != nil})
			}
			lo = hi
		}
	}
	return steps
}

// firstAfter is the first view of a sorted list that ends after addr.
func firstAfter(list []kernel.View, addr uintptr) int {
	i, _ := slices.BinarySearchFunc(list, addr, func(v kernel.View, addr uintptr) int {
		if endOf(&v) <= addr {
			return -1
		}
		return 1
	})
	return i
}

// without calls f for the parts of v that no view of a sorted list covers.
func without(v *kernel.View, list []kernel.View, f func(lo, hi uintptr)) {
	lo := v.Addr
	for i := firstAfter(list, lo); i < len(list) && list[i].Addr < endOf(v); i++ {
		if list[i].Addr > lo {
			f(lo, list[i].Addr)
		}
		lo = endOf(&list[i])
	}
	if lo < endOf(v) {
		f(lo, endOf(v))
	}
}

// apply makes the step in a list of views.
func (s *step) apply(list []kernel.View) []kernel.View {
	var out []kernel.View
	end := endOf(&s.View)
	for _, v := range list {
		if v.Addr < s.Addr {
			part := v
			part.Size = uint64(min(endOf(&v), s.Addr) - v.Addr)
			out = append(out, part)
		}
		if endOf(&v) > end {
			part := v
			cut := max(v.Addr, end) - v.Addr
			part.Addr, part.Size, part.Off = v.Addr+cut, v.Size-uint64(cut), v.Off+uint64(cut)
			out = append(out, part)
		}
	}
	if !s.remove {
		i := firstAfter(out, s.Addr)
		out = slices.Insert(out, i, s.View)
	}
	return out
}

// show makes the step in a process.
func (s *step) show(p *peer) error {
	q := request{What: askUnmap, A: uint64(s.Addr), B: s.Size, C: s.Off}
	var files []int
	if !s.remove {
		q.What = askMap
		if s.replace {
			q.D = 1
		}
		if s.Of != nil {
			fd, err := s.Of.Duplicate()
			if err != nil {
				return fmt.Errorf("%w: %v", errVanished, err)
			}
			defer unix.Close(fd)
			files = []int{fd}
		}
	}
	_, err := p.ask(q, "", files...)
	return err
}

// errVanished says that memory was freed while it was to be shown: nobody uses it any more.
var errVanished = errors.New("memory that was freed meanwhile")
