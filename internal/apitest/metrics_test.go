package apitest

import (
	"slices"
	"testing"
	"time"

	"ropeway"
	"ropeway/check"
	"ropeway/internal/driver"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/testenv"
	"ropeway/metrics"
)

// copiesOf are the metrics of a direction.
func copiesOf(t *testing.T, m metrics.Snapshot, direction string) metrics.Copies {
	t.Helper()
	i := slices.IndexFunc(m.Copies, func(c metrics.Copies) bool { return c.Direction == direction })
	if i < 0 {
		t.Fatalf("there is no direction %s", direction)
	}
	return m.Copies[i]
}

// waitsFor are the metrics of a kind of wait.
func waitsFor(t *testing.T, m metrics.Snapshot, kind string) metrics.Histogram {
	t.Helper()
	i := slices.IndexFunc(m.Waits, func(w metrics.Waits) bool { return w.For == kind })
	if i < 0 {
		t.Fatalf("there is no wait for a %s", kind)
	}
	return m.Waits[i].Time
}

// counting opens a runtime that counts, and takes its device.
func counting(t *testing.T, more ...ropeway.Option) (*metrics.Meter, *ropeway.Device) {
	t.Helper()
	m := metrics.New()
	rt := open(t, append(more, metrics.With(m), ropeway.WithDevices(1))...)
	return m, get(rt.Device(0))(t)
}

// TestMetrics: every copy is counted by its direction, with its bytes, when it is submitted, and in flight until it
// is over.
func TestMetrics(t *testing.T) {
	for name, more := range map[string][]ropeway.Option{
		"alone": nil, "recorded too": {ropeway.WithTrace(t.TempDir())},
		"checked too": {check.With(check.Options{OnFinding: func(check.Finding) {}})},
	} {
		t.Run(name, func(t *testing.T) { testMetrics(t, more) })
	}
}

func testMetrics(t *testing.T, more []ropeway.Option) {
	meter, d := counting(t, more...)
	s := get(d.NewStream())(t)
	host, mem := get(d.AllocPinned(8192))(t), get(d.Alloc(8192))(t)

	release := block(t, s)
	defer release()
	for range 3 { // the second and third go another way through the core than the first
		ok(t, s.Copy(mem.Range(0, 100), host.Range(0, 100)))
	}
	var batch ropeway.Batch
	batch.Add(mem.Range(0, 1000), host.Range(0, 1000))
	batch.Add(mem.Range(4096, 500), host.Range(4096, 500))
	ok(t, s.CopyBatch(&batch))
	ok(t, s.Copy(host.Range(0, 64), mem.Range(0, 64)))
	ok(t, s.Copy(mem.Range(4096, 10), mem.Range(0, 10)))
	ok(t, s.Fill(mem.Range(0, 33), 1))
	m := meter.Read()
	if up := copiesOf(t, m, "host_to_device"); up.Count != 4 || up.Bytes != 1800 || up.Batches != 1 ||
		up.Segments != 2 || up.InFlight != 4 {
		t.Errorf("up, while the stream is held: %+v", up)
	}
	if m.InFlight != 8 {
		t.Errorf("%d tasks are in flight, not the function and seven after it", m.InFlight)
	}
	time.Sleep(time.Millisecond)
	release()
	ok(t, s.Synchronize(ctx))

	m = meter.Read()
	up, down, inside := copiesOf(t, m, "host_to_device"), copiesOf(t, m, "device_to_host"),
		copiesOf(t, m, "device_to_device")
	if m.InFlight != 0 || up.InFlight != 0 || up.Failed != 0 || up.Dropped != 0 {
		t.Errorf("afterwards: %d in flight, up %+v", m.InFlight, up)
	}
	if down.Count != 1 || down.Bytes != 64 || inside.Count != 1 || inside.Bytes != 10 || m.Fills.Count != 1 ||
		m.Fills.Bytes != 33 {
		t.Errorf("down %+v, inside %+v, fills %+v", down, inside, m.Fills)
	}
	if up.Queued.Count != 4 || up.Ran.Count != 4 || up.Queued.Sum < 4*0.001 || up.Queued.Sum > 600 {
		t.Errorf("four copies were held for a millisecond, and up is %+v", up)
	}
	if h := up.Sizes; h.Count != 4 || h.Sum != 1800 || h.Bounds[0] != 64 || h.Counts[1] != 3 || h.Counts[3] != 1 ||
		len(h.Counts) != len(h.Bounds)+1 {
		t.Errorf("sizes %+v", h)
	}
}

// TestMetricsOfWaits: what the host waits for is counted by what it is. A wait that finds everything done is none, so
// each is tried until it has waited.
func TestMetricsOfWaits(t *testing.T) {
	meter, d := counting(t)
	s, e := get(d.NewStream())(t), get(d.NewEvent())(t)
	for kind, wait := range map[string]func() error{
		"stream": func() error { return s.Synchronize(ctx) },
		"event":  func() error { return e.Wait(ctx) },
		"device": func() error { return d.Synchronize(ctx) },
	} {
		for try := 0; waitsFor(t, meter.Read(), kind).Count == 0; try++ {
			if try == 1000 {
				t.Errorf("waits for a %s are not counted: %+v", kind, meter.Read().Waits)
				break
			}
			release := block(t, s)
			ok(t, s.Record(e))
			go release()
			ok(t, wait())
			ok(t, s.Synchronize(ctx))
		}
	}
}

// TestMetricsOfHostCopies: copies that the calling thread makes are counted, too.
func TestMetricsOfHostCopies(t *testing.T) {
	meter, d := counting(t)
	mem := get(d.Alloc(256))(t)
	ok(t, d.Copy(mem.All(), ropeway.Pageable(make([]byte, 256))))
	ok(t, d.Copy(mem.All(), ropeway.Pageable(make([]byte, 256))))
	ok(t, d.Copy(ropeway.Pageable(make([]byte, 8)), ropeway.Pageable(make([]byte, 8))))
	m := meter.Read()
	if up := copiesOf(t, m, "host_to_device"); up.Count != 2 || up.Bytes != 512 || up.InFlight != 0 ||
		up.Ran.Count != 2 {
		t.Errorf("up %+v", up)
	}
	if h := copiesOf(t, m, "host_to_host"); h.Count != 1 || h.Bytes != 8 {
		t.Errorf("host to host %+v", h)
	}
	if m.InFlight != 0 {
		t.Errorf("%d in flight", m.InFlight)
	}
}

// TestMetricsOfFailures: what fails and what is dropped is over, and distinguished from what was done.
func TestMetricsOfFailures(t *testing.T) {
	var f *faulty.Driver
	meter, d := counting(t, withDriver(func(d driver.Driver) driver.Driver { f = faulty.Wrap(d); return f }))
	s := get(d.NewStream())(t)
	host, mem := get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
	f.Fail(faulty.Task, 1, driver.ErrFault)
	ok(t, s.Copy(host.All(), mem.All()))
	if s.Synchronize(ctx) == nil {
		t.Error("the copy did not fail")
	}
	if down := copiesOf(t, meter.Read(), "device_to_host"); down.Count != 1 || down.Failed != 1 || down.InFlight != 0 {
		t.Errorf("failed: %+v", down)
	}

	ok(t, s.Wait(get(d.NewStateEvent())(t))) // which nobody records
	for range 3 {
		ok(t, s.Copy(mem.All(), host.All()))
	}
	ok(t, s.Abort())
	m := meter.Read()
	if up := copiesOf(t, m, "host_to_device"); up.Count != 3 || up.Dropped != 3 || up.InFlight != 0 ||
		up.Ran.Count != 0 {
		t.Errorf("dropped: %+v", up)
	}
	if m.InFlight != 0 {
		t.Errorf("%d in flight", m.InFlight)
	}
}

// TestUnusedMeter: a meter that no runtime has reads as zeros of the same shape, and a second runtime cannot have it.
func TestUnusedMeter(t *testing.T) {
	meter := metrics.New()
	m := meter.Read()
	if len(m.Copies) != 7 || len(m.Waits) != 4 || len(m.Copies[0].Sizes.Counts) != len(m.Copies[0].Sizes.Bounds)+1 ||
		copiesOf(t, m, "host_to_device").Count != 0 {
		t.Errorf("got %+v", m)
	}
	open(t, metrics.With(meter))
	if rt, err := ropeway.Open(metrics.With(meter)); err == nil {
		rt.Close()
		t.Error("two runtimes have one meter")
	}
}

// TestMetricsAllocateNothing: a copy that is counted allocates no more than one that is not.
func TestMetricsAllocateNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	meter, d := counting(t)
	s := get(d.NewStream())(t)
	host, mem := get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
	up, down := mem.All(), host.All()
	if n := testing.AllocsPerRun(200, func() {
		ok(t, s.Copy(up, down))
		ok(t, s.Synchronize(ctx))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c := copiesOf(t, meter.Read(), "host_to_device"); c.Count != 201 {
		t.Errorf("%d copies", c.Count)
	}
}
