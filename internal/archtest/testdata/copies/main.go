// Command copies is a program that wants nothing but copies on the software device; TestLinked looks at what it links.
package main

import (
	"context"
	"fmt"

	"ropeway"
)

func main() {
	rt, err := ropeway.Open(ropeway.WithDevices(1))
	if err != nil {
		panic(err)
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		panic(err)
	}
	host, err := ropeway.AllocPinned[int32](dev, 4)
	if err != nil {
		panic(err)
	}
	s := dev.DefaultStream()
	host.Values()[0] = 7
	fmt.Println(s.Synchronize(context.Background()))
}
