package conformance

import (
	"slices"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// seedDesc are the sentences about copies by descriptor.
type seedDesc struct {
	*seed
	a *descArgs
}

// descriptor is a test on products that have descriptors, with one that is set; others say that they have none.
func descriptor(test func(s *seedDesc)) func(s *seed) {
	return func(s *seed) {
		d := &seedDesc{s, across(s.env)}
		d.a.stream = s.s
		var n uint64
		if s.product != "310B" && !slices.Contains(modern, s.product) {
			s.is(abi.ErrRTFeatureNotSupport, transfer.GetMemcpyDescSize(s.th, inner, &n))
			s.is(abi.ErrRTFeatureNotSupport, setDesc(s.env, d.a))
			s.is(abi.ErrRTFeatureNotSupport, withDesc(s.env, d.a))
			return
		}
		s.ok(transfer.GetMemcpyDescSize(s.th, inner, &n))
		if want := map[bool]uint64{true: 64, false: 32}[s.product == "950"]; n != want {
			s.Errorf("a descriptor has %d bytes, want %d", n, want)
		}
		s.ok(setDesc(s.env, d.a))
		test(d)
	}
}

func init() {
	there := func(*seedDesc) {}
	seedTests["desc_products"], seedTests["desc_size"] = descriptor(there), descriptor(there)
	seedTests["desc_copies"] = descriptor(func(s *seedDesc) {
		s.ok(withDesc(s.env, s.a))
		s.is(abi.Success, s.th.SynchronizeStream(s.s))
		s.a.arrived(s.env)
	})
	delivers := func(s *seedDesc) {
		other, release := s.blocked()
		s.a.stream = other
		s.ok(withDesc(s.env, s.a))
		s.is(abi.Success, s.th.SynchronizeStream(s.s))
		s.a.isOld(s.env)
		release()
		s.is(abi.Success, s.th.SynchronizeStream(other))
		s.a.arrived(s.env)
	}
	seedTests["desc_delivers"], seedTests["desc_stream"] = descriptor(delivers), descriptor(delivers)
	seedTests["desc_memory"] = descriptor(func(s *seedDesc) {
		if s.onBoard() {
			return // all memory is the device's
		}
		for _, w := range []where{host, unreg} {
			s.a.desc = s.memory(w, 64)
			s.is(abi.ErrRTParamInvalid, setDesc(s.env, s.a))
			s.is(abi.ErrRTParamInvalid, withDesc(s.env, s.a))
		}
		s.a.isOld(s.env)
	})
	seedTests["desc_set"] = descriptor(func(s *seedDesc) {
		first, second := s.a.dst, s.device(64)
		s.a.dst = second
		s.ok(setDesc(s.env, s.a)) // what is set last counts
		s.ok(withDesc(s.env, s.a))
		s.is(abi.Success, s.th.SynchronizeStream(s.s))
		s.a.arrived(s.env)
		s.a.dst = first
		s.a.isOld(s.env)
		s.a.count = 4 << 30
		s.is(abi.ErrRTParamInvalid, setDesc(s.env, s.a)) // nothing returns success without its work
	})
	seedTests["desc_kind"] = descriptor(func(s *seedDesc) {
		for kind := range abi.MemcpyKind(8) {
			if s.a.kind = kind; kind != inner {
				s.is(abi.ErrRTFeatureNotSupport, setDesc(s.env, s.a))
				s.is(abi.ErrRTFeatureNotSupport, withDesc(s.env, s.a))
			}
		}
		s.a.isOld(s.env)
	})
	seedTests["desc_returns"] = descriptor(func(s *seedDesc) {
		s.is(abi.Success, withDesc(s.env, s.a))
		for _, wrong := range []*core.Error{
			transfer.MemcpyAsyncWithDesc(s.th, 0, inner, s.s), transfer.MemcpyAsyncWithDesc(s.th, s.a.desc, inner,
				0), transfer.MemcpyAsyncWithDesc(s.th, s.a.desc+8, inner, s.s),
		} {
			if wrong == nil {
				s.Error("a call with a wrong argument succeeds")
			}
		}
		s.is(abi.Success, s.th.SynchronizeStream(s.s))
	})
}
