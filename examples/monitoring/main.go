// Command monitoring is a service that Prometheus watches: it copies blocks to a device and back, some in batches, and
// serves what was counted at /metrics. Beside it are the configuration of Prometheus, rules that raise alerts, and a
// dashboard for Grafana.
//
//	go run ./examples/monitoring -listen 127.0.0.1:9470
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ropeway"
	"ropeway/metrics"
	"ropeway/metrics/prom"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9470", "the address of /metrics; port 0 takes a free one")
	pause := flag.Duration("pause", 20*time.Millisecond, "between two rounds of work")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, *pause); err != nil {
		log.Fatal(err)
	}
}

// run works and serves until ctx is over.
func run(ctx context.Context, listen string, pause time.Duration) error {
	m := metrics.New()
	rt, err := ropeway.Open(metrics.With(m), ropeway.WithDevices(1))
	if err != nil {
		return err
	}
	defer rt.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prom.NewCollector(m))

	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer server.Close()
	fmt.Printf("http://%s/metrics\n", l.Addr())

	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	w, err := newWorker(dev)
	if err != nil {
		return err
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-tick.C:
			if err := w.round(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
		}
	}
}

const (
	blocks = 64
	size   = 64 << 10 // of a block
)

// worker does what a service that feeds a device does. The runtime closes what it has.
type worker struct {
	dev        *ropeway.Device
	stream     *ropeway.Stream
	done       *ropeway.Event
	host, down *ropeway.Buffer // pinned
	mem, other *ropeway.Buffer // on the device
	pageable   []byte
}

func newWorker(dev *ropeway.Device) (w *worker, err error) {
	w = &worker{dev: dev, pageable: make([]byte, size)}
	for _, b := range []**ropeway.Buffer{&w.host, &w.down} {
		if *b, err = dev.AllocPinned(blocks * size); err != nil {
			return nil, err
		}
	}
	for _, b := range []**ropeway.Buffer{&w.mem, &w.other} {
		if *b, err = dev.Alloc(blocks * size); err != nil {
			return nil, err
		}
	}
	if w.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	w.done, err = dev.NewEvent()
	return w, err
}

// round sends blocks up one by one and in a batch, moves them on the device, and brings them back.
func (w *worker) round(ctx context.Context) error {
	var batch ropeway.Batch
	for i := range blocks {
		if i%2 == 0 {
			if err := w.stream.Copy(w.mem.Range(i*size, size), w.host.Range(i*size, size)); err != nil {
				return err
			}
			continue
		}
		batch.Add(w.mem.Range(i*size, size), w.host.Range(i*size, size))
	}
	for _, step := range []func() error{
		func() error { return w.stream.CopyBatch(&batch) },
		func() error { return w.stream.Fill(w.other.Range(0, size), 0) },
		func() error { return w.stream.Copy(w.other.Range(size, size), w.mem.Range(0, size)) },
		func() error { return w.stream.Copy(w.down.All(), w.mem.All()) },
		func() error { return w.stream.Record(w.done) },
		func() error { return w.done.Wait(ctx) },
		func() error { return w.stream.Synchronize(ctx) },
		func() error { return w.dev.Synchronize(ctx) },
		// The host copies this one itself.
		func() error { return w.dev.Copy(w.mem.Range(0, size), ropeway.Pageable(w.pageable)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
