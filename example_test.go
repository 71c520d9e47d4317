package ropeway_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"ropeway"
)

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// must is check for calls with a result.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// Bytes go up to the device and down again. Copies only queue work; Synchronize waits for it.
func Example() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	defer dev.Close()

	up, down := must(dev.AllocHost(16)), must(dev.AllocHost(16))
	mem := must(dev.Alloc(16))
	s := must(dev.NewStream())

	copy(up.Bytes(), "over the summit!")
	check(s.Copy(mem.All(), up.All()))
	check(s.Copy(down.All(), mem.All()))
	check(s.Synchronize(ctx))
	fmt.Println(string(down.Bytes()))
	// Output: over the summit!
}

// Ordinary memory needs no preparation. Such a copy waits for the stream and is over when the call returns.
func ExampleHost() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem := must(dev.Alloc(5))
	s := must(dev.NewStream())

	check(s.Fill(mem.All(), 'x'))
	check(s.Copy(mem.At(1, 3), ropeway.Host([]byte("abc"))))
	got := make([]byte, 5)
	check(s.Copy(ropeway.Host(got), mem.All()))
	fmt.Println(string(got))
	// Output: xabcx
}

// Many small copies are one call. They run in any order among themselves.
func ExampleBatch() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	host, mem := must(dev.AllocHost(12)), must(dev.Alloc(12))
	s := must(dev.NewStream())

	copy(host.Bytes(), "onetwosixten")
	var b ropeway.Batch
	for i := range 4 {
		b.Add(mem.At(3*(3-i), 3), host.At(3*i, 3)) // the other way round
	}
	check(s.CopyBatch(&b))
	check(s.Copy(host.All(), mem.All()))
	check(s.Synchronize(ctx))
	fmt.Println(b.Len(), "copies:", string(host.Bytes()))

	b.Add(mem.At(0, 2), host.At(0, 3)) // does not fit
	var e *ropeway.Error
	if errors.As(s.CopyBatch(&b), &e) {
		fmt.Printf("segment %d: %v\n", e.Index, e.Arg)
	}
	// Output:
	// 4 copies: tensixtwoone
	// segment 4: sizes
}

// A descriptor is read when its copy runs. Here one is submitted twice and changed in between, in the order of the stream.
func ExampleDescriptor() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem, host := must(dev.Alloc(8)), must(dev.AllocHost(8))
	s := must(dev.NewStream())

	copy(host.Bytes(), "ab------")
	first, second := must(dev.NewDescriptor()), must(dev.NewDescriptor())
	check(first.Set(mem.At(2, 2), mem.At(0, 2)))
	check(second.Set(mem.At(4, 4), mem.At(0, 4)))

	check(s.Copy(mem.All(), host.All()))
	check(s.CopyDescriptor(first))                             // bytes 0 and 1 to 2 and 3
	check(s.Copy(first.Memory().All(), second.Memory().All())) // now first says what second says
	check(s.CopyDescriptor(first))                             // bytes 0 to 3 to 4 to 7
	check(s.Copy(host.All(), mem.All()))
	check(s.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: abababab
}

// Two streams work at the same time; an event makes one wait for the other.
func ExampleEvent() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	up, down, mem := must(dev.AllocHost(4)), must(dev.AllocHost(4)), must(dev.Alloc(4))
	there, back := must(dev.NewStream()), must(dev.NewStream())
	arrived := must(dev.NewEvent())

	copy(up.Bytes(), "ping")
	check(there.Copy(mem.All(), up.All()))
	check(there.Record(arrived))
	check(back.Wait(arrived)) // back waits, this goroutine does not
	check(back.Copy(down.All(), mem.All()))
	check(back.Synchronize(ctx))
	fmt.Println(string(down.Bytes()))
	// Output: ping
}

// Errors carry the code that a C program would see, and what was wrong with which argument.
func ExampleError() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	host, mem := must(dev.AllocHost(64)), must(dev.Alloc(32))
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
	host, mem := must(dev.AllocHost(4)), must(dev.Alloc(4))
	s := must(dev.NewStream())

	check(s.Fill(mem.All(), '!'))
	gate := make(chan struct{})
	check(s.Call(func() { <-gate })) // holds the stream
	check(s.Copy(host.All(), mem.All()))

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
