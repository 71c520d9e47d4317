// Package metrics counts the work of a runtime: copies and bytes by direction, their times in the queue and in
// execution, and the waits of the host. Packages prom and otelproducer pass the numbers to Prometheus and
// OpenTelemetry.
//
//	m := metrics.New()
//	rt, err := ropeway.Open(metrics.With(m))
//	…
//	fmt.Println(m.Read().Copies)
package metrics

import (
	"errors"
	"math"
	"sync/atomic"

	"ropeway"
	"ropeway/internal/goapi"
	"ropeway/internal/meter"
	"ropeway/internal/observe"
	"ropeway/internal/setup"
)

// Meter counts the work of one runtime. It adds some tens of nanoseconds to a task; it does not allocate or lock.
type Meter struct {
	m    *meter.Meter
	used atomic.Bool
}

// New returns a meter that has counted nothing.
func New() *Meter { return &Meter{m: meter.New()} }

// With makes the runtime count with m. A meter is for one runtime.
func With(m *Meter) ropeway.Option {
	return goapi.Option(func(s *setup.Settings) error {
		if m.used.Swap(true) {
			return errors.New("the meter is another runtime's")
		}
		s.Tracer = m.m
		return nil
	}).(ropeway.Option)
}

// Snapshot has the counts of a runtime's work since it was opened. All numbers except those in flight never decrease.
// A snapshot is not atomic: the numbers are read one after another, while work continues.
type Snapshot struct {
	Copies   []Copies // one for each direction, always all of them, in the same order
	Fills    Copies   // fills of memory
	InFlight uint64   // submitted tasks of all kinds on all streams that are not over: the depth of the queues
	Waits    []Waits  // one for each kind of wait, in the same order
}

// Copies are the copies of one direction, on streams or not.
type Copies struct {
	Direction string // host_to_device, device_to_host, device_to_device, peer, host_to_host, mixed, unknown; fill

	Count    uint64 // copies that were submitted; a batch is one
	Bytes    uint64 // bytes of these copies
	Batches  uint64 // number of these copies that are batches
	Segments uint64 // segments of these batches
	Failed   uint64 // copies that failed when they ran
	Dropped  uint64 // copies that did not run, because their stream was aborted
	InFlight uint64 // copies that were submitted and are not over

	Sizes  Histogram // bytes of a copy
	Queued Histogram // seconds from submission to start
	Ran    Histogram // seconds from start to end
}

// Waits has the number and the duration of the host's waits.
type Waits struct {
	For  string    // stream, event, device: a synchronisation; copy: a call that copies itself, as with pageable memory
	Time Histogram // seconds
}

// Histogram is a distribution of values.
type Histogram struct {
	Bounds []float64 // inclusive upper bounds; the last bucket has none
	Counts []uint64  // values in each bucket, one more than bounds
	Count  uint64    // of all values
	Sum    float64   // of all values
}

// directions are the copies that a Snapshot has, in its order, and their names.
var directions = []struct {
	work meter.Work
	name string
}{
	{meter.Work(observe.HostToDevice), "host_to_device"},
	{meter.Work(observe.DeviceToHost), "device_to_host"},
	{meter.Work(observe.DeviceToDevice), "device_to_device"},
	{meter.Work(observe.Peer), "peer"},
	{meter.Work(observe.HostToHost), "host_to_host"},
	{meter.Work(observe.Both), "mixed"},
	{meter.Work(observe.NoDirection), "unknown"}, // a descriptor in device memory has the direction, when it runs
}

// waits are those that a Snapshot has.
var waits = []struct {
	wait meter.Wait
	name string
}{
	{meter.WaitStream, "stream"}, {meter.WaitEvent, "event"}, {meter.WaitDevice, "device"}, {meter.WaitOther, "copy"},
}

// The bounds of all histograms.
var (
	sizeBounds = bounds(meter.SizeUnit)
	timeBounds = bounds(meter.TimeUnit / 1e9)
)

// bounds returns bounds that begin with the unit, each four times the previous one.
func bounds(unit float64) []float64 {
	all := make([]float64, meter.Buckets-1)
	for k := range all {
		all[k] = unit * math.Pow(4, float64(k))
	}
	return all
}

// Read returns what has been counted. The caller owns it, except the bounds.
func (m *Meter) Read() Snapshot {
	s := m.m.Read()
	all := Snapshot{Fills: copies("fill", &s.Works[meter.Fill]), InFlight: s.InFlight}
	for _, d := range directions {
		all.Copies = append(all.Copies, copies(d.name, &s.Works[d.work]))
	}
	for _, w := range waits {
		all.Waits = append(all.Waits, Waits{w.name, histogram(&s.Waits[w.wait], timeBounds, 1e-9)})
	}
	return all
}

func copies(direction string, t *meter.Tasks) Copies {
	return Copies{
		Direction: direction,
		Count:     t.Sizes.Count, Bytes: t.Sizes.Sum, Batches: t.Batches, Segments: t.Segments,
		Failed: t.Failed, Dropped: t.Dropped, InFlight: t.InFlight,
		Sizes:  histogram(&t.Sizes, sizeBounds, 1),
		Queued: histogram(&t.Queued, timeBounds, 1e-9),
		Ran:    histogram(&t.Ran, timeBounds, 1e-9),
	}
}

func histogram(h *meter.Histogram, bounds []float64, unit float64) Histogram {
	return Histogram{Bounds: bounds, Counts: h.Counts[:], Count: h.Count, Sum: float64(h.Sum) * unit}
}
