package conformance

import (
	"math/rand/v2"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
)

// TestCopiesInOrder sends random copies and fills through one stream and compares what they leave with the same work
// done in order on plain slices.
func TestCopiesInOrder(t *testing.T) {
	for seed := range uint64(6) {
		e := newEnv(t, machine{})
		r := rand.New(rand.NewPCG(seed, 0))
		const size = 1 << 20
		places := []where{dev, dev, host, unreg}
		var at []core.Addr
		var model [][]byte
		for i, w := range places {
			at = append(at, e.memory(w, size))
			model = append(model, noise(size, uint64(i)))
			e.write(at[i], model[i])
		}
		s := e.stream()
		desc, release := e.device(64), e.block(s)
		for step := range 400 {
			if step == 30 {
				release() // until then everything queues up, and nothing that would wait is asked for
			}
			n := 1 + r.Uint64N(1<<(4+r.Uint64N(16)))
			n = min(n, size)
			i, j := r.IntN(len(places)), r.IntN(len(places))
			if step < 30 {
				i, j = r.IntN(3), r.IntN(3)
			}
			from, to := r.Uint64N(size-n+1), r.Uint64N(size-n+1)
			src, dst := at[i]+core.Addr(from), at[j]+core.Addr(to)
			switch op := r.IntN(10); {
			case op == 0 && places[j] == dev:
				e.ok(transfer.MemsetAsync(e.th, dst, n, int32(step), n, s))
				copy(model[j][to:], repeat(byte(step), int(n)))
			case op == 1 && places[i] == dev && places[j] == dev && step >= 30 && i != j:
				e.ok(e.th.SynchronizeStream(s)) // the descriptor is the same for all
				e.ok(transfer.SetMemcpyDesc(e.th, desc, inner, src, dst, n, 0))
				e.ok(transfer.MemcpyAsyncWithDesc(e.th, desc, inner, s))
				copy(model[j][to:], model[i][from:from+n])
			case op == 2 && places[i] != dev && places[j] == dev && step >= 30:
				if places[i] == host {
					e.ok(e.th.SynchronizeStream(s)) // its bytes are read now
				}
				e.ok(transfer.MemcpyAsync(e.th, dst, n, src, n, buf, s))
				copy(model[j][to:], model[i][from:from+n])
			case (places[i] == dev) != (places[j] == dev) && op < 6:
				a := oneSegment(e, places[i], places[j])
				a.dsts[0], a.srcs[0], a.sizes[0], a.destMaxs[0], a.stream = dst, src, n, n, s
				e.ok(batchAsync(e, a))
				copy(model[j][to:], model[i][from:from+n])
				if places[i] == unreg || places[j] == unreg {
					idle(e, s)
				}
			case places[i] == dev || places[j] == dev:
				if i == j && from < to+n && to < from+n {
					continue // overlap inside one copy: TestBehaviour/aclrtMemcpy
				}
				e.ok(transfer.MemcpyAsync(e.th, dst, n, src, n, dflt, s))
				copy(model[j][to:], model[i][from:from+n])
				if places[i] == unreg || places[j] == unreg {
					idle(e, s)
				}
			}
		}
		e.ok(e.th.SynchronizeStream(s))
		for i := range places {
			e.holds(at[i], model[i])
		}
	}
}

// TestCopyHammer has many threads copy on streams of their own and on one they share.
func TestCopyHammer(t *testing.T) {
	e := newEnv(t, machine{})
	shared := e.stream()
	loops := 200
	if testing.Short() {
		loops = 50
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			th := e.rt.NewThread(uint32(100 + g))
			ok := func(err *core.Error) bool {
				if err != nil {
					t.Errorf("thread %d: %v", g, err)
				}
				return err == nil
			}
			if !ok(th.SetDevice(0)) {
				return
			}
			var own core.Handle
			var p, q, up, down core.Addr
			const size = 300 << 10
			if !ok(th.CreateStream(&own)) || !ok(memory.Malloc(th, &p, size, abi.MemMallocHugeFirst)) ||
				!ok(memory.Malloc(th, &q, size, abi.MemMallocHugeFirst)) ||
				!ok(memory.MallocHost(th, &up, size)) || !ok(memory.MallocHost(th, &down, size)) {
				return
			}
			r := rand.New(rand.NewPCG(uint64(g), 9))
			for i := range loops {
				s := own
				if i%3 == 0 {
					s = shared
				}
				n := 1 + r.Uint64N(1<<(3+r.Uint64N(15)))
				b := bytes(up, n)
				for j := range b {
					b[j] = byte(g*31 + i + j)
				}
				to := down
				page := make([]byte, n)
				if i%5 == 0 {
					to = core.AddrOf(page)
				}
				if !ok(transfer.MemcpyAsync(th, p, n, up, n, h2d, s)) ||
					!ok(transfer.MemcpyAsync(th, q, n, p, n, d2d, s)) ||
					!ok(transfer.MemcpyAsync(th, to, n, q, n, d2h, s)) || !ok(th.SynchronizeStream(s)) {
					return
				}
				got := bytes(down, n)
				if i%5 == 0 {
					got = page
				}
				for j := range got {
					if got[j] != byte(g*31+i+j) {
						t.Errorf("thread %d, loop %d: byte %d of %d is wrong", g, i, j, n)
						return
					}
				}
			}
		}()
	}
	wg.Wait()
}
