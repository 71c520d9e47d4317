package ropeway_test

import (
	"context"
	"fmt"

	"ropeway"
)

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
