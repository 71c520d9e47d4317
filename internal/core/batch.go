package core

import (
	"fmt"
	"math"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
)

// noIndex in *failIndex says that no segment is at fault.
const noIndex = ^uint64(0)

// An asynchronous batch is queued in slices: firstSlice bytes, so that they run while the rest is looked at, then twice as many each time, up
// to lastSlice, because every slice costs a driver something.
const (
	firstSlice = 4 << 20
	lastSlice  = 64 << 20
)

// maxSyncBatch is how many segments a synchronous batch may have.
const maxSyncBatch = 4096

// batch is the arguments of a batch call.
type batch struct {
	api       string
	dsts      *Addr
	destMaxs  *uint64
	srcs      *Addr
	sizes     *uint64
	n         uint64
	attrs     *abi.MemcpyBatchAttr
	indexes   *uint64
	numAttrs  uint64
	failIndex *uint64 // nil in the V2 calls

	epoch        uint64 // of the driver, when the call began
	way          int    // direction of the segments seen so far: above 0 to the device, below 0 from it, 0 if there was none
	dst, src     []Addr
	size         []uint64
	attr         []abi.MemcpyBatchAttr
	attrsIndexes []uint64
}

// MemcpyBatch is aclrtMemcpyBatch: all segments have arrived when it returns.
func (t *Thread) MemcpyBatch(dsts *Addr, destMaxs *uint64, srcs *Addr, sizes *uint64, numBatches uint64, attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64) *Error {
	b := batch{api: "aclrtMemcpyBatch", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches, attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs, failIndex: failIndex}
	if failIndex == nil {
		return isNull(b.api, "failIndex")
	}
	b.fault(noIndex)
	return t.boundedBatch(t.batchNow(&b), &b)
}

// MemcpyBatchV2 is aclrtMemcpyBatchV2: MemcpyBatch without failIndex.
func (t *Thread) MemcpyBatchV2(dsts *Addr, destMaxs *uint64, srcs *Addr, sizes *uint64, numBatches uint64, attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64) *Error {
	b := batch{api: "aclrtMemcpyBatchV2", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches, attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs}
	return t.boundedBatch(t.batchNow(&b), &b)
}

// MemcpyBatchAsync is aclrtMemcpyBatchAsync: it queues the segments, which may run in any order among themselves.
func (t *Thread) MemcpyBatchAsync(dsts *Addr, destMaxs *uint64, srcs *Addr, sizes *uint64, numBatches uint64, attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, failIndex *uint64, stream Handle) *Error {
	b := batch{api: "aclrtMemcpyBatchAsync", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches, attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs, failIndex: failIndex}
	if failIndex == nil {
		return isNull(b.api, "failIndex")
	}
	b.fault(noIndex)
	return t.boundedBatch(t.batchAsync(&b, stream), &b)
}

// MemcpyBatchAsyncV2 is aclrtMemcpyBatchAsyncV2: MemcpyBatchAsync without failIndex.
func (t *Thread) MemcpyBatchAsyncV2(dsts *Addr, destMaxs *uint64, srcs *Addr, sizes *uint64, numBatches uint64, attrs *abi.MemcpyBatchAttr, attrsIndexes *uint64, numAttrs uint64, stream Handle) *Error {
	b := batch{api: "aclrtMemcpyBatchAsyncV2", dsts: dsts, destMaxs: destMaxs, srcs: srcs, sizes: sizes, n: numBatches, attrs: attrs, indexes: attrsIndexes, numAttrs: numAttrs}
	return t.boundedBatch(t.batchAsync(&b, stream), &b)
}

// boundedBatch is bounded for the segments of a batch.
func (t *Thread) boundedBatch(err *Error, b *batch) *Error {
	if t.rt.watch == nil || err != nil || b.dst == nil || b.destMaxs == b.sizes { // without dst there was nothing to copy
		return err
	}
	for i, most := range arrayOf(t, b.destMaxs, b.n) {
		t.bounded(nil, fmt.Sprintf("destMaxs[%d]", i), b.dst[i], most, b.size[i])
	}
	return nil
}

// check is what the ACL layer looks at, and the product. nothing is true if there is nothing to copy.
func (b *batch) check(t *Thread) (nothing bool, err *Error) {
	if b.sizes == nil {
		return false, isNull(b.api, "sizes")
	}
	if b.n == 0 {
		return false, invalid(b.api, "numBatches", "is 0")
	}
	b.epoch = t.rt.epoch.Load()
	b.size = arrayOf(t, b.sizes, b.n)
	if allZero(b.size) {
		return true, nil
	}
	switch {
	case b.dsts == nil:
		return false, isNull(b.api, "dsts")
	case b.destMaxs == nil:
		return false, isNull(b.api, "destMaxs")
	case b.srcs == nil:
		return false, isNull(b.api, "srcs")
	case b.attrs == nil:
		return false, isNull(b.api, "attrs")
	case b.indexes == nil:
		return false, isNull(b.api, "attrsIndexes")
	}
	b.dst, b.src = arrayOf(t, b.dsts, b.n), arrayOf(t, b.srcs, b.n)
	if b.destMaxs != b.sizes { // most programs pass one array as both
		maxs := arrayOf(t, b.destMaxs, b.n)
		if i := firstOver(b.size, maxs); i < len(maxs) {
			return false, invalid(b.api, "sizes", "%d bytes do not fit into destMaxs[%d], %d", b.size[i], i, maxs[i]).at(i).because(OutOfBounds, 0).of(b.dst[i], b.size[i])
		}
	}
	k := min(b.numAttrs, b.n) // more are refused below, and need not be there
	b.attr, b.attrsIndexes = arrayOf(t, b.attrs, k), arrayOf(t, b.indexes, k)
	for k := range b.attr {
		if b.attr[k].Rsv != [16]uint8{} {
			return false, invalid(b.api, "attrs", "has a reserved byte that is not 0").at(k)
		}
	}
	if !t.rt.prod.Batch || t.rt.open {
		return false, unsupported(b.api, "", "%s has no batch copies", t.rt.prod.Name)
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

// checkAttrs is what the runtime looks at in the attribute arrays. most bounds numBatches if it is not 0.
func (b *batch) checkAttrs(most uint64) *Error {
	switch {
	case b.numAttrs == 0:
		return refused(b.api, "numAttrs", "is 0: every segment needs an attribute")
	case b.numAttrs > b.n:
		return refused(b.api, "numAttrs", "%d attributes for %d segments", b.numAttrs, b.n)
	case most != 0 && b.n > most:
		return refused(b.api, "numBatches", "%d segments are more than %d", b.n, most)
	case b.attrsIndexes[0] != 0:
		return refused(b.api, "attrsIndexes", "is %d: the first attribute starts at segment 0", b.attrsIndexes[0]).at(0)
	}
	for k, first := range b.attrsIndexes {
		if k > 0 && first <= b.attrsIndexes[k-1] {
			return refused(b.api, "attrsIndexes", "is %d, not larger than the one before, %d", first, b.attrsIndexes[k-1]).at(k)
		}
		if first >= b.n {
			return refused(b.api, "attrsIndexes", "is %d, but there are %d segments", first, b.n).at(k)
		}
	}
	return nil
}

// segment validates segment i against its attribute and against the direction of those before it. Which way a segment goes depends on its
// attribute alone, so each needs to ask only about the first one of an attribute.
func (b *batch) segment(i int, a *abi.MemcpyBatchAttr, to, from *places) (dst, src driver.Location, err *Error) {
	dst = to.find(b.dst[i], b.epoch)
	switch {
	case dst.Place == driver.Nowhere:
		return dst, src, noMemory(b.api, "dsts", b.dst[i])
	case !to.rt.matches(a.DstLoc, dst):
		return dst, src, to.rt.declared(b.api, "dsts", a.DstLoc, b.dst[i], dst)
	}
	src = from.find(b.src[i], b.epoch)
	switch {
	case src.Place == driver.Nowhere:
		return dst, src, noMemory(b.api, "srcs", b.src[i])
	case !from.rt.matches(a.SrcLoc, src):
		return dst, src, from.rt.declared(b.api, "srcs", a.SrcLoc, b.src[i], src)
	}
	way := side(dst.Place) - side(src.Place)
	switch {
	case way == 0:
		return dst, src, refused(b.api, "dsts", "both ends are %s: a batch copies between host and device", placeName(dst.Place)).because(sameSides(dst.Place), b.dst[i])
	case b.way == 0:
		b.way = way
	case (way > 0) != (b.way > 0):
		return dst, src, refused(b.api, "dsts", "segment %d goes %s, those before it %s: a batch has one direction", i, wayName(way), wayName(b.way)).because(BothWays, 0).of(b.dst[i], b.size[i])
	}
	return dst, src, nil
}

// side is how near to the device a place is. Managed memory is the device's beside host memory, and the host's beside device memory.
func side(p driver.Place) int {
	switch p {
	case driver.OnDevice:
		return 2
	case driver.Managed:
		return 1
	}
	return 0
}

// wayName is the direction of a segment whose destination is so much nearer to the device than its source.
func wayName(way int) string {
	if way > 0 {
		return "from host to device"
	}
	return "from device to host"
}

func (rt *Runtime) declared(api, arg string, want abi.MemLocation, addr Addr, l driver.Location) *Error {
	is := placeName(l.Place)
	if l.Place == driver.OnDevice {
		return refused(api, arg, "%#x is %s of device %s, but the attribute says %v %d", addr, is, deviceName(rt.byPhys(l.Device)), want.Type, want.ID).because(WrongDirection, addr)
	}
	return refused(api, arg, "%#x is %s, but the attribute says %v", addr, is, want.Type).because(WrongDirection, addr)
}

// fits refuses a segment that goes past the end of an allocation. Neither an attribute nor a direction is wrong, so failIndex stays noIndex.
func (b *batch) fits(i int, dst, src driver.Location) *Error {
	n := b.size[i]
	if dst.Place != driver.Pageable && dst.Room < n {
		return tooShort(b.api, "dsts", b.dst[i], n, dst).at(i)
	}
	if src.Place != driver.Pageable && src.Room < n {
		return tooShort(b.api, "srcs", b.src[i], n, src).at(i)
	}
	return nil
}

// end is where the segments of attribute k end.
func (b *batch) end(k int) uint64 {
	if k+1 < len(b.attrsIndexes) {
		return b.attrsIndexes[k+1]
	}
	return b.n
}

// each goes through the segments in order until f fails. Those that are certainly right, because they are where others with the same attribute
// were, go to q at once; f judges the rest, and tells whether both ends of one are where to and from found them.
func (b *batch) each(q *batchQueue, to, from *places, f func(i int, a *abi.MemcpyBatchAttr) (known bool, err *Error)) *Error {
	var goodDst, goodSrc windows
	for k := range b.attr {
		if k == 0 || b.attr[k] != b.attr[k-1] {
			goodDst, goodSrc = windows{}, windows{}
		}
		last := b.end(k)
		for i := b.attrsIndexes[k]; i < last; {
			if goodDst.seek(b.dst[i], b.size[i]) && goodSrc.seek(b.src[i], b.size[i]) {
				if n := addRun(q.segs, b.dst[i:last], b.src[i:last], b.size[i:last], goodDst.now, goodSrc.now, q.slice); n > 0 {
					i += n
					continue
				}
			}
			known, err := f(int(i), &b.attr[k])
			if err != nil {
				return err
			}
			if known {
				goodDst.learn(to.window())
				goodSrc.learn(from.window())
			}
			i++
		}
	}
	return nil
}

// fault sets *failIndex, where the call has one.
func (b *batch) fault(i uint64) {
	if b.failIndex != nil {
		*b.failIndex = i
	}
}

// at says that segment i is at fault.
func (b *batch) at(i int, err *Error) *Error {
	b.fault(uint64(i))
	return err.at(i)
}

// batchNow copies all segments before it returns; nothing is copied unless all are valid.
func (t *Thread) batchNow(b *batch) *Error {
	nothing, err := b.check(t)
	if err != nil || nothing {
		return err
	}
	if err := b.checkAttrs(maxSyncBatch); err != nil {
		return err
	}
	return t.copySegments(b)
}

// copySegments validates all segments and then copies them in the calling thread. Segments of size 0 copy nothing.
func (t *Thread) copySegments(b *batch) *Error {
	q := batchQueue{segs: driver.NewSegments(), slice: math.MaxUint64}
	defer q.segs.Release()
	to, from := places{rt: t.rt}, places{rt: t.rt}
	err := b.each(&q, &to, &from, func(i int, a *abi.MemcpyBatchAttr) (known bool, err *Error) {
		if b.dst[i] == 0 || b.src[i] == 0 {
			return false, b.at(i, refused(b.api, "dsts", "an address of the segment is NULL"))
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
	return t.run(b.api, driver.Op{Kind: driver.OpBatch, Segs: q.segs})
}

// batchAsync queues the segments. On A2 and A3 each is validated and submitted in turn, so those before a bad one are
// queued (and pageable ones copied) when the call fails; on 950 nothing is.
func (t *Thread) batchAsync(b *batch, stream Handle) *Error {
	nothing, err := b.check(t)
	if err != nil || nothing {
		return err
	}
	s, err := t.stream(b.api, "stream", stream)
	if err != nil {
		return err
	}
	if err := b.checkAttrs(0); err != nil {
		return err
	}
	c := t.current()
	if c == nil {
		return noContext(b.api)
	}
	if s == nil {
		s = c.def
	}
	q := batchQueue{c: c, s: s, whole: t.rt.prod.UB, slice: firstSlice}
	if q.whole || t.rt.watch != nil {
		q.slice = math.MaxUint64
	}
	if q.whole {
		if _, err := c.on(b.api, s); err != nil {
			return err
		}
	}
	q.segs = driver.NewSegments()
	err = t.queueBatch(b, &q)
	q.segs.Release()
	return err
}

// batchQueue is a batch on its way to a stream. A synchronous one has only segs and slice.
type batchQueue struct {
	c        *Context
	s        *Stream
	whole    bool             // over UB: validate all first
	pageable bool             // a segment of a whole batch has pageable memory
	segs     *driver.Segments // valid and not yet submitted
	slice    uint64           // segs are submitted as soon as they have so many bytes
}

// queueBatch validates and queues segment by segment.
func (t *Thread) queueBatch(b *batch, q *batchQueue) *Error {
	to, from := places{rt: t.rt}, places{rt: t.rt}
	err := b.each(q, &to, &from, func(i int, a *abi.MemcpyBatchAttr) (known bool, err *Error) {
		queue, err := t.queueSegment(b, q, i, a, &to, &from)
		if err != nil {
			if e := t.submitBatch(b, q); e != nil {
				b.fault(noIndex) // those before it could not be queued, which is no segment's fault
				return false, e
			}
			return false, err
		}
		if !queue {
			return false, nil
		}
		q.segs.Add(b.dst[i], b.src[i], b.size[i])
		if q.segs.Bytes >= q.slice { // what is valid can run while the rest is looked at
			if err := t.submitBatch(b, q); err != nil {
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
		return t.batchTogether(b, q)
	}
	q.whole = false
	return t.submitBatch(b, q)
}

// queueSegment validates segment i in full. It tells whether the segment is to be queued; a pageable one has been copied.
func (t *Thread) queueSegment(b *batch, q *batchQueue, i int, a *abi.MemcpyBatchAttr, to, from *places) (queue bool, err *Error) {
	switch {
	case b.size[i] == 0:
		return false, b.at(i, refused(b.api, "sizes", "is 0"))
	case b.src[i] == 0:
		return false, b.at(i, refused(b.api, "srcs", "is NULL"))
	case b.dst[i] == 0:
		return false, b.at(i, refused(b.api, "dsts", "is NULL"))
	}
	dst, src, err := b.segment(i, a, to, from)
	if err != nil {
		return false, b.at(i, err)
	}
	pageable := dst.Place == driver.Pageable || src.Place == driver.Pageable
	if !pageable {
		if _, err := q.c.on(b.api, q.s); err != nil {
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
		return false, t.copySegment(b, q, i)
	}
	return true, nil
}

// submitBatch queues what is valid so far, unless the batch is to be queued as a whole.
func (t *Thread) submitBatch(b *batch, q *batchQueue) *Error {
	if len(q.segs.List) == 0 || q.whole {
		return nil
	}
	if err := q.s.admit(b.api); err != nil {
		return err
	}
	segs := q.segs
	q.segs = driver.NewSegments()
	return q.s.launch(b.api, t, task{op: driver.Op{Kind: driver.OpBatch, Segs: segs}})
}

// copySegment copies pageable segment i in the calling thread, behind everything queued.
func (t *Thread) copySegment(b *batch, q *batchQueue, i int) *Error {
	if err := t.submitBatch(b, q); err != nil {
		return err
	}
	return t.copyPageable(b.api, q.c, q.s, driver.Op{Kind: driver.OpCopy, Dst: b.dst[i], Src: b.src[i], N: b.size[i]})
}

// batchTogether copies the whole batch in the calling thread: one pageable segment makes a 950 do so.
func (t *Thread) batchTogether(b *batch, q *batchQueue) *Error {
	if b.n > maxSyncBatch {
		return unsupported(b.api, "numBatches", "%d segments with pageable memory among them are more than %d", b.n, maxSyncBatch).quiet()
	}
	return t.copyPageable(b.api, q.c, q.s, driver.Op{Kind: driver.OpBatch, Segs: q.segs})
}
