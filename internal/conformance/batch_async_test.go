package conformance

import (
	"ropeway/internal/abi"
	"ropeway/internal/core"
)

var batchAsyncBreakers = batchBreakers(breakers[batchArgs]{
	14: func(e *env, a *batchArgs) { a.stream = garbage },
	15: func(e *env, a *batchArgs) { a.numAttrs = 0 },
	16: func(e *env, a *batchArgs) { a.numAttrs = a.n + 1 },
	17: func(e *env, a *batchArgs) { a.indexes[0] = 1 },
	18: func(e *env, a *batchArgs) { a.indexes[1] = a.indexes[0] },
	19: func(e *env, a *batchArgs) { a.indexes[2] = a.n },
	21: func(e *env, a *batchArgs) { a.th = e.stranger() },
	23: func(e *env, a *batchArgs) { a.sizes[1] = 0 },
	24: func(e *env, a *batchArgs) { a.srcs[1] = 0 },
	25: func(e *env, a *batchArgs) { a.dsts[1] = 0 },
	26: func(e *env, a *batchArgs) { foreignDst(a, 1) },
	27: func(e *env, a *batchArgs) { foreignSrc(a, 1) },
	28: func(e *env, a *batchArgs) { bothHost(e, a, 1) },
	32: func(e *env, a *batchArgs) { a.stream = e.foreign() },
})

// batchAsyncProofs are the rules of aclrtMemcpyBatchAsync from the product rule on, which its V2 shares.
func batchAsyncProofs(call batchCall) map[int]proof {
	b := batchAsyncBreakers
	// rule is the proof of a rule after which failIndex has a value, and the segments below it are queued.
	rule := func(k int, index uint64) proof {
		return func(e *env) *core.Error {
			a := three(e)
			whole := *a
			whole.dsts = append([]core.Addr(nil), a.dsts...)
			b.spoil(e, a, k)
			if k > 21 {
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
	proofs := map[int]proof{13: rule(13, noSegment), 14: rule(14, noSegment)}
	for _, k := range []int{15, 16, 17, 18, 19, 21} {
		proofs[k] = rule(k, noSegment)
	}
	for k := 23; k <= 28; k++ {
		proofs[k] = rule(k, 1)
	}
	late := proofs[17]
	proofs[17] = func(e *env) *core.Error {
		firstAttribute(e, call)
		return late(e)
	}
	proofs[24] = func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64, 64) // NULL would be pageable memory
		a.srcs[1] = 0
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 1)
		return rule(24, 1)(e)
	}
	proofs[25] = func(e *env) *core.Error {
		a := newBatch(e, dev, unreg, 64, 64)
		a.dsts[1] = 0
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 1)
		return rule(25, 1)(e)
	}
	proofs[26] = func(e *env) *core.Error {
		a := three(e)
		a.dsts[2] = e.freed(dev, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 2)
		return rule(26, 1)(e)
	}
	proofs[27] = func(e *env) *core.Error {
		a := three(e)
		a.srcs[2] = e.freed(host, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 2)
		return rule(27, 1)(e)
	}
	proofs[28] = func(e *env) *core.Error {
		a := newBatch(e, dev, dev, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 0)
		a = newBatch(e, host, unreg, 64)
		a.fails(e, call(e, a), abi.ErrRTParamInvalid, 0)
		oneDirection(e, call, all)
		oneDirection(e.on(machine{product: "A3"}), call, all)
		oneDirection(e.on(machine{product: "950"}), call, none) // looks at all before it queues one
		return rule(28, 1)(e)
	}
	proofs[29] = func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64, 64)
		a.stream = e.failing()
		err := call(e, a)
		a.fails(e, err, abi.ErrRTSysDma, noSegment)
		a.arrived(e, none)
		e.ok(call(e, a)) // the failure was reported
		a.arrived(e, all)
		return err
	}
	proofs[30] = func(e *env) *core.Error {
		a := newBatch(e, unreg, dev, 64, 64)
		err := e.whileAborting(func() *core.Error { return call(e, a) })
		a.fails(e, err, abi.ErrRTDeviceTaskAbort, noSegment)
		return err
	}
	proofs[32] = func(e *env) *core.Error {
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
	proofs[33] = func(e *env) *core.Error {
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
	proveMore("aclrtMemcpyBatchAsync", 1, batchRule(b, 1, 0, call))
	proveMore("aclrtMemcpyBatchAsync", 2, batchRule(b, 2, noSegment, call))
	proveMore("aclrtMemcpyBatchAsync", 3, batchRule(b, 3, noSegment, call))
	prove("aclrtMemcpyBatchAsync", 4, batchRule(b, 4, noSegment, call))
	proveMore("aclrtMemcpyBatchAsync", 5, batchRule(b, 5, noSegment, call))
	proveMore("aclrtMemcpyBatchAsync", 6, batchRule(b, 6, noSegment, call))
	proveMore("aclrtMemcpyBatchAsync", 7, batchRule(b, 7, noSegment, call))
	proveMore("aclrtMemcpyBatchAsync", 9, batchRule(b, 9, noSegment, call))
	proveMore("aclrtMemcpyBatchAsync", 10, batchRule(b, 10, noSegment, call))
	prove("aclrtMemcpyBatchAsync", 11, batchRule(b, 11, noSegment, call))
	prove("aclrtMemcpyBatchAsync", 12, batchRule(b, 12, noSegment, call))
	prove("aclrtMemcpyBatchAsync", 13, func(e *env) *core.Error {
		for _, m := range []machine{{product: "310B"}, {product: "910"}, {product: "310"}, {product: "IPV350"},
			{product: "310B", form: "RC"}} {
			o := e.on(m)
			a := newBatch(o, host, dev, 64)
			a.fails(o, call(o, a), abi.ErrRTFeatureNotSupport, noSegment)
		}
		return rest[13](e)
	})
	proveMore("aclrtMemcpyBatchAsync", 14, func(e *env) *core.Error {
		e.deadStreams(func(s core.Handle) *core.Error {
			a := three(e)
			a.stream = s
			err := call(e, a)
			a.fails(e, err, codeOf(err), noSegment)
			return err
		})
		return rest[14](e)
	})
	proveMore("aclrtMemcpyBatchAsync", 15, rest[15])
	proveMore("aclrtMemcpyBatchAsync", 16, rest[16])
	prove("aclrtMemcpyBatchAsync", 17, rest[17])
	prove("aclrtMemcpyBatchAsync", 18, rest[18])
	prove("aclrtMemcpyBatchAsync", 19, rest[19])
	proveMore("aclrtMemcpyBatchAsync", 21, rest[21])
	prove("aclrtMemcpyBatchAsync", 23, rest[23])
	prove("aclrtMemcpyBatchAsync", 24, rest[24])
	prove("aclrtMemcpyBatchAsync", 25, rest[25])
	prove("aclrtMemcpyBatchAsync", 26, rest[26])
	prove("aclrtMemcpyBatchAsync", 27, rest[27])
	prove("aclrtMemcpyBatchAsync", 28, rest[28])
	prove("aclrtMemcpyBatchAsync", 29, rest[29])
	prove("aclrtMemcpyBatchAsync", 30, rest[30])
	prove("aclrtMemcpyBatchAsync", 32, rest[32])
	prove("aclrtMemcpyBatchAsync", 33, rest[33])
}

func init() {
	b, call := batchAsyncBreakers, batchCall(batchAsyncV2)
	proveMore("aclrtMemcpyBatchAsyncV2", 1, batchRule(b, 2, notWritten, call))
	proveMore("aclrtMemcpyBatchAsyncV2", 2, batchRule(b, 3, notWritten, call))
	prove("aclrtMemcpyBatchAsyncV2", 3, batchRule(b, 4, notWritten, call))
	proveMore("aclrtMemcpyBatchAsyncV2", 4, batchRule(b, 5, notWritten, call))
	proveMore("aclrtMemcpyBatchAsyncV2", 5, batchRule(b, 6, notWritten, call))
	proveMore("aclrtMemcpyBatchAsyncV2", 6, batchRule(b, 7, notWritten, call))
	proveMore("aclrtMemcpyBatchAsyncV2", 8, batchRule(b, 9, notWritten, call))
	proveMore("aclrtMemcpyBatchAsyncV2", 9, batchRule(b, 10, notWritten, call))
	prove("aclrtMemcpyBatchAsyncV2", 10, batchRule(b, 11, notWritten, call))
	prove("aclrtMemcpyBatchAsyncV2", 11, batchRule(b, 12, notWritten, call))
	prove("aclrtMemcpyBatchAsyncV2", 12, func(e *env) *core.Error {
		e.sameAs("aclrtMemcpyBatchAsync", batchAsyncProofs(noIndexCall(call)))
		return nil
	})
}
