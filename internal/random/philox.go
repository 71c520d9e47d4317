// Package random generates random numbers like a device: only from a seed and a counter, by Philox4x32-10 (Salmon,
// Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011), so that every number can be computed
// independently and reproducibly.
package random

import (
	"encoding/binary"
	"math/bits"
)

// Counter is a number of 128 bits, the low word first. Each block of random bits has one.
type Counter [4]uint32

// CounterBytes is the size of a counter in memory, where it is little endian.
const CounterBytes = 16

// ReadCounter returns the counter in b.
func ReadCounter(b []byte) (c Counter) {
	for i := range c {
		c[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return c
}

// Write writes the counter to b.
func (c Counter) Write(b []byte) {
	for i, w := range c {
		binary.LittleEndian.PutUint32(b[4*i:], w)
	}
}

// Add returns the counter plus n, modulo 2^128.
func (c Counter) Add(n uint64) Counter {
	lo, hi := uint64(c[1])<<32|uint64(c[0]), uint64(c[3])<<32|uint64(c[2])
	lo, carry := bits.Add64(lo, n, 0)
	hi += carry
	return Counter{uint32(lo), uint32(lo >> 32), uint32(hi), uint32(hi >> 32)}
}

// The multipliers of a round, the increments of the two words of the key between rounds, and the number of rounds.
const (
	mul0, mul1   = 0xD2511F53, 0xCD9E8D57
	grow0, grow1 = 0x9E3779B9, 0xBB67AE85
	rounds       = 10
)

// block returns the 128 random bits of a seed and a counter.
func block(seed uint64, c Counter) [4]uint32 {
	k0, k1 := uint32(seed), uint32(seed>>32)
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for range rounds {
		p0, p1 := uint64(mul0)*uint64(c0), uint64(mul1)*uint64(c2)
		c0, c1, c2, c3 = uint32(p1>>32)^c1^k0, uint32(p1), uint32(p0>>32)^c3^k1, uint32(p0)
		k0 += grow0
		k1 += grow1
	}
	return [4]uint32{c0, c1, c2, c3}
}
