package transfer

import (
	"fmt"
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
)

// noIndex is the value of *failIndex if no segment is at fault.
const noIndex = ^uint64(0)

// An asynchronous batch is queued in slices: firstSlice bytes, so that they run while the rest is checked, then twice
// as many each time, up to lastSlice, because every slice has a cost in the driver.
const (
	firstSlice = 4 << 20
	lastSlice  = 64 << 20
)

// maxSyncBatch is the most segments of a synchronous batch.
const maxSyncBatch = 4096

// batch has the arguments of a batch call.
type batch struct {
	api       string
	dsts      *core.Addr
	destMaxs  *uint64
	srcs      *core.Addr
	sizes     *uint64
	n         uint64
	attrs     *abi.MemcpyBatchAttr
	indexes   *uint64
	numAttrs  uint64
	failIndex *uint64 // nil in the V2 calls

	epoch uint64 // the driver's, at the start of the call
	// direction of the segments seen so far: above 0 to the device, below 0 from it, 0 if there was none
	way          int
	dst, src     []core.Addr
	size         []uint64
	attr         []abi.MemcpyBatchAttr
	attrsIndexes []uint64
}

// MemcpyBatch is aclrtMemcpyBatch: all segments have arrived when it returns.
func MemcpyBatch(t *core.Thread, dsts *core.Addr, destMaxs *uint64, srcs *core.Addr, sizes *uint64, numBatches uint64,
	attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64) *core.Error {
	b := batch{api: "aclrtMemcpyBatch", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches,
		attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs, failIndex: failIndex}
	b.fault(noIndex)
	if err := checkMemcpyBatch(t, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs,
		failIndex); err != nil {
		return err
	}
	return boundedBatch(t, batchNow(t, &b), &b)
}

// MemcpyBatchV2 is aclrtMemcpyBatchV2: MemcpyBatch without failIndex.
func MemcpyBatchV2(t *core.Thread, dsts *core.Addr, destMaxs *uint64, srcs *core.Addr, sizes *uint64, numBatches uint64,
	attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64) *core.Error {
	b := batch{api: "aclrtMemcpyBatchV2", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches,
		attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs}
	if err := checkMemcpyBatchV2(t, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes,
		numAttrs); err != nil {
		return err
	}
	return boundedBatch(t, batchNow(t, &b), &b)
}

// MemcpyBatchAsync is aclrtMemcpyBatchAsync: it queues the segments, which may run in any order among themselves.
func MemcpyBatchAsync(t *core.Thread, dsts *core.Addr, destMaxs *uint64, srcs *core.Addr, sizes *uint64,
	numBatches uint64, attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64,
	stream core.Handle) *core.Error {
	b := batch{api: "aclrtMemcpyBatchAsync", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches,
		attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs, failIndex: failIndex}
	b.fault(noIndex)
	if err := checkMemcpyBatchAsync(t, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs,
		failIndex, stream); err != nil {
		return err
	}
	return boundedBatch(t, batchAsync(t, &b, stream), &b)
}

// MemcpyBatchAsyncV2 is aclrtMemcpyBatchAsyncV2: MemcpyBatchAsync without failIndex.
func MemcpyBatchAsyncV2(t *core.Thread, dsts *core.Addr, destMaxs *uint64, srcs *core.Addr, sizes *uint64,
	numBatches uint64, attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64,
	stream core.Handle) *core.Error {
	b := batch{api: "aclrtMemcpyBatchAsyncV2", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches,
		attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs}
	if err := checkMemcpyBatchAsyncV2(t, dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs,
		stream); err != nil {
		return err
	}
	return boundedBatch(t, batchAsync(t, &b, stream), &b)
}

// boundedBatch is bounded for the segments of a batch.
func boundedBatch(t *core.Thread, err *core.Error, b *batch) *core.Error {
	// without dst there was nothing to copy
	if !t.Runtime.Checked() || err != nil || b.dst == nil || b.destMaxs == b.sizes {
		return err
	}
	for i, most := range core.ArrayOf(t, b.destMaxs, b.n) {
		t.Bounded(nil, fmt.Sprintf("destMaxs[%d]", i), b.dst[i], most, b.size[i])
	}
	return nil
}

// check makes the checks of the ACL layer and of the product. nothing is true if there is nothing to copy.
func (b *batch) check(t *core.Thread) (nothing bool, err *core.Error) {
	b.epoch = t.Runtime.Epoch.Load()
	b.size = core.ArrayOf(t, b.sizes, b.n)
	if allZero(b.size) {
		return true, nil
	}
	switch {
	case b.dsts == nil:
		return false, core.IsNull(b.api, "dsts")
	case b.destMaxs == nil:
		return false, core.IsNull(b.api, "destMaxs")
	case b.srcs == nil:
		return false, core.IsNull(b.api, "srcs")
	case b.attrs == nil:
		return false, core.IsNull(b.api, "attrs")
	case b.indexes == nil:
		return false, core.IsNull(b.api, "attrsIndexes")
	}
	b.dst, b.src = core.ArrayOf(t, b.dsts, b.n), core.ArrayOf(t, b.srcs, b.n)
	if b.destMaxs != b.sizes { // most programs pass one array as both
		maxs := core.ArrayOf(t, b.destMaxs, b.n)
		if i := firstOver(b.size, maxs); i < len(maxs) {
			return false, core.Invalid(b.api, "sizes", "%d bytes do not fit into destMaxs[%d], %d", b.size[i], i,
				maxs[i]).At(i).Because(core.OutOfBounds, 0).Of(b.dst[i], b.size[i])
		}
	}
	k := min(b.numAttrs, b.n) // more are refused below, and need not exist
	b.attr, b.attrsIndexes = core.ArrayOf(t, b.attrs, k), core.ArrayOf(t, b.indexes, k)
	for k := range b.attr {
		if b.attr[k].Rsv != [16]uint8{} {
			return false, core.Invalid(b.api, "attrs", "has a reserved byte that is not 0").At(k)
		}
	}
	if !t.Runtime.Product.Batch || t.Runtime.OneMemory {
		return false, core.Unsupported(b.api, "", "%s has no batch copies", t.Runtime.Product.Name)
	}
	return false, nil
}

func allZero(list []uint64) bool {
	for _, n := range list {
		if n != 0 {
			return false
		}
	}
	return true
}

// checkAttrs makes the runtime's checks of the attribute arrays. most, if not 0, bounds numBatches.
func (b *batch) checkAttrs(most uint64) *core.Error {
	switch {
	case b.numAttrs == 0:
		return core.Refused(b.api, "numAttrs", "is 0: every segment needs an attribute")
	case b.numAttrs > b.n:
		return core.Refused(b.api, "numAttrs", "%d attributes for %d segments", b.numAttrs, b.n)
	case most != 0 && b.n > most:
		return core.Refused(b.api, "numBatches", "%d segments are more than %d", b.n, most)
	case b.attrsIndexes[0] != 0:
		return core.Refused(b.api, "attrsIndexes", "is %d: the first attribute starts at segment 0",
			b.attrsIndexes[0]).At(0)
	}
	for k, first := range b.attrsIndexes {
		if k > 0 && first <= b.attrsIndexes[k-1] {
			return core.Refused(b.api, "attrsIndexes", "is %d, not larger than the one before, %d", first,
				b.attrsIndexes[k-1]).At(k)
		}
		if first >= b.n {
			return core.Refused(b.api, "attrsIndexes", "is %d, but there are %d segments", first, b.n).At(k)
		}
	}
	return nil
}

// segment validates segment i against its attribute and against the direction of those before it. The direction of a
// segment depends only on its attribute, so each has to check only the first one of an attribute.
func (b *batch) segment(i int, a *abi.MemcpyBatchAttr, to, from *core.LocationCache) (dst, src driver.Location,
	err *core.Error) {
	dst = to.Find(b.dst[i], b.epoch)
	switch {
	case dst.Place == driver.Nowhere:
		return dst, src, core.NoMemory(b.api, "dsts", b.dst[i])
	case !to.Runtime.Matches(a.DstLoc, dst):
		return dst, src, declared(to.Runtime, b.api, "dsts", a.DstLoc, b.dst[i], dst)
	}
	src = from.Find(b.src[i], b.epoch)
	switch {
	case src.Place == driver.Nowhere:
		return dst, src, core.NoMemory(b.api, "srcs", b.src[i])
	case !from.Runtime.Matches(a.SrcLoc, src):
		return dst, src, declared(from.Runtime, b.api, "srcs", a.SrcLoc, b.src[i], src)
	}
	way := side(dst.Place) - side(src.Place)
	switch {
	case way == 0:
		return dst, src, core.Refused(b.api, "dsts", "both ends are %s: a batch copies between host and device",
			core.PlaceName(dst.Place)).Because(core.SameSides(dst.Place), b.dst[i])
	case b.way == 0:
		b.way = way
	case (way > 0) != (b.way > 0):
		return dst, src, core.Refused(b.api, "dsts",
			"goes %s, the segments before it %s: a batch has one direction", wayName(way), wayName(b.way)).
			Because(core.BothWays, 0).Of(b.dst[i], b.size[i])
	}
	return dst, src, nil
}

// side returns a number that is larger for places nearer to the device. Managed memory counts as the device's in a copy
// with host memory, and as the host's in one with device memory.
func side(p driver.Place) int {
	switch p {
	case driver.OnDevice:
		return 2
	case driver.Managed:
		return 1
	}
	return 0
}

// wayName returns the name of a direction; way is above 0 if the destination is nearer to the device than the source.
func wayName(way int) string {
	if way > 0 {
		return "from host to device"
	}
	return "from device to host"
}

func declared(rt *core.Runtime, api, arg string, want abi.MemLocation, addr core.Addr, l driver.Location) *core.Error {
	is := core.PlaceName(l.Place)
	if l.Place == driver.OnDevice {
		return core.Refused(api, arg, "%#x is %s of device %s, but the attribute says %v %d", addr, is,
			core.DeviceName(rt.ByPhys(l.Device)), want.Type, want.ID).Because(core.WrongDirection, addr)
	}
	return core.Refused(api, arg, "%#x is %s, but the attribute says %v", addr, is,
		want.Type).Because(core.WrongDirection, addr)
}

// fits refuses a segment that extends past the end of an allocation. Neither an attribute nor a direction is wrong, so
// failIndex stays noIndex.
func (b *batch) fits(i int, dst, src driver.Location) *core.Error {
	n := b.size[i]
	if dst.Place != driver.Pageable && dst.Room < n {
		return core.TooShort(b.api, "dsts", b.dst[i], n, dst).At(i)
	}
	if src.Place != driver.Pageable && src.Room < n {
		return core.TooShort(b.api, "srcs", b.src[i], n, src).At(i)
	}
	return nil
}

// end returns the end of the segments of attribute k.
func (b *batch) end(k int) uint64 {
	if k+1 < len(b.attrsIndexes) {
		return b.attrsIndexes[k+1]
	}
	return b.n
}

// each handles the segments in order until f fails. Segments in the same memory as earlier ones with the same attribute
// are valid, and go to q at once; f checks the others, and reports whether both ends are in the memory of to and from.
func (b *batch) each(q *batchQueue, to, from *core.LocationCache,
	f func(i int, a *abi.MemcpyBatchAttr) (known bool, err *core.Error)) *core.Error {
	var goodDst, goodSrc windows
	for k := range b.attr {
		if k == 0 || b.attr[k] != b.attr[k-1] {
			goodDst, goodSrc = windows{}, windows{}
		}
		last := b.end(k)
		for i := b.attrsIndexes[k]; i < last; {
			if goodDst.seek(b.dst[i], b.size[i]) && goodSrc.seek(b.src[i], b.size[i]) {
				if n := addRun(q.segs, b.dst[i:last], b.src[i:last], b.size[i:last], goodDst.now, goodSrc.now,
					q.slice); n > 0 {
					i += n
					continue
				}
			}
			known, err := f(int(i), &b.attr[k])
			if err != nil {
				return err
			}
			if known {
				goodDst.learn(windowOf(to))
				goodSrc.learn(windowOf(from))
			}
			i++
		}
	}
	return nil
}

// fault sets *failIndex, if the call has one.
func (b *batch) fault(i uint64) {
	if b.failIndex != nil {
		*b.failIndex = i
	}
}

// at records that segment i is at fault.
func (b *batch) at(i int, err *core.Error) *core.Error {
	b.fault(uint64(i))
	return err.At(i)
}

// batchNow copies all segments before it returns; nothing is copied unless all are valid.
func batchNow(t *core.Thread, b *batch) *core.Error {
	nothing, err := b.check(t)
	if err != nil || nothing {
		return err
	}
	if err := b.checkAttrs(maxSyncBatch); err != nil {
		return err
	}
	return copySegments(t, b)
}

// copySegments validates all segments and then copies them in the calling thread. Segments of size 0 copy nothing.
func copySegments(t *core.Thread, b *batch) *core.Error {
	q := batchQueue{segs: driver.NewSegments(), slice: math.MaxUint64}
	defer q.segs.Release()
	to, from := core.LocationCache{Runtime: t.Runtime}, core.LocationCache{Runtime: t.Runtime}
	err := b.each(&q, &to, &from, func(i int, a *abi.MemcpyBatchAttr) (known bool, err *core.Error) {
		if b.dst[i] == 0 || b.src[i] == 0 {
			return false, b.at(i, core.Refused(b.api, "dsts", "an address of the segment is NULL"))
		}
		dst, src, err := b.segment(i, a, &to, &from)
		if err != nil {
			return false, b.at(i, err)
		}
		if err := b.fits(i, dst, src); err != nil {
			return false, err
		}
		if b.size[i] > 0 {
			q.segs.Add(b.dst[i], b.src[i], b.size[i])
		}
		return dst.Place != driver.Pageable && src.Place != driver.Pageable, nil
	})
	if err != nil {
		return err
	}
	return t.Run(b.api, driver.Op{Kind: driver.OpBatch, Segs: q.segs})
}

// batchAsync queues the segments. On A2 and A3 each is validated and submitted in turn, so those before a bad one are
// queued (and pageable ones copied) when the call fails; on 950 nothing is.
func batchAsync(t *core.Thread, b *batch, stream core.Handle) *core.Error {
	nothing, err := b.check(t)
	if err != nil || nothing {
		return err
	}
	s, err := t.Stream(b.api, "stream", stream)
	if err != nil {
		return err
	}
	if err := b.checkAttrs(0); err != nil {
		return err
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(b.api)
	}
	if s == nil {
		s = c.Default
	}
	q := batchQueue{c: c, s: s, whole: t.Runtime.Product.UB, slice: firstSlice}
	if q.whole || t.Runtime.Checked() {
		q.slice = math.MaxUint64
	}
	if q.whole {
		if _, err := c.On(b.api, s); err != nil {
			return err
		}
	}
	q.segs = driver.NewSegments()
	err = queueBatch(t, b, &q)
	q.segs.Release()
	return err
}

// batchQueue is a batch on its way to a stream. A synchronous one has only segs and slice.
type batchQueue struct {
	c        *core.Context
	s        *core.Stream
	whole    bool             // over UB: validate all first
	pageable bool             // a segment of a whole batch has pageable memory
	segs     *driver.Segments // valid segments that were not submitted yet
	slice    uint64           // segs are submitted once they have this many bytes
}

// queueBatch validates and queues segment by segment.
func queueBatch(t *core.Thread, b *batch, q *batchQueue) *core.Error {
	to, from := core.LocationCache{Runtime: t.Runtime}, core.LocationCache{Runtime: t.Runtime}
	err := b.each(q, &to, &from, func(i int, a *abi.MemcpyBatchAttr) (known bool, err *core.Error) {
		queue, err := queueSegment(t, b, q, i, a, &to, &from)
		if err != nil {
			if e := submitBatch(t, b, q); e != nil {
				b.fault(noIndex) // earlier segments could not be queued; no segment is at fault
				return false, e
			}
			return false, err
		}
		if !queue {
			return false, nil
		}
		q.segs.Add(b.dst[i], b.src[i], b.size[i])
		if q.segs.Bytes >= q.slice { // valid segments can run while the rest is checked
			if err := submitBatch(t, b, q); err != nil {
				return false, err
			}
			q.slice = min(2*q.slice, lastSlice)
		}
		return !q.pageable, nil
	})
	if err != nil {
		return err
	}
	if q.pageable {
		return batchTogether(t, b, q)
	}
	q.whole = false
	return submitBatch(t, b, q)
}

// queueSegment validates segment i in full. It reports whether the segment is to be queued; a pageable one has been
// copied.
func queueSegment(t *core.Thread, b *batch, q *batchQueue, i int, a *abi.MemcpyBatchAttr, to,
	from *core.LocationCache) (queue bool, err *core.Error) {
	switch {
	case b.size[i] == 0:
		return false, b.at(i, core.Refused(b.api, "sizes", "is 0"))
	case b.src[i] == 0:
		return false, b.at(i, core.Refused(b.api, "srcs", "is NULL"))
	case b.dst[i] == 0:
		return false, b.at(i, core.Refused(b.api, "dsts", "is NULL"))
	}
	dst, src, err := b.segment(i, a, to, from)
	if err != nil {
		return false, b.at(i, err)
	}
	pageable := dst.Place == driver.Pageable || src.Place == driver.Pageable
	if !pageable {
		if _, err := q.c.On(b.api, q.s); err != nil {
			return false, err
		}
	}
	if err := b.fits(i, dst, src); err != nil {
		return false, err
	}
	if pageable && q.whole {
		q.pageable = true
		return true, nil
	}
	if pageable {
		return false, copySegment(t, b, q, i)
	}
	return true, nil
}

// submitBatch queues the valid segments so far, unless the batch is queued as a whole.
func submitBatch(t *core.Thread, b *batch, q *batchQueue) *core.Error {
	if len(q.segs.List) == 0 || q.whole {
		return nil
	}
	if err := q.s.Admit(b.api); err != nil {
		return err
	}
	segs := q.segs
	q.segs = driver.NewSegments()
	return q.s.Launch(b.api, t, core.Task{Op: driver.Op{Kind: driver.OpBatch, Segs: segs}})
}

// copySegment copies pageable segment i in the calling thread, after everything queued.
func copySegment(t *core.Thread, b *batch, q *batchQueue, i int) *core.Error {
	if err := submitBatch(t, b, q); err != nil {
		return err
	}
	op := driver.Op{Kind: driver.OpCopy, Dst: b.dst[i], Src: b.src[i], N: b.size[i]}
	return copyAfter(t, b.api, q.c, q.s, op, abi.ErrRTCaptureModeNotSupport)
}

// batchTogether copies the whole batch in the calling thread: one pageable segment makes a 950 do so.
func batchTogether(t *core.Thread, b *batch, q *batchQueue) *core.Error {
	if b.n > maxSyncBatch {
		return core.Unsupported(b.api, "numBatches", "%d segments with pageable memory among them are more than %d",
			b.n, maxSyncBatch).NotRecorded()
	}
	return copyPageable(t, b.api, q.c, q.s, driver.Op{Kind: driver.OpBatch, Segs: q.segs})
}
