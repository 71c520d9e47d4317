// Package otelproducer passes what a ropeway runtime does to the OpenTelemetry SDK, as metrics of a reader:
//
//	m := metrics.New()
//	rt, err := ropeway.Open(metrics.With(m))
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(otelproducer.New(m)))
//
// The runtime's counters are read when the reader collects; nothing happens in between.
package otelproducer

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"ropeway/metrics"
)

// Source is where the numbers come from: a [*metrics.Meter].
type Source interface{ Read() metrics.Snapshot }

var _ Source = (*metrics.Meter)(nil)

type producer struct {
	source Source
	start  time.Time
}

// New makes a producer: for each direction the number, bytes, sizes and times of copies, and how long the host waited.
func New(source Source) metric.Producer { return &producer{source, time.Now()} }

// Produce implements metric.Producer.
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	m, now := p.source.Read(), time.Now()
	copies := append(m.Copies, m.Fills)
	direction := func(i int) attribute.Set {
		return attribute.NewSet(attribute.String("direction", copies[i].Direction))
	}
	waitedFor := func(i int) attribute.Set { return attribute.NewSet(attribute.String("for", m.Waits[i].For)) }

	count := func(name, unit, what string, monotonic bool, value func(*metrics.Copies) uint64) metricdata.Metrics {
		sum := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: monotonic}
		for i := range copies {
			sum.DataPoints = append(sum.DataPoints, metricdata.DataPoint[int64]{
				Attributes: direction(i), StartTime: p.start, Time: now, Value: int64(value(&copies[i]))})
		}
		return metricdata.Metrics{Name: "ropeway." + name, Unit: unit, Description: what, Data: sum}
	}
	histogram := func(name, unit, what string, n int, by func(int) attribute.Set,
		value func(int) *metrics.Histogram) metricdata.Metrics {
		data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for i := range n {
			h := value(i)
			data.DataPoints = append(data.DataPoints, metricdata.HistogramDataPoint[float64]{
				Attributes: by(i), StartTime: p.start, Time: now,
				Count: h.Count, Sum: h.Sum, Bounds: h.Bounds, BucketCounts: h.Counts})
		}
		return metricdata.Metrics{Name: "ropeway." + name, Unit: unit, Description: what, Data: data}
	}
	depth := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality,
		DataPoints: []metricdata.DataPoint[int64]{{StartTime: p.start, Time: now, Value: int64(m.InFlight)}}}
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: "ropeway/metrics/otelproducer"},
		Metrics: []metricdata.Metrics{
			count("copy.count", "{copy}", "Copies that were submitted; a batch is one.", true,
				func(c *metrics.Copies) uint64 { return c.Count }),
			count("copy.bytes", "By", "Bytes of the copies that were submitted.", true,
				func(c *metrics.Copies) uint64 { return c.Bytes }),
			count("copy.batches", "{batch}", "Copies that were batches.", true,
				func(c *metrics.Copies) uint64 { return c.Batches }),
			count("copy.segments", "{segment}", "Segments of batches.", true,
				func(c *metrics.Copies) uint64 { return c.Segments }),
			count("copy.failures", "{copy}", "Copies that failed when they ran.", true,
				func(c *metrics.Copies) uint64 { return c.Failed }),
			count("copy.drops", "{copy}", "Copies that did not run, because their stream was aborted.", true,
				func(c *metrics.Copies) uint64 { return c.Dropped }),
			count("copy.in_flight", "{copy}", "Copies that were submitted and are not complete.", false,
				func(c *metrics.Copies) uint64 { return c.InFlight }),
			{Name: "ropeway.task.in_flight", Unit: "{task}", Data: depth,
				Description: "Tasks of all kinds on all streams that are not complete: how deep the queues are."},
			histogram("copy.size", "By", "Bytes of a copy.", len(copies), direction,
				func(i int) *metrics.Histogram { return &copies[i].Sizes }),
			histogram("copy.queued", "s", "Time from submission to start of a copy.", len(copies), direction,
				func(i int) *metrics.Histogram { return &copies[i].Queued }),
			histogram("copy.run", "s", "Time from start to end of a copy.", len(copies), direction,
				func(i int) *metrics.Histogram { return &copies[i].Ran }),
			histogram("wait.duration", "s", "Time the host waited, by what for.", len(m.Waits), waitedFor,
				func(i int) *metrics.Histogram { return &m.Waits[i].Time }),
		},
	}}, nil
}
