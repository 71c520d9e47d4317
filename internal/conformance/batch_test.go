package conformance

import (
	"errors"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
)

// batchArgs are the arguments of a batch copy.
type batchArgs struct {
	th        *core.Thread
	dsts      []core.Addr
	destMaxs  []uint64
	srcs      []core.Addr
	sizes     []uint64
	n         uint64
	attrs     []abi.MemcpyBatchAttr
	indexes   []uint64
	numAttrs  uint64
	failIndex *uint64
	stream    core.Handle

	data, old [][]byte // what the sources and the destinations hold
}

type batchCall func(e *env, a *batchArgs) *core.Error

func batchNow(_ *env, a *batchArgs) *core.Error {
	return transfer.MemcpyBatch(a.th, first0(a.dsts), first0(a.destMaxs), first0(a.srcs), first0(a.sizes), a.n,
		first0(a.attrs), first0(a.indexes), a.numAttrs, a.failIndex)
}

func batchNowV2(_ *env, a *batchArgs) *core.Error {
	return transfer.MemcpyBatchV2(a.th, first0(a.dsts), first0(a.destMaxs), first0(a.srcs), first0(a.sizes), a.n,
		first0(a.attrs), first0(a.indexes), a.numAttrs)
}

func batchAsync(_ *env, a *batchArgs) *core.Error {
	return transfer.MemcpyBatchAsync(a.th, first0(a.dsts), first0(a.destMaxs), first0(a.srcs), first0(a.sizes), a.n,
		first0(a.attrs), first0(a.indexes), a.numAttrs, a.failIndex, a.stream)
}

func batchAsyncV2(_ *env, a *batchArgs) *core.Error {
	return transfer.MemcpyBatchAsyncV2(a.th, first0(a.dsts), first0(a.destMaxs), first0(a.srcs), first0(a.sizes), a.n,
		first0(a.attrs), first0(a.indexes), a.numAttrs, a.stream)
}

// first0 is a C pointer to a list; nil gives NULL.
func first0[T any](list []T) *T { return unsafe.SliceData(list) }

// What failIndex may be besides the number of a segment.
const (
	notWritten = 777 // what it was
	noSegment  = ^uint64(0)
)

// newBatch makes a batch of segments, all from one place to another.
func newBatch(e *env, from, to where, sizes ...uint64) *batchArgs {
	e.Helper()
	index := uint64(notWritten)
	a := &batchArgs{th: e.th, n: uint64(len(sizes)), numAttrs: 1, failIndex: &index, stream: e.stream()}
	a.attrs = []abi.MemcpyBatchAttr{{DstLoc: location(to), SrcLoc: location(from)}}
	a.indexes = []uint64{0}
	for i, n := range sizes {
		a.add(e, from, to, n, uint64(i))
	}
	return a
}

// add appends a segment to the lists, not to n.
func (a *batchArgs) add(e *env, from, to where, n, seed uint64) {
	e.Helper()
	src, dst := e.memory(from, n+1), e.memory(to, n+1)
	data, old := noise(n+1, 2*seed), noise(n+1, 2*seed+1)
	e.write(src, data)
	e.write(dst, old)
	a.dsts, a.srcs = append(a.dsts, dst), append(a.srcs, src)
	a.destMaxs, a.sizes = append(a.destMaxs, n), append(a.sizes, n)
	a.data, a.old = append(a.data, data), append(a.old, old)
}

// location is how an attribute declares a place.
func location(w where) abi.MemLocation {
	if w == dev {
		return abi.MemLocation{Type: abi.MemLocationTypeDevice}
	}
	return abi.MemLocation{Type: abi.MemLocationTypeHost}
}

// arrived checks that exactly the segments for which copied is true have been copied.
func (a *batchArgs) arrived(e *env, copied func(i int) bool) {
	e.Helper()
	for i := range a.data {
		want := append([]byte(nil), a.old[i]...)
		if copied(i) {
			copy(want, a.data[i][:len(want)-1])
		}
		e.holds(a.dsts[i], want)
	}
}

func all(int) bool  { return true }
func none(int) bool { return false }

// fails checks what a failed batch says.
func (a *batchArgs) fails(e *env, err *core.Error, code abi.Code, index uint64) {
	e.Helper()
	e.want(err, code)
	if a.failIndex != nil && *a.failIndex != index {
		e.Errorf("failIndex is %d, want %d", int64(*a.failIndex), int64(index))
	}
}

// three is the batch that proofs spoil: three pinned segments to the device, in lists with room for a batch that is too
// long.
func three(e *env) *batchArgs {
	a := newBatch(e, host, dev, 64, 64, 64)
	a.numAttrs = 3
	const room = 4099
	for len(a.sizes) < room {
		a.dsts, a.srcs = append(a.dsts, a.dsts[0]), append(a.srcs, a.srcs[0])
		a.destMaxs, a.sizes = append(a.destMaxs, 64), append(a.sizes, 64)
	}
	for len(a.attrs) < room {
		a.attrs = append(a.attrs, a.attrs[0])
		a.indexes = append(a.indexes, uint64(len(a.indexes)))
	}
	return a
}

// batchBreakers are what both batch calls check first; the rest differ.
func batchBreakers(more breakers[batchArgs]) breakers[batchArgs] {
	return append(breakers[batchArgs]{
		{"failIndex-null", func(e *env, a *batchArgs) { a.failIndex = nil }},
		{"sizes-null", func(e *env, a *batchArgs) { a.sizes = nil }},
		{"numBatches-0", func(e *env, a *batchArgs) { a.n = 0 }},
		{"all-sizes-0", func(e *env, a *batchArgs) { clear(a.sizes) }},
		{"dsts-null", func(e *env, a *batchArgs) { a.dsts = nil }},
		{"destMaxs-null", func(e *env, a *batchArgs) { a.destMaxs = nil }},
		{"srcs-null", func(e *env, a *batchArgs) { a.srcs = nil }},
		{"attrs-null", func(e *env, a *batchArgs) { a.attrs = nil }},
		{"attrsIndexes-null", func(e *env, a *batchArgs) { a.indexes = nil }},
		{"size-over-destMax", func(e *env, a *batchArgs) { a.destMaxs[2] = a.sizes[2] - 1 }},
		{"rsv-not-0", func(e *env, a *batchArgs) { a.attrs[1].Rsv[15], a.numAttrs = 1, max(2, a.numAttrs) }},
		{"not-offered", func(e *env, a *batchArgs) { a.th = e.on(machine{product: "310P", bare: true}).th }},
	}, more...)
}

func foreignDst(a *batchArgs, i int) {
	a.attrs[i].DstLoc = abi.MemLocation{Type: abi.MemLocationTypeDevice, ID: 1}
}
func foreignSrc(a *batchArgs, i int) {
	a.attrs[i].SrcLoc = abi.MemLocation{Type: abi.MemLocationTypeDevice}
}
func bothHost(e *env, a *batchArgs, i int) {
	a.dsts[i], a.attrs[i].DstLoc = e.pinned(64), location(host)
}

var batchNowBreakers = batchBreakers(breakers[batchArgs]{
	{"numAttrs-0", func(e *env, a *batchArgs) { a.numAttrs = 0 }},
	{"numAttrs-over-numBatches", func(e *env, a *batchArgs) { a.numAttrs = a.n + 1 }},
	{"numBatches-over-4096", func(e *env, a *batchArgs) { a.n = 4097 }},
	{"first-index-not-0", func(e *env, a *batchArgs) { a.indexes[0] = 1 }},
	{"indexes-not-ascending", func(e *env, a *batchArgs) { a.indexes[1] = a.indexes[0] }},
	{"index-over-numBatches", func(e *env, a *batchArgs) { a.indexes[2] = a.n }},
	{"dst-unclassified", func(e *env, a *batchArgs) { a.dsts[1] = e.freed(dev, 64) }},
	{"dst-elsewhere", func(e *env, a *batchArgs) { foreignDst(a, 1) }},
	{"src-unclassified", func(e *env, a *batchArgs) { a.srcs[1] = e.freed(host, 64) }},
	{"src-elsewhere", func(e *env, a *batchArgs) { foreignSrc(a, 1) }},
	{"direction-mixed", func(e *env, a *batchArgs) { bothHost(e, a, 1) }},
})

// batchNowProofs are the rules of aclrtMemcpyBatch from the product rule on, which its V2 shares.
func batchNowProofs(call batchCall) map[string]proof {
	b := batchNowBreakers
	// rule is the proof of a rule after which failIndex has a value, and nothing was copied.
	rule := func(k string, index uint64) proof {
		return func(e *env) *core.Error {
			a := three(e)
			whole := *a
			b.spoil(e, a, k)
			err := call(e, a)
			a.fails(e, err, caseOf(e.T, "aclrtMemcpyBatch", k).Code, index)
			whole.dsts = append([]core.Addr(nil), whole.dsts...)
			whole.dsts[1] = whole.dsts[0] // it may be gone
			whole.old[1] = whole.old[0]
			whole.arrived(e, none)
			e.sameAnswer(b.only(k, three, call)(e), err)
			return err
		}
	}
	proofs := map[string]proof{}
	ofSegments := b.at("dst-unclassified")
	for _, k := range b[b.at("not-offered"):ofSegments] {
		proofs[k.rule] = rule(k.rule, noSegment)
	}
	for _, k := range b[ofSegments:] {
		proofs[k.rule] = rule(k.rule, 1)
	}
	late, direction := proofs["first-index-not-0"], proofs["direction-mixed"]
	proofs["first-index-not-0"] = func(e *env) *core.Error {
		firstAttribute(e, call)
		return late(e)
	}
	proofs["direction-mixed"] = func(e *env) *core.Error {
		oneDirection(e, call, none)
		return direction(e)
	}
	proofs["no-batch-copy"] = func(e *env) *core.Error {
		a := three(e)
		e.faults.Fail(faulty.Run, 1, driver.ErrUnsupported)
		err := call(e, a)
		a.fails(e, err, abi.ErrRTFeatureNotSupport, noSegment)
		a.arrived(e, none)
		return err
	}
	proofs["driver-copy-fails"] = func(e *env) *core.Error {
		a := three(e)
		e.faults.Fail(faulty.Run, 1, errors.New("a cosmic ray"))
		a.fails(e, call(e, a), abi.ErrRTDrvInternalError, noSegment)
		a.arrived(e, none)
		// Ordinary memory that is not there is found when it is touched, before anything is written.
		a = newBatch(e, unreg, dev, 64, 64, 64)
		a.srcs[2] = e.hole() + 4096
		err := call(e, a)
		a.fails(e, err, abi.ErrRTParamInvalid, noSegment)
		a.arrived(e, none)
		return err
	}
	return proofs
}

// firstAttribute checks that the first attribute cannot start late, also when it is the only one.
func firstAttribute(e *env, call batchCall) {
	e.Helper()
	a := newBatch(e, host, dev, 64, 64)
	a.indexes[0] = 1
	a.fails(e, call(e, a), abi.ErrRTParamInvalid, noSegment)
	e.ok(e.th.SynchronizeStream(a.stream))
	a.arrived(e, none)
}

// oneDirection checks that a segment that goes the other way than those before it is refused, in both directions,
// whatever the host memory is and however many segments there were. before says which segments in front of it are
// copied all the same.
func oneDirection(e *env, call batchCall, before func(i int) bool) {
	e.Helper()
	for _, way := range [][2]where{{host, dev}, {dev, host}, {unreg, dev}, {dev, unreg}} {
		for _, at := range []int{1, 3} {
			a := newBatch(e, way[0], way[1])
			for i := range at {
				a.add(e, way[0], way[1], 64, uint64(i))
			}
			a.add(e, way[1], way[0], 64, uint64(at))
			a.add(e, way[0], way[1], 64, uint64(at+1))
			a.attrs = append(a.attrs, abi.MemcpyBatchAttr{DstLoc: location(way[0]), SrcLoc: location(way[1])},
				a.attrs[0])
			a.indexes = []uint64{0, uint64(at), uint64(at + 1)}
			a.n, a.numAttrs = uint64(len(a.sizes)), 3
			err := call(e, a)
			a.fails(e, err, abi.ErrRTParamInvalid, uint64(at))
			if err.Arg != "dsts" || err.Index != at {
				e.Errorf("it blames %s[%d]: %v", err.Arg, err.Index, err)
			}
			e.ok(e.th.SynchronizeStream(a.stream))
			a.arrived(e, func(i int) bool { return i < at && before(i) })
		}
	}
}

// batchRule is the proof of a rule of the ACL layer.
func batchRule(b breakers[batchArgs], k string, index uint64, call batchCall) proof {
	return func(e *env) *core.Error {
		a := three(e)
		b.spoil(e, a, k)
		err := call(e, a)
		a.fails(e, err, codeOf(err), index)
		e.sameAnswer(b.only(k, three, call)(e), err)
		return err
	}
}

func init() {
	b, call := batchNowBreakers, batchCall(batchNow)
	rest := batchNowProofs(call)
	notOffered := rest["not-offered"]
	for _, k := range b[:b.at("not-offered")] {
		proveAny("aclrtMemcpyBatch", k.rule, batchRule(b, k.rule, noSegment, call))
	}
	prove("aclrtMemcpyBatch", "not-offered", func(e *env) *core.Error {
		for _, m := range []machine{{product: "310B"}, {product: "910"}, {product: "310"},
			{product: "310B", form: "RC"}, {product: "310P", form: "RC"}} {
			o := e.on(m)
			a := newBatch(o, host, dev, 64)
			a.fails(o, call(o, a), abi.ErrRTFeatureNotSupport, noSegment)
			a.arrived(o, none)
		}
		return notOffered(e)
	})
	delete(rest, "not-offered")
	for rule, p := range rest {
		proveAny("aclrtMemcpyBatch", rule, p)
	}
}

func init() {
	b, call := batchNowBreakers, batchCall(batchNowV2)
	for _, k := range b[b.at("sizes-null"):b.at("not-offered")] {
		proveAny("aclrtMemcpyBatchV2", k.rule, batchRule(b, k.rule, notWritten, call))
	}
	prove("aclrtMemcpyBatchV2", "as-aclrtMemcpyBatch", func(e *env) *core.Error {
		sameAs(e, "aclrtMemcpyBatch", batchNowProofs(noIndexCall(call)))
		a := three(e)
		bothHost(e, a, 1)
		return call(e, a)
	})
}

// noIndexCall makes a V2 call with arguments whose failIndex then says nothing.
func noIndexCall(call batchCall) batchCall {
	return func(e *env, a *batchArgs) *core.Error {
		a.failIndex = nil
		return call(e, a)
	}
}
