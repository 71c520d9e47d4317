package pod

import (
	"bytes"
	"slices"
	"testing"

	"ropeway/internal/testenv"
)

// TestManyPlaces proves that copies with more places than fit in one message reach all of them.
func TestManyPlaces(t *testing.T) { copied(t, 5*scatters, 260) }

// copied writes and reads segments of n bytes each, with gaps between them.
func copied(t *testing.T, segments, n int) {
	t.Helper()
	file := podFile(t, 2, "")
	owner, user := node(t, file, 0), node(t, file, 1)
	size := segments * (n + 16)
	x, there := export(t, owner, size, true)
	r, err := user.Import(x.Handle)
	testenv.OK(t, err)
	defer r.Close()
	here, back := heap(t, segments*n), heap(t, segments*n)
	pattern(here, 1)
	place := func(b []byte) (list []Segment) {
		for i := range segments {
			list = append(list, Segment{addressOf(b) + uintptr(i*n), uint64(i * (n + 16)), uint64(n)})
		}
		return list
	}
	testenv.OK(t, wait(t, r.Write, place(here)...))
	for i := range segments {
		at := i * (n + 16)
		if !bytes.Equal(there[at:at+n], here[i*n:(i+1)*n]) || slices.Max(there[at+n:at+n+16]) != 0 {
			t.Fatalf("segment %d is not what was written", i)
		}
	}
	testenv.OK(t, wait(t, r.Read, place(back)...))
	if !bytes.Equal(here, back) {
		t.Error("other bytes were read than written")
	}
}
