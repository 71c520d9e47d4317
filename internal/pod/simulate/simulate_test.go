package main

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func small() Params {
	p := measured
	p.Servers, p.Imports, p.Cores, p.Hours = 60, 4, 2, 24
	p.MTBF = 12 * time.Hour
	return p
}

// TestSame proves that a seed says everything.
func TestSame(t *testing.T) {
	a, b := Simulate(small()), Simulate(small())
	if !reflect.DeepEqual(a, b) {
		t.Errorf("two runs differ: %+v and %+v", a, b)
	}
	other := small()
	other.Seed++
	if c := Simulate(other); reflect.DeepEqual(a.Noticed, c.Noticed) {
		t.Error("another seed makes no difference")
	}
}

// TestOneByOne proves that a process that imports alone takes the time of its links, one after the other.
func TestOneByOne(t *testing.T) {
	p := measured
	p.Servers, p.Hub = 2, true
	one := 4*p.RTT + p.Importer + p.Owner
	if got := last(Simulate(p).First); got != one {
		t.Errorf("one import takes %v, want %v", got, one)
	}
}

// TestHub proves that an owner's processors are what importers of one process wait for, and that it takes no more links
// than it may.
func TestHub(t *testing.T) {
	p := measured
	p.Servers, p.Hub, p.Cores, p.PerPod = 1001, true, 4, 2000
	r := Simulate(p)
	least, most := 1000*p.Owner/4, 1000*(p.Owner+p.Besides)/4+p.Importer+p.Owner+4*p.RTT
	if got := last(r.First); got < least || got > most {
		t.Errorf("ready after %v, want %v to %v", got, least, most)
	}
	if r.Links != 1000 || r.LinksOfOwner != 1000 || r.Refused != 0 {
		t.Errorf("%d links, %d of the owner, %d refused", r.Links, r.LinksOfOwner, r.Refused)
	}
	p.Servers = 1100
	if r = Simulate(p); r.LinksOfOwner != p.Most || r.Refused != 1099-p.Most {
		t.Errorf("%d links of the owner, %d refused", r.LinksOfOwner, r.Refused)
	}
}

// TestAll proves that all imports are made, in each pod for itself, whatever else happens at the time.
func TestAll(t *testing.T) {
	p := measured
	p.Servers, p.PerPod, p.Imports = 250, 100, 7
	r := Simulate(p)
	if r.Links != 250*7 || len(r.First) != 250 {
		t.Errorf("%d links of %d processes", r.Links, len(r.First))
	}
	p.Imports = 1000
	if r = Simulate(p); r.Links != 2*100*99+50*49 {
		t.Errorf("%d links where each imports from all of its pod", r.Links)
	}
}

// TestFailures proves that failures are noticed within the bounds that docs/pod.md gives, and that links come back.
func TestFailures(t *testing.T) {
	p := small()
	r := Simulate(p)
	if r.Failures < 60 || r.Broken < r.Failures {
		t.Fatalf("%d failures broke %d links", r.Failures, r.Broken)
	}
	if most := p.Timeout + p.CopyEach; last(r.Noticed) > most {
		t.Errorf("one was noticed after %v, want %v at most", last(r.Noticed), most)
	}
	if !slices.Contains(r.Noticed, p.RTT/2) {
		t.Error("none was noticed at once")
	}
	if len(r.Again) == 0 || last(r.Again) > p.Timeout+2*p.CopyEach {
		t.Errorf("%d importers were linked again, the last after %v", len(r.Again), last(r.Again))
	}
	p.Dead = 0
	if r = Simulate(p); last(r.Noticed) != p.RTT/2 {
		t.Errorf("where all machines live, one was noticed after %v", last(r.Noticed))
	}
}
