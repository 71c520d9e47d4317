// Command graph captures a step and runs it a thousand times, then changes where the step reads from and runs it again.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"ropeway"
	_ "ropeway/check" // ropeway check ./graph, or ROPEWAY_CHECK=1 ./graph, checks it
)

const (
	numbers = 4096
	runs    = 1000
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
	wrong, err := steps(ctx, dev)
	if err != nil {
		return err
	}
	fmt.Printf("%d runs, then one from another buffer: %d results were wrong\n", runs, wrong)
	return nil
}

// steps runs the captured step, and counts the results that are wrong.
func steps(ctx context.Context, dev *ropeway.Device) (wrong int, err error) {
	var host [3]ropeway.Array[int32] // two inputs and the output, pinned: other memory cannot be captured
	for i := range host {
		if host[i], err = ropeway.AllocPinned[int32](dev, numbers); err != nil {
			return 0, err
		}
		defer host[i].Close()
	}
	one, other, out := host[0], host[1], host[2]
	mem, err := ropeway.Alloc[int32](dev, numbers)
	if err != nil {
		return 0, err
	}
	defer mem.Close()
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer s.Close()

	// What the function submits does not run: it becomes the tasks 0 and 1 of the graph.
	g, err := s.Capture(func() error {
		if err := s.Copy(mem.All(), one.All()); err != nil {
			return err
		}
		return s.Copy(out.All(), mem.All())
	})
	if err != nil {
		return 0, err
	}
	defer g.Close()

	for run := range runs + 1 {
		in := one
		if run == runs {
			in = other
			if err := g.SetCopy(0, mem.All(), other.All()); err != nil { // from now on it reads from there
				return 0, err
			}
		}
		in.Values()[run] = int32(run) + 1 // the values are read when the graph runs
		if err := g.Run(s); err != nil {
			return 0, err
		}
		if err := s.Synchronize(ctx); err != nil {
			return 0, err
		}
		if out.Values()[run] != int32(run)+1 {
			wrong++
		}
	}
	return wrong, nil
}
