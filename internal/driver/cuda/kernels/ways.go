package kernels

import "math"

// Way is how a part of a batch is carried out.
type Way uint8

// Ways.
const (
	ByKernel Way = iota // entries of the table
	ByLoop              // cuMemcpyAsync for each segment
	ByBatch             // one cuMemcpyBatchAsync
)

// Share is a part of a batch: how many segments, and how many bytes they have together.
type Share struct {
	Segments int
	Bytes    uint64
}

// Large is from how many bytes on a segment of a batch of more than MostFew may be better off with a copy engine.
// Best decides, for all that are; and for the whole of a batch of fewer.
func Large(d Direction) uint64 {
	if d == OnDevice {
		return 4 << 20
	}
	return 256 << 10
}

// price is what a way costs, in nanoseconds: to begin, for each segment, at least so much for each, and for each MiB.
type price struct{ start, segment, least, mib float64 }

func (p price) of(s Share) float64 {
	n := float64(s.Segments)
	return p.start + max(n*p.least, n*p.segment+float64(s.Bytes)/(1<<20)*p.mib)
}

// prices are from an H200 (docs/record/gpu.md has the tables). A copy engine moves a MiB a little sooner than the
// kernel, over the link as on the device, and leaves the multiprocessors alone; but it pauses between two copies, by
// less if it gets them in one call. On the device the call gains nothing.
var prices = [...][3]price{
	ByKernel: {ToDevice: {12200, 0, 0, 20520}, FromDevice: {12000, 0, 0, 20130}, OnDevice: {11700, 0, 0, 576}},
	ByLoop:   {ToDevice: {5000, 2600, 0, 19070}, FromDevice: {4500, 2350, 0, 18930}, OnDevice: {5000, 2900, 6000, 524}},
	ByBatch: {ToDevice: {6000, 900, 1880, 19070}, FromDevice: {4500, 1050, 1000, 18930},
		OnDevice: {7000, 2900, 6000, 524}},
}

// Best is the way in which s ends soonest. beside says that the kernel is launched for other segments anyway. What is
// not there, the kernel or cuMemcpyBatchAsync, is not chosen.
func Best(d Direction, s Share, beside, kernel, batched bool) Way {
	best, least := ByLoop, math.Inf(1)
	for way, p := range prices {
		cost := p[d].of(s)
		switch Way(way) {
		case ByKernel:
			if !kernel {
				continue
			}
			if beside {
				cost -= p[d].start
			}
		case ByBatch:
			if !batched || s.Segments == 1 {
				continue
			}
		}
		if cost < least {
			best, least = Way(way), cost
		}
	}
	return best
}
