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
	"ropeway/metrics"
	"ropeway/metrics/otelproducer"
)

// The histograms come with whatever else the reader collects.
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
	sizes := all.ScopeMetrics[0].Metrics[0]
	up := sizes.Data.(metricdata.Histogram[float64]).DataPoints[0]
	direction, _ := up.Attributes.Value("direction")
	fmt.Println(sizes.Name, direction.AsString(), up.Count, up.Sum, up.Bounds[:4], up.BucketCounts[:5])
	// Output: ropeway.copy.size host_to_device 3 4206 [64 256 1024 4096] [1 1 0 1 0]
}

// TestPageNamesAll: docs/howto-metrics.md has every name.
func TestPageNamesAll(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	scopes, err := otelproducer.New(metrics.New()).Produce(t.Context())
	if err != nil || len(scopes) != 1 || len(scopes[0].Metrics) != 4 {
		t.Fatal(scopes, err)
	}
	for _, m := range scopes[0].Metrics {
		if !strings.Contains(string(page), "`"+m.Name+"`") {
			t.Errorf("the page does not tell of %s", m.Name)
		}
	}
}
