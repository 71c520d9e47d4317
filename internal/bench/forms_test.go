package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"ropeway/internal/ui"
)

// sampleResult has all kinds of cases, one of them skipped.
func sampleResult() *Result {
	r := &Result{Rounds: 10, Limit: 20e9, Verified: 3 << 30, Machine: Machine{CPU: "a CPU", CPUs: 2},
		About: About{Driver: "soft", Product: "A2", Chip: "Ascend910B1", Memcpy: "libc's"}}
	for _, c := range Quick().Cases() {
		p := Point{Case: c}
		for round := range r.Rounds {
			base := float64(c.Bytes()) / 10e9
			p.Seconds = append(p.Seconds, base*(0.5+0.01*float64(round)))
			p.Memcpy, p.MemcpyAll = append(p.Memcpy, base), append(p.MemcpyAll, base*0.8)
		}
		r.Points = append(r.Points, p)
	}
	last := &r.Points[len(r.Points)-1]
	*last = Point{Case: last.Case, Skipped: "needs 2 devices"}
	return r
}

// TestPlan proves what is in a sweep: the base with all sizes, the rest one axis at a time, nothing twice, and only
// what exists.
func TestPlan(t *testing.T) {
	axes := Axes{Sizes: []int{64, 32 * mib}, Directions: []string{HostToDevice, InDevice, PeerToPeer},
		Memories: []string{Pinned, Pageable},
		Segments: []int{0, 256}, Streams: []int{1, 2}, Devices: []int{1, 2}}
	var got []string
	for _, c := range axes.Cases() {
		got = append(got, c.String())
	}
	want := []string{
		"h2d pinned, 64 B", "h2d pinned, 32 MiB", "h2d pageable, 64 B", "h2d pageable, 32 MiB", "d2d, 64 B",
		"d2d, 32 MiB", "p2p, 64 B", "p2p, 32 MiB",
		"h2d pinned, batch of 256 B, 256 B",
		"h2d pinned, 2 streams, 64 B", "d2d, 2 streams, 64 B", "p2p, 2 streams, 64 B",
		"h2d pinned, 2 devices, 64 B", "d2d, 2 devices, 64 B",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	axes.Segments, axes.Directions = []int{4096}, []string{InDevice}
	if n := len(axes.Cases()); n != 0 {
		t.Errorf("%d batches inside a device", n)
	}
	for _, a := range []Axes{Quick(), Full()} {
		cases := a.Cases()
		if n := Devices(cases); n != slices.Max(a.Devices) {
			t.Errorf("%d devices", n)
		}
		for i, c := range cases {
			if slices.Contains(cases[:i], c) || c.Bytes() < 1 || c.Segment > 0 && c.Size%c.Segment != 0 {
				t.Errorf("%+v", c)
			}
		}
	}
}

// TestMoves proves that the moves of a sample write every byte of its destination once, however they are cut.
func TestMoves(t *testing.T) {
	for _, c := range small().Cases() {
		if c.Direction != HostToDevice || c.Memory != Pinned {
			continue
		}
		list := c.moves()
		for _, moves := range [][]move{list, slices.Concat(cut(list)...)} {
			seen, read := make([]byte, c.region()), make([]byte, c.region())
			for _, v := range moves {
				for i := range v.n {
					seen[v.dst+i]++
					read[v.src+i]++
				}
			}
			once := bytes.Repeat([]byte{1}, c.region())
			if !bytes.Equal(seen, once) || !bytes.Equal(read, once) {
				t.Errorf("%s: not every byte once", c)
			}
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	sampleResult().WriteTable(&ui.Output{W: &b})
	for _, want := range []string{"A2 (Ascend910B1) on soft, 10 rounds", "limit 20.0 GB/s", "h2d pinned ",
		"needs 2 devices", "GB/s", "MEMCPY"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 || strings.TrimRight(line, " \n")+"\n" != line {
			t.Errorf("%d columns: %q", len(line)-1, line)
		}
	}
}

// TestWriteGo proves that benchstat's reader finds every round of every case, with its units.
func TestWriteGo(t *testing.T) {
	r := sampleResult()
	var b bytes.Buffer
	if err := r.WriteGo(&b); err != nil {
		t.Fatal(err)
	}
	in := benchfmt.NewReader(&b, "run")
	rounds := 0
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.Result:
			p := &r.Points[rounds/r.Rounds]
			if !strings.Contains(string(rec.Name), "/dir="+p.Direction+"/") || rec.GetConfig("driver") != "soft" {
				t.Errorf("%s, of driver %q, for %s", rec.Name, rec.GetConfig("driver"), p)
			}
			seconds := p.Seconds[rounds%r.Rounds]
			for unit, want := range map[string]float64{"sec/op": seconds * float64(p.Size) / float64(p.Bytes()),
				"B/s": float64(p.Bytes()) / seconds, "x-memcpy": p.Memcpy[rounds%r.Rounds] / seconds} {
				if got, ok := rec.Value(unit); !ok || got != want {
					t.Errorf("%s: %g %s, want %g", rec.Name, got, unit, want)
				}
			}
			rounds++
		case *benchfmt.UnitMetadata:
			if rec.Unit != "x-memcpy" || rec.Key != "better" || rec.Value != "higher" {
				t.Errorf("%+v", rec)
			}
		default:
			t.Errorf("%v", rec)
		}
	}
	if err := in.Err(); err != nil || rounds != (len(r.Points)-1)*r.Rounds {
		t.Errorf("%d rounds, %v", rounds, err)
	}
}
