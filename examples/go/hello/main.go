// Command hello sends a line up to a device and down again.
package main

import (
	"context"
	"fmt"
	"log"

	"ropeway"
	_ "ropeway/check" // ropeway check ./hello, or ROPEWAY_CHECK=1 ./hello, checks it
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err) // *ropeway.Error: the code, the call, the argument, what is wrong
	}
}

func run(ctx context.Context) error {
	rt, err := ropeway.Open()
	if err != nil {
		return err
	}
	defer rt.Close() // closes everything below, too
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	up, err := dev.AllocPinned(16) // pinned host memory: copies with it are asynchronous
	if err != nil {
		return err
	}
	defer up.Close()
	down, err := dev.AllocPinned(16)
	if err != nil {
		return err
	}
	defer down.Close()
	mem, err := dev.Alloc(16) // device memory: the host cannot touch it
	if err != nil {
		return err
	}
	defer mem.Close()
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	copy(up.Bytes(), "over the summit!")
	if err := s.Copy(mem.All(), up.All()); err != nil { // queued, not done
		return err
	}
	if err := s.Copy(down.All(), mem.All()); err != nil {
		return err
	}
	if err := s.Synchronize(ctx); err != nil { // waits; returns the first error
		return err
	}
	fmt.Println(string(down.Bytes()))
	return nil
}
