package pod

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"ropeway/internal/ucx"
)

// until lets an insider's worker go on until something is so.
func (i *insider) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); i.w.Progress() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s: %d messages came", what, len(i.back))
		}
	}
}

// TestAnswersTogether proves that large writes that come one after the other are answered by one message, which names
// all of them, that a small one is answered at once, and that no answer stays away when nothing more comes.
func TestAnswersTogether(t *testing.T) {
	a := node(t, podFile(t, 2, ""), 0)
	x, _ := export(t, a, 1<<20, true)
	i := sneak(t, a)
	share := i.opens(t, x.Handle)
	a.mu.Lock()
	var e *engine
	for _, e = range a.served {
	}
	a.mu.Unlock()
	data := make([]byte, ackLater)
	// write has the owner carry out a write, as if it had come; it is called by the engine.
	write := func(op uint64, n int) {
		e.end.serve(&header{kind: kWrite, op: op, share: share, length: uint64(n)}, &ucx.Message{Data: data[:n]})
	}
	i.back, i.data = nil, nil
	var owed [3]int
	e.call(func() {
		for op := range uint64(ackMost - 1) {
			write(10+op, ackLater)
		}
		owed[0] = len(e.end.owed)
		write(20, ackLater-1)
		owed[1] = len(e.end.owed)
		write(10+ackMost-1, ackLater)
		owed[2] = len(e.end.owed)
		write(30, ackLater)
	})
	if owed != [...]int{ackMost - 1, ackMost - 1, 0} {
		t.Errorf("%v answers wait", owed)
	}
	i.until(t, "answers", func() bool { return len(i.back) == 3 })
	slices.SortFunc(i.back, func(a, b header) int { return int(a.op) - int(b.op) })
	var list []byte
	for op := range uint64(ackMost - 1) {
		list = putOp(list, 11+op)
	}
	for j, want := range []header{{op: 10, count: ackMost - 1}, {op: 20}, {op: 30}} {
		if h := i.back[j]; h.kind != kAck || h.status != statusDone || h.op != want.op || h.count != want.count {
			t.Errorf("answer %d is %+v", j, h)
		}
	}
	if !bytes.Equal(i.data, list) {
		t.Errorf("the answers name %x, want %x", i.data, list)
	}
}

// TestReadInPieces proves that a read of several pieces is answered by each of them, and that of more by none.
func TestReadInPieces(t *testing.T) {
	a := node(t, podFile(t, 2, ""), 0)
	const size = readMost + 64
	x, theirs := export(t, a, size, true)
	pattern(theirs, 9)
	i := sneak(t, a)
	share := i.opens(t, x.Handle)
	const n = readMost - pieceMost + 1
	h := i.asks(t, header{kind: kRead, share: share, offset: 63, length: n}, nil, share)
	if h == nil || h.kind != kData {
		t.Fatalf("answered by %+v", h)
	}
	i.until(t, "pieces", func() bool { return len(i.back) > readMost/pieceMost })
	for j, h := range i.back[:readMost/pieceMost] {
		if h.kind != kData || h.op != 7 || h.offset != uint64(j)*pieceMost {
			t.Errorf("piece %d is %+v", j, h)
		}
	}
	if !bytes.Equal(i.data[:n], theirs[63:63+n]) {
		t.Error("other bytes")
	}
	if h := i.asks(t, header{kind: kRead, share: share, length: readMost + 1}, nil, share); h == nil ||
		h.status != statusBad {
		t.Errorf("a read of too much is answered by %+v", h)
	}
}
