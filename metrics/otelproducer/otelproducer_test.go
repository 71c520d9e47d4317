package otelproducer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"ropeway"
	"ropeway/internal/testenv"
	"ropeway/metrics"
	"ropeway/metrics/otelproducer"
)

// The numbers come with whatever else the reader collects.
func Example() {
	m := metrics.New()
	rt, err := ropeway.Open(metrics.With(m), ropeway.WithDevices(1))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	reader := metric.NewManualReader(metric.WithProducer(otelproducer.New(m)))
	metric.NewMeterProvider(metric.WithReader(reader))

	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	mem, err := dev.Alloc(4096)
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range []int{10, 100, 4096} {
		if err := dev.Copy(mem.Range(0, n), ropeway.Pageable(make([]byte, n))); err != nil {
			log.Fatal(err)
		}
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch m.Name {
		case "ropeway.copy.bytes":
			up := m.Data.(metricdata.Sum[int64]).DataPoints[0]
			direction, _ := up.Attributes.Value("direction")
			fmt.Println(m.Name, direction.AsString(), up.Value)
		case "ropeway.copy.size":
			up := m.Data.(metricdata.Histogram[float64]).DataPoints[0]
			direction, _ := up.Attributes.Value("direction")
			fmt.Println(m.Name, direction.AsString(), up.Count, up.Sum, up.Bounds[:4], up.BucketCounts[:5])
		}
	}
	// Output:
	// ropeway.copy.bytes host_to_device 4206
	// ropeway.copy.size host_to_device 3 4206 [64 256 1024 4096] [1 1 0 1 0]
}

// fixed is a source of numbers that are known.
type fixed metrics.Snapshot

func (f fixed) Read() metrics.Snapshot { return metrics.Snapshot(f) }

// TestMetrics: every number of the source has a metric with a unit and a description, and docs/howto-metrics.md lists
// it.
func TestMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto-metrics.md")
	testenv.OK(t, err)
	source := fixed{
		Copies: []metrics.Copies{{Direction: "peer", Count: 1, Bytes: 2, Batches: 3, Segments: 4, Failed: 5, Dropped: 6,
			InFlight: 7, Sizes: metrics.Histogram{Count: 3, Sum: 0.25}, Queued: metrics.Histogram{Count: 1, Sum: 0.5},
			Ran: metrics.Histogram{Count: 2, Sum: 1.5}}},
		Fills: metrics.Copies{Direction: "fill"}, InFlight: 8,
		Waits: []metrics.Waits{{For: "event", Time: metrics.Histogram{Count: 9, Sum: 2.5}}},
	}
	want := map[string]string{
		"ropeway.copy.count": "1 up", "ropeway.copy.bytes": "2 up", "ropeway.copy.batches": "3 up",
		"ropeway.copy.segments": "4 up", "ropeway.copy.failures": "5 up", "ropeway.copy.drops": "6 up",
		"ropeway.copy.in_flight": "7", "ropeway.task.in_flight": "8", "ropeway.copy.size": "3 of 0.25",
		"ropeway.copy.queued": "1 of 0.5", "ropeway.copy.run": "2 of 1.5", "ropeway.wait.duration": "9 of 2.5",
	}
	scopes, err := otelproducer.New(source).Produce(t.Context())
	if err != nil || len(scopes) != 1 {
		t.Fatal(scopes, err)
	}
	got := map[string]string{}
	for _, m := range scopes[0].Metrics {
		if m.Unit == "" || m.Description == "" || !strings.Contains(string(page), "`"+m.Name+"`") {
			t.Errorf("%s has no unit, no description, or is not in the page", m.Name)
		}
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			got[m.Name] = fmt.Sprint(d.DataPoints[0].Value)
			if d.IsMonotonic {
				got[m.Name] += " up"
			}
		case metricdata.Histogram[float64]:
			got[m.Name] = fmt.Sprint(d.DataPoints[0].Count, " of ", d.DataPoints[0].Sum)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
}
