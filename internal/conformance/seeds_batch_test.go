package conformance

import (
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// seedBatch are the sentences about batches.
type seedBatch struct{ *seed }

// batched is a test on products that have batches; others say that they have none, and that no copy is to blame.
func batched(test func(s *seedBatch)) func(s *seed) {
	return func(s *seed) {
		if slices.Contains(modern, s.product) {
			test(&seedBatch{s})
			return
		}
		a := newBatch(s.env, host, dev, 64, 64)
		a.fails(s.env, batchAsync(s.env, a), abi.ErrRTFeatureNotSupport, noSegment)
		a.arrived(s.env, none)
	}
}

// up is n segments of 64 bytes from one place to the device, with one attribute.
func (s *seedBatch) up(from where, n int) *batchArgs {
	s.Helper()
	return newBatch(s.env, from, dev, repeated(64, n)...)
}

// each is up from pinned memory with an attribute for each.
func (s *seedBatch) each(n int) *batchArgs {
	s.Helper()
	a := s.up(host, n)
	for i := 1; i < n; i++ {
		a.attrs, a.indexes = append(a.attrs, a.attrs[0]), append(a.indexes, uint64(i))
	}
	a.numAttrs = uint64(n)
	return a
}

func repeated(size uint64, n int) (sizes []uint64) {
	for range n {
		sizes = append(sizes, size)
	}
	return sizes
}

// succeeds checks that everything arrives; refused that the call is refused, with what is wrong with segment at, or
// with none.
func (s *seedBatch) succeeds(a *batchArgs) {
	s.Helper()
	a.fails(s.env, batchAsync(s.env, a), abi.Success, noSegment)
	s.is(abi.Success, s.th.SynchronizeStream(a.stream))
	a.arrived(s.env, all)
}

func (s *seedBatch) refused(a *batchArgs, code abi.Code, at uint64) {
	s.Helper()
	a.fails(s.env, batchAsync(s.env, a), code, at)
	s.is(abi.Success, s.th.SynchronizeStream(s.s))
}

// turn makes segment i go from the device to the host.
func (s *seedBatch) turn(a *batchArgs, i int) {
	a.dsts[i], a.srcs[i] = s.pinned(64), s.device(64)
	a.attrs[i] = abi.MemcpyBatchAttr{DstLoc: location(host), SrcLoc: location(dev)}
}

func init() {
	const param, invalid = abi.ErrRTParamInvalid, abi.ErrInvalidParam
	arrives := batched(func(s *seedBatch) { s.succeeds(newBatch(s.env, host, dev, 1, 14, 27, 40, 53)) })
	for _, name := range []string{"batch_products", "batch_copies", "batch_synchronised"} {
		seedTests[name] = arrives
	}
	seedTests["batch_host_memory"] = batched(func(s *seedBatch) {
		a := s.up(host, 3)
		a.add(s.env, unreg, dev, 64, 7)
		a.add(s.env, host, dev, 64, 8)
		a.n = 5
		s.succeeds(a)
	})
	seedTests["batch_pageable"] = batched(func(s *seedBatch) {
		a := s.up(unreg, 4)
		s.ok(batchAsync(s.env, a))
		a.arrived(s.env, all) // before anything was synchronised
	})
	delivers := batched(func(s *seedBatch) {
		a := s.up(host, 4)
		other, release := s.blocked()
		a.stream = other
		a.fails(s.env, batchAsync(s.env, a), abi.Success, noSegment)
		s.is(abi.Success, s.th.SynchronizeStream(s.s)) // of another stream
		a.arrived(s.env, none)
		release()
		s.is(abi.Success, s.th.SynchronizeStream(other))
		a.arrived(s.env, all)
	})
	seedTests["batch_delivers"], seedTests["batch_stream"] = delivers, delivers
	seedTests["batch_dest_maxs"] = batched(func(s *seedBatch) {
		a := s.up(host, 3)
		a.destMaxs[1] = 63
		s.refused(a, invalid, noSegment)
		a.arrived(s.env, none)
		a.destMaxs[1] = 65
		s.succeeds(a)
	})
	seedTests["batch_num_batches"] = batched(func(s *seedBatch) {
		a := s.up(host, 4)
		a.n = 2
		s.ok(batchAsync(s.env, a))
		s.is(abi.Success, s.th.SynchronizeStream(a.stream))
		a.arrived(s.env, func(i int) bool { return i < 2 })
		a.n = 0
		s.refused(a, invalid, noSegment)
	})
	seedTests["batch_attrs"] = batched(func(s *seedBatch) {
		a := s.up(host, 2)
		good := a.attrs[0]
		unregistered := abi.MemLocation{Type: abi.MemLocationTypeUnregistered}
		for _, wrong := range []abi.MemcpyBatchAttr{{DstLoc: location(dev), SrcLoc: location(dev)},
			{DstLoc: unregistered}} {
			a.attrs[0] = wrong
			s.refused(a, param, 0)
		}
		a.arrived(s.env, none)
		a.attrs[0] = good
		s.succeeds(a)
	})
	seedTests["batch_attr_ranges"] = batched(func(s *seedBatch) {
		for first := uint64(1); first < 4; first++ {
			a := s.each(5)
			a.numAttrs, a.indexes = 3, []uint64{0, first, 4}
			foreignDst(a, 1)
			s.refused(a, param, first)
		}
		a := s.each(5)
		a.numAttrs, a.indexes = 3, []uint64{0, 2, 3}
		a.attrs[1].SrcLoc.Type = abi.MemLocationTypeHostNuma
		s.succeeds(a)
	})
	seedTests["batch_last_attr"] = batched(func(s *seedBatch) {
		for first := uint64(1); first < 5; first++ {
			a := s.each(5)
			a.numAttrs, a.indexes = 2, []uint64{0, first}
			foreignDst(a, 1)
			s.refused(a, param, first)
		}
		a := s.each(5)
		a.numAttrs, a.dsts[4] = 2, s.pinned(64) // the last copy has the last attribute too
		s.refused(a, param, 4)
	})
	seedTests["batch_num_attrs"] = batched(func(s *seedBatch) {
		a := s.each(3)
		foreignDst(a, 1)
		a.numAttrs = 1 // what is behind it does not count
		s.succeeds(a)
		a.numAttrs = 2
		s.refused(a, param, 1)
	})
	seedTests["batch_fail_index"] = batched(func(s *seedBatch) {
		for i := range 4 {
			for n, change := range []func(a *batchArgs){
				func(a *batchArgs) { foreignDst(a, i) },
				func(a *batchArgs) { foreignSrc(a, i) },
				func(a *batchArgs) { bothHost(s.env, a, i) },
				func(a *batchArgs) { s.turn(a, i) },
			} {
				if a := s.each(4); n != 3 || i > 0 {
					change(a)
					s.refused(a, param, uint64(i))
				}
			}
		}
	})
	seedTests["batch_fail_index_only"] = batched(func(s *seedBatch) {
		a := s.up(host, 3) // neither a memory attribute nor a direction
		a.sizes[1], a.destMaxs[1] = 1<<20, 1<<20
		s.refused(a, param, noSegment)
	})
	seedTests["batch_fail_index_none"] = batched(func(s *seedBatch) {
		s.succeeds(s.up(host, 2))
		for _, tt := range []struct {
			code   abi.Code
			change func(a *batchArgs)
		}{
			{invalid, func(a *batchArgs) { a.dsts = nil }}, {invalid, func(a *batchArgs) { a.destMaxs = nil }},
			{invalid, func(a *batchArgs) { a.srcs = nil }}, {invalid, func(a *batchArgs) { a.sizes = nil }},
			{invalid, func(a *batchArgs) { a.attrs = nil }}, {invalid, func(a *batchArgs) { a.indexes = nil }},
			{invalid, func(a *batchArgs) { a.n = 0 }}, {invalid, func(a *batchArgs) { a.attrs[0].Rsv[3] = 1 }},
			{param, func(a *batchArgs) { a.numAttrs = 0 }}, {param, func(a *batchArgs) { a.numAttrs = 3 }},
			{abi.ErrRTInvalidHandle, func(a *batchArgs) { a.stream = garbage }},
			{abi.ErrRTStreamContext, func(a *batchArgs) { a.stream = s.foreign() }},
			{abi.ErrRTContextNull, func(a *batchArgs) { a.th = s.stranger() }},
		} {
			a := s.each(3)
			a.n, a.numAttrs = 2, 1
			tt.change(a)
			s.refused(a, tt.code, noSegment)
		}
	})
	seedTests["batch_returns"] = batched(func(s *seedBatch) {
		a := s.up(host, 2)
		s.succeeds(a)
		for _, list := range [][]core.Addr{a.srcs, a.dsts} {
			before := list[0]
			list[0] = 0
			s.refused(a, param, 0)
			list[0] = before
		}
	})
	seedTests["batch_unordered"] = batched(func(s *seedBatch) {
		a := s.up(host, 12) // whatever their order, they end up the same
		for _, list := range [][]core.Addr{a.dsts, a.srcs} {
			slices.Reverse(list)
		}
		s.ok(batchAsync(s.env, a))
		s.is(abi.Success, s.th.SynchronizeStream(a.stream))
		slices.Reverse(a.dsts)
		a.arrived(s.env, all)
	})
	seedTests["batch_example"] = batched(func(s *seedBatch) {
		a := s.each(10)
		a.numAttrs, a.indexes = 2, []uint64{0, 6}
		a.attrs[1].SrcLoc.Type = abi.MemLocationTypeHostNuma
		s.succeeds(a)
	})
	indexes := func(lists ...[]uint64) func(s *seed) {
		return batched(func(s *seedBatch) {
			for _, list := range lists {
				a := s.each(4)
				a.numAttrs, a.indexes = uint64(len(list)), list
				s.refused(a, param, noSegment)
				a.arrived(s.env, none)
			}
		})
	}
	seedTests["batch_first_index"] = indexes([]uint64{1}, []uint64{1, 2})
	seedTests["batch_rising_indexes"] = indexes([]uint64{0, 0}, []uint64{0, 2, 1})
	seedTests["batch_last_index"] = indexes([]uint64{0, 4}, []uint64{0, 1, 99})
	seedTests["batch_attrs_at_most"] = indexes([]uint64{0, 1, 2, 3, 4})
	seedTests["batch_direction"] = batched(func(s *seedBatch) {
		s.succeeds(s.each(3))
		s.succeeds(newBatch(s.env, dev, host, 64, 64))
		for _, tt := range []struct {
			turned []int
			wrong  uint64
		}{{[]int{1}, 1}, {[]int{2}, 2}, {[]int{0}, 1}, {[]int{0, 1}, 2}} {
			a := s.each(3)
			for _, i := range tt.turned {
				s.turn(a, i)
			}
			s.refused(a, param, tt.wrong)
		}
		s.refused(newBatch(s.env, dev, dev, 64), param, 0)
		s.refused(newBatch(s.env, host, host, 64), param, 0)
	})
}
