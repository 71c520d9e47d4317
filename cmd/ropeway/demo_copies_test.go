package main

import (
	"context"
	"errors"
	"testing"
)

// TestVerify changes every byte of a destination with gaps, one after another, and expects it to be found.
func TestVerify(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := &demo{ctx: ctx, pattern: newPattern()}
	last := len(d.pattern) - 5 // a segment that reads the end of the pattern, and goes on at its start
	segs := []segment{{8, 64, 16}, {24, 0, 8}, {48, last, 13}}
	good := make([]byte, 80)
	for i := range good {
		good[i] = poison
	}
	for _, s := range segs {
		for i := range s.n {
			good[s.dst+i] = d.pattern[(s.src+i)%len(d.pattern)]
		}
	}
	if err := d.verify(good, segs); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		good[i] ^= 1
		var m *mismatch
		if err := d.verify(good, segs); !errors.As(err, &m) || m.off != i || m.got != good[i] || m.want != good[i]^1 {
			t.Errorf("byte %d: %v", i, err)
		}
		good[i] ^= 1
	}
	good[79], good[30], good[50] = 0, 0, 0
	var m *mismatch
	if err := d.verify(good, segs); !errors.As(err, &m) || m.off != 30 {
		t.Errorf("the first of three is not named: %v", err)
	}
	cancel()
	if err := d.verify(good[:30], segs); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
