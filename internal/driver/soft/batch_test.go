package soft

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
)

// TestDivide proves that the chunks have equal counts and cover the remaining segments exactly once.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.IntRange(1, 100_000).Draw(t, "end")
		first := rapid.IntRange(0, end-1).Draw(t, "first")
		var j job
		j.divide(first, end, rapid.IntRange(1, 256).Draw(t, "cores"))
		if j.cuts[0] != int32(first) || j.cuts[len(j.cuts)-1] != int32(end) || j.chunks != int64(len(j.cuts)-1) {
			t.Fatalf("%d chunks from %d to %d, not from %d to %d", j.chunks, j.cuts[0], j.cuts[len(j.cuts)-1], first,
				end)
		}
		for i := range j.cuts[1:] {
			if n := j.cuts[i+1] - j.cuts[i]; n < 1 || n > groupSegments {
				t.Fatalf("a chunk of %d segments", n)
			}
		}
	})
}

// TestShareFrom proves that with more cores a smaller remainder is worth sharing, down to a limit.
func TestShareFrom(t *testing.T) {
	for cores, want := range map[int]time.Duration{1: pairShared, 2: pairShared, 4: pairShared / 3, 16: leastShared,
		256: leastShared} {
		if got := shareFrom(cores); got != want {
			t.Errorf("%d cores share from %v on, not from %v", cores, got, want)
		}
	}
}

// TestBatchShared proves that a batch that runs in its submitter asks for help only if the remaining segments take long
// enough and are numerous enough to share. Every segment is copied in any case, and a failure in any part is reported.
func TestBatchShared(t *testing.T) {
	const size, most = 256, 4096
	for _, tt := range []struct {
		name   string
		count  int
		from   time.Duration
		bad    int // a segment whose memory is not mapped; -1 for none
		shared bool
	}{
		{"slow", most, 0, -1, true},
		{"fast", most, time.Hour, -1, false},
		{"few", 256 + 2*leastSegments - 1, 0, -1, true},
		{"fewer", 2*leastSegments + probeSegments - 1, 0, -1, false},
		{"bad at first", most, 0, 3, false},
		{"bad later", most, 0, most - 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			many(t)
			d := open(t, Options{Devices: 1, Memory: 1 << 30})
			defer d.Close()
			d.pool.shareFrom = tt.from
			dev, err := d.Open(0)
			must(t, err)
			defer dev.Close()
			dst, err := d.AllocHost(most * size)
			must(t, err)
			src, err := dev.Alloc(most*size, driver.PageNormal)
			must(t, err)
			for at := uintptr(0); at < most*size; at += parallelBytes / 2 { // in fragments too small for helpers
				must(t, d.Run(driver.Op{Kind: driver.OpFill, Dst: src + at, N: parallelBytes / 2, Width: 1, Value: 7}))
			}
			sink := &log{make(chan error, 1)}
			q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}})
			segs := driver.NewSegments()
			for i := range tt.count {
				at := uintptr((i*37 + 5) % tt.count * size)
				segs.Add(dst+at, src+at, size)
				if i == tt.bad {
					segs.List[i].Src = src + most*size
				}
			}
			q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
			if !q.Idle() {
				t.Error("the batch did not run in its submitter")
			}
			if d.pool.max > 1 {
				d.pool.mu.Lock()
				if shared := d.pool.workers > 0; shared != tt.shared {
					t.Errorf("shared: %v, want %v", shared, tt.shared)
				}
				d.pool.mu.Unlock()
			}
			select {
			case err := <-sink.failed:
				if tt.bad < 0 || !errors.Is(err, driver.ErrFault) {
					t.Error(err)
				}
			default:
				if tt.bad >= 0 {
					t.Error("the bad segment was not reported")
				} else if got := bytesAt(dst, uint64(tt.count*size)); bytes.Count(got, []byte{7}) != len(got) {
					t.Error("not whole")
				}
			}
		})
	}
}
