package meter

// Tasks are the counters of the tasks of a work.
type Tasks struct {
	Sizes, Queued, Ran Histogram
	Batches, Segments  uint64
	Failed, Dropped    uint64
	InFlight           uint64
}

// Histogram has the number of values in each bucket.
type Histogram struct {
	Counts [Buckets]uint64
	Count  uint64
	Sum    uint64
}

// Snapshot has all counters.
type Snapshot struct {
	Works    [works]Tasks
	Waits    [waits]Histogram
	InFlight uint64 // tasks of all works, including tasks that did not fit in the table, whose work is unknown
}

// Read sums the shards.
func (m *Meter) Read() *Snapshot {
	var all Snapshot
	var lostEnded, lostBegun uint64
	var lost [works]uint64
	for i := range m.shards {
		s := &m.shards[i]
		lostEnded += s.lost.ended.Load()
		lostBegun += s.lost.begun.Load()
		for w := range s.works {
			c, to := &s.works[w], &all.Works[w]
			// Read ends before beginnings, so that no more tasks have ended than begun.
			to.Dropped += c.dropped.Load()
			to.Ran.read(&c.ran)
			to.Failed += c.failed.Load()
			to.Queued.read(&c.queued)
			to.Batches += c.batches.Load()
			to.Segments += c.segments.Load()
			lost[w] += c.lost.Load()
			to.Sizes.read(&c.sizes)
		}
		for w := range s.waits {
			all.Waits[w].read(&s.waits[w])
		}
	}
	for w := range all.Works {
		c := &all.Works[w]
		c.InFlight = c.Sizes.Count - min(c.Sizes.Count, c.Ran.Count+c.Dropped+lost[w])
		all.InFlight += c.InFlight
	}
	all.InFlight += lostBegun - min(lostBegun, lostEnded)
	return &all
}

func (h *Histogram) read(from *histogram) {
	for i := range from.counts {
		n := from.counts[i].Load()
		h.Counts[i] += n
		h.Count += n
	}
	h.Sum += from.sum.Load()
}
