// Command vectoradd launches a kernel between copies: two vectors go up, the device adds them, and the sum comes down.
//
// Without an argument the kernel is a Go function, which is for tests and needs nothing else. With one it is in that
// file: vector_add.so of examples/c.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"ropeway"
	_ "ropeway/check" // ropeway check ./vectoradd, or ROPEWAY_CHECK=1 ./vectoradd, checks it
	"ropeway/kernel"
)

const (
	numbers = 1 << 16
	blocks  = 8
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, files []string) error {
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
	wrong, err := sums(ctx, dev, files)
	if err != nil {
		return err
	}
	fmt.Printf("%d sums in %d blocks: %d are wrong\n", numbers, blocks, wrong)
	return nil
}

// add is the kernel. It is called once for each block.
func add(b *kernel.Block) error {
	n := int(b.Arg(3))
	x, y, z := kernel.Slice[float32](b, 0, n), kernel.Slice[float32](b, 1, n), kernel.Slice[float32](b, 2, n)
	for i := b.Index(); i < n; i += b.Num() {
		z[i] = x[i] + y[i]
	}
	return nil
}

// load loads the kernel from a file, if there is one.
func load(dev *ropeway.Device, files []string) (*kernel.Module, error) {
	if len(files) > 0 {
		return kernel.Load(dev, files[0])
	}
	return kernel.LoadFuncs(dev, map[string]kernel.Func{"vector_add": add})
}

// sums adds vectors on the device, and counts the sums that are wrong.
func sums(ctx context.Context, dev *ropeway.Device, files []string) (wrong int, err error) {
	m, err := load(dev, files)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	k, err := m.Kernel("vector_add")
	if err != nil {
		return 0, err
	}
	host, err := ropeway.AllocPinned[float32](dev, numbers)
	if err != nil {
		return 0, err
	}
	defer host.Close()
	x, errX := ropeway.Alloc[float32](dev, numbers)
	y, errY := ropeway.Alloc[float32](dev, numbers)
	if err := errors.Join(errX, errY); err != nil {
		return 0, err
	}
	defer y.Close()
	defer x.Close()
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer s.Close()

	for i := range host.Values() {
		host.Values()[i] = float32(i)
	}
	if err := errors.Join(
		s.Copy(x.All(), host.All()),
		s.Copy(y.All(), x.All()),
		k.Launch(s, blocks, x, y, y, numbers), // y = x + y; arrays are addresses
		s.Copy(host.All(), y.All()),
		s.Synchronize(ctx), // a kernel that failed says so here
	); err != nil {
		return 0, err
	}
	for i, v := range host.Values() {
		if v != float32(2*i) {
			wrong++
		}
	}
	return wrong, nil
}
