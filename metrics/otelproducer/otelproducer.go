// Package otelproducer hands the histograms of a ropeway runtime to the OpenTelemetry SDK, whose API has no instrument for
// histograms that are already counted. Use it beside package otelmeter, which has everything else:
//
//	reader := metric.NewPeriodicReader(exporter, metric.WithProducer(otelproducer.New(m)))
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

// New makes a producer: for each direction the sizes of copies, how long they were queued and how long they ran, and how long
// the host waited.
func New(source Source) metric.Producer { return &producer{source, time.Now()} }

// Produce implements metric.Producer.
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	m, now := p.source.Read(), time.Now()
	point := func(h *metrics.Histogram, key, value string) metricdata.HistogramDataPoint[float64] {
		return metricdata.HistogramDataPoint[float64]{
			Attributes: attribute.NewSet(attribute.String(key, value)), StartTime: p.start, Time: now,
			Count: h.Count, Sum: h.Sum, Bounds: h.Bounds, BucketCounts: h.Counts,
		}
	}
	var sizes, queued, ran, waits []metricdata.HistogramDataPoint[float64]
	for _, d := range append(m.Copies, m.Fills) {
		sizes = append(sizes, point(&d.Sizes, "direction", d.Direction))
		queued = append(queued, point(&d.Queued, "direction", d.Direction))
		ran = append(ran, point(&d.Ran, "direction", d.Direction))
	}
	for _, w := range m.Waits {
		waits = append(waits, point(&w.Time, "for", w.For))
	}
	return []metricdata.ScopeMetrics{{
		Scope: instrumentation.Scope{Name: "ropeway/metrics/otelproducer"},
		Metrics: []metricdata.Metrics{
			histogram("copy.size", "By", "Bytes of a copy.", sizes),
			histogram("copy.queued", "s", "Time from submission to start of a copy.", queued),
			histogram("copy.run", "s", "Time from start to end of a copy.", ran),
			histogram("wait.duration", "s", "Time the host waited, by what for.", waits),
		},
	}}, nil
}

func histogram(name, unit, what string, points []metricdata.HistogramDataPoint[float64]) metricdata.Metrics {
	return metricdata.Metrics{
		Name: "ropeway." + name, Unit: unit, Description: what,
		Data: metricdata.Histogram[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality},
	}
}
