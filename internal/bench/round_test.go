package bench

import (
	"context"
	"errors"
	"ropeway/internal/testenv"
	"ropeway/internal/ui"
	"testing"

	"ropeway"
)

// open is a small runtime.
func open(t *testing.T, options ...ropeway.Option) *ropeway.Runtime {
	t.Helper()
	rt, err := ropeway.Open(append([]ropeway.Option{ropeway.WithDevices(2), ropeway.WithLogger(nil)}, options...)...)
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// small is a sweep of all kinds of copies.
func small() Axes {
	return Axes{Sizes: []int{1, 100, 4096, 70000, 3 * mib}, Directions: Directions, Memories: Memories,
		Segments: []int{0, 64, 4096}, Streams: []int{1, 3}, Devices: []int{1, 2}}
}

// inProcess runs rounds here, each on a runtime of its own.
func inProcess(t *testing.T, options ...ropeway.Option) func(context.Context, Spec, func(Event) error) error {
	return func(ctx context.Context, spec Spec, each func(Event) error) error {
		return Round(ctx, open(t, options...), spec, each)
	}
}

// TestRun proves that every case of a sweep is measured in every round, and verified.
func TestRun(t *testing.T) {
	cases := small().Cases()
	steps := 0
	r, err := Run(t.Context(), Options{Cases: cases, Rounds: 2, Round: inProcess(t), Version: "v1",
		Progress: func(done, total int) {
			if done != steps || total != 2*len(cases) {
				t.Errorf("%d of %d, not %d", done, total, steps)
			}
			steps++
		}})
	testenv.OK(t, err)
	if r.Driver != "soft" || r.Product != "A2" || r.Devices != 2 || r.Limit <= 0 || r.Memcpy == "" ||
		r.Machine.CPUs < 1 || r.Ropeway != "v1" {
		t.Errorf("%+v", r)
	}
	least := int64(0)
	for i, p := range r.Points {
		if p.Case != cases[i] || p.Skipped != "" || len(p.Seconds) != 2 {
			t.Errorf("%+v", p)
		}
		least += int64(p.Bytes() * 2 * (leastSamples + 1))
	}
	if r.Verified < least {
		t.Errorf("%d bytes verified, there were %d", r.Verified, least)
	}
}

// TestSkipped proves that what a product or machine does not have is left out, with the reason.
func TestSkipped(t *testing.T) {
	axes := small()
	axes.Sizes = []int{4096}
	r, err := Run(t.Context(), Options{Cases: axes.Cases(), Rounds: 1,
		Round: inProcess(t, ropeway.WithProduct(ropeway.Product310, ropeway.EP), ropeway.WithDevices(1))})
	testenv.OK(t, err)
	for _, p := range r.Points {
		want := ""
		switch {
		case p.Direction == PeerToPeer || p.Devices > 1:
			want = "needs 2 devices"
		case p.Segment > 0 || p.Memory == Registered:
			want = "not on the 310 (207000)"
		}
		if p.Skipped != want || (want == "") != (len(p.Seconds) == 1) {
			t.Errorf("%s: %q, want %q", p, p.Skipped, want)
		}
	}
}

// TestVerify proves, for each case, that one wrong byte of one sample is seen.
func TestVerify(t *testing.T) {
	cases := small().Cases()
	r, err := openMemory(open(t), cases)
	testenv.OK(t, err)
	for i, c := range cases {
		sample, at := 0, 0
		err := r.measure(t.Context(), memcpy{}, &Spec{Cases: cases, tamper: func(_ Case, b []byte) {
			if sample++; sample == 2*c.loads() { // of the last load
				at = len(b) * 2 / 3
				b[at] ^= 1
			}
		}}, &Measured{Case: i})
		var m *Mismatch
		if !errors.As(err, &m) || m.Offset != at || m.Case != c || m.Got^m.Want != 1 {
			t.Errorf("%s: byte %d was changed, got %v", c, at, err)
		}
	}
}

// TestStale proves that what the sample before left behind does not pass for a copy.
func TestStale(t *testing.T) {
	for _, n := range []int{1, 4096, 10000, 3 * shift} {
		b := newPattern(n, 1)
		for i := range n {
			if b[i] == b[i+shift] {
				t.Fatalf("byte %d of %d is the same in both places", i, n)
			}
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{Cases: small().Cases(), Rounds: 1, Round: inProcess(t)})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNoRoom proves that too much memory is refused before it is taken, with what to do.
func TestNoRoom(t *testing.T) {
	err := Round(t.Context(), open(t), Spec{Cases: []Case{{HostToDevice, Pageable, 1 << 50, 0, 1, 1}}},
		func(Event) error { return nil })
	var a *ui.Advice
	if !errors.As(err, &a) || a.Next == "" {
		t.Error(err)
	}
}

// TestIncomplete proves that a round that stops early is no result.
func TestIncomplete(t *testing.T) {
	_, err := Run(t.Context(), Options{Cases: small().Cases(), Rounds: 1, Round: func(context.Context, Spec,
		func(Event) error) error {
		return nil
	}})
	if err == nil {
		t.Error("no error")
	}
	_, err = Run(t.Context(), Options{Rounds: 1, Round: func(_ context.Context, _ Spec, each func(Event) error) error {
		return each(Event{Measured: &Measured{Case: 5}})
	}})
	if err == nil {
		t.Error("there is no case 5")
	}
}
