package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
)

const (
	gap    = 128  // between two segments, and before the first
	around = 16   // bytes on either side that are compared
	blank  = 0xa5 // what destinations hold before
	flush  = 256 << 20
)

// ground is a device with memory on both sides.
type ground struct {
	d    driver.Driver
	q    driver.Queue
	room uint64
	// Sources, which hold the same bytes, and destinations.
	hostFrom, hostTo, deviceFrom, deviceTo, scrap uintptr
	from, to                                      []byte // the host's
	random                                        *rand.Rand

	mu  sync.Mutex
	err error // guarded by mu; the first failure since it was asked for
}

func newGround(d driver.Driver, room uint64) (*ground, error) {
	g := &ground{d: d, room: room, random: rand.New(rand.NewPCG(1, 2))}
	v, err := d.Open(0)
	if err != nil {
		return nil, err
	}
	var errs [5]error
	g.hostFrom, errs[0] = d.AllocHost(room)
	g.hostTo, errs[1] = d.AllocHost(room)
	g.deviceFrom, errs[2] = v.Alloc(room, driver.PageHugeFirst)
	g.deviceTo, errs[3] = v.Alloc(room, driver.PageHugeFirst)
	g.scrap, errs[4] = v.Alloc(min(flush, room), driver.PageHugeFirst)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	g.q = v.NewQueue(driver.QueueOptions{Sink: g})
	g.from, g.to = bytesAt(g.hostFrom, room), bytesAt(g.hostTo, room)
	each(int(room>>20), func(i int) {
		part := g.from[i<<20 : (i+1)<<20]
		rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), 1}).Read(part)
	})
	return g, d.Run(driver.Op{Kind: driver.OpCopy, Dst: g.deviceFrom, Src: g.hostFrom, N: room})
}

// TaskFailed implements driver.Sink.
func (g *ground) TaskFailed(_ driver.Tag, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = errors.Join(g.err, err)
}

func (g *ground) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.err
	g.err = nil
	return err
}

// ends are where the destinations and the sources of a way begin.
func (g *ground) ends(way string) (dst, src uintptr) {
	switch way {
	case "h2d":
		return g.deviceTo, g.hostFrom
	case "d2h":
		return g.hostTo, g.deviceFrom
	}
	return g.deviceTo, g.deviceFrom
}

// segments lays them out at random.
func (g *ground) segments(r *request) ([]driver.Segment, error) {
	slot := (r.bytes+127)/128*128 + gap
	if uint64(r.segments*slot+2*gap) > g.room {
		return nil, fmt.Errorf("no room for %d segments of %d bytes", r.segments, r.bytes)
	}
	dst, src := g.ends(r.way)
	to, from := g.random.Perm(r.segments), g.random.Perm(r.segments)
	list := make([]driver.Segment, r.segments)
	for i := range list {
		a, b, less := 0, 0, 0
		if r.odd != 0 {
			a, b, less = g.random.IntN(16), g.random.IntN(16), g.random.IntN(16)
		}
		list[i] = driver.Segment{
			Dst: dst + uintptr(gap+to[i]*slot+a), Src: src + uintptr(gap+from[i]*slot+b), N: uint64(r.bytes - less),
		}
	}
	return list, nil
}

// used is how much of a destination the segments take, with what is compared after them.
func (g *ground) used(way string, list []driver.Segment) uint64 {
	dst, _ := g.ends(way)
	used := uint64(0)
	for _, s := range list {
		used = max(used, uint64(s.Dst-dst)+s.N)
	}
	return used + around
}

// poison overwrites the destination, and what the GPU has in its cache. The device writes host memory, the source once
// more too: what the host's cores have in their caches, it would have to fetch from there.
func (g *ground) poison(r *request, used uint64) error {
	ops := []driver.Op{{Kind: driver.OpFill, Dst: g.deviceTo, N: used, Width: 1, Value: blank}}
	switch r.way {
	case "h2d":
		ops = append(ops, driver.Op{Kind: driver.OpCopy, Dst: g.hostFrom, Src: g.deviceFrom, N: used})
	case "d2h":
		ops = append(ops, driver.Op{Kind: driver.OpCopy, Dst: g.hostTo, Src: g.deviceTo, N: used})
	}
	for _, op := range ops {
		g.q.Submit(op)
	}
	return g.write(1)
}

// rouse gives the GPU something to do for a while: while the host compared it was idle, and has slowed down.
func (g *ground) rouse() error { return g.write(24) }

// write overwrites memory that nobody needs, so many times.
func (g *ground) write(times int) error {
	for range times {
		g.q.Submit(driver.Op{Kind: driver.OpFill, Dst: g.scrap, N: min(flush, g.room), Width: 1})
	}
	g.q.Wait(0, nil)
	return g.failed()
}

// compare finds out whether all that was to be copied is there, and nothing else.
func (g *ground) compare(r *request, list []driver.Segment, used uint64) error {
	dst, src := g.ends(r.way)
	if r.way != "d2h" {
		if err := g.d.Run(driver.Op{Kind: driver.OpCopy, Dst: g.hostTo, Src: g.deviceTo, N: used}); err != nil {
			return err
		}
	}
	var wrong atomic.Int64
	untouched := bytes.Repeat([]byte{blank}, around)
	each(len(list), func(i int) {
		s := &list[i]
		at, from := uint64(s.Dst-dst), uint64(s.Src-src)
		if !bytes.Equal(g.to[at:at+s.N], g.from[from:from+s.N]) || !bytes.Equal(g.to[at-around:at], untouched) ||
			!bytes.Equal(g.to[at+s.N:at+s.N+around], untouched) {
			wrong.Add(1)
		}
	})
	if n := wrong.Load(); n > 0 {
		return fmt.Errorf("WRONG: %d of %d segments of %d bytes, %s %s", n, len(list), r.bytes, r.what, r.way)
	}
	return nil
}

// ordinary times a copy of ordinary memory in place of the host's end of s.
func (g *ground) ordinary(r *request, s driver.Segment) (time.Duration, error) {
	b, err := unix.Mmap(-1, 0, int(s.N), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(b)
	dst, src := g.ends(r.way)
	at, from := uint64(s.Dst-dst), uint64(s.Src-src)
	op := driver.Op{Kind: driver.OpCopy, Dst: s.Dst, Src: s.Src, N: s.N}
	switch r.way {
	case "h2d":
		copy(b, g.from[from:])
		op.Src = startOf(b)
	case "d2h":
		if r.what == "ordinary" {
			clear(b)
		}
		op.Dst = startOf(b)
	default:
		return 0, errors.New("ordinary memory is on one side")
	}
	start := time.Now()
	if err := g.d.Run(op); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if r.way == "d2h" {
		copy(g.to[at:], b)
	}
	return took, nil
}

// each calls f with 0 to n-1, on all cores.
func each(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
