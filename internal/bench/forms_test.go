package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/internal/ui"
)

// sampleResult has all kinds of cases, one of them skipped.
func sampleResult() *Result {
	r := synthetic(rand.New(rand.NewPCG(1, 2)), noises["quiet"], 10, never)
	r.Product, r.Chip, r.Machine.CPU, r.Machine.CPUs, r.Verified, r.Memcpy = "A2", "Ascend910B1", "a <CPU>",
		2, 3<<30, "libc's"
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

func TestCSV(t *testing.T) {
	r := sampleResult()
	var b bytes.Buffer
	testenv.OK(t, r.WriteCSV(&b))
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != len(r.Points)+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if first := rows[1]; first[0] != "h2d" || first[1] != "pinned" || first[2] != "64" || first[6] != "10" ||
		first[14] != "" {
		t.Errorf("%q", first)
	}
	if last := rows[len(rows)-1]; last[7] != "" || last[14] != "needs 2 devices" {
		t.Errorf("%q", last)
	}
}

// TestJSON proves that what is written can be read, and that what is no result is refused with what to do.
func TestJSON(t *testing.T) {
	r := sampleResult()
	file := filepath.Join(t.TempDir(), "r.json")
	write := func(change func(map[string]any)) error {
		var b bytes.Buffer
		testenv.OK(t, r.WriteJSON(&b))
		fields := map[string]any{}
		testenv.OK(t, json.Unmarshal(b.Bytes(), &fields))
		change(fields)
		text, err := json.Marshal(fields)
		testenv.OK(t, err)
		testenv.OK(t, os.WriteFile(file, text, 0o600))
		got, err := Read(file)
		if err == nil && !reflect.DeepEqual(got, r) {
			t.Errorf("%+v is not %+v", got, r)
		}
		return err
	}
	if err := write(func(map[string]any) {}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(map[string]any){
		"version 2": func(f map[string]any) { f["version"] = 2 },
		"no points": func(f map[string]any) { f["points"] = nil },
		"11 rounds": func(f map[string]any) { f["rounds"] = 11 },
		"no times": func(f map[string]any) {
			f["points"].([]any)[0].(map[string]any)["seconds"] = []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		},
		"no rounds": func(f map[string]any) {
			f["rounds"] = 0
			for _, p := range f["points"].([]any) {
				for _, list := range []string{"seconds", "memcpy", "memcpy_all"} {
					delete(p.(map[string]any), list)
				}
			}
		},
		"short times": func(f map[string]any) {
			f["points"].([]any)[0].(map[string]any)["seconds"] = slices.Repeat([]float64{1e-320}, 10)
		},
		"long times": func(f map[string]any) {
			f["points"].([]any)[0].(map[string]any)["memcpy"] = slices.Repeat([]float64{1e308}, 10)
		},
		"too many bytes": func(f map[string]any) {
			p := f["points"].([]any)[0].(map[string]any)
			p["size"], p["streams"] = 1<<40, 1<<40
		},
		"no size": func(f map[string]any) { f["points"].([]any)[0].(map[string]any)["size"] = 0 },
	} {
		err := write(change)
		if a, ok := err.(*ui.Advice); !ok || !strings.Contains(err.Error(), "is no result of ropeway bench") ||
			a.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(file + ".missing"); err == nil {
		t.Error("a file that is not there")
	}
}

// TestHTML proves that the page is whole: every plot well-formed and inside its frame, every case in the table, nothing
// from elsewhere.
func TestHTML(t *testing.T) {
	r := sampleResult()
	var b bytes.Buffer
	testenv.OK(t, r.WriteHTML(&b))
	text := b.String()
	for _, want := range []string{"a &lt;CPU&gt;", "prefers-color-scheme: dark", "Host to device, by size",
		"Batches, by size of a segment",
		"By number of streams", "By number of devices", "memcpy, all CPUs", "needs 2 devices"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "http:") || strings.Contains(text, "https:") || strings.Contains(text, "NaN") ||
		strings.Contains(text, "Inf") {
		t.Error("it needs something else, or has numbers that are none")
	}
	if n := strings.Count(text, "<tr>"); n != len(r.Points)+1 {
		t.Errorf("%d rows", n)
	}
	plots := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(plots) != 7 {
		t.Errorf("%d plots", len(plots))
	}
	for _, plot := range plots {
		d := xml.NewDecoder(strings.NewReader(plot))
		dots := 0
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			testenv.OK(t, err)
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "circle" {
				dots++
				for _, a := range e.Attr {
					var v float64
					json.Unmarshal([]byte(a.Value), &v)
					if a.Name.Local == "cx" && (v < left || v > chartWidth-right) || a.Name.Local == "cy" &&
						(v < top || v > chartHeight-below) {
						t.Errorf("%s=%s is outside", a.Name.Local, a.Value)
					}
				}
			}
		}
		if dots < 2 {
			t.Errorf("%d dots", dots)
		}
	}
}

// TestScale proves that both axes are logarithmic.
func TestScale(t *testing.T) {
	s := scale{1, 10000, 100, 400}
	for v, want := range map[float64]float64{1: 100, 10: 200, 100: 300, 10000: 500} {
		if got := s.of(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g is at %g", v, got)
		}
	}
	if got := decades(0.3, 30); !slices.Equal(got, []float64{0.5, 1, 2, 5, 10, 20}) {
		t.Errorf("%v", got)
	}
	if got := decades(0.01, 99); !slices.Equal(got, []float64{0.01, 0.1, 1, 10}) {
		t.Errorf("%v", got)
	}
}

// TestChanges proves that a comparison names what changed, and all if asked.
func TestChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 1))
	before := synthetic(random, noises["quiet"], 10, never)
	after := synthetic(random, noises["quiet"], 10, func(c Case) float64 {
		if c.Direction == PeerToPeer {
			return 0.5
		}
		return 0
	})
	c, err := Compare(before, after, DefaultThreshold, "")
	testenv.OK(t, err)
	var b bytes.Buffer
	c.WriteTable(&ui.Output{W: &b}, false)
	text := b.String()
	if !strings.Contains(text, "\np2p ") || strings.Contains(text, "\nh2d pinned") ||
		!strings.Contains(text, "slower: ") {
		t.Error(text)
	}
	b.Reset()
	c.WriteTable(&ui.Output{W: &b}, true)
	if n := strings.Count(b.String(), "\nh2d pinned"); n < 7 {
		t.Errorf("%d lines of what did not change in\n%s", n, b.String())
	}
	for line := range strings.Lines(text) {
		if len(line) > 81 {
			t.Errorf("%d columns: %q", len(line)-1, line)
		}
	}
}
