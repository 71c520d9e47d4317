package ropeway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"ropeway"
)

// do ends an example that fails.
func do(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// must is do for calls with a result.
func must[T any](v T, err error) T {
	do(err)
	return v
}

// Bytes go up to the device and down again. Copies only queue work; Synchronize waits for it.
func Example() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	defer dev.Close()

	up, down := must(dev.AllocPinned(16)), must(dev.AllocPinned(16))
	mem := must(dev.Alloc(16))
	s := must(dev.NewStream())

	copy(up.Bytes(), "over the summit!")
	do(s.Copy(mem.All(), up.All()))
	do(s.Copy(down.All(), mem.All()))
	do(s.Synchronize(ctx))
	fmt.Println(string(down.Bytes()))
	// Output: over the summit!
}

// Numbers go up to the device and down again.
func ExampleAlloc() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	host := must(ropeway.AllocPinned[float32](dev, 4)) // pinned: copies with it are asynchronous
	mem := must(ropeway.Alloc[float32](dev, 4))
	s := must(dev.NewStream())

	copy(host.Values(), []float32{1, 2, 3, 4})
	do(s.Copy(mem.All(), host.All()))
	do(s.Copy(host.Range(0, 2), mem.Range(2, 2))) // the last two to the front
	do(s.Synchronize(context.Background()))
	fmt.Println(host.Values())
	// Output: [3 4 3 4]
}

// Ordinary memory needs no preparation. Such a copy waits for no stream, and is done when the call returns.
func ExamplePageable() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem := must(dev.Alloc(5))

	do(dev.Fill(mem.All(), 'x'))
	do(dev.Copy(mem.Range(1, 3), ropeway.Pageable([]byte("abc"))))
	got := make([]byte, 5)
	do(dev.Copy(ropeway.Pageable(got), mem.All()))
	fmt.Println(string(got))
	// Output: xabcx
}

// A buffer is an io.ReaderAt and an io.WriterAt, so what reads files reads device memory.
func ExampleBuffer_ReadAt() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem := must(dev.Alloc(16))

	must(fmt.Fprint(io.NewOffsetWriter(mem, 0), "over the summit!"))
	fmt.Println(string(must(io.ReadAll(io.NewSectionReader(mem, 9, 6)))))
	// Output: summit
}

// All devices, one after the other.
func ExampleRuntime_Devices() {
	rt := must(ropeway.Open(ropeway.WithDevices(2)))
	defer rt.Close()
	for dev, err := range rt.Devices() {
		do(err)
		defer dev.Close()
		free, total, err := dev.MemInfo()
		do(err)
		fmt.Println(dev.ID(), free <= total)
	}
	// Output:
	// 0 true
	// 1 true
}

// Many small copies are one call. They run in any order among themselves.
func ExampleBatch() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	host, mem := must(dev.AllocPinned(12)), must(dev.Alloc(12))
	s := must(dev.NewStream())

	copy(host.Bytes(), "onetwosixten")
	var b ropeway.Batch
	for i := range 4 {
		b.Add(mem.Range(3*(3-i), 3), host.Range(3*i, 3)) // the other way round
	}
	do(s.CopyBatch(&b))
	do(s.Copy(host.All(), mem.All()))
	do(s.Synchronize(ctx))
	fmt.Println(b.Len(), "copies:", string(host.Bytes()))

	b.Add(mem.Range(0, 2), host.Range(0, 3)) // does not fit
	var e *ropeway.Error
	if errors.As(s.CopyBatch(&b), &e) {
		fmt.Printf("segment %d: %v\n", e.Index, e.Arg)
	}
	// Output:
	// 4 copies: tensixtwoone
	// segment 4: sizes
}

// A descriptor is read when its copy runs. Here one is submitted twice and changed in between, in the order of the
// stream.
func ExampleDescriptor() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem, host := must(dev.Alloc(8)), must(dev.AllocPinned(8))
	s := must(dev.NewStream())

	copy(host.Bytes(), "ab------")
	first, second := must(dev.NewDescriptor()), must(dev.NewDescriptor())
	do(first.Set(mem.Range(2, 2), mem.Range(0, 2)))
	do(second.Set(mem.Range(4, 4), mem.Range(0, 4)))

	do(s.Copy(mem.All(), host.All()))
	do(s.CopyDescriptor(first))                             // bytes 0 and 1 to 2 and 3
	do(s.Copy(first.Memory().All(), second.Memory().All())) // now first says what second says
	do(s.CopyDescriptor(first))                             // bytes 0 to 3 to 4 to 7
	do(s.Copy(host.All(), mem.All()))
	do(s.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: abababab
}

// Two streams work at the same time; an event makes one wait for the other.
func ExampleEvent() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	up, down, mem := must(dev.AllocPinned(4)), must(dev.AllocPinned(4)), must(dev.Alloc(4))
	there, back := must(dev.NewStream()), must(dev.NewStream())
	arrived := must(dev.NewEvent())

	copy(up.Bytes(), "ping")
	do(there.Copy(mem.All(), up.All()))
	do(there.Record(arrived))
	do(back.Wait(arrived)) // back waits, this goroutine does not
	do(back.Copy(down.All(), mem.All()))
	do(back.Synchronize(ctx))
	fmt.Println(string(down.Bytes()))
	// Output: ping
}

// Errors carry the code that a C program would see, and what was wrong with which argument.
func ExampleError() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	host, mem := must(dev.AllocPinned(64)), must(dev.Alloc(32))
	s := must(dev.NewStream())

	err := s.Copy(mem.All(), host.All())
	fmt.Println(errors.Is(err, ropeway.ErrRTParamInvalid))
	var e *ropeway.Error
	if errors.As(err, &e) {
		fmt.Println(int(e.Code), e.API, e.Arg)
		fmt.Println(e.Text)
	}
	// Output:
	// true
	// 107000 aclrtMemcpyAsync count
	// 64 bytes do not fit into destMax, 32
}

// Waiting can be given up; the work goes on.
func ExampleStream_Synchronize() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	host, mem := must(dev.AllocPinned(4)), must(dev.Alloc(4))
	s := must(dev.NewStream())

	do(s.Fill(mem.All(), '!'))
	gate := make(chan struct{})
	do(s.Call(func() { <-gate })) // holds the stream
	do(s.Copy(host.All(), mem.All()))

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println(s.Synchronize(ctx))
	close(gate)
	fmt.Println(s.Synchronize(context.Background()))
	fmt.Println(string(host.Bytes()))
	// Output:
	// context deadline exceeded
	// <nil>
	// !!!!
}

// A wait may be queued before the record that it waits for.
func ExampleNotify() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	up, down := must(dev.NewStream()), must(dev.NewStream())
	mem, host := must(dev.Alloc(4)), must(dev.AllocPinned(4))
	arrived := must(dev.NewNotify())

	do(down.WaitNotify(arrived, 0))
	do(down.Copy(host.All(), mem.All()))
	do(up.Fill(mem.All(), '!'))
	do(up.RecordNotify(arrived))
	do(down.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: !!!!
}

// Addresses are reserved once; memory is mapped there as it is needed, and the buffer never moves.
func ExampleReservation() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	unit := must(dev.MapUnit())
	buffer := must(dev.Reserve(1000 * unit)) // costs next to nothing

	for i := range 3 {
		do(buffer.Map(i*unit, must(dev.AllocPhysical(unit))))
		do(dev.Fill(buffer.Range(i*unit, unit), byte('a'+i)))
	}
	across := make([]byte, 2)
	do(dev.Copy(ropeway.Pageable(across), buffer.Range(2*unit-1, 2))) // two pieces, one copy
	fmt.Printf("%s %v\n", across, dev.Fill(buffer.Range(0, 4*unit), 0) != nil)
	// Output: bc true
}

// A stream allocates and frees memory in its own order; nothing waits, and the same memory serves every round.
func ExamplePool() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s, host := must(dev.NewStream()), must(dev.AllocPinned(10))
	pool := must(dev.NewPool(ropeway.PoolOptions{Keep: 4 << 20}))

	for i := range host.Len() {
		b := must(pool.Alloc(s, 1<<20))
		do(s.Fill(b.All(), byte('0'+i)))
		do(s.Copy(host.Range(i, 1), b.Range(0, 1)))
		do(b.CloseOn(s))
	}
	do(s.Synchronize(ctx))
	fmt.Println(string(host.Bytes()), must(pool.Stats()).ReservedMost>>20, "MiB")
	// Output: 0123456789 2 MiB
}

// One address for the host and the device.
func ExampleDevice_AllocManaged() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s := must(dev.NewStream())
	b := must(dev.AllocManaged(5))

	copy(b.Bytes(), "hello")
	do(s.Fill(b.Range(0, 1), 'J'))
	do(s.Synchronize(ctx))
	fmt.Println(string(b.Bytes()))
	// Output: Jello
}

// A word of device memory orders two streams: what waits goes on when the word is large enough.
func ExampleStream_WaitValue() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	producer, consumer := must(dev.NewStream()), must(dev.NewStream())
	word, mem, host := must(dev.Alloc(8)), must(dev.Alloc(3)), must(dev.AllocPinned(3))
	do(dev.Fill(word.All(), 0))

	do(consumer.WaitValue(word.All(), ropeway.AtLeast, 3))
	do(consumer.Copy(host.All(), mem.All()))
	for i := range 3 {
		do(producer.Fill(mem.Range(i, 1), byte('x'+i)))
		do(producer.WriteValue(word.All(), uint64(i+1)))
	}
	do(consumer.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: xyz
}

// What a program does is recorded, for ropeway trace --from to show.
func ExampleWithTrace() {
	dir := must(os.MkdirTemp("", "recorded"))
	defer os.RemoveAll(dir)

	rt, err := ropeway.Open(ropeway.WithTrace(dir)) // a file in dir; ropeway trace --from dir shows it
	do(err)
	dev := must(rt.Device(0))
	mem := must(dev.Alloc(5))
	do(dev.Copy(mem.All(), ropeway.Pageable([]byte("bytes"))))
	do(rt.Close())

	fmt.Println(len(must(filepath.Glob(filepath.Join(dir, "*.ropeway")))), "file")
	// Output: 1 file
}

func ExampleStream_Capture() {
	rt, err := ropeway.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	if err := captureAndRun(dev); err != nil {
		log.Fatal(err)
	}
	// Output: the second buffer is at the other end
}

// captureAndRun runs a graph, changes it, and runs it again.
func captureAndRun(dev *ropeway.Device) error {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	var pinned [3]*ropeway.Buffer
	for i := range pinned {
		if pinned[i], err = dev.AllocPinned(64); err != nil {
			return err
		}
	}
	first, second, out := pinned[0], pinned[1], pinned[2]
	copy(second.Bytes(), "the second buffer is at the other end")
	mem, err := dev.Alloc(64)
	if err != nil {
		return err
	}
	g, err := s.Capture(func() error {
		if err := s.Copy(mem.All(), first.All()); err != nil {
			return err
		}
		return s.Copy(out.All(), mem.All())
	})
	if err != nil {
		return err
	}
	defer g.Close()
	for range 1000 {
		if err := g.Run(s); err != nil {
			return err
		}
	}
	if err := s.Synchronize(context.Background()); err != nil {
		return err
	}
	if err := g.SetCopy(0, mem.All(), second.All()); err != nil { // another source from now on
		return err
	}
	if err := g.Run(s); err != nil {
		return err
	}
	if err := s.Synchronize(context.Background()); err != nil {
		return err
	}
	fmt.Println(string(bytes.TrimRight(out.Bytes(), "\x00")))
	return nil
}
