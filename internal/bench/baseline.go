package bench

import (
	"runtime"
	"sync"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/dl"
	"ropeway/internal/memcopy"
)

// move is one stretch that a sample copies, as offsets into its source and destination.
type move struct{ dst, src, n int }

// moves is what one stream does in a sample: the same for ropeway and for memcpy.
func (c Case) moves() []move {
	if c.Segment == 0 {
		list := make([]move, c.copies())
		for i := range list {
			list[i] = move{i * c.Size, i * c.Size, c.Size}
		}
		return list
	}
	list := make([]move, c.Size/c.Segment)
	for i, from := range shuffled(len(list), uint64(c.Segment)) {
		list[i] = move{i * c.Segment, from * c.Segment, c.Segment}
	}
	return list
}

// memcpy is the machine's own. The C library's is the better one for large copies; calling it costs as much as a small
// copy, and there the compiler's own is the better one.
type memcpy struct {
	libc uintptr // address of the C library's function; 0: not to be had
}

// libcFrom is from how many bytes on the C library's memcpy is used.
const libcFrom = 64 * kib

func findMemcpy() memcpy {
	if l, err := dl.Open("libc.so.6"); err == nil {
		if p, err := l.Symbol("memcpy"); err == nil {
			return memcpy{p}
		}
	}
	return memcpy{}
}

// name says whose it is.
func (m memcpy) name() string {
	if m.libc == 0 {
		return "Go's copy"
	}
	return "libc's memcpy from 64 KiB on, Go's copy below"
}

func (m memcpy) copy(dst, src []byte) {
	if m.libc == 0 || len(src) < libcFrom {
		copy(dst, src)
		return
	}
	dl.Call(m.libc, core.AddrOf(dst), core.AddrOf(src), uintptr(len(src)))
}

// one does the moves on this thread and reports how long it took.
func (m memcpy) one(dst, src []byte, list []move) time.Duration {
	start := time.Now()
	for _, v := range list {
		m.copy(dst[v.dst:v.dst+v.n], src[v.src:v.src+v.n])
	}
	return time.Since(start)
}

// all does the moves, cut into parts, on all CPUs.
func (m memcpy) all(dst, src []byte, parts [][]move) time.Duration {
	return together(len(parts), func(i int) { m.one(dst, src, parts[i]) })
}

// together is how long n calls of f at once take.
func together(n int, f func(i int)) time.Duration {
	var wg sync.WaitGroup
	start := time.Now()
	for i := 1; i < n; i++ {
		wg.Go(func() { f(i) })
	}
	f(0)
	wg.Wait()
	return time.Since(start)
}

// leastPart is the least that is worth another CPU.
const leastPart = 256 * kib

// cut deals moves out to all CPUs, in equal parts.
func cut(list []move) [][]move {
	total := 0
	for _, v := range list {
		total += v.n
	}
	parts := min(runtime.GOMAXPROCS(0), total/leastPart)
	if parts < 2 {
		return [][]move{list}
	}
	each := (total/parts + 63) &^ 63
	var out [][]move
	var part []move
	room := each
	for _, v := range list {
		for v.n > room {
			out = append(out, append(part, move{v.dst, v.src, room}))
			v = move{v.dst + room, v.src + room, v.n - room}
			part, room = nil, each
		}
		part = append(part, v)
		room -= v.n
	}
	return append(out, part)
}

// limitBytes is larger than caches are, so that memory is measured.
const limitBytes = 64 * mib

// limit is the most bytes a second that copying on all CPUs, past the cache or by memcpy, and on one CPU reached in a
// few tries.
func (m memcpy) limit(dst, src []byte) float64 {
	whole := []move{{0, 0, min(len(dst), len(src))}}
	parts := cut(whole)
	best := 0.0
	for range 3 {
		for _, took := range []time.Duration{
			m.all(dst, src, parts),
			m.one(dst, src, whole),
			together(len(parts), func(i int) {
				for _, v := range parts[i] {
					memcopy.CopyStream(core.AddrOf(dst[v.dst:]), core.AddrOf(src[v.src:]), uintptr(v.n))
				}
			}),
		} {
			best = max(best, float64(whole[0].n)/max(took, 1).Seconds())
		}
	}
	return best
}
