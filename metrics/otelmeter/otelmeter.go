// Package otelmeter tells OpenTelemetry what a ropeway runtime does, through its API alone: which SDK reads it, if any, is the
// program's choice.
//
//	m := metrics.New()
//	rt, err := ropeway.Open(metrics.With(m))
//	registration, err := otelmeter.Register(otel.Meter("my-service"), m)
//
// All instruments are asynchronous: the runtime's counters are read when somebody collects, and nothing happens in between.
// The API has no asynchronous histograms; package otelproducer has them, for the SDK.
package otelmeter

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"ropeway/metrics"
)

// Source is where the numbers come from: a [*metrics.Meter].
type Source interface{ Read() metrics.Snapshot }

var _ Source = (*metrics.Meter)(nil)

// instruments are those of one meter.
type instruments struct {
	copies, bytes, batches, segments, failed, dropped metric.Int64ObservableCounter
	queued, ran, waited                               metric.Float64ObservableCounter
	waits                                             metric.Int64ObservableCounter
	flying, depth                                     metric.Int64ObservableUpDownCounter
}

// Register makes the instruments and observes the source until the registration is ended with its Unregister.
func Register(m metric.Meter, source Source) (metric.Registration, error) {
	var i instruments
	var errs []error
	counter := func(to *metric.Int64ObservableCounter, name, unit, what string) {
		var err error
		*to, err = m.Int64ObservableCounter("ropeway."+name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
	}
	seconds := func(to *metric.Float64ObservableCounter, name, what string) {
		var err error
		*to, err = m.Float64ObservableCounter("ropeway."+name, metric.WithUnit("s"), metric.WithDescription(what))
		errs = append(errs, err)
	}
	gauge := func(to *metric.Int64ObservableUpDownCounter, name, unit, what string) {
		var err error
		*to, err = m.Int64ObservableUpDownCounter("ropeway."+name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
	}
	counter(&i.copies, "copy.count", "{copy}", "Copies that were submitted; a batch is one.")
	counter(&i.bytes, "copy.bytes", "By", "Bytes of the copies that were submitted.")
	counter(&i.batches, "copy.batches", "{batch}", "Copies that were batches.")
	counter(&i.segments, "copy.segments", "{segment}", "Segments of batches.")
	counter(&i.failed, "copy.failures", "{copy}", "Copies that failed when they ran.")
	counter(&i.dropped, "copy.drops", "{copy}", "Copies that did not run, because their stream was aborted.")
	gauge(&i.flying, "copy.in_flight", "{copy}", "Copies that were submitted and are not over.")
	seconds(&i.queued, "copy.queued_time", "Time from submission to start, of all copies together.")
	seconds(&i.ran, "copy.run_time", "Time from start to end, of all copies together.")
	gauge(&i.depth, "task.in_flight", "{task}", "Tasks of all kinds on all streams that are not over: how deep the queues are.")
	counter(&i.waits, "wait.count", "{wait}", "How often the host waited.")
	seconds(&i.waited, "wait.time", "Time the host waited.")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	observe := func(_ context.Context, o metric.Observer) error {
		i.observe(o, source.Read())
		return nil
	}
	return m.RegisterCallback(observe, i.copies, i.bytes, i.batches, i.segments, i.failed, i.dropped, i.flying,
		i.queued, i.ran, i.depth, i.waits, i.waited)
}

func (i *instruments) observe(o metric.Observer, m metrics.Snapshot) {
	for _, d := range append(m.Copies, m.Fills) {
		by := metric.WithAttributeSet(attribute.NewSet(attribute.String("direction", d.Direction)))
		o.ObserveInt64(i.copies, int64(d.Count), by)
		o.ObserveInt64(i.bytes, int64(d.Bytes), by)
		o.ObserveInt64(i.batches, int64(d.Batches), by)
		o.ObserveInt64(i.segments, int64(d.Segments), by)
		o.ObserveInt64(i.failed, int64(d.Failed), by)
		o.ObserveInt64(i.dropped, int64(d.Dropped), by)
		o.ObserveInt64(i.flying, int64(d.InFlight), by)
		o.ObserveFloat64(i.queued, d.Queued.Sum, by)
		o.ObserveFloat64(i.ran, d.Ran.Sum, by)
	}
	o.ObserveInt64(i.depth, int64(m.InFlight))
	for _, w := range m.Waits {
		by := metric.WithAttributeSet(attribute.NewSet(attribute.String("for", w.For)))
		o.ObserveInt64(i.waits, int64(w.Time.Count), by)
		o.ObserveFloat64(i.waited, w.Time.Sum, by)
	}
}
