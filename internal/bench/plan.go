package bench

import (
	"slices"
	"time"
)

// Axes are the values that a sweep takes. The first of Segments, Streams and Devices is the base: all sizes, directions
// and kinds of memory are measured with it. Their other values are measured one axis at a time, with the first kind of
// memory and one size.
type Axes struct {
	Sizes      []int
	Directions []string
	Memories   []string
	Segments   []int // 0: whole copies
	Streams    []int
	Devices    []int
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// Quick is the sweep that ends in half a minute.
func Quick() Axes {
	return Axes{
		Sizes:      []int{64, 4 * kib, 64 * kib, mib, 16 * mib, 64 * mib},
		Directions: Directions,
		Memories:   Memories,
		Segments:   []int{0, 256, 4 * kib},
		Streams:    []int{1, 2},
		Devices:    []int{1, 2},
	}
}

// How often a sweep is measured, and how long each of its cases at least.
const (
	QuickRounds = 10
	FullRounds  = 20
	MostRounds  = 1000
	QuickTime   = 10 * time.Millisecond
	FullTime    = 40 * time.Millisecond
)

// Full is the sweep for plots.
func Full() Axes {
	a := Quick()
	a.Sizes = nil
	for n := 64; n <= 256*mib; n *= 4 {
		a.Sizes = append(a.Sizes, n)
	}
	a.Segments = []int{0, 64, 256, kib, 4 * kib, 16 * kib, 64 * kib}
	a.Streams = []int{1, 2, 4, 8}
	a.Devices = []int{1, 2, 4}
	return a
}

// What the other values of the last three axes are measured with, if the sizes go so far.
const (
	batchSize    = 16 * mib
	mostSegments = 4096
	bulkSize     = 16 * mib
)

// Cases lists what the sweep measures, in the order of reports, each once.
func (a Axes) Cases() []Case {
	var list []Case
	add := func(c Case) {
		if c.Direction == InDevice || c.Direction == PeerToPeer {
			if c.Segment > 0 {
				return // batches go between host and device
			}
			c.Memory = onDevice
		}
		if c.Direction == PeerToPeer {
			c.Devices = 1 // it is one pair
		}
		c.Size = max(c.Size, c.Segment)
		if c.Segment > 0 {
			c.Size -= c.Size % c.Segment
		}
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	base := Case{Memory: a.Memories[0], Segment: a.Segments[0], Streams: a.Streams[0], Devices: a.Devices[0]}
	for _, d := range a.Directions {
		c := base
		c.Direction = d
		for _, c.Memory = range a.Memories {
			for _, c.Size = range a.Sizes {
				add(c)
			}
		}
	}
	for _, d := range a.Directions {
		c := base
		c.Direction = d
		for _, c.Segment = range a.Segments[1:] {
			most := batchSize
			if c.Segment > 0 {
				most = min(most, mostSegments*c.Segment)
			}
			c.Size = a.largest(most)
			add(c)
		}
	}
	for _, d := range a.Directions {
		c := base
		c.Direction, c.Size = d, a.largest(bulkSize)
		for _, c.Streams = range a.Streams[1:] {
			add(c)
		}
	}
	for _, d := range a.Directions {
		c := base
		c.Direction, c.Size = d, a.largest(bulkSize)
		for _, c.Devices = range a.Devices[1:] {
			if d != PeerToPeer {
				add(c)
			}
		}
	}
	return list
}

// largest is the largest size that is at most most, or else the smallest there is.
func (a Axes) largest(most int) int {
	best := slices.Min(a.Sizes)
	for _, n := range a.Sizes {
		if n <= most {
			best = max(best, n)
		}
	}
	return best
}

// Devices is how many devices the cases need.
func Devices(cases []Case) int {
	n := 1
	for _, c := range cases {
		n = max(n, c.Devices)
		if c.Direction == PeerToPeer {
			n = max(n, 2)
		}
	}
	return n
}
