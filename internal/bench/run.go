package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Options say how a run is made.
type Options struct {
	Cases   []Case
	Rounds  int
	Time    time.Duration // see [Spec.Time]
	Version string        // of ropeway

	// Round does one round; it may do so in another process.
	Round func(ctx context.Context, spec Spec, each func(Event) error) error
	// Progress is called before each step of Rounds times len(Cases), and may be nil.
	Progress func(done, total int)
}

// Run makes all rounds.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &Result{
		Version: formatVersion, Ropeway: o.Version, Started: time.Now().UTC().Truncate(time.Second),
		Machine: thisMachine(),
		Rounds:  o.Rounds,
	}
	for _, c := range o.Cases {
		r.Points = append(r.Points, Point{Case: c})
	}
	start := time.Now()
	done, total := 0, o.Rounds*len(o.Cases)
	step := func() {
		if o.Progress != nil {
			o.Progress(done, total)
		}
	}
	step()
	for round := range o.Rounds {
		spec := Spec{Cases: o.Cases, Seed: uint64(round), Time: o.Time}
		before := done
		err := o.Round(ctx, spec, func(e Event) error {
			if e.About != nil {
				r.About = *e.About
			}
			if e.Measured != nil {
				if err := r.add(e.Measured); err != nil {
					return err
				}
				done++
				step()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if done-before != len(o.Cases) {
			return nil, fmt.Errorf("round %d measured %d of %d cases", round+1, done-before, len(o.Cases))
		}
	}
	r.Duration = time.Since(start).Seconds()
	return r, nil
}

// add takes over what was measured.
func (r *Result) add(m *Measured) error {
	if m.Case < 0 || m.Case >= len(r.Points) {
		return fmt.Errorf("there is no case %d", m.Case)
	}
	r.Limit = max(r.Limit, m.Limit)
	p := &r.Points[m.Case]
	if m.Skipped != "" {
		p.Skipped = m.Skipped
		p.Seconds, p.Memcpy, p.MemcpyAll = nil, nil, nil
	}
	if p.Skipped != "" {
		return nil
	}
	r.Verified += m.Verified
	p.Seconds = append(p.Seconds, m.Seconds)
	p.Memcpy = append(p.Memcpy, m.Memcpy)
	p.MemcpyAll = append(p.MemcpyAll, m.MemcpyAll)
	return nil
}

func thisMachine() Machine {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m := Machine{CPU: runtime.GOARCH, CPUs: runtime.NumCPU(), Kernel: strings.TrimSpace(string(kernel)),
		Go: runtime.Version()}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for _, line := range strings.Split(string(info), "\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}
