package model

import (
	"ropeway/internal/core"
	"ropeway/internal/graph"
)

// build compiles tasks, and looks up each allocation once. mu is held.
func (m *Model) build(n int, at func(i int) graph.Task) *graph.Graph {
	s := &soles{rt: m.rt, sole: stateOf(m.rt).sole}
	g := graph.Build(n, s.of, at)
	s.built = true
	return g
}

// soles reports whether memory has only one address. While a model is compiled, it remembers the last allocations:
// destinations mostly share one, and sources another one.
type soles struct {
	rt    *core.Runtime
	sole  func(addr core.Addr) bool
	built bool // the remembered allocations are out of date
	last  [2]struct {
		start core.Addr
		size  uint64
		sole  bool
	}
}

func (s *soles) of(addr core.Addr) bool {
	if s.built {
		return s.sole(addr)
	}
	for i := range s.last {
		if l := &s.last[i]; uint64(addr-l.start) < l.size {
			return l.sole
		}
	}
	s.last[0], s.last[1] = s.last[1], s.last[0]
	a, l := s.rt.Driver.Describe(addr), &s.last[0]
	l.start, l.size, l.sole = a.Start, a.Size, s.sole(addr)
	return l.sole
}
