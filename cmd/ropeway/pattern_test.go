package main

import (
	"context"
	"errors"
	"testing"
)

// TestPattern compares the ways to make and to check a pattern, for lengths around words and pieces.
func TestPattern(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 4096, pieceBytes - 1, pieceBytes, pieceBytes + 9, 3*pieceBytes + 5} {
		b := make([]byte, n)
		if err := fillPattern(t.Context(), b, 7); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if b[i] != patternByte(7, i) {
				t.Fatalf("%d bytes: byte %d is %#x, not %#x", n, i, b[i], patternByte(7, i))
			}
		}
		if at := differs(b, 7, 0); at >= 0 {
			t.Fatalf("%d bytes: byte %d differs", n, at)
		}
		if n >= 8 && differs(b, 8, 0) < 0 {
			t.Errorf("%d bytes: two seeds give the same", n)
		}
	}
}

// TestVerify changes every byte of a destination with gaps, one after another, and wants it found.
func TestVerify(t *testing.T) {
	segs := []segment{{8, 64, 16}, {24, 0, 8}, {48, 24, 13}}
	good := make([]byte, 80)
	for i := range good {
		good[i] = poison
	}
	for _, s := range segs {
		for i := range s.n {
			good[s.dst+i] = patternByte(3, s.src+i)
		}
	}
	if err := verify(t.Context(), good, 3, segs); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		good[i] ^= 1
		var m *mismatch
		if err := verify(t.Context(), good, 3, segs); !errors.As(err, &m) || m.off != i || m.got != good[i] || m.want != good[i]^1 {
			t.Errorf("byte %d: %v", i, err)
		}
		good[i] ^= 1
	}
	good[79], good[30], good[50] = 0, 0, 0
	var m *mismatch
	if err := verify(t.Context(), good, 3, segs); !errors.As(err, &m) || m.off != 30 {
		t.Errorf("the first of three is not named: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := verify(ctx, good, 3, segs); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
