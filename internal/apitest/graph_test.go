package apitest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ropeway"
)

// TestGraph captures a step, runs it, changes an address and runs it again.
func TestGraph(t *testing.T) {
	d := device(t)
	s := get(d.NewStream())(t)
	side := get(d.NewStream())(t)
	fork, join := get(d.NewEvent())(t), get(d.NewEvent())(t)
	in, out := get(d.AllocPinned(4096))(t), get(d.AllocPinned(4096))(t)
	mem := get(d.Alloc(8192))(t)
	g, err := s.Capture(func() error {
		ok(t, s.Copy(mem.Range(0, 4096), in.All()))
		ok(t, s.Record(fork))
		ok(t, side.Wait(fork))
		ok(t, side.Copy(mem.Range(4096, 4096), mem.Range(0, 4096)))
		ok(t, side.Record(join))
		ok(t, s.Wait(join))
		return s.Copy(out.All(), mem.Range(4096, 4096))
	})
	ok(t, err)
	if g.Len() != 7 {
		t.Errorf("%d tasks, want 7", g.Len())
	}
	for i := range 3 {
		copy(in.Bytes(), pattern(4096, i))
		clear(out.Bytes())
		ok(t, g.Run(s))
		ok(t, s.Synchronize(ctx))
		if !bytes.Equal(out.Bytes(), pattern(4096, i)) {
			t.Fatalf("run %d: other bytes than went in", i)
		}
	}
	other := get(d.AllocPinned(4096))(t)
	copy(other.Bytes(), pattern(4096, 9))
	ok(t, g.SetCopy(0, mem.Range(0, 4096), other.All()))
	ok(t, g.Run(side))
	ok(t, side.Synchronize(ctx))
	if !bytes.Equal(out.Bytes(), pattern(4096, 9)) {
		t.Error("the copy was not changed")
	}
	name := filepath.Join(t.TempDir(), "graph.json")
	ok(t, g.WriteJSON(name))
	if text := get(os.ReadFile(name))(t); !bytes.Contains(text, []byte("EVENT_WAIT")) {
		t.Errorf("%s", text)
	}
	if err := g.SetCopy(1, mem.All(), other.All()); !errors.Is(err, ropeway.ErrRTParamInvalid) {
		t.Errorf("changing a record to a copy: %v", err)
	}
	ok(t, mem.Close())
	if err := g.Run(s); !errors.Is(err, ropeway.ErrRTParamInvalid) {
		t.Errorf("running with memory that is gone: %v", err)
	}
	ok(t, g.Close())
}

// TestGraphFails: a capture whose function fails leaves nothing behind, and one that is not joined says which stream.
func TestGraphFails(t *testing.T) {
	d := device(t)
	s, side := get(d.NewStream())(t), get(d.NewStream())(t)
	e := get(d.NewEvent())(t)
	mine := errors.New("mine")
	if _, err := s.Capture(func() error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	_, err := s.Capture(func() error {
		ok(t, s.Record(e))
		return side.Wait(e)
	})
	if !errors.Is(err, ropeway.ErrRTStreamUnjoined) {
		t.Errorf("a stream that was not joined: %v", err)
	}
	func() {
		defer func() { recover() }()
		s.Capture(func() error { panic("in the function") })
	}()
	ok(t, s.Synchronize(ctx)) // which fails while it is captured
}
