// Command hello sends a line up to a device and down again.
package main

import (
	"context"
	"fmt"
	"log"

	"ropeway"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err) // *ropeway.Error: the code, the call, the argument, what is wrong
	}
}

func run() error {
	rt, err := ropeway.Open()
	if err != nil {
		return err
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	up, err := dev.AllocHost(16) // pinned host memory: copies with it are asynchronous
	if err != nil {
		return err
	}
	down, err := dev.AllocHost(16)
	if err != nil {
		return err
	}
	mem, err := dev.Alloc(16) // device memory: the host cannot touch it
	if err != nil {
		return err
	}
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	copy(up.Bytes(), "over the summit!")
	if err := s.Copy(mem.All(), up.All()); err != nil { // queued, not done
		return err
	}
	if err := s.Copy(down.All(), mem.All()); err != nil {
		return err
	}
	if err := s.Synchronize(context.Background()); err != nil { // done, or here is the error
		return err
	}
	fmt.Println(string(down.Bytes()))
	return nil
}
