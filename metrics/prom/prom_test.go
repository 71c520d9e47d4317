package prom_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"ropeway"
	"ropeway/internal/testenv"
	"ropeway/metrics"
	"ropeway/metrics/prom"
)

// A service registers the collector beside its own; whatever serves its metrics serves these, too.
func Example() {
	m := metrics.New()
	rt, err := ropeway.Open(metrics.With(m), ropeway.WithDevices(1))
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(m))

	if err := upload(rt); err != nil {
		log.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "ropeway_copy_bytes_total" {
			for _, m := range f.GetMetric() {
				if m.GetCounter().GetValue() > 0 {
					fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
				}
			}
		}
	}
	// Output: ropeway_copy_bytes_total host_to_device 3000
}

// upload makes two copies to a device.
func upload(rt *ropeway.Runtime) error {
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	defer dev.Close()
	host, err := dev.AllocPinned(2000)
	if err != nil {
		return err
	}
	mem, err := dev.Alloc(2000)
	if err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	if err := s.Copy(mem.All(), host.All()); err != nil {
		return err
	}
	if err := s.Copy(mem.Range(0, 1000), host.Range(0, 1000)); err != nil {
		return err
	}
	return s.Synchronize(context.Background())
}

// fixed is a source of numbers that are known.
type fixed metrics.Snapshot

func (f fixed) Read() metrics.Snapshot { return metrics.Snapshot(f) }

func known() fixed {
	h := func(counts ...uint64) metrics.Histogram {
		h := metrics.Histogram{Bounds: []float64{1, 4}, Counts: counts, Sum: 7.5}
		for _, n := range counts {
			h.Count += n
		}
		return h
	}
	up := metrics.Copies{Direction: "host_to_device", Count: 6, Bytes: 600, Batches: 2, Segments: 9, Failed: 1,
		Dropped: 3, InFlight: 4,
		Sizes: h(1, 2, 3), Queued: h(0, 0, 1), Ran: h(5, 0, 0)}
	fill := up
	fill.Direction = "fill"
	return fixed{Copies: []metrics.Copies{up}, Fills: fill, InFlight: 11, Waits: []metrics.Waits{{For: "stream",
		Time: h(2, 0, 1)}}}
}

// TestText: what a scrape gets.
func TestText(t *testing.T) {
	const want = `
# HELP ropeway_copies_in_flight Copies that were submitted and are not over.
# TYPE ropeway_copies_in_flight gauge
ropeway_copies_in_flight{direction="fill"} 4
ropeway_copies_in_flight{direction="host_to_device"} 4
# HELP ropeway_copy_failures_total Copies that failed when they ran.
# TYPE ropeway_copy_failures_total counter
ropeway_copy_failures_total{direction="fill"} 1
ropeway_copy_failures_total{direction="host_to_device"} 1
# HELP ropeway_tasks_in_flight Tasks of all kinds on all streams that are not over: how deep the queues are.
# TYPE ropeway_tasks_in_flight gauge
ropeway_tasks_in_flight 11
# HELP ropeway_wait_seconds Time the host waited, by what for.
# TYPE ropeway_wait_seconds histogram
ropeway_wait_seconds_bucket{for="stream",le="1"} 2
ropeway_wait_seconds_bucket{for="stream",le="4"} 2
ropeway_wait_seconds_bucket{for="stream",le="+Inf"} 3
ropeway_wait_seconds_sum{for="stream"} 7.5
ropeway_wait_seconds_count{for="stream"} 3
`
	c := prom.NewCollector(known())
	err := testutil.CollectAndCompare(c, strings.NewReader(want),
		"ropeway_copies_in_flight", "ropeway_copy_failures_total", "ropeway_tasks_in_flight", "ropeway_wait_seconds")
	if err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(c); n != 2*10+1+1 {
		t.Errorf("%d series", n)
	}
}

// TestLint: names and help are as Prometheus wants them, and the registry finds nothing wrong.
func TestLint(t *testing.T) {
	c := prom.NewCollector(known())
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

// TestPageNamesAll: docs/howto-metrics.md has every name.
func TestPageNamesAll(t *testing.T) {
	text, err := os.ReadFile("../../docs/howto-metrics.md")
	testenv.OK(t, err)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(known()))
	families, err := registry.Gather()
	testenv.OK(t, err)
	for _, f := range families {
		if !strings.Contains(string(text), "`"+f.GetName()+"`") {
			t.Errorf("the page does not describe %s", f.GetName())
		}
	}
}
