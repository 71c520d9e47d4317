package soft

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/arena"
	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// TestUnmapAtLimit proves that memory can still be freed at the kernel's limit of mappings, even if that needs more
// mappings than before.
func TestUnmapAtLimit(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	testenv.OK(t, err)
	limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit > 4<<20 {
		t.Skipf("the limit is %d mappings (%v), too many to make", limit, err)
	}
	d, _, _, _ := quiesceBed(t)
	base, err := d.Reserve(16*extent, 0)
	testenv.OK(t, err)
	var all [5]driver.Memory
	// three adjacent ones, two apart
	where := [5]uintptr{base, base + extent, base + 2*extent, base + 4*extent, base + 6*extent}
	for i, device := range []int{0, 0, 0, 0, driver.OnHost} {
		m, err := d.Create(device, extent, driver.PageNormal)
		if err == nil {
			err = d.Map(where[i], m)
		}
		testenv.OK(t, err)
		all[i] = m
	}
	g, err := d.AllocManaged(extent, 0)
	testenv.OK(t, err)
	filler, err := arena.Reserve((limit + 2) * pageSize)
	testenv.OK(t, err)

	// From here on the runtime must not need another mapping: it would end the process. So give it memory first.
	room := make([]byte, 16<<20)
	room[0] = 1
	runtime.KeepAlive(room)
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	fill := func() error {
		for at := filler; at < filler+uintptr(limit)*pageSize; at += 2 * pageSize {
			if err := arena.ProtectPages(at, pageSize, unix.PROT_READ); err != nil {
				return err
			}
		}
		return nil
	}
	full := fill()
	var last [8][]byte // the call that reaches the limit still succeeds; later ones fail
	for i := range last {
		last[i], _ = unix.Mmap(-1, 0, pageSize, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	}
	refused := d.Map(base+8*extent, all[3])
	var errs [len(where) + 1]error
	for i, at := range [...]uintptr{where[1], where[3], where[4], where[0], where[2]} {
		errs[i] = d.Unmap(at)
	}
	errs[len(where)] = d.FreeManaged(g)
	testenv.OK(t, arena.Unreserve(filler, (limit+2)*pageSize))
	for _, page := range last {
		unix.Munmap(page) //nolint:errcheck // most were not mapped
	}

	if !errors.Is(full, unix.ENOMEM) {
		t.Fatalf("the limit is not where it was said to be: %v", full)
	}
	if !errors.Is(refused, driver.ErrNoMemory) {
		t.Errorf("mapped at the limit: %v", refused)
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("%d was not unmapped at the limit: %v", i, err)
		}
	}
	for _, m := range all {
		if err := errors.Join(d.Map(base, m), d.Unmap(base), m.Free()); err != nil {
			t.Error(err)
		}
	}
	if err := d.Release(base); err != nil {
		t.Error(err)
	}
}
