package otelmeter_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"ropeway"
	"ropeway/metrics"
	"ropeway/metrics/otelmeter"
)

// A program that has an SDK hands its meter over; what the SDK exports it exports.
func Example() {
	m := metrics.New()
	rt, err := ropeway.Open(metrics.With(m), ropeway.WithDevices(1))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	registration, err := otelmeter.Register(provider.Meter("example"), m)
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister()

	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	mem, err := dev.Alloc(4096)
	if err != nil {
		log.Fatal(err)
	}
	if err := dev.Copy(mem.All(), ropeway.Pageable(make([]byte, 4096))); err != nil {
		log.Fatal(err)
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "ropeway.copy.bytes" {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				if direction, _ := p.Attributes.Value("direction"); p.Value > 0 {
					fmt.Println(m.Name, direction.AsString(), p.Value)
				}
			}
		}
	}
	// Output: ropeway.copy.bytes host_to_device 4096
}

// fixed is a source of numbers that are known.
type fixed metrics.Snapshot

func (f fixed) Read() metrics.Snapshot { return metrics.Snapshot(f) }

// TestInstruments: every number of the source has an instrument, and docs/howto-metrics.md tells of it.
func TestInstruments(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	source := fixed{
		Copies: []metrics.Copies{{Direction: "peer", Count: 1, Bytes: 2, Batches: 3, Segments: 4, Failed: 5, Dropped: 6, InFlight: 7,
			Queued: metrics.Histogram{Sum: 0.5}, Ran: metrics.Histogram{Sum: 1.5}}},
		Fills: metrics.Copies{Direction: "fill"}, InFlight: 8,
		Waits: []metrics.Waits{{For: "event", Time: metrics.Histogram{Count: 9, Sum: 2.5}}},
	}
	want := map[string]float64{
		"ropeway.copy.count": 1, "ropeway.copy.bytes": 2, "ropeway.copy.batches": 3, "ropeway.copy.segments": 4, "ropeway.copy.failures": 5,
		"ropeway.copy.drops": 6, "ropeway.copy.in_flight": 7, "ropeway.copy.queued_time": 0.5, "ropeway.copy.run_time": 1.5,
		"ropeway.task.in_flight": 8, "ropeway.wait.count": 9, "ropeway.wait.time": 2.5,
	}
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	registration, err := otelmeter.Register(provider.Meter("test"), source)
	if err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Unit == "" || m.Description == "" || !strings.Contains(string(page), "`"+m.Name+"`") {
			t.Errorf("%s has no unit, no description, or is not in the page", m.Name)
		}
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				got[m.Name] += float64(p.Value)
			}
		case metricdata.Sum[float64]:
			for _, p := range d.DataPoints {
				got[m.Name] += p.Value
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	all = metricdata.ResourceMetrics{}
	if err := reader.Collect(t.Context(), &all); err != nil || len(all.ScopeMetrics) != 0 {
		t.Errorf("after Unregister: %v, %+v", err, all.ScopeMetrics)
	}
}

// TestWithoutSDK: where no SDK is, nothing is collected and nothing fails.
func TestWithoutSDK(t *testing.T) {
	registration, err := otelmeter.Register(noop.NewMeterProvider().Meter(""), fixed{})
	if err != nil || registration.Unregister() != nil {
		t.Error(err)
	}
}
