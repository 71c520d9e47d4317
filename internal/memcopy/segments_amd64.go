//go:build amd64 && !noasm

package memcopy

// Measured on Zen 3 (AVX2), one run on a busy machine: ns a segment of glibc's memcpy in a loop / of this, 4096
// segments on pages of their own, hot and cold (drawn from 512 MiB, 1 KiB and more past the cache); small pages, then
// huge ones:
//
//	  64 B   hot  15 / 17,  cold  38 / 42     hot  10 / 13,  cold  44 / 48
//	 256 B   hot  19 / 20,  cold  68 / 67     hot  20 / 25,  cold  81 / 75
//	1024 B   hot  54 / 58,  cold 277 / 187    hot  74 / 84,  cold 220 / 132
//	4096 B   hot 328 / 294, cold 861 / 498    hot 351 / 335, cold 782 / 514
//
// When cold, prefetching 2, 3, 4, 8, 12 or 16 segments ahead makes no measurable difference: writes limit the speed.
// When hot, segments of 256 B lose up to 25% with 3 or more: segments on page boundaries share few sets of the
// nearest cache. 4 lines instead of 1 gain 10% at 1 KiB. Past the cache 256 B would gain 1.15 times at most, and
// short segments that do not begin on a line lose (0.6 at 1 KiB).
const (
	segmentBytes     = 24      // of a Segment
	segmentsCall     = 256     // segments in one call of a kernel, which cannot be preempted; it also limits their sum
	segmentStreamMin = 1 << 10 // least size of a segment written past the cache
)

func copySegments(list []Segment, to, from Frame, stream bool) int {
	k := active
	if k == nil {
		return copySegmentsGeneric(list, to, from)
	}
	least := ^uintptr(0)
	if stream {
		least = segmentStreamMin
	}
	done := 0
	for done < len(list) {
		rest := list[done:]
		n := k.copySegments(&rest[0].Dst, uintptr(min(len(rest), segmentsCall))*segmentBytes,
			to.Lo, to.Size, to.Delta, from.Lo, from.Size, from.Delta, least) / segmentBytes
		if n == 0 {
			break
		}
		done += int(n)
	}
	return done
}
