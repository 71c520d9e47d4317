package ascend_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"ropeway"
	"ropeway/ascend"
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

// A stream waits until all others have delivered, whichever comes last.
func ExampleCountNotify() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1), ropeway.WithProduct(ropeway.Product950, ropeway.EP)))
	defer rt.Close()
	dev := must(rt.Device(0))
	mem, host := must(dev.Alloc(4)), must(dev.AllocPinned(4))
	delivered, collects := must(ascend.NewCountNotify(dev)), must(dev.NewStream())

	do(ascend.WaitCount(collects, delivered, ascend.CountWait{Is: ascend.CountEqual, Value: 4, Clear: true}))
	do(collects.Copy(host.All(), mem.All()))
	for i := range 4 {
		s := must(dev.NewStream())
		do(s.Fill(mem.Range(i, 1), byte('a'+i)))
		do(ascend.RecordCount(s, delivered, ascend.AddCount, 1))
	}
	do(collects.Synchronize(ctx))
	fmt.Println(string(host.Bytes()))
	// Output: abcd
}

// The device adds up numbers as it copies.
func ExampleReduce() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s, sum, host := must(dev.NewStream()), must(ropeway.Alloc[int32](dev, 1)), must(ropeway.AllocPinned[int32](dev, 1))
	do(dev.Fill(sum.All(), 0))

	for i := range 4 {
		part := must(ropeway.Alloc[int32](dev, 1))
		host.Values()[0] = int32(i)
		do(dev.Copy(part.All(), host.All()))
		do(ascend.Reduce(s, sum.All(), part.All(), ascend.Sum, ascend.Int32))
	}
	do(s.Copy(host.All(), sum.All()))
	do(s.Synchronize(ctx))
	fmt.Println(host.Values()[0])
	// Output: 6
}

// The counter lies in device memory: put back, it gives the same numbers again.
func ExampleRandom() {
	ctx := context.Background()
	rt := must(ropeway.Open(ropeway.WithDevices(1)))
	defer rt.Close()
	dev := must(rt.Device(0))
	s, mem, counter := must(dev.NewStream()), must(dev.Alloc(3*4000)), must(dev.Alloc(16))

	for i, first := range []bool{true, false, true} {
		if first {
			do(s.Fill(counter.All(), 0))
		}
		do(ascend.Random(s, mem.Range(i*4000, 4000), ascend.Normal(ascend.Float32, 0, 1), ascend.RandomSource{Seed: 1,
			Counter: counter.All()}))
	}
	do(s.Synchronize(ctx))
	drawn := make([]byte, mem.Len())
	do(dev.Copy(ropeway.Pageable(drawn), mem.All()))
	fmt.Println(bytes.Equal(drawn[:4000], drawn[4000:8000]), bytes.Equal(drawn[:4000], drawn[8000:]))
	// Output: false true
}
