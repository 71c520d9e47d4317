package core_test

import (
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// hooks is a checker that only learns that the runtime ends.
type hooks struct {
	core.CheckHooks
	ended int
}

func (h *hooks) Ending(*core.Thread) { h.ended++ }

// sitesAsked is a tracer that counts how often it is asked whether it wants sites, and is closed.
type sitesAsked struct {
	observe.Tracer
	asked, closed int
}

func (s *sitesAsked) Sites() bool  { s.asked++; return true }
func (s *sitesAsked) Close() error { s.closed++; return nil }

// TestProbe proves that a runtime has a probe if and only if something watches it, that both parts of the probe are
// reached, each alone and both together, and that what a tracer wants is asked once.
func TestProbe(t *testing.T) {
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	for _, checked := range []bool{false, true} {
		for _, traced := range []bool{false, true} {
			d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
			testenv.OK(t, err)
			o := core.Options{Driver: d, Product: p}
			h, s := &hooks{}, &sitesAsked{}
			times := map[bool]int{true: 1}
			if checked {
				o.Probe.Check = h
			}
			if traced {
				o.Probe.Trace = s
			}
			rt := core.New(o)
			if (rt.Probe != nil) != (checked || traced) || rt.Checked() != checked ||
				(rt.Checker() != nil) != checked || (rt.Tracer() != nil) != traced {
				t.Errorf("checked %v, traced %v: the probe is %+v", checked, traced, rt.Probe)
			}
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
			if h.ended != times[checked] || s.asked != times[traced] || s.closed != times[traced] {
				t.Errorf("checked %v, traced %v: %d ends, asked for sites %d times, closed %d times", checked, traced,
					h.ended, s.asked, s.closed)
			}
		}
	}
}
