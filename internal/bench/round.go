package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"ropeway"
)

// Spec is what a round is asked to do. It is also what a process that does one reads.
type Spec struct {
	Cases []Case        `json:"cases"`
	Seed  uint64        `json:"seed"` // decides on the order of the cases
	Time  time.Duration `json:"time"` // for a case, at least; a few samples are taken in any case

	tamper func(Case, []byte) // sees what was copied before it is compared; for tests
}

// Event is something a round reports; one of its fields is set.
type Event struct {
	About    *About    `json:"about,omitempty"`
	Measured *Measured `json:"measured,omitempty"`
	Failed   *Failed   `json:"failed,omitempty"` // sent by processes, last
}

// Measured is a case that is over.
type Measured struct {
	Case      int     `json:"case"` // index
	Seconds   float64 `json:"seconds"`
	Memcpy    float64 `json:"memcpy"`
	MemcpyAll float64 `json:"memcpy_all"`
	Limit     float64 `json:"limit"` // bytes a second
	Verified  int64   `json:"verified"`
	Skipped   string  `json:"skipped,omitempty"`
}

// Failed is why a round ended early.
type Failed struct {
	Text string `json:"text"`
	Next string `json:"next,omitempty"`
}

const (
	leastSamples = 3
	mostSamples  = 100
)

// Round measures every case once, on a runtime that was just opened.
func Round(ctx context.Context, rt *ropeway.Runtime, spec Spec, each func(Event) error) error {
	r, err := openMemory(rt, spec.Cases)
	if err != nil {
		return err
	}
	m := findMemcpy()
	name, _ := rt.Product()
	about := &About{Driver: rt.Driver(), Product: string(name), Chip: rt.Chip(), Devices: rt.DeviceCount(),
		Memcpy: m.name()}
	if err := each(Event{About: about}); err != nil {
		return err
	}
	limit := m.limit(r.base[0].host, r.base[1].host)
	for _, i := range rand.New(rand.NewPCG(spec.Seed, 3)).Perm(len(spec.Cases)) {
		got := Measured{Case: i}
		var skip skipError
		if err := r.measure(ctx, m, &spec, &got); errors.As(err, &skip) {
			got = Measured{Case: i, Skipped: string(skip)}
		} else if err != nil {
			return err
		}
		got.Limit = limit
		if err := each(Event{Measured: &got}); err != nil {
			return err
		}
	}
	return nil
}

// measure takes samples of a case and of memcpy in turn. Every sample is verified.
func (r *roundMemory) measure(ctx context.Context, m memcpy, spec *Spec, got *Measured) (err error) {
	c := spec.Cases[got.Case]
	s, err := r.prepare(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	tamper := func([]byte) {}
	if spec.tamper != nil {
		tamper = func(b []byte) { spec.tamper(c, b) }
	}
	var ours, one, all []time.Duration
	sample := func() error {
		took, err := s.sample(ctx)
		if err != nil {
			return r.skip(err)
		}
		ours = append(ours, took)
		n, err := s.verify(r, tamper)
		got.Verified += n
		return err
	}
	dst, src := r.base[0].host, r.base[1].host
	memcpys := func() {
		one = append(one, max(m.one(dst, src, s.moves), 1))
		if len(s.parts) > 1 {
			all = append(all, max(m.all(dst, src, s.parts), 1))
		} else {
			all = append(all, one[len(one)-1])
		}
	}
	if err := sample(); err != nil { // the warm-up
		return err
	}
	memcpys()
	ours, one, all = nil, nil, nil
	start := time.Now()
	for i := 0; i < leastSamples || i < mostSamples && time.Since(start) < spec.Time; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i%2 == 0 { // neither is always the second
			memcpys()
		}
		if err := sample(); err != nil {
			return err
		}
		if i%2 == 1 {
			memcpys()
		}
	}
	got.Seconds = quartile(ours)
	got.Memcpy = quartile(one) * float64(c.loads())
	got.MemcpyAll = quartile(all) * float64(c.loads())
	return nil
}

// quartile is the time, in seconds, that a quarter of the samples stays below: what else runs on a machine makes
// samples slower, never faster, and a single fast one may be luck.
func quartile(times []time.Duration) float64 {
	slices.Sort(times)
	return times[(len(times)-1)/4].Seconds()
}
