package ropeway_test

import (
	"bytes"
	"context"
	"encoding/binary"
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
	mem, host := must(dev.Alloc(4)), must(dev.AllocHost(4))
	arrived := must(dev.NewNotify())

	check(down.Wait(arrived))
	check(down.Copy(host.All(), mem.All()))
	check(up.Fill(mem.All(), '!'))
	check(up.Record(arrived))
	check(down.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: !!!!
}

// A stream waits until all others have delivered, whichever comes last.
func ExampleCountNotify() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1), ropeway.WithProduct("950", "EP")))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem, host := must(dev.Alloc(4)), must(dev.AllocHost(4))
	delivered, collects := must(dev.NewCountNotify()), must(dev.NewStream())

	check(collects.WaitCount(delivered, ropeway.CountWait{Is: ropeway.CountEqual, Value: 4, Clear: true}))
	check(collects.Copy(host.All(), mem.All()))
	for i := range 4 {
		s := must(dev.NewStream())
		check(s.Fill(mem.At(i, 1), byte('a'+i)))
		check(s.RecordCount(delivered, ropeway.AddCount, 1))
	}
	check(collects.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: abcd
}

// Addresses are reserved once; memory is put behind them as it is needed, and the buffer never moves.
func ExampleRange() {
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	unit := must(dev.MapUnit())
	buffer := must(dev.Reserve(1000 * unit)) // costs next to nothing

	for i := range 3 {
		check(buffer.Map(i*unit, must(dev.NewMemory(unit))))
		check(dev.Fill(buffer.At(i*unit, unit), byte('a'+i)))
	}
	across := make([]byte, 2)
	check(dev.Copy(ropeway.Host(across), buffer.At(2*unit-1, 2))) // two pieces, one copy
	fmt.Printf("%s %v\n", across, dev.Fill(buffer.At(0, 4*unit), 0) != nil)
	// Output: bc true
}

// A stream takes memory and gives it back in its own order; nobody waits, and the same memory serves every round.
func ExamplePool() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s, host := must(dev.NewStream()), must(dev.AllocHost(10))
	pool := must(dev.NewPool(ropeway.PoolOptions{Keep: 4 << 20}))

	for i := range host.Len() {
		b := must(pool.Alloc(s, 1<<20))
		check(s.Fill(b.All(), byte('0'+i)))
		check(s.Copy(host.At(i, 1), b.At(0, 1)))
		check(s.Free(b))
	}
	check(s.Synchronize(ctx))
	fmt.Println(string(host.Bytes()), must(pool.Use()).ReservedMost>>20, "MiB")
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
	check(s.Fill(b.At(0, 1), 'J'))
	check(s.Synchronize(ctx))
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
	word, mem, host := must(dev.Alloc(8)), must(dev.Alloc(3)), must(dev.AllocHost(3))
	check(dev.Fill(word.All(), 0))

	check(consumer.WaitValue(word.All(), ropeway.AtLeast, 3))
	check(consumer.Copy(host.All(), mem.All()))
	for i := range 3 {
		check(producer.Fill(mem.At(i, 1), byte('x'+i)))
		check(producer.WriteValue(word.All(), uint64(i+1)))
	}
	check(consumer.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: xyz
}

// The device adds up numbers as it copies.
func ExampleStream_Reduce() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s, sum, host := must(dev.NewStream()), must(dev.Alloc(4)), must(dev.AllocHost(4))
	check(dev.Fill(sum.All(), 0))

	for i := range 4 {
		part := must(dev.Alloc(4))
		binary.LittleEndian.PutUint32(host.Bytes(), uint32(i))
		check(dev.Copy(part.All(), host.All()))
		check(s.Reduce(sum.All(), part.All(), ropeway.Sum, ropeway.Int32))
	}
	check(s.Copy(host.All(), sum.All()))
	check(s.Synchronize(ctx))
	fmt.Println(binary.LittleEndian.Uint32(host.Bytes()))
	// Output: 6
}

// The counter lies in device memory: put back, it gives the same numbers again.
func ExampleStream_Random() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s, mem, counter := must(dev.NewStream()), must(dev.Alloc(3*4000)), must(dev.Alloc(16))

	for i, first := range []bool{true, false, true} {
		if first {
			check(s.Fill(counter.All(), 0))
		}
		check(s.Random(mem.At(i*4000, 4000), ropeway.Normal(ropeway.Float32, 0, 1), ropeway.RandomSource{Seed: 1, Counter: counter.All()}))
	}
	check(s.Synchronize(ctx))
	drawn := make([]byte, mem.Len())
	check(dev.Copy(ropeway.Host(drawn), mem.All()))
	fmt.Println(bytes.Equal(drawn[:4000], drawn[4000:8000]), bytes.Equal(drawn[:4000], drawn[8000:]))
	// Output: false true
}
