package memory

import (
	"fmt"
	"math/bits"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// Managed memory has one address for the host and all devices. The driver allocates it (driver.ManagedAllocator);
// copies and fills use it like other memory, in the order of the stream. The effects of advice and prefetches are
// recorded here, page by page; the driver decides the place of memory.

// managedPage is the granularity of managed memory and of its attributes.
const managedPage = 2 << 20

// Values of attributes that are places.
const (
	atHost  = -1
	nowhere = -2 // not set, or the pages disagree
)

// managedState holds the allocations of managed memory.
type managedState struct {
	mu    sync.Mutex
	spans map[core.Addr]*managedSpan // guarded by mu; by start address
}

// managedSpan is one allocation.
type managedSpan struct {
	start  core.Addr    // immutable
	number uint64       // immutable; number of pages
	pages  []pageAdvice // guarded by managedState.mu; nil before the first advice
}

// pageAdvice is the advice for a page of managed memory.
type pageAdvice struct {
	readMostly bool
	byHost     bool   // the host is going to access it
	byDevices  uint64 // these devices are going to access it, by user id
	preferred  managedPlace
	fetched    managedPlace // place of the last prefetch
}

// managedPlace is a place; the zero value is none.
type managedPlace struct {
	kind abi.MemManagedLocationType // never HOST_NUMA_CURRENT
	id   int32
}

// manager returns the driver's managed memory, if the product has it as well.
func manager(rt *core.Runtime) (driver.ManagedAllocator, bool) {
	m := rt.Caps.Managed
	return m, m != nil && rt.Product.Managed
}

func noManaged(t *core.Thread, api string) *core.Error {
	return core.Unsupported(api, "", "%s on driver %s has no managed memory; A2 and A3 have", t.Runtime.Product.Name,
		t.Runtime.Driver.Name())
}

// MemAllocManaged is aclrtMemAllocManaged.
func MemAllocManaged(t *core.Thread, ptr *core.Addr, size uint64, flag uint32) *core.Error {
	const api = "aclrtMemAllocManaged"
	c, failed := checkMemAllocManaged(t, ptr, size, flag)
	if failed != nil {
		return failed
	}
	m, ok := manager(t.Runtime)
	if !ok {
		return noManaged(t, api)
	}
	sum, carry := bits.Add64(size, managedPage-1, 0)
	if carry != 0 {
		return core.Fail(api, abi.ErrRTMemoryAllocation, "size",
			"%d bytes of managed memory wanted, more than there are addresses", size)
	}
	n := sum &^ (managedPage - 1)
	a, err := m.AllocManaged(n, int(c.Device.Phys))
	if err != nil {
		e := core.FromDriver(api, "size", err)
		e.Text = byteCount(size) + " of managed memory wanted"
		return e
	}
	s := &memoryOf(t.Runtime).managed
	core.Locked(&s.mu, func() {
		if s.spans == nil {
			s.spans = map[core.Addr]*managedSpan{}
		}
		s.spans[a] = &managedSpan{start: a, number: n / managedPage}
	})
	*ptr = a
	t.Acquired(core.Resource{Kind: core.ManagedMemory, Name: a, Size: size, Device: c.Device.User})
	return nil
}

// freeManaged frees managed memory.
func freeManaged(t *core.Thread, api, arg string, p core.Addr, l driver.Location) *core.Error {
	s := &memoryOf(t.Runtime).managed
	user := int32(0)
	if d := t.Runtime.ByPhys(l.Device); d != nil {
		user = d.User
	}
	return t.Releasing(core.Resource{Kind: core.ManagedMemory, Name: p, Device: user}, func() *core.Error {
		var span *managedSpan
		core.Locked(&s.mu, func() {
			span = s.spans[p]
			delete(s.spans, p) // before the address can be used again
		})
		m, ok := manager(t.Runtime)
		if span == nil || !ok {
			return freeError(t.Runtime, api, arg, p, driver.ErrNotAllocated)
		}
		return freeError(t.Runtime, api, arg, p, m.FreeManaged(p))
	})
}

// LaunchManaged puts a copy or a fill of managed memory on a stream. It counts as a host function, as on hardware where
// memory migrates.
func LaunchManaged(t *core.Thread, api string, s *core.Stream, op driver.Op) *core.Error {
	if err := s.TakesFunctions(api); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	return s.Launch(api, t, core.Task{Op: op})
}

// managedIn returns the pages that contain the n bytes at addr, the first and their number, if all are in one
// allocation.
func managedIn(rt *core.Runtime, addr core.Addr, n uint64) (span *managedSpan, first, number uint64, ok bool) {
	al := rt.Driver.Describe(addr)
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

// change changes the advice of some pages of a span.
func (s *managedState) change(span *managedSpan, first, number uint64, f func(*pageAdvice)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if span.pages == nil {
		span.pages = make([]pageAdvice, span.number)
	}
	for i := range span.pages[first : first+number] {
		f(&span.pages[first+uint64(i)])
	}
}

// each calls f with the advice of some pages of a span.
func (s *managedState) each(span *managedSpan, first, number uint64, f func(pageAdvice)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if span.pages == nil {
		f(pageAdvice{})
		return
	}
	for _, p := range span.pages[first : first+number] {
		f(p)
	}
}

// notManaged returns the error for a range that is not entirely managed memory.
func notManaged(rt *core.Runtime, api, arg string, addr core.Addr, n uint64) *core.Error {
	if l := rt.Driver.Locate(addr); l.Place == driver.Managed {
		return core.TooShort(api, arg, addr, n, l)
	}
	return core.Refused(api, arg, "%#x is no managed memory", addr)
}

// managedDevice refuses a device that does not exist.
func managedDevice(t *core.Thread, api, arg string, l abi.MemManagedLocation) *core.Error {
	if l.Type == abi.MemManagedLocationTypeDevice && t.Runtime.Device(l.ID) == nil {
		return core.Refused(api, arg, "%d is no device; %s", l.ID, t.Runtime.DeviceRange())
	}
	return nil
}

// managedPlaceOf converts a location to a place; false if it is not one.
func managedPlaceOf(t *core.Thread, l abi.MemManagedLocation) (managedPlace, bool) {
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
func MemManagedAdvise(t *core.Thread, ptr core.Addr, size uint64, advise abi.MemManagedAdviseType,
	location abi.MemManagedLocation) *core.Error {
	const api = "aclrtMemManagedAdvise"
	if err := checkMemManagedAdvise(t, ptr, size, advise, location); err != nil {
		return err
	}
	kind := abi.MemManagedAdviseType(uint16(advise))
	if kind > abi.MemAdviseUnsetAccessedBy {
		return core.Refused(api, "advise", "%d is not 0 to 5", kind)
	}
	if err := managedDevice(t, api, "location", location); err != nil {
		return err
	}
	if t.Current() == nil {
		return core.NoCurrentContext(api)
	}
	if _, ok := manager(t.Runtime); !ok {
		return noManaged(t, api).NotRecorded()
	}
	span, first, number, ok := managedIn(t.Runtime, ptr, size)
	if !ok {
		return notManaged(t.Runtime, api, "ptr", ptr, size)
	}
	change, err := advice(t, api, kind, location)
	if err != nil {
		return err
	}
	if t.Runtime.Strict && size%advicePage != 0 {
		return core.Refused(api, "size", "%d is not a multiple of 2 MiB", size)
	}
	memoryOf(t.Runtime).managed.change(span, first, number, change)
	return nil
}

// advicePage is the granularity that the documents require of the size of advice.
const advicePage = 2 << 20

// advice returns a function that applies a piece of advice to a page.
func advice(t *core.Thread, api string, kind abi.MemManagedAdviseType,
	location abi.MemManagedLocation) (func(*pageAdvice), *core.Error) {
	switch kind {
	case abi.MemAdviseSetReadMostly, abi.MemAdviseUnsetReadMostly: // the same everywhere
		return func(p *pageAdvice) { p.readMostly = kind == abi.MemAdviseSetReadMostly }, nil
	case abi.MemAdviseUnsetPreferredLocation: // for any location
		return func(p *pageAdvice) { p.preferred = managedPlace{} }, nil
	}
	place, ok := managedPlaceOf(t, location)
	if !ok {
		return nil, core.Refused(api, "location", "type %v, id %d is no place", location.Type, location.ID)
	}
	set := kind == abi.MemAdviseSetAccessedBy
	switch {
	case kind == abi.MemAdviseSetPreferredLocation:
		return func(p *pageAdvice) { p.preferred = place }, nil
	case place.kind == abi.MemManagedLocationTypeHost:
		return func(p *pageAdvice) { p.byHost = set }, nil
	case place.kind == abi.MemManagedLocationTypeHostNuma:
		return nil, core.Refused(api, "location",
			"memory is accessed by a device or the host, not by one of its NUMA nodes")
	case set:
		return func(p *pageAdvice) { p.byDevices |= 1 << place.id }, nil
	}
	return func(p *pageAdvice) { p.byDevices &^= 1 << place.id }, nil
}

// MemManagedPrefetchAsync is aclrtMemManagedPrefetchAsync. The address always has the same memory, so nothing moves:
// the place is recorded when the stream reaches the task.
func MemManagedPrefetchAsync(t *core.Thread, ptr core.Addr, size uint64, location abi.MemManagedLocation, flags uint32,
	stream core.Handle) *core.Error {
	const api = "aclrtMemManagedPrefetchAsync"
	s, err := checkMemManagedPrefetchAsync(t, ptr, size, location, flags, stream)
	if err != nil {
		return err
	}
	if err := prefetchStream(t, api, s); err != nil {
		return err
	}
	if err := managedDevice(t, api, "location", location); err != nil {
		return err
	}
	return prefetch(t, api, s, []prefetchRange{{ptr, size, location}}, "location")
}

// prefetchStream refuses the NULL stream if there is no default stream.
func prefetchStream(t *core.Thread, api string, s *core.Stream) *core.Error {
	if s == nil && (t.Current() == nil || !t.Runtime.Product.Modern) {
		return core.Fail(api, abi.ErrRTInternalError, "stream",
			"is NULL, and there is no default stream that could be meant")
	}
	return nil
}

// prefetchRange is memory to prefetch and its destination.
type prefetchRange struct {
	addr     core.Addr
	size     uint64
	location abi.MemManagedLocation
}

// prefetch queues prefetches whose devices exist; arg is the argument with their locations.
func prefetch(t *core.Thread, api string, s *core.Stream, list []prefetchRange, arg string) *core.Error {
	if _, ok := manager(t.Runtime); !ok {
		return noManaged(t, api).NotRecorded()
	}
	places := make([]managedPlace, len(list))
	for i, r := range list {
		place, ok := managedPlaceOf(t, r.location)
		if !ok {
			return core.Refused(api, arg, "type %v, id %d is no place", r.location.Type, r.location.ID)
		}
		places[i] = place
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	s, err := c.On(api, s)
	if err != nil {
		return err
	}
	if err := s.TakesFunctions(api); err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	rt := t.Runtime
	// It has no addresses, because it touches no memory.
	op := driver.Op{Kind: driver.OpCompute, Work: func() error { return prefetched(rt, list, places) }}
	return s.Launch(api, t, core.Task{Op: op, Kind: observe.Prefetch})
}

// prefetched carries out a prefetch.
func prefetched(rt *core.Runtime, list []prefetchRange, places []managedPlace) error {
	for i, r := range list {
		if r.size == 0 {
			continue
		}
		span, first, number, ok := managedIn(rt, r.addr, r.size)
		if !ok {
			return fmt.Errorf("%w: prefetch of %d bytes at %#x, which are no managed memory", driver.ErrFault, r.size,
				r.addr)
		}
		memoryOf(rt).managed.change(span, first, number, func(p *pageAdvice) { p.fetched = places[i] })
	}
	return nil
}

// MemManagedPrefetchBatchAsync is aclrtMemManagedPrefetchBatchAsync.
func MemManagedPrefetchBatchAsync(t *core.Thread, ptrs *core.Addr, sizes *uint64, count uint64,
	prefetchLocs *abi.MemManagedLocation, prefetchLocIdxs *uint64, numPrefetchLocs, flags uint64,
	stream core.Handle) *core.Error {
	const api = "aclrtMemManagedPrefetchBatchAsync"
	s, err := checkMemManagedPrefetchBatchAsync(t, ptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs,
		flags, stream)
	if err != nil {
		return err
	}
	indexes := core.Array(prefetchLocIdxs, numPrefetchLocs)
	if indexes[0] != 0 {
		return core.Refused(api, "prefetchLocIdxs", "is %d: the first place is that of range 0", indexes[0]).At(0)
	}
	var list []prefetchRange // grows as it is read: the number may be wrong
	lengths := core.Array(sizes, count)
	for i, p := range core.Array(ptrs, count) {
		if p == 0 {
			return core.Refused(api, "ptrs", "is NULL").At(i)
		}
		list = append(list, prefetchRange{addr: p, size: lengths[i]})
	}
	for k, first := range indexes {
		if first >= count {
			return core.Refused(api, "prefetchLocIdxs", "is %d, but there are %d ranges", first, count).At(k)
		}
		if k > 0 && first <= indexes[k-1] {
			return core.Refused(api, "prefetchLocIdxs", "is %d, not larger than the one before, %d", first,
				indexes[k-1]).At(k)
		}
	}
	for k, l := range core.Array(prefetchLocs, numPrefetchLocs) {
		if err := managedDevice(t, api, "prefetchLocs", l); err != nil {
			return err.At(k)
		}
		last := count
		if k+1 < len(indexes) {
			last = indexes[k+1]
		}
		for i := indexes[k]; i < last; i++ {
			list[i].location = l
		}
	}
	if err := prefetchStream(t, api, s); err != nil {
		return err
	}
	return prefetch(t, api, s, list, "prefetchLocs")
}
