package memory_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

const pageBytes = 2 << 20

// TestMappingPrograms runs random programs that reserve addresses, map memory of two devices and of the host to them,
// copy and fill across mappings, and unmap. The model is a list of pages for each memory and, for each reservation,
// what its pages map.
func TestMappingPrograms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dog := time.AfterFunc(patience, func() { panic("a program hangs") })
		defer dog.Stop()
		w := newMapWorld(t)
		defer w.rt.Close() //nolint:errcheck // the good end is below
		t.Repeat(map[string]func(*rapid.T){
			"reserve": w.reserve, "release": w.release, "create": w.create, "free": w.free, "retain": w.retain,
			"map": w.mapIt, "map 2": w.mapIt, "unmap": w.unmap, "access": w.access,
			"fill": w.fill, "fill 2": w.fill, "copy": w.copy, "copy 2": w.copy, "ask": w.ask,
		})
		w.end(t)
	})
}

// mapMemory is physical memory; refs is how often its handle is to be freed.
type mapMemory struct {
	h     core.Handle
	dev   int // -1: the host
	pages [][]byte
	refs  int
	maps  int
}

// mapped is what a page of a reservation shows.
type mapped struct {
	m    *mapMemory
	page int
	open bool // a device or the host has access
	from int  // where its mapping begins
}

type mapReservation struct {
	addr  core.Addr
	pages []*mapped
}

type mapWorld struct {
	rt       *core.Runtime
	th       *core.Thread
	s        core.Handle
	spaces   []*mapReservation
	memories []*mapMemory // with handles, or mapped
}

func newMapWorld(t *rapid.T) *mapWorld {
	p, err := product.Find("A3", "") // devices reach each other
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 2, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := &mapWorld{rt: core.New(core.Options{Driver: d, Product: p})}
	w.th = w.rt.NewThread(1)
	must(t, w.th.SetDevice(1))
	must(t, w.th.SetDevice(0))
	must(t, w.th.CreateStream(&w.s))
	w.reserve(t)
	w.create(t)
	return w
}

func (w *mapWorld) sync(t *rapid.T) { must(t, w.th.SynchronizeStream(w.s)) }

func (w *mapWorld) reserve(t *rapid.T) {
	if len(w.spaces) == 4 {
		t.Skip("enough")
	}
	n := rapid.IntRange(1, 6).Draw(t, "pages")
	r := &mapReservation{pages: make([]*mapped, n)}
	must(t, memory.ReserveMemAddress(w.th, &r.addr, uint64(n)*pageBytes, 0, 0, 0))
	w.spaces = append(w.spaces, r)
}

func (w *mapWorld) release(t *rapid.T) {
	r := pick(t, w.spaces, "reservation")
	if slices.ContainsFunc(r.pages, func(b *mapped) bool { return b != nil }) {
		expect(t, memory.ReleaseMemAddress(w.th, r.addr), abi.ErrRTParamInvalid,
			"ReleaseMemAddress of what is mapped")
		return
	}
	must(t, memory.ReleaseMemAddress(w.th, r.addr))
	w.spaces = slices.DeleteFunc(w.spaces, func(o *mapReservation) bool { return o == r })
}

func (w *mapWorld) create(t *rapid.T) {
	if len(w.memories) == 6 {
		t.Skip("enough")
	}
	n, dev := rapid.IntRange(1, 3).Draw(t, "pages"), rapid.IntRange(-1, 1).Draw(t, "device")
	prop := abi.PhysicalMemProp{MemAttr: abi.MemAttrMemHuge, Location: abi.MemLocation{Type: abi.MemLocationTypeDevice,
		ID: uint32(dev)}}
	if dev < 0 {
		prop.Location = abi.MemLocation{Type: abi.MemLocationTypeHost}
	}
	m := &mapMemory{dev: dev, refs: 1}
	must(t, memory.MallocPhysical(w.th, &m.h, uint64(n)*pageBytes, &prop, 0))
	for range n {
		m.pages = append(m.pages, make([]byte, pageBytes))
	}
	w.memories = append(w.memories, m)
	// What memory holds at first is nobody's promise.
	var a core.Addr
	must(t, memory.ReserveMemAddress(w.th, &a, uint64(n)*pageBytes, 0, 0, 0))
	must(t, memory.MapMem(w.th, a, uint64(n)*pageBytes, 0, m.h, 0))
	must(t, transfer.Memset(w.th, a, uint64(n)*pageBytes, 0, uint64(n)*pageBytes))
	must(t, memory.UnmapMem(w.th, a))
	must(t, memory.ReleaseMemAddress(w.th, a))
}

// drop forgets memory that nobody has.
func (w *mapWorld) drop() {
	w.memories = slices.DeleteFunc(w.memories, func(m *mapMemory) bool { return m.refs == 0 && m.maps == 0 })
}

func (w *mapWorld) free(t *rapid.T) {
	m := pick(t, w.memories, "memory")
	if m.refs == 0 {
		expect(t, memory.FreePhysical(w.th, m.h), abi.ErrRTParamInvalid, "FreePhysical, once too often")
		return
	}
	must(t, memory.FreePhysical(w.th, m.h))
	m.refs--
	w.drop()
}

// retain gets a handle of what is mapped.
func (w *mapWorld) retain(t *rapid.T) {
	r := pick(t, w.spaces, "reservation")
	i := rapid.IntRange(0, len(r.pages)-1).Draw(t, "page")
	var h core.Handle
	err := memory.MemRetainAllocationHandle(w.th, r.addr+core.Addr(i*pageBytes+77), &h)
	b := r.pages[i]
	if b == nil {
		expect(t, err, abi.ErrRTParamInvalid, "MemRetainAllocationHandle of nothing")
		return
	}
	must(t, err)
	if b.m.refs > 0 && h != b.m.h {
		t.Fatalf("handle %#x, want %#x", h, b.m.h)
	}
	b.m.h = h
	b.m.refs++
}

func (w *mapWorld) mapIt(t *rapid.T) {
	r, m := pick(t, w.spaces, "reservation"), pick(t, w.memories, "memory")
	i := rapid.IntRange(0, len(r.pages)-1).Draw(t, "page")
	open := rapid.IntRange(0, 3).Draw(t, "open") > 0
	good := m.refs > 0 && i+len(m.pages) <= len(r.pages)
	for j := i; good && j < i+len(m.pages); j++ {
		good = r.pages[j] == nil
	}
	call := func(virPtr core.Addr, size uint64, offset uint64, handle core.Handle, flags uint64) *core.Error {
		return memory.MapMem(w.th, virPtr, size, offset, handle, flags)
	}
	if !open {
		call = func(virPtr core.Addr, size uint64, offset uint64, handle core.Handle, flags uint64) *core.Error {
			return memory.MemMapNoAccess(w.th, virPtr, size, offset, handle, flags)
		}
	}
	err := call(r.addr+core.Addr(i*pageBytes), uint64(len(m.pages))*pageBytes, 0, m.h, 0)
	if !good {
		expect(t, err, abi.ErrRTParamInvalid, "a mapping that does not fit")
		return
	}
	must(t, err)
	m.maps++
	for j := range m.pages {
		r.pages[i+j] = &mapped{m, j, open, i}
	}
}

func (w *mapWorld) unmap(t *rapid.T) {
	r := pick(t, w.spaces, "reservation")
	i := rapid.IntRange(0, len(r.pages)-1).Draw(t, "page")
	w.sync(t) // it waits for nothing
	err := memory.UnmapMem(w.th, r.addr+core.Addr(i*pageBytes))
	b := r.pages[i]
	if b == nil || b.from != i {
		expect(t, err, abi.ErrRTParamInvalid, "UnmapMem of nothing")
		return
	}
	must(t, err)
	b.m.maps--
	for j := range b.m.pages {
		r.pages[i+j] = nil
	}
	w.drop()
}

// access opens a mapping.
func (w *mapWorld) access(t *rapid.T) {
	r := pick(t, w.spaces, "reservation")
	i := rapid.IntRange(0, len(r.pages)-1).Draw(t, "page")
	b := r.pages[i]
	n := uint64(pageBytes)
	if b != nil {
		n *= uint64(len(b.m.pages))
	}
	desc := abi.MemAccessDesc{Flags: abi.MemAccessFlagsReadwrite,
		Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	err := memory.MemSetAccess(w.th, r.addr+core.Addr(i*pageBytes), n, &desc, 1)
	if b == nil || b.from != i {
		expect(t, err, abi.ErrRTDrvInternalError, "MemSetAccess of no mapping")
		return
	}
	must(t, err)
	for j := range b.m.pages {
		r.pages[i+j].open = true
	}
}

// stretch is a range in a reservation, often one that crosses pages.
type stretch struct {
	r      *mapReservation
	off, n int
}

func (w *mapWorld) stretch(t *rapid.T, most int) stretch {
	r := pick(t, w.spaces, "reservation")
	size := len(r.pages) * pageBytes
	off := rapid.IntRange(0, len(r.pages)-1).Draw(t, "page")*pageBytes + rapid.IntRange(-50, 50).Draw(t, "offset")
	off = min(max(off, 0), size-1)
	n := rapid.IntRange(1, 100).Draw(t, "bytes")
	if rapid.IntRange(0, 5).Draw(t, "large") == 0 {
		n = rapid.IntRange(1, 2*pageBytes).Draw(t, "many bytes")
	}
	return stretch{r, off, min(n, size-off, most)}
}

func (x stretch) addr() core.Addr { return x.r.addr + core.Addr(x.off) }

// whole reports whether all of it is accessible memory of one place, and which.
func (x stretch) whole() (dev int, ok bool) {
	first := x.r.pages[x.off/pageBytes]
	for i := x.off / pageBytes; i <= (x.off+x.n-1)/pageBytes; i++ {
		if b := x.r.pages[i]; b == nil || !b.open || b.m.dev != first.m.dev {
			return 0, false
		}
	}
	return first.m.dev, true
}

// each calls f with the pieces of the model that lie in it.
func (x stretch) each(f func(piece []byte)) {
	for off, n := x.off, x.n; n > 0; {
		b := x.r.pages[off/pageBytes]
		p := b.m.pages[b.page][off%pageBytes:]
		p = p[:min(len(p), n)]
		f(p)
		off, n = off+len(p), n-len(p)
	}
}

func (x stretch) read() (all []byte) {
	x.each(func(p []byte) { all = append(all, p...) })
	return all
}

func (x stretch) write(all []byte) {
	x.each(func(p []byte) { all = all[copy(p, all):] })
}

func (w *mapWorld) fill(t *rapid.T) {
	x := w.stretch(t, 2*pageBytes)
	v := byte(rapid.IntRange(1, 255).Draw(t, "value"))
	_, ok := x.whole()
	w.sync(t) // on the host, fills do not wait
	err := transfer.MemsetAsync(w.th, x.addr(), uint64(x.n), int32(v), uint64(x.n), w.s)
	if !ok {
		expect(t, err, abi.ErrRTParamInvalid, "a fill of what is not there")
		return
	}
	must(t, err)
	x.write(bytes.Repeat([]byte{v}, x.n))
}

func (w *mapWorld) copy(t *rapid.T) {
	dst := w.stretch(t, 2*pageBytes)
	src := w.stretch(t, dst.n)
	dst.n = src.n
	to, ok := dst.whole()
	from, also := src.whole()
	if ok && also && overlap(dst, src) {
		return
	}
	var err *core.Error
	n := uint64(src.n)
	if to < 0 && from < 0 || rapid.Bool().Draw(t, "now") {
		w.sync(t)
		err = transfer.Memcpy(w.th, dst.addr(), n, src.addr(), n, abi.MemcpyDefault)
	} else {
		err = transfer.MemcpyAsync(w.th, dst.addr(), n, src.addr(), n, abi.MemcpyDefault, w.s)
	}
	if dst.addr() == src.addr() {
		return // nothing to do, and nobody looks
	}
	if !ok || !also {
		expect(t, err, abi.ErrRTParamInvalid, "a copy of what is not there")
		return
	}
	must(t, err)
	dst.write(src.read())
}

// overlap reports whether two ranges share bytes of memory, under whatever addresses.
func overlap(a, b stretch) bool {
	seen := map[*byte]bool{}
	a.each(func(p []byte) { seen[&p[0:cap(p)][cap(p)-1]] = true })
	shared := false
	b.each(func(p []byte) { shared = shared || seen[&p[0:cap(p)][cap(p)-1]] })
	return shared
}

// ask compares what calls say of an address.
func (w *mapWorld) ask(t *rapid.T) {
	x := w.stretch(t, 1)
	b := x.r.pages[x.off/pageBytes]
	var base core.Addr
	var n uint64
	err := memory.MemGetAddressRange(w.th, x.addr(), &base, &n)
	var a abi.PtrAttributes
	must(t, memory.PointerGetAttributes(w.th, x.addr(), &a))
	switch {
	case b == nil:
		expect(t, err, abi.ErrRTParamInvalid, "MemGetAddressRange of nothing")
	case err != nil || base != x.r.addr+core.Addr(b.from*pageBytes) || n != uint64(len(b.m.pages))*pageBytes:
		t.Fatalf("%d bytes at %#x (%v)", n, base, err)
	}
	want := abi.MemLocation{Type: abi.MemLocationTypeUnregistered}
	if b != nil && b.open {
		want.Type = abi.MemLocationTypeHost
		if b.m.dev >= 0 {
			want = abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: uint32(b.m.dev)}
		}
	}
	if a.Location.Type != want.Type || want.Type == abi.MemLocationTypeDevice && a.Location.ID != want.ID {
		t.Fatalf("%+v, want %+v", a.Location, want)
	}
}

// end compares all bytes and releases everything.
func (w *mapWorld) end(t *rapid.T) {
	w.sync(t)
	got := make([]byte, pageBytes)
	for _, r := range w.spaces {
		for i, b := range r.pages {
			if b == nil || !b.open {
				continue
			}
			must(t, transfer.Memcpy(w.th, core.AddrOf(got), pageBytes, r.addr+core.Addr(i*pageBytes), pageBytes,
				abi.MemcpyDefault))
			if !bytes.Equal(got, b.m.pages[b.page]) {
				t.Fatalf("page %d of the reservation at %#x is not as it should be", i, r.addr)
			}
		}
		for i, b := range r.pages {
			if b != nil && b.from == i {
				must(t, memory.UnmapMem(w.th, r.addr+core.Addr(i*pageBytes)))
			}
		}
		must(t, memory.ReleaseMemAddress(w.th, r.addr))
	}
	for _, m := range w.memories {
		for ; m.refs > 0; m.refs-- {
			must(t, memory.FreePhysical(w.th, m.h))
		}
	}
	for dev := range 2 {
		must(t, w.th.SetDevice(int32(dev)))
		var free, total uint64
		must(t, memory.GetMemInfo(w.th, abi.MemAttrHBMMem, &free, &total))
		if free != total {
			t.Fatalf("device %d: %d of %d bytes are free, but everything was freed", dev, free, total)
		}
	}
	if err := w.rt.Close(); err != nil {
		t.Fatal(err)
	}
}
