package conformance

func oneSegment(e *env, from, to where) *batchArgs { return newBatch(e, from, to, 64) }
