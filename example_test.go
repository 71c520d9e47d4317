package ropeway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
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
