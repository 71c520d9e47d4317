package check

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/core"
	models "ropeway/internal/core/model"
)

// Sizes of the random programs of TestReplay.
const (
	replaySlots = 8    // places of a buffer
	replayStep  = 4096 // bytes between two of them
	replayCalls = 120
)

// hex is an address.
var hex = regexp.MustCompile("0x[0-9a-f]+")

// replayed runs a random program that executes models again and again, beside copies of their memory, and returns its
// findings. It counts the buffers used last by a model with steady steps.
func replayed(t *testing.T, seed uint64, steady *int) (list []string) {
	p := begin(t, func(o *Options) { o.Seed = seed })
	defer p.finish()
	by := p.withFrontEnd()
	by.in("aclrtMalloc", 1)
	r := rand.New(rand.NewPCG(seed, 1))
	var devices [2]core.Addr
	for i := range devices {
		devices[i] = p.dev(replaySlots * replayStep)
	}
	host, e := p.pinned(replaySlots*replayStep), p.event(latest)
	streams := []core.Handle{p.stream(), p.stream()}
	place := func() core.Addr { return devices[r.IntN(2)] + core.Addr(r.IntN(replaySlots)*replayStep) }
	copies := func(s core.Handle) {
		at := core.Addr(r.IntN(replaySlots) * replayStep)
		switch r.IntN(4) {
		case 0:
			p.up(place(), host+at, 64, s)
		case 1:
			p.down(host+at, place(), 64, s)
		default:
			dst, src := place(), place()
			for src == dst {
				src = place()
			}
			p.across(dst, src, uint64(64<<r.IntN(2)), s)
		}
	}
	var programs []core.Handle
	for i := range 2 {
		by.in("aclmdlRICaptureBegin", 2)
		p.capture(streams[0], relaxed)
		for range 1 + r.IntN(8) {
			by.in("aclrtMemcpyAsync", uint32(10+i))
			copies(streams[0])
		}
		programs = append(programs, p.model(streams[0]))
	}
	for i := uint32(0); i < replayCalls; i++ {
		s := streams[r.IntN(2)]
		switch r.IntN(12) {
		case 0:
			by.in("aclrtMemcpyAsync", 100+i)
			copies(s)
		case 1:
			by.in("aclrtRecordEvent", 100+i)
			p.ok(p.RecordEvent(e, streams[0]))
			by.in("aclrtStreamWaitEvent", 100+i)
			p.ok(p.StreamWaitEvent(streams[1], e))
		case 2:
			by.in("aclrtSynchronizeDevice", 100+i)
			p.ok(p.SynchronizeDevice())
		case 3:
			by.in("", 100+i)
			p.writes(host+core.Addr(r.IntN(replaySlots)*replayStep), 64)
		default:
			for range 1 + r.IntN(6) {
				by.in("aclmdlRIExecuteAsync", 100+i)
				p.ok(models.MdlRIExecuteAsync(p.Thread, programs[r.IntN(8)/7], s))
				if r.IntN(3) > 0 {
					p.ok(p.SynchronizeStream(s))
				}
			}
		}
	}
	p.ok(p.SynchronizeDevice())
	for _, f := range p.findings() {
		list = append(list, hex.ReplaceAllString(show(f), "0x"))
	}
	p.c.ledger.memory.Scan(func(_ uintptr, a *allocation) bool {
		if r := a.user.of; r != nil && r.at > 0 {
			*steady++
		}
		return true
	})
	return list
}

// TestReplay proves that executions that are not judged again hide nothing and invent nothing: random programs have the
// findings that they have when each execution is judged.
func TestReplay(t *testing.T) {
	defer func() { replaying = true }()
	steady := 0
	for seed := uint64(1); seed <= 200; seed++ {
		replaying = true
		got := replayed(t, seed, &steady)
		replaying = false
		want := replayed(t, seed, new(int))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: found\n%s\nwant\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if steady == 0 && !t.Failed() {
		t.Error("every step was judged")
	}
}
