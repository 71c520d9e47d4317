package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

var batchAsyncBreakers = batchBreakers(breakers[batchArgs]{
	{"stream-not-live", func(e *env, a *batchArgs) { a.stream = garbage }},
	{"numAttrs-0", func(e *env, a *batchArgs) { a.numAttrs = 0 }},
	{"numAttrs-over-numBatches", func(e *env, a *batchArgs) { a.numAttrs = a.n + 1 }},
	{"first-index-not-0", func(e *env, a *batchArgs) { a.indexes[0] = 1 }},
	{"indexes-not-ascending", func(e *env, a *batchArgs) { a.indexes[1] = a.indexes[0] }},
	{"index-over-numBatches", func(e *env, a *batchArgs) { a.indexes[2] = a.n }},
	{"no-context", func(e *env, a *batchArgs) { a.th = e.stranger() }},
	{"segment-size", func(e *env, a *batchArgs) { a.sizes[1] = 0 }},
	{"segment-src-null", func(e *env, a *batchArgs) { a.srcs[1] = 0 }},
	{"segment-dst-null", func(e *env, a *batchArgs) { a.dsts[1] = 0 }},
	{"dst-elsewhere", func(e *env, a *batchArgs) { foreignDst(a, 1) }},
	{"src-elsewhere", func(e *env, a *batchArgs) { foreignSrc(a, 1) }},
	{"direction-mixed", func(e *env, a *batchArgs) { bothHost(e, a, 1) }},
	{"pinned-stream-of-other-context", func(e *env, a *batchArgs) { a.stream = e.foreign() }},
})

// batchAsyncProofs are the rules of aclrtMemcpyBatchAsync from the product rule on, which its V2 shares.
func batchAsyncProofs(call batchCall) map[string]proof {
	b := batchAsyncBreakers
	// rule is the proof of a rule after which failIndex has a value, and the segments below it are queued.
	rule := func(k string, index uint64) proof {
		return func(e *env) *core.Error {
			a := three(e)
			whole := *a
			whole.dsts = append([]core.Addr(nil), a.dsts...)
			b.spoil(e, a, k)
			if index == 1 {
				a.stream = whole.stream // the other context would decide before the second segment
			}
			err := call(e, a)
			a.fails(e, err, caseOf(e.T, "aclrtMemcpyBatchAsync", k).Code, index)
			e.ok(e.th.SynchronizeStream(whole.stream))
			whole.arrived(e, func(i int) bool { return index == 1 && i == 0 })
			e.sameAnswer(b.only(k, three, call)(e), err)
			return err
		}
	}
	proofs := map[string]proof{}
	ofSegments := b.at("segment-size")
	for _, k := range b[b.at("not-offered"):ofSegments] {
		proofs[k.rule] = rule(k.rule, noSegment)
	}
	for _, k := range b[ofSegments:b.at("pinned-stream-of-other-context")] {
		proofs[k.rule] = rule(k.rule, 1)
	}
	late := proofs["first-index-not-0"]
	proofs["first-index-not-0"] = func(e *env) *core.Error {
		firstAttribute(e, call)
		return late(e)
	}
	proofs["segment-src-null"] = func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64, 64) // NULL would be pageable memory
		a.srcs[1] = 0
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 1)
		return rule("segment-src-null", 1)(e)
	}
	proofs["segment-dst-null"] = func(e *env) *core.Error {
		a := newBatch(e, dev, unreg, 64, 64)
		a.dsts[1] = 0
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 1)
		return rule("segment-dst-null", 1)(e)
	}
	proofs["dst-elsewhere"] = func(e *env) *core.Error {
		a := three(e)
		a.dsts[2] = e.freed(dev, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 2)
		return rule("dst-elsewhere", 1)(e)
	}
	proofs["src-elsewhere"] = func(e *env) *core.Error {
		a := three(e)
		a.srcs[2] = e.freed(host, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 2)
		return rule("src-elsewhere", 1)(e)
	}
	proofs["direction-mixed"] = func(e *env) *core.Error {
		a := newBatch(e, dev, dev, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 0)
		a = newBatch(e, host, unreg, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 0)
		oneDirection(e, call, all)
		oneDirection(e.on(machine{product: "A3"}), call, all)
		oneDirection(e.on(machine{product: "950"}), call, none) // looks at all before it queues one
		return rule("direction-mixed", 1)(e)
	}
	proofs["pageable-earlier-error"] = func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64, 64)
		a.stream = e.failing()
		err := call(e, a)
		a.fails(e, err, abi.ErrRTSysDma, noSegment)
		a.arrived(e, none)
		e.ok(call(e, a)) // the failure was reported
		a.arrived(e, all)
		return err
	}
	proofs["pageable-aborting"] = func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64, 64)
		err := e.whileAborting(func() *core.Error { return call(e, a) })
		a.fails(e, err, abi.ErrRTDeviceTaskAbort, noSegment)
		return err
	}
	proofs["pinned-stream-of-other-context"] = func(e *env) *core.Error {
		// Pageable segments are copied, and the first pinned one ends it.
		a := newBatch(e, unreg, dev, 64, 64)
		a.add(e, host, dev, 64, 9)
		a.n = 3
		a.stream = e.foreign()
		err := call(e, a)
		a.fails(e, err, abi.ErrRTStreamContext, noSegment)
		a.arrived(e, func(i int) bool { return i < 2 })
		a = three(e)
		a.stream = e.foreign()
		foreignDst(a, 1) // a later segment does not matter
		a.fails(e, call(e, a), abi.ErrRTStreamContext, noSegment)
		return err
	}
	proofs["submission-fails"] = func(e *env) *core.Error {
		a, bad := newBatch(e, host, dev, 64, 64), three(e)
		foreignDst(bad, 1) // found after the first segment could not be queued
		err := e.whileAborting(func() *core.Error {
			err := call(e, a)
			if err != nil {
				bad.fails(e, call(e, bad), abi.ErrRTDeviceTaskAbort, noSegment)
			}
			return err
		})
		a.fails(e, err, abi.ErrRTDeviceTaskAbort, noSegment)
		return err
	}
	return proofs
}

func init() {
	b, call := batchAsyncBreakers, batchCall(batchAsync)
	rest := batchAsyncProofs(call)
	notOffered, notLive := rest["not-offered"], rest["stream-not-live"]
	for _, k := range b[:b.at("not-offered")] {
		proveAny("aclrtMemcpyBatchAsync", k.rule, batchRule(b, k.rule, noSegment, call))
	}
	prove("aclrtMemcpyBatchAsync", "not-offered", func(e *env) *core.Error {
		for _, m := range []machine{{product: "310B"}, {product: "910"}, {product: "310"},
			{product: "310B", form: "RC"}} {
			o := e.on(m)
			a := newBatch(o, host, dev, 64)
			a.fails(o, call(o, a), abi.ErrRTFeatureNotSupport, noSegment)
		}
		return notOffered(e)
	})
	proveMore("aclrtMemcpyBatchAsync", "stream-not-live", func(e *env) *core.Error {
		deadStreams(e, func(s core.Handle) *core.Error {
			a := three(e)
			a.stream = s
			err := call(e, a)
			a.fails(e, err, codeOf(err), noSegment)
			return err
		})
		return notLive(e)
	})
	delete(rest, "not-offered")
	delete(rest, "stream-not-live")
	for rule, p := range rest {
		proveAny("aclrtMemcpyBatchAsync", rule, p)
	}
}

func init() {
	b, call := batchAsyncBreakers, batchCall(batchAsyncV2)
	for _, k := range b[b.at("sizes-null"):b.at("not-offered")] {
		proveAny("aclrtMemcpyBatchAsyncV2", k.rule, batchRule(b, k.rule, notWritten, call))
	}
	prove("aclrtMemcpyBatchAsyncV2", "as-aclrtMemcpyBatchAsync", func(e *env) *core.Error {
		sameAs(e, "aclrtMemcpyBatchAsync", batchAsyncProofs(noIndexCall(call)))
		a := three(e)
		a.stream = e.foreign()
		return call(e, a)
	})
}
