package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/product"
	"ropeway/spec/table"
)

// seed is the machine that the sentences of the documents the project began with are tested on.
type seed struct {
	*env
	machine
	s core.Handle
}

// oldest is the product of the first document, whose device finds out late what it cannot do.
func (s *seed) oldest() bool { return s.product == "310" }

// onBoard is RC form, in which host and device are one.
func (s *seed) onBoard() bool { return s.form == "RC" }

func (s *seed) sync() abi.Code { return codeOf(s.th.SynchronizeStream(s.s)) }

// seedTests are the tests that spec/seeds.yaml names. C and Python have the same.
var seedTests = map[string]func(s *seed){}

// TestSeeds runs the test of every sentence, on every product in every form, in both modes.
func TestSeeds(t *testing.T) {
	documents, err := table.LoadSeeds()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range product.Names() {
		forms := []string{"EP"}
		if slices.Contains(product.RCForms(), name) {
			forms = append(forms, "RC")
		}
		for _, form := range forms {
			for _, strict := range []bool{false, true} {
				m := machine{product: name, form: form, strict: strict, devices: 2}
				t.Run(fmt.Sprintf("%s/%s/strict=%t", name, form, strict), func(t *testing.T) {
					for _, d := range documents {
						e := newEnv(t, m)
						for _, sentence := range d.Sentences {
							used[sentence.Test] = true
							if test := seedTests[sentence.Test]; test != nil {
								t.Run(fmt.Sprintf("%s/%02d", d.ID, sentence.N), func(t *testing.T) {
									e := &env{T: t, rt: e.rt, th: e.th, faults: e.faults}
									test(&seed{e, m, e.stream()})
								})
							} else if sentence.Only == "" && !slices.Contains(seedsOfFaces, sentence.Test) {
								t.Errorf("%s/%02d has no test %s", d.ID, sentence.N, sentence.Test)
							}
						}
					}
				})
			}
		}
	}
	for name := range seedTests {
		if !used[name] && !t.Failed() {
			t.Errorf("no sentence has the test %s", name)
		}
	}
}

// seedsOfFaces are tests of how C and Python spell a function.
var seedsOfFaces = []string{"async_prototype", "batch_prototype", "desc_prototype"}

// is fails the test unless a call ended with code.
func (s *seed) is(code abi.Code, err *core.Error) { s.Helper(); s.want(err, code) }

// copy makes an asynchronous copy of 100 bytes.
func (s *seed) copy(dst, src core.Addr, kind abi.MemcpyKind) *core.Error {
	return transfer.MemcpyAsync(s.th, dst, 100, src, 100, kind, s.s)
}

// ends is 1024 bytes in two places: new ones in the source, old ones in the destination.
func (s *seed) ends(from, to where) (src, dst core.Addr) {
	s.Helper()
	src, dst = s.memory(from, 1024), s.memory(to, 1024)
	s.write(src, noise(1024, 1))
	s.write(dst, noise(1024, 2))
	return src, dst
}

// arrived checks that 100 bytes, from an offset of the source on, are at dst; isOld that nothing is.
func (s *seed) arrived(dst core.Addr, from int) {
	s.Helper()
	s.holds(dst, noise(1024, 1)[from:from+100])
}
func (s *seed) isOld(dst core.Addr) { s.Helper(); s.holds(dst, noise(1024, 2)) }

// ordinary makes a copy with pageable memory: it may fail when it runs on the oldest product, and elsewhere is
// complete when the call returns.
func (s *seed) ordinary(from, to where, kind abi.MemcpyKind) {
	s.Helper()
	src, dst := s.ends(from, to)
	if !s.oldest() || s.onBoard() {
		s.ok(s.copy(dst, src, kind))
		s.arrived(dst, 0)
		return
	}
	s.ok(s.copy(dst, src, kind))
	if got := s.sync(); got != abi.ErrRTSysDma {
		s.Errorf("the task ended with %d, want %d", got, abi.ErrRTSysDma)
	}
	s.isOld(dst)
}

// uploads checks that a copy with pinned memory arrives when its stream was synchronised.
func uploads(s *seed) {
	src, dst := s.ends(host, dev)
	s.ok(s.copy(dst+64, src+128, h2d))
	s.is(abi.Success, s.th.SynchronizeStream(s.s))
	s.holds(dst, noise(1024, 2)[:64])
	s.arrived(dst+64, 128)
	s.holds(dst+164, noise(1024, 2)[164:])
	s.holds(src, noise(1024, 1))
}

func init() {
	seedTests["async_copies"] = uploads
	seedTests["async_synchronised"] = uploads
	seedTests["async_product"] = uploads
	seedTests["async_dest_max"] = func(s *seed) {
		src, dst := s.ends(host, dev)
		s.is(abi.ErrRTParamInvalid, transfer.MemcpyAsync(s.th, dst, 99, src, 100, h2d, s.s))
		s.isOld(dst)
		s.ok(s.copy(dst, src, h2d))
		s.is(abi.Success, s.th.SynchronizeStream(s.s))
		s.arrived(dst, 0)
	}
	seedTests["async_kinds"] = func(s *seed) {
		if h2h != 0 || h2d != 1 || d2h != 2 || d2d != 3 {
			s.Error("the kinds have other numbers")
		}
		for kind, way := range map[abi.MemcpyKind][2]where{1: {host, dev}, 2: {dev, host}, 3: {dev, dev}} {
			src, dst := s.ends(way[0], way[1])
			s.ok(s.copy(dst, src, kind))
			s.is(abi.Success, s.th.SynchronizeStream(s.s))
			s.arrived(dst, 0)
		}
	}
	delivers := func(s *seed) {
		src, dst := s.ends(host, dev)
		other, release := s.blocked()
		s.ok(transfer.MemcpyAsync(s.th, dst, 100, src, 100, h2d, other))
		s.is(abi.Success, s.th.SynchronizeStream(s.s)) // of another stream
		s.isOld(dst)
		release()
		s.is(abi.Success, s.th.SynchronizeStream(other))
		s.arrived(dst, 0)
	}
	seedTests["async_stream"], seedTests["async_delivers"] = delivers, delivers
	seedTests["async_returns"] = func(s *seed) {
		src, dst := s.ends(host, dev)
		s.is(abi.Success, s.copy(dst, src, h2d))
		for _, err := range []*core.Error{s.copy(0, src, h2d), s.copy(dst, 0, h2d), s.copy(dst, src, 99),
			transfer.MemcpyAsync(s.th, dst, 100, src, 100, h2d, garbage)} {
			if err == nil {
				s.Error("a call with a wrong argument succeeds")
			}
		}
		s.is(abi.Success, s.th.SynchronizeStream(s.s))
	}
	seedTests["async_alignment"] = func(s *seed) {
		for _, by := range []core.Addr{0, 1, 8, 63, 64} {
			for _, end := range []string{"src", "dst"} {
				src, dst := s.ends(host, dev)
				to, from := dst, src
				if end == "src" {
					from += by
				} else {
					to += by
				}
				err := s.copy(to, from, h2d)
				if by%64 == 0 || !s.strict && !s.oldest() {
					s.ok(err)
					s.is(abi.Success, s.th.SynchronizeStream(s.s))
					s.arrived(to, int(from-src))
					continue
				}
				s.is(abi.ErrRTParamInvalid, err)
				if wrong := map[string]core.Addr{"src": from, "dst": to}[end]; err.Arg != end ||
					!strings.Contains(err.Text, fmt.Sprintf("%#x", wrong)) {
					s.Errorf("%s is wrong, and it says %v", end, err)
				}
				s.isOld(dst)
			}
		}
	}
	seedTests["async_pageable"] = func(s *seed) {
		s.ordinary(unreg, dev, h2d)
		s.ordinary(dev, unreg, d2h)
	}
	seedTests["async_host_memory"] = func(s *seed) {
		uploads(s)
		s.ordinary(unreg, dev, h2d)
	}
	seedTests["async_board"] = func(s *seed) {
		var mode abi.RunMode
		s.ok(process.GetRunMode(s.th, &mode))
		if (mode == abi.RunModeDevice) != s.onBoard() {
			s.Errorf("run mode %v", mode)
		}
		for kind := h2h; s.onBoard() && kind <= d2h; kind++ {
			for _, way := range [][2]where{{host, dev}, {dev, host}, {host, host}} {
				src, dst := s.ends(way[0], way[1])
				s.ok(s.copy(dst, src, kind))
				s.is(abi.Success, s.th.SynchronizeStream(s.s))
				s.arrived(dst, 0)
			}
		}
	}
	seedTests["async_host_to_host"] = func(s *seed) {
		for _, way := range [][2]where{{host, host}, {unreg, unreg}, {host, dev}, {dev, dev}, {dev, host}} {
			src, dst := s.ends(way[0], way[1])
			call, task := abi.ErrRTFeatureNotSupport, abi.Success
			hosts := way[0] != dev && way[1] != dev
			switch {
			case s.onBoard(), !s.strict && !s.oldest() && s.product != "A2" && s.product != "A3" && !hosts:
				call = abi.Success
			case s.oldest():
				call, task = abi.Success, abi.ErrRTSysDma
			}
			s.is(call, s.copy(dst, src, h2h))
			if got := s.sync(); got != task {
				s.Errorf("%v: the task ended with %d, want %d", way, got, task)
			}
			if call == abi.Success && task == abi.Success {
				s.arrived(dst, 0)
			} else {
				s.isOld(dst)
			}
		}
	}
}
