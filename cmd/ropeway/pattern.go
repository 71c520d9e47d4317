package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// A pattern is a sequence of bytes that a seed determines: word i of 64 bits is mix(seed, i). Two seeds have nothing in
// common, so a byte that was not copied, or copied from elsewhere, is seen.

// mix is the generator splitmix64.
func mix(seed, i uint64) uint64 {
	z := (seed<<40 ^ i) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// pieceBytes is how much one goroutine fills or checks at a time; between two pieces it looks whether to stop.
const pieceBytes = 1 << 20

// poison is in every byte of a destination that no copy has written.
const poison = 0xA5

// writePattern puts the pattern's bytes from off on, a multiple of 8, into b.
func writePattern(b []byte, seed uint64, off int) {
	i := uint64(off / 8)
	for ; len(b) >= 8; b, i = b[8:], i+1 {
		binary.LittleEndian.PutUint64(b, mix(seed, i))
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], mix(seed, i))
	copy(b, last[:])
}

// patternByte is the byte of the pattern at off.
func patternByte(seed uint64, off int) byte {
	return byte(mix(seed, uint64(off/8)) >> (off % 8 * 8))
}

// differs is the first index of b that is not the pattern from off on, a multiple of 8; -1 if there is none.
func differs(b []byte, seed uint64, off int) int {
	n := 0
	for i := uint64(off / 8); len(b)-n >= 8; n, i = n+8, i+1 {
		if binary.LittleEndian.Uint64(b[n:]) != mix(seed, i) {
			break
		}
	}
	for ; n < len(b); n++ {
		if b[n] != patternByte(seed, off+n) {
			return n
		}
	}
	return -1
}

// segment is one stretch of a copy. Offsets are multiples of 8.
type segment struct{ dst, src, n int }

// pieces cuts long segments.
func pieces(segs []segment) []segment {
	var out []segment
	for _, s := range segs {
		for s.n > pieceBytes {
			out = append(out, segment{s.dst, s.src, pieceBytes})
			s = segment{s.dst + pieceBytes, s.src + pieceBytes, s.n - pieceBytes}
		}
		out = append(out, s)
	}
	return out
}

// parallel calls f for 0 to n-1 on all CPUs until it is done or ctx ends.
func parallel(ctx context.Context, n int, f func(i int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				f(i)
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// fillPattern puts the pattern into all of b.
func fillPattern(ctx context.Context, b []byte, seed uint64) error {
	list := pieces([]segment{{0, 0, len(b)}})
	return parallel(ctx, len(list), func(i int) {
		writePattern(b[list[i].dst:][:list[i].n], seed, list[i].src)
	})
}

// mismatch is a byte that is not what it should be.
type mismatch struct {
	off       int
	got, want byte
}

func (m *mismatch) Error() string {
	return fmt.Sprintf("byte %d of the destination is %#02x, not %#02x", m.off, m.got, m.want)
}

// verify compares all of b with what copying segs, which are in order of their destinations, from a pattern into poison
// gives: every byte of the segments, and every byte between them. It returns the first *mismatch.
func verify(ctx context.Context, b []byte, seed uint64, segs []segment) error {
	list := pieces(segs)
	list = append(list, segment{dst: len(b)}) // what is behind the last
	var mu sync.Mutex
	var first *mismatch
	err := parallel(ctx, len(list), func(i int) {
		m := verifyPiece(b, seed, list, i)
		if m == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if first == nil || m.off < first.off {
			first = m
		}
	})
	if err == nil && first != nil {
		return first
	}
	return err
}

// verifyPiece looks at piece i and at the gap before it.
func verifyPiece(b []byte, seed uint64, list []segment, i int) *mismatch {
	gap := 0
	if i > 0 {
		gap = list[i-1].dst + list[i-1].n
	}
	s := list[i]
	for ; gap < s.dst; gap++ {
		if b[gap] != poison {
			return &mismatch{gap, b[gap], poison}
		}
	}
	if at := differs(b[s.dst:][:s.n], seed, s.src); at >= 0 {
		return &mismatch{s.dst + at, b[s.dst+at], patternByte(seed, s.src+at)}
	}
	return nil
}
