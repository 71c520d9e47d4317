package core

import (
	"fmt"
	"math/bits"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Managed memory has one address for the host and all devices. The driver makes it (driver.Manager) and takes it in copies and fills like other memory, in the order of
// the stream. What advice and prefetches leave behind is kept here, page by page: where memory is, is the driver's business.

// managedPage is what managed memory is a multiple of, and what attributes belong to.
const managedPage = 2 << 20

// Values of attributes that name a place.
const (
	atHost  = -1
	nowhere = -2 // nobody has said where, or the pages disagree
)

// managedState is the managed memory there is.
type managedState struct {
	mu    sync.Mutex
	spans map[Addr]*managedSpan // guarded by mu; by where they start
}

// managedSpan is one allocation.
type managedSpan struct {
	start  Addr         // immutable
	number uint64       // immutable; how many pages it has
	pages  []managedAre // guarded by managedState.mu; nil as long as nothing was said about any
}

// managedAre is what was said about a page.
type managedAre struct {
	readMostly bool
	byHost     bool   // the host is going to access it
	byDevices  uint64 // as are these devices, by user id
	preferred  managedPlace
	fetched    managedPlace // where it was last prefetched to
}

// managedPlace is a place; the zero value is none.
type managedPlace struct {
	kind abi.MemManagedLocationType // never HOST_NUMA_CURRENT
	id   int32
}

// manager is the driver's managed memory, if the product has it, too.
func (rt *Runtime) manager() (driver.Manager, bool) {
	if !rt.prod.Managed {
		return nil, false
	}
	return driver.As[driver.Manager](rt.drv)
}

func (t *Thread) noManaged(api string) *Error {
	return unsupported(api, "", "%s on driver %s has no managed memory; A2 and A3 have", t.rt.prod.Name, t.rt.drv.Name())
}

// MemAllocManaged is aclrtMemAllocManaged.
func (t *Thread) MemAllocManaged(ptr *Addr, size uint64, flag uint32) *Error {
	const api = "aclrtMemAllocManaged"
	switch {
	case ptr == nil:
		return isNull(api, "ptr")
	case flag != abi.MemAttachGlobal:
		return invalid(api, "flag", "%#x is not ACL_RT_MEM_ATTACH_GLOBAL (1)", flag)
	case size == 0:
		return refused(api, "size", "is 0")
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	m, ok := t.rt.manager()
	if !ok {
		return t.noManaged(api)
	}
	sum, carry := bits.Add64(size, managedPage-1, 0)
	if carry != 0 {
		return fail(api, abi.ErrRTMemoryAllocation, "size", "%d bytes of managed memory wanted, more than there are addresses", size)
	}
	n := sum &^ (managedPage - 1)
	a, err := m.AllocManaged(n, int(c.dev.phys))
	if err != nil {
		e := fromDriver(api, "size", err)
		e.Text = byteCount(size) + " of managed memory wanted"
		return e
	}
	s := &memoryOf(t.rt).managed
	locked(&s.mu, func() {
		if s.spans == nil {
			s.spans = map[Addr]*managedSpan{}
		}
		s.spans[a] = &managedSpan{start: a, number: n / managedPage}
	})
	*ptr = a
	t.given(Resource{Kind: ManagedMemory, Name: a, Size: size, Device: c.dev.user})
	return nil
}

// freeManaged gives managed memory back.
func (t *Thread) freeManaged(api, arg string, p Addr, l driver.Location) *Error {
	s := &memoryOf(t.rt).managed
	user := int32(0)
	if d := t.rt.byPhys(l.Device); d != nil {
		user = d.user
	}
	return t.gives(Resource{Kind: ManagedMemory, Name: p, Device: user}, func() *Error {
		var span *managedSpan
		locked(&s.mu, func() {
			span = s.spans[p]
			delete(s.spans, p) // before the address can be given to somebody else
		})
		m, ok := t.rt.manager()
		if span == nil || !ok {
			return t.rt.gaveBack(api, arg, p, driver.ErrNotAllocated)
		}
		return t.rt.gaveBack(api, arg, p, m.FreeManaged(p))
	})
}

// launchManaged puts a copy or a fill of managed memory on a stream. It counts as a function on the host, which is what it is where memory migrates.
func (t *Thread) launchManaged(api string, s *Stream, op driver.Op) *Error {
	if err := s.takesFunctions(api); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	return s.launch(api, t, task{op: op})
}

// managedIn is the pages that n bytes at addr are in, if all of them are in one allocation: the first, and how many there are.
func (rt *Runtime) managedIn(addr Addr, n uint64) (span *managedSpan, first, number uint64, ok bool) {
	al := rt.drv.Describe(addr)
	if al.Place != driver.Managed || al.Room < n {
		return nil, 0, 0, false
	}
	s := &memoryOf(rt).managed
	s.mu.Lock()
	defer s.mu.Unlock()
	if span = s.spans[al.Start]; span == nil {
		return nil, 0, 0, false
	}
	first = uint64(addr-span.start) / managedPage
	last := (uint64(addr-span.start) + n - 1) / managedPage
	return span, first, last - first + 1, true
}

// change says something about some pages of a span.
func (s *managedState) change(span *managedSpan, first, number uint64, f func(*managedAre)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if span.pages == nil {
		span.pages = make([]managedAre, span.number)
	}
	for i := range span.pages[first : first+number] {
		f(&span.pages[first+uint64(i)])
	}
}

// each calls f with what was said about some pages of a span.
func (s *managedState) each(span *managedSpan, first, number uint64, f func(managedAre)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if span.pages == nil {
		f(managedAre{})
		return
	}
	for _, p := range span.pages[first : first+number] {
		f(p)
	}
}

// notManaged is the answer to a range that is not, or not all, managed memory.
func (rt *Runtime) notManaged(api, arg string, addr Addr, n uint64) *Error {
	if l := rt.drv.Locate(addr); l.Place == driver.Managed {
		return tooShort(api, arg, addr, n, l)
	}
	return refused(api, arg, "%#x is no managed memory", addr)
}

// managedDevice refuses a device that does not exist.
func (t *Thread) managedDevice(api, arg string, l abi.MemManagedLocation) *Error {
	if l.Type == abi.MemManagedLocationTypeDevice && t.rt.device(l.ID) == nil {
		return refused(api, arg, "%d is no device; %s", l.ID, t.rt.deviceRange())
	}
	return nil
}

// managedPlace is the place that a location names; false if it names none.
func (t *Thread) managedPlace(l abi.MemManagedLocation) (managedPlace, bool) {
	switch l.Type {
	case abi.MemManagedLocationTypeDevice:
		return managedPlace{l.Type, l.ID}, true
	case abi.MemManagedLocationTypeHost:
		return managedPlace{l.Type, atHost}, true
	case abi.MemManagedLocationTypeHostNuma:
		return managedPlace{l.Type, l.ID}, l.ID >= 0
	case abi.MemManagedLocationTypeHostNumaCurrent:
		return managedPlace{abi.MemManagedLocationTypeHostNuma, numaNode()}, true
	}
	return managedPlace{}, false
}

// MemManagedAdvise is aclrtMemManagedAdvise.
func (t *Thread) MemManagedAdvise(ptr Addr, size uint64, advise abi.MemManagedAdviseType, location abi.MemManagedLocation) *Error {
	const api = "aclrtMemManagedAdvise"
	if err := t.checkMemManagedAdvise(ptr, size, advise, location); err != nil {
		return err
	}
	kind := abi.MemManagedAdviseType(uint16(advise))
	if kind > abi.MemAdviseUnsetAccessedBy {
		return refused(api, "advise", "%d is not 0 to 5", kind)
	}
	if err := t.managedDevice(api, "location", location); err != nil {
		return err
	}
	if t.current() == nil {
		return noContext(api)
	}
	if _, ok := t.rt.manager(); !ok {
		return t.noManaged(api).quiet()
	}
	span, first, number, ok := t.rt.managedIn(ptr, size)
	if !ok {
		return t.rt.notManaged(api, "ptr", ptr, size)
	}
	change, err := t.advice(api, kind, location)
	if err != nil {
		return err
	}
	if t.rt.strict && size%advicePage != 0 {
		return refused(api, "size", "%d is not a multiple of 2 MiB", size)
	}
	memoryOf(t.rt).managed.change(span, first, number, change)
	return nil
}

// advicePage is what the documents ask the size that advice is about to be a multiple of.
const advicePage = 2 << 20

// advice is what a piece of advice changes.
func (t *Thread) advice(api string, kind abi.MemManagedAdviseType, location abi.MemManagedLocation) (func(*managedAre), *Error) {
	switch kind {
	case abi.MemAdviseSetReadMostly, abi.MemAdviseUnsetReadMostly: // the same everywhere
		return func(p *managedAre) { p.readMostly = kind == abi.MemAdviseSetReadMostly }, nil
	case abi.MemAdviseUnsetPreferredLocation: // whatever it is
		return func(p *managedAre) { p.preferred = managedPlace{} }, nil
	}
	place, ok := t.managedPlace(location)
	if !ok {
		return nil, refused(api, "location", "type %v, id %d is no place", location.Type, location.ID)
	}
	set := kind == abi.MemAdviseSetAccessedBy
	switch {
	case kind == abi.MemAdviseSetPreferredLocation:
		return func(p *managedAre) { p.preferred = place }, nil
	case place.kind == abi.MemManagedLocationTypeHost:
		return func(p *managedAre) { p.byHost = set }, nil
	case place.kind == abi.MemManagedLocationTypeHostNuma:
		return nil, refused(api, "location", "memory is accessed by a device or the host, not by one of its NUMA nodes")
	case set:
		return func(p *managedAre) { p.byDevices |= 1 << place.id }, nil
	}
	return func(p *managedAre) { p.byDevices &^= 1 << place.id }, nil
}

// MemManagedPrefetchAsync is aclrtMemManagedPrefetchAsync. There is one memory behind the address, so nothing moves: the place is remembered when
// the stream comes to it.
func (t *Thread) MemManagedPrefetchAsync(ptr Addr, size uint64, location abi.MemManagedLocation, flags uint32, stream Handle) *Error {
	const api = "aclrtMemManagedPrefetchAsync"
	s, err := t.checkMemManagedPrefetchAsync(ptr, size, location, flags, stream)
	if err != nil {
		return err
	}
	if err := t.prefetchStream(api, s); err != nil {
		return err
	}
	if err := t.managedDevice(api, "location", location); err != nil {
		return err
	}
	return t.prefetch(api, s, []prefetchRange{{ptr, size, location}}, "location")
}

// prefetchStream refuses the NULL stream where there is none.
func (t *Thread) prefetchStream(api string, s *Stream) *Error {
	if s == nil && (t.current() == nil || !t.rt.prod.Modern) {
		return fail(api, abi.ErrRTInternalError, "stream", "is NULL, and there is no default stream that could be meant")
	}
	return nil
}

// prefetchRange is memory that is to be somewhere.
type prefetchRange struct {
	addr     Addr
	size     uint64
	location abi.MemManagedLocation
}

// prefetch queues prefetches whose devices exist; arg is what names their locations.
func (t *Thread) prefetch(api string, s *Stream, list []prefetchRange, arg string) *Error {
	if _, ok := t.rt.manager(); !ok {
		return t.noManaged(api).quiet()
	}
	places := make([]managedPlace, len(list))
	for i, r := range list {
		place, ok := t.managedPlace(r.location)
		if !ok {
			return refused(api, arg, "type %v, id %d is no place", r.location.Type, r.location.ID)
		}
		places[i] = place
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	s, err := c.on(api, s)
	if err != nil {
		return err
	}
	if err := s.takesFunctions(api); err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	rt := t.rt
	// It computes on nothing: no address is said.
	op := driver.Op{Kind: driver.OpWork, Work: func() error { return rt.prefetched(list, places) }}
	return s.launch(api, t, task{op: op, kind: observe.Prefetch})
}

// prefetched is a prefetch whose turn it is.
func (rt *Runtime) prefetched(list []prefetchRange, places []managedPlace) error {
	for i, r := range list {
		if r.size == 0 {
			continue
		}
		span, first, number, ok := rt.managedIn(r.addr, r.size)
		if !ok {
			return fmt.Errorf("%w: prefetch of %d bytes at %#x, which are no managed memory", driver.ErrFault, r.size, r.addr)
		}
		memoryOf(rt).managed.change(span, first, number, func(p *managedAre) { p.fetched = places[i] })
	}
	return nil
}

// MemManagedPrefetchBatchAsync is aclrtMemManagedPrefetchBatchAsync.
func (t *Thread) MemManagedPrefetchBatchAsync(ptrs *Addr, sizes *uint64, count uint64, prefetchLocs *abi.MemManagedLocation, prefetchLocIdxs *uint64, numPrefetchLocs, flags uint64, stream Handle) *Error {
	const api = "aclrtMemManagedPrefetchBatchAsync"
	switch {
	case ptrs == nil:
		return isNull(api, "ptrs")
	case sizes == nil:
		return isNull(api, "sizes")
	case prefetchLocs == nil:
		return isNull(api, "prefetchLocs")
	case prefetchLocIdxs == nil:
		return isNull(api, "prefetchLocIdxs")
	case count == 0:
		return invalid(api, "count", "is 0")
	case numPrefetchLocs == 0:
		return invalid(api, "numPrefetchLocs", "is 0")
	case flags != 0:
		return invalid(api, "flags", "%#x is reserved and must be 0", flags)
	case count < numPrefetchLocs:
		return invalid(api, "numPrefetchLocs", "%d places for %d ranges", numPrefetchLocs, count)
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	indexes := array(prefetchLocIdxs, numPrefetchLocs)
	if indexes[0] != 0 {
		return refused(api, "prefetchLocIdxs", "is %d: the first place is that of range 0", indexes[0]).at(0)
	}
	var list []prefetchRange // grows with what is there: the number may be wrong
	lengths := array(sizes, count)
	for i, p := range array(ptrs, count) {
		if p == 0 {
			return refused(api, "ptrs", "is NULL").at(i)
		}
		list = append(list, prefetchRange{addr: p, size: lengths[i]})
	}
	for k, first := range indexes {
		if first >= count {
			return refused(api, "prefetchLocIdxs", "is %d, but there are %d ranges", first, count).at(k)
		}
		if k > 0 && first <= indexes[k-1] {
			return refused(api, "prefetchLocIdxs", "is %d, not larger than the one before, %d", first, indexes[k-1]).at(k)
		}
	}
	for k, l := range array(prefetchLocs, numPrefetchLocs) {
		if err := t.managedDevice(api, "prefetchLocs", l); err != nil {
			return err.at(k)
		}
		last := count
		if k+1 < len(indexes) {
			last = indexes[k+1]
		}
		for i := indexes[k]; i < last; i++ {
			list[i].location = l
		}
	}
	if err := t.prefetchStream(api, s); err != nil {
		return err
	}
	return t.prefetch(api, s, list, "prefetchLocs")
}
