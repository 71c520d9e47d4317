package kernels

import "math"

// Way is a way to carry out a part of a batch.
type Way uint8

// Ways.
const (
	ByKernel Way = iota // entries of the table
	ByLoop              // cuMemcpyAsync for each segment
	ByBatch             // one cuMemcpyBatchAsync
)

// Share is the size of a part of a batch: its segments and their bytes.
type Share struct {
	Segments int
	Bytes    uint64
}

// Large returns the least bytes of a segment that a copy engine may copy faster, in a batch of more than MostFew. Best
// decides for all of those together, and for the whole of a smaller batch.
func Large(d Direction) uint64 {
	if d == OnDevice {
		return 4 << 20
	}
	return 256 << 10
}

// price is the time of a way in nanoseconds: to start, for each segment, the least for each segment, and for each MiB.
type price struct{ start, segment, least, mib float64 }

func (p price) of(s Share) float64 {
	n := float64(s.Segments)
	return p.start + max(n*p.least, n*p.segment+float64(s.Bytes)/(1<<20)*p.mib)
}

// prices are from an H200 (docs/record/gpu.md has the tables). A copy engine moves a MiB a little faster than the
// kernel, both over the link and on the device, and leaves the multiprocessors free; but it pauses between two copies,
// for less time if they come in one call. On the device a single call gains nothing.
var prices = [...][3]price{
	ByKernel: {ToDevice: {12200, 0, 0, 20520}, FromDevice: {12000, 0, 0, 20130}, OnDevice: {11700, 0, 0, 576}},
	ByLoop:   {ToDevice: {5000, 2600, 0, 19070}, FromDevice: {4500, 2350, 0, 18930}, OnDevice: {5000, 2900, 6000, 524}},
	ByBatch: {ToDevice: {6000, 900, 1880, 19070}, FromDevice: {4500, 1050, 1000, 18930},
		OnDevice: {7000, 2900, 6000, 524}},
}

// Best returns the fastest way to copy s. beside means that the kernel is launched for other segments anyway; kernel
// and batched, that the kernel and cuMemcpyBatchAsync are available.
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
