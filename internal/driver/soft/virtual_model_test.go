package soft

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

// The model of virtual memory: a reservation is a list of extents, each mapped to a part of some memory or to nothing;
// imported memory has the bytes of the shared memory.

type modelMemory struct {
	mem   driver.Memory
	bytes []byte // shared by all memories with the same bytes
	maps  int
	freed bool
	gone  bool
}

type modelExtent struct {
	of    *modelMemory
	part  int     // which extent of it
	begin uintptr // where its mapping starts
}

type modelArea struct {
	addr    uintptr
	extents []modelExtent
}

type virtualModel struct {
	*rapid.T
	d      *Driver
	dev    [2]driver.Device
	q      driver.Queue
	failed failedTasks
	areas  []*modelArea
	mems   []*modelMemory
	stage  uintptr // pinned
	tasks  uint32
}

const stageSize = 512 << 10

// failure is a reported failure, made comparable.
func failure(tag driver.Tag, err error) string {
	for _, known := range []error{driver.ErrFault, driver.ErrTimeout, driver.ErrLost} {
		if errors.Is(err, known) {
			err = known
		}
	}
	return fmt.Sprintf("%d: %v", tag.Task, err)
}

// failedTasks holds the failures of a queue, which reports one task at a time.
type failedTasks []string

func (f *failedTasks) TaskFailed(tag driver.Tag, err error) { *f = append(*f, failure(tag, err)) }

// mappedRange returns the number of contiguous bytes at addr, and their owner.
func (m *virtualModel) mappedRange(addr uintptr) (room uint64, device int) {
	a := m.area(addr)
	if a == nil {
		return 0, 0
	}
	x := int(addr-a.addr) / extent
	if a.extents[x].of == nil {
		return 0, 0
	}
	device = a.extents[x].of.mem.Device()
	end := x
	for end < len(a.extents) && a.extents[end].of != nil && a.extents[end].of.mem.Device() == device {
		end++
	}
	return uint64(a.addr) + uint64(end)*extent - uint64(addr), device
}

func (m *virtualModel) area(addr uintptr) *modelArea {
	for _, a := range m.areas {
		if uint64(addr-a.addr) < uint64(len(a.extents))*extent {
			return a
		}
	}
	return nil
}

// each calls f for the model's bytes of the n bytes at addr, in order.
func (m *virtualModel) each(addr uintptr, n uint64, f func(b []byte)) {
	a := m.area(addr)
	for n > 0 {
		off := uint64(addr - a.addr)
		e := a.extents[off/extent]
		k := min(n, extent-off%extent)
		from := uint64(e.part)*extent + off%extent
		f(e.of.bytes[from : from+k])
		addr, n = addr+uintptr(k), n-k
	}
}

// read returns the model's n bytes at addr.
func (m *virtualModel) read(addr uintptr, n uint64) (all []byte) {
	m.each(addr, n, func(b []byte) { all = append(all, b...) })
	return all
}

// write sets the model's bytes at addr to b.
func (m *virtualModel) write(addr uintptr, b []byte) {
	m.each(addr, uint64(len(b)), func(to []byte) { b = b[copy(to, b):] })
}

// meet reports whether two ranges share a byte, possibly at different addresses.
func (m *virtualModel) meet(x, y uintptr, n uint64) bool {
	seen := map[*byte]bool{}
	const grain = 4096
	pages := func(addr uintptr, f func(*byte)) {
		m.each(addr&^(grain-1), uint64(addr%grain)+n, func(b []byte) {
			for i := 0; i < len(b); i += grain {
				f(&b[i])
			}
		})
	}
	both := false
	pages(x, func(p *byte) { seen[p] = true })
	pages(y, func(p *byte) { both = both || seen[p] })
	return both
}

// address draws an address in a reservation, mostly a mapped one.
func (m *virtualModel) address() uintptr {
	a := rapid.SampledFrom(m.areas).Draw(m.T, "area")
	x := rapid.IntRange(0, len(a.extents)-1).Draw(m.T, "extent")
	for i := range a.extents {
		if y := (x + i) % len(a.extents); a.extents[y].of != nil && rapid.IntRange(0, 3).Draw(m.T, "mapped") > 0 {
			x = y
			break
		}
	}
	off := rapid.OneOf(rapid.SampledFrom([]int{0, 1, extent - 1, extent - 100}), rapid.IntRange(0, extent-1)).Draw(m.T,
		"offset")
	return a.addr + uintptr(x*extent+off)
}

func (m *virtualModel) want(what string, err, want error) {
	m.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		m.Fatalf("%s: %v, want %v", what, err, want)
	}
}

func (m *virtualModel) reserve(t *rapid.T) {
	if len(m.areas) >= 6 {
		return
	}
	n := rapid.IntRange(1, 6).Draw(t, "extents")
	addr, err := m.d.Reserve(uint64(n)*extent, 0)
	m.want("reserve", err, nil)
	m.areas = append(m.areas, &modelArea{addr, make([]modelExtent, n)})
}

func (m *virtualModel) release(t *rapid.T) {
	i := rapid.IntRange(0, len(m.areas)-1).Draw(t, "area")
	var want error
	for _, e := range m.areas[i].extents {
		if e.of != nil {
			want = driver.ErrBusy
		}
	}
	addr := m.areas[i].addr
	m.want("release", m.d.Release(addr), want)
	if want != nil {
		return
	}
	n := uint64(len(m.areas[i].extents)) * extent
	m.areas = append(m.areas[:i], m.areas[i+1:]...)
	if rapid.Bool().Draw(t, "again") { // another reservation may have the address by now
		if at, err := m.d.Reserve(n, addr); err == nil && at == addr {
			m.areas = append(m.areas, &modelArea{addr, make([]modelExtent, n/extent)})
		} else {
			m.want("reserve at a place", err, driver.ErrFault)
		}
	}
}

func (m *virtualModel) create(t *rapid.T) {
	if len(m.mems) >= 12 {
		return
	}
	n := rapid.IntRange(1, 3).Draw(t, "extents")
	device := rapid.IntRange(driver.OnHost, 1).Draw(t, "device")
	page := driver.Page(rapid.IntRange(0, 2).Draw(t, "page"))
	mem, err := m.d.Create(device, uint64(n)*extent, page)
	m.want("create", err, nil)
	v := byte(rapid.IntRange(1, 255).Draw(t, "value"))
	nm := &modelMemory{mem: mem, bytes: bytes.Repeat([]byte{v}, n*extent)}
	m.mems = append(m.mems, nm)
	// Its content is undefined: write all of it once.
	r, err := m.d.Reserve(uint64(n)*extent, 0)
	m.want("reserve", err, nil)
	m.want("map", m.d.Map(r, mem), nil)
	m.want("fill", m.d.Run(driver.Op{Kind: driver.OpFill, Dst: r, N: uint64(n) * extent, Width: 1, Value: uint32(v)}),
		nil)
	m.want("unmap", m.d.Unmap(r), nil)
	m.want("release", m.d.Release(r), nil)
}

func (m *virtualModel) mapIt(t *rapid.T) {
	mem := rapid.SampledFrom(m.mems).Draw(t, "memory")
	a := rapid.SampledFrom(m.areas).Draw(t, "area")
	x := rapid.IntRange(0, len(a.extents)-1).Draw(t, "extent")
	n := int(mem.mem.Size() / extent)
	addr := a.addr + uintptr(x*extent)
	var want error
	switch {
	case mem.freed:
		want = driver.ErrNotAllocated
	case mem.gone:
		want = driver.ErrClosed
	case x+n > len(a.extents):
		want = driver.ErrFault
	default:
		for _, e := range a.extents[x : x+n] {
			if e.of != nil {
				want = driver.ErrBusy
			}
		}
	}
	m.want("map", m.d.Map(addr, mem.mem), want)
	if want == nil {
		for i := range n {
			a.extents[x+i] = modelExtent{mem, i, addr}
		}
		mem.maps++
	}
}

func (m *virtualModel) unmap(t *rapid.T) {
	addr := m.address() &^ (extent - 1)
	a := m.area(addr)
	e := a.extents[int(addr-a.addr)/extent]
	if e.of == nil || e.begin != addr {
		if err := m.d.Unmap(addr); err != nil { // a mapping that was lost with its device may be unmapped again
			m.want("unmap", err, driver.ErrNotAllocated)
		}
		return
	}
	m.want("unmap", m.d.Unmap(addr), nil)
	m.clear(a, e.of, addr)
	e.of.maps--
	m.drop(e.of)
}

func (m *virtualModel) clear(a *modelArea, of *modelMemory, begin uintptr) {
	for i := range a.extents {
		if a.extents[i].of == of && a.extents[i].begin == begin {
			a.extents[i] = modelExtent{}
		}
	}
}

// drop removes memory that is gone from the model.
func (m *virtualModel) drop(of *modelMemory) {
	if !of.freed || of.maps > 0 {
		return
	}
	for i := range m.mems {
		if m.mems[i] == of {
			m.mems = append(m.mems[:i], m.mems[i+1:]...)
			return
		}
	}
}

func (m *virtualModel) free(t *rapid.T) {
	mem := rapid.SampledFrom(m.mems).Draw(t, "memory")
	var want error
	if mem.freed {
		want = driver.ErrNotAllocated
	}
	m.want("free", mem.mem.Free(), want)
	mem.freed = true
	m.drop(mem)
}

func (m *virtualModel) share(t *rapid.T) {
	mem := rapid.SampledFrom(m.mems).Draw(t, "memory")
	s, err := m.d.Share(mem.mem)
	switch {
	case mem.freed:
		m.want("share", err, driver.ErrNotAllocated)
		return
	case mem.gone:
		m.want("share", err, driver.ErrClosed)
		return
	}
	m.want("share", err, nil)
	defer s.File.Close()
	if len(m.mems) < 12 {
		in, err := m.d.Import(s)
		m.want("import", err, nil)
		m.mems = append(m.mems, &modelMemory{mem: in, bytes: mem.bytes})
	}
}

// fill fills a random range, by a queue or by Run.
func (m *virtualModel) fill(t *rapid.T) {
	addr := m.address()
	n := rapid.Uint64Range(1, 3*extent/2).Draw(t, "n")
	v := byte(rapid.IntRange(1, 255).Draw(t, "value"))
	room, _ := m.mappedRange(addr)
	m.do(t, driver.Op{Kind: driver.OpFill, Dst: addr, N: n, Width: 1, Value: uint32(v)}, n <= room)
	if n <= room {
		m.write(addr, bytes.Repeat([]byte{v}, int(n)))
	}
}

func (m *virtualModel) copy(t *rapid.T) {
	dst, src := m.address(), m.address()
	n := rapid.OneOf(rapid.Uint64Range(1, 5000), rapid.Uint64Range(1, 3*extent)).Draw(t, "n")
	to, _ := m.mappedRange(dst)
	from, _ := m.mappedRange(src)
	ok := n <= to && n <= from
	if ok && m.meet(dst, src, n) {
		return // the order of bytes under two addresses is undefined
	}
	op := driver.Op{Kind: driver.OpCopy, Dst: dst, Src: src, N: n}
	if rapid.Bool().Draw(t, "batch") {
		op.Kind, op.Segs = driver.OpBatch, driver.NewSegments()
		for off := uint64(0); off < n; off += 70_001 {
			op.Segs.Add(dst+uintptr(off), src+uintptr(off), min(n-off, 70_001))
		}
	}
	if !ok && op.Kind == driver.OpBatch {
		return // part of it may have been written
	}
	b := []byte(nil)
	if ok {
		b = bytes.Clone(m.read(src, n))
	}
	m.do(t, op, ok)
	if ok {
		m.write(dst, b)
	}
}

// do carries op out, by a queue or by Run, and fails the test unless it succeeds or faults as expected.
func (m *virtualModel) do(t *rapid.T, op driver.Op, ok bool) {
	if op.Kind != driver.OpBatch && rapid.Bool().Draw(t, "at once") {
		err := m.d.Run(op)
		if ok != (err == nil) || !ok && !errors.Is(err, driver.ErrFault) {
			m.Fatalf("%+v: %v, want success: %v", op, err, ok)
		}
		return
	}
	m.tasks++
	op.Tag.Task = m.tasks
	m.q.Submit(op)
	m.q.Wait(0, nil)
	if ok && len(m.failed) == 0 {
		return
	}
	if want := failure(op.Tag, driver.ErrFault); ok || len(m.failed) != 1 || m.failed[0] != want {
		m.Fatalf("%+v: failed %v, want success: %v", op, m.failed, ok)
	}
	m.failed = nil
}

// closeDevice closes a device, which frees its memory, and opens it again.
func (m *virtualModel) closeDevice(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		return
	}
	i := rapid.IntRange(0, 1).Draw(t, "device")
	m.want("close", m.dev[i].Close(), nil)
	for _, a := range m.areas {
		for x := range a.extents {
			if of := a.extents[x].of; of != nil && of.mem.Device() == i {
				a.extents[x] = modelExtent{}
			}
		}
	}
	var kept []*modelMemory
	for _, mem := range m.mems {
		if mem.mem.Device() == i {
			mem.gone, mem.maps = true, 0
			if mem.freed {
				continue
			}
		}
		kept = append(kept, mem)
	}
	m.mems = kept
	var err error
	m.dev[i], err = m.d.Open(i)
	m.want("open", err, nil)
	if i == 0 {
		m.q = m.dev[0].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: m.failed.TaskFailed}})
	}
}

// check compares the location and the content at an address.
func (m *virtualModel) check() {
	if len(m.areas) == 0 {
		return
	}
	for range 2 {
		addr := m.address()
		room, device := m.mappedRange(addr)
		want := driver.Location{Place: driver.Nowhere}
		switch {
		case room > 0 && device == driver.OnHost:
			want = driver.Location{Place: driver.Host, Room: room}
		case room > 0:
			want = driver.Location{Place: driver.OnDevice, Device: int32(device), Room: room}
		}
		if got := m.d.Locate(addr); got != want {
			m.Fatalf("%#x is %+v, want %+v", addr, got, want)
		}
		if room == 0 {
			continue
		}
		if d := m.d.Describe(addr); uint64(d.Start)+d.Size != uint64(addr)+room || d.ID == 0 {
			m.Fatalf("%#x is described as %+v, want room for %d", addr, d, room)
		}
		n := min(room, stageSize)
		m.want("read", m.d.Run(driver.Op{Kind: driver.OpCopy, Dst: m.stage, Src: addr, N: n}), nil)
		if !bytes.Equal(bytesAt(m.stage, n), m.read(addr, n)) {
			m.Fatalf("%d bytes at %#x are not what the model has", n, addr)
		}
		if device == driver.OnHost && !bytes.Equal(bytesAt(addr, n), m.read(addr, n)) {
			m.Fatalf("%d bytes at %#x are not what the program sees", n, addr)
		}
	}
}

func TestVirtualModel(t *testing.T) {
	drivertest.Watch(t, 10*time.Minute)
	before := leftovers(t)
	rapid.Check(t, func(t *rapid.T) {
		d := open2(t, Options{Devices: 2, Memory: 256 << 20, Guard: rapid.IntRange(0, 3).Draw(t, "guard") == 0})
		m := &virtualModel{T: t, d: d}
		var err error
		for i := range m.dev {
			m.dev[i], err = d.Open(i)
			m.want("open", err, nil)
		}
		m.stage, err = d.AllocHost(stageSize)
		m.want("stage", err, nil)
		m.q = m.dev[0].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: m.failed.TaskFailed}})
		m.reserve(t)
		m.create(t)
		guarded := func(areas, mems bool, f func(*rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				if areas && len(m.areas) == 0 || mems && len(m.mems) == 0 {
					return
				}
				m.T = t
				f(t)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": guarded(false, false, m.reserve),
			"release": guarded(true, false, m.release),
			"create":  guarded(false, false, m.create),
			"map":     guarded(true, true, m.mapIt),
			"map 2":   guarded(true, true, m.mapIt),
			"map 3":   guarded(true, true, m.mapIt),
			"unmap":   guarded(true, false, m.unmap),
			"free":    guarded(false, true, m.free),
			"share":   guarded(false, true, m.share),
			"fill":    guarded(true, false, m.fill),
			"copy":    guarded(true, false, m.copy),
			"copy 2":  guarded(true, false, m.copy),
			"close":   guarded(false, false, m.closeDevice),
			"":        guarded(true, false, func(*rapid.T) { m.check() }),
		})
		for i := range m.dev {
			m.want("close", m.dev[i].Close(), nil)
		}
		m.want("close", d.Close(), nil)
	})
	if after := leftovers(t); after != before {
		t.Errorf("left behind: %v; before: %v", after, before)
	}
}
