// Package prom is a Prometheus collector for what a ropeway runtime does.
//
//	m := metrics.New()
//	rt, err := ropeway.Open(metrics.With(m))
//	prometheus.MustRegister(prom.NewCollector(m))
//
// Nothing happens between two scrapes: the collector reads counters that the runtime has anyway.
package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"ropeway/metrics"
)

// Source is where the numbers come from: a [*metrics.Meter].
type Source interface{ Read() metrics.Snapshot }

var _ Source = (*metrics.Meter)(nil)

// Collector collects from one source. It may be registered where others are, with labels that distinguish them
// ([prometheus.WrapRegistererWith]).
type Collector struct{ source Source }

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector makes a collector. The source may be closed before it: the numbers stay.
func NewCollector(source Source) *Collector { return &Collector{source} }

// describe makes the name and the help of a metric.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ropeway_"+name, help, labels, nil)
}

// What there is, by direction if nothing else is said.
var (
	copies   = describe("copies_total", "Copies that were submitted; a batch is one.", "direction")
	bytes    = describe("copy_bytes_total", "Bytes of the copies that were submitted.", "direction")
	batches  = describe("copy_batches_total", "Copies that were batches.", "direction")
	segments = describe("copy_segments_total", "Segments of batches.", "direction")
	failed   = describe("copy_failures_total", "Copies that failed when they ran.", "direction")
	dropped  = describe("copy_drops_total", "Copies that did not run, because their stream was aborted.", "direction")
	flying   = describe("copies_in_flight", "Copies that were submitted and are not over.", "direction")
	sizes    = describe("copy_size_bytes", "Bytes of a copy.", "direction")
	queued   = describe("copy_queued_seconds", "Time from submission to start of a copy.", "direction")
	ran      = describe("copy_run_seconds", "Time from start to end of a copy.", "direction")
	depth    = describe("tasks_in_flight", "Tasks of all kinds on all streams that are not over: how deep the "+
		"queues are.")
	waited = describe("wait_seconds", "Time the host waited, by what for.", "for")
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{copies, bytes, batches, segments, failed, dropped, flying, sizes, queued, ran,
		depth, waited} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	m := c.source.Read()
	for _, d := range append(m.Copies, m.Fills) {
		for _, counter := range []struct {
			desc  *prometheus.Desc
			value uint64
		}{{copies, d.Count}, {bytes, d.Bytes}, {batches, d.Batches}, {segments, d.Segments}, {failed, d.Failed},
			{dropped, d.Dropped}} {
			to <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue,
				float64(counter.value), d.Direction)
		}
		to <- prometheus.MustNewConstMetric(flying, prometheus.GaugeValue, float64(d.InFlight), d.Direction)
		to <- histogram(sizes, &d.Sizes, d.Direction)
		to <- histogram(queued, &d.Queued, d.Direction)
		to <- histogram(ran, &d.Ran, d.Direction)
	}
	to <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(m.InFlight))
	for _, w := range m.Waits {
		to <- histogram(waited, &w.Time, w.For)
	}
}

// histogram has cumulative counts, as Prometheus wants them.
func histogram(desc *prometheus.Desc, h *metrics.Histogram, label string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.Bounds))
	var sum uint64
	for i, bound := range h.Bounds {
		sum += h.Counts[i]
		buckets[bound] = sum
	}
	return prometheus.MustNewConstHistogram(desc, h.Count, h.Sum, buckets, label)
}
