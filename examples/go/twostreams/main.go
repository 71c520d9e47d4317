// Command twostreams copies a large array to a device and back, in blocks, on two streams: while one block goes down,
// the next one goes up. Events order the two streams; the host waits once, at the end.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"ropeway"
	_ "ropeway/check" // ropeway check ./twostreams, or ROPEWAY_CHECK=1 ./twostreams, checks it
)

const (
	blocks  = 8
	numbers = 64 << 10 // of a block
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	rt, err := ropeway.Open()
	if err != nil {
		return err
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	defer dev.Close()
	wrong, err := roundTrip(ctx, dev)
	if err != nil {
		return err
	}
	fmt.Printf("%d blocks of %d numbers: %d came back wrong\n", blocks, numbers, wrong)
	return nil
}

// roundTrip sends numbers to the device and back, and counts those that came back wrong.
func roundTrip(ctx context.Context, dev *ropeway.Device) (wrong int, err error) {
	up, err := ropeway.AllocPinned[float32](dev, blocks*numbers)
	if err != nil {
		return 0, err
	}
	defer up.Close()
	down, err := ropeway.AllocPinned[float32](dev, blocks*numbers)
	if err != nil {
		return 0, err
	}
	defer down.Close()
	mem, err := ropeway.Alloc[float32](dev, blocks*numbers)
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	values := up.Values()
	for i := range values {
		values[i] = float32(i)
	}
	if err := pipeline(ctx, dev, down, mem, up); err != nil {
		return 0, err
	}
	for i, v := range down.Values() {
		if v != float32(i) {
			wrong++
		}
	}
	return wrong, nil
}

// pipeline copies src to mem on one stream, and mem to dst on another, which waits for each block's event.
func pipeline(ctx context.Context, dev *ropeway.Device, dst, mem, src ropeway.Array[float32]) error {
	there, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer there.Close()
	back, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer back.Close()
	for b := range blocks {
		arrived, err := dev.NewEvent()
		if err != nil {
			return err
		}
		defer arrived.Close()
		at := b * numbers
		if err := there.Copy(mem.Range(at, numbers), src.Range(at, numbers)); err != nil {
			return err
		}
		if err := there.Record(arrived); err != nil {
			return err
		}
		if err := back.Wait(arrived); err != nil { // the stream waits, this goroutine does not
			return err
		}
		if err := back.Copy(dst.Range(at, numbers), mem.Range(at, numbers)); err != nil {
			return err
		}
	}
	if err := there.Synchronize(ctx); err != nil {
		return err
	}
	return back.Synchronize(ctx)
}
