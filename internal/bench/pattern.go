package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// shift is between the two places of a source that samples read in turn. In a pattern every byte differs from the one
// shift bytes further, so a byte that a sample did not write is seen: it still has the value of the sample before.
const shift = 4096

// newPattern makes n bytes, and shift more.
func newPattern(n int, seed uint64) []byte {
	b := make([]byte, (n+shift+7)&^7)
	random := rand.NewPCG(seed, 1)
	for i := 0; i < len(b); i += 8 {
		word := random.Uint64() &^ 0x0101010101010101
		if i/shift%2 == 1 {
			word |= 0x0101010101010101
		}
		binary.LittleEndian.PutUint64(b[i:], word)
	}
	return b[:n+shift]
}

// shuffled is a fixed random order of 0 to n-1.
func shuffled(n int, seed uint64) []int { return rand.New(rand.NewPCG(seed, 2)).Perm(n) }

// Mismatch is a byte that was copied wrongly.
type Mismatch struct {
	Case      Case
	Offset    int
	Got, Want byte
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s: byte %d of the destination is %#02x, not %#02x", m.Case, m.Offset, m.Got, m.Want)
}

// compare looks at what the moves made of a pattern.
func compare(c Case, got, pattern []byte, list []move) error {
	for _, v := range list {
		g, w := got[v.dst:v.dst+v.n], pattern[v.src:v.src+v.n]
		if bytes.Equal(g, w) {
			continue
		}
		i := 0
		for g[i] == w[i] {
			i++
		}
		return &Mismatch{c, v.dst + i, g[i], w[i]}
	}
	return nil
}
