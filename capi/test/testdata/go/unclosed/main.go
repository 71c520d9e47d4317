// Command unclosed copies up and down, and ends without closing the runtime, unless its argument is "fixed".
package main

import (
	"context"
	"log"
	"os"

	"ropeway"
	_ "ropeway/check" // so that ropeway check sees it
)

func main() {
	rt, err := ropeway.Open() // OPENED
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "fixed" {
		defer rt.Close()
	}
	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	host, err := dev.AllocPinned(64)
	if err != nil {
		log.Fatal(err)
	}
	mem, err := dev.Alloc(64)
	if err != nil {
		log.Fatal(err)
	}
	s := dev.DefaultStream()
	if err := s.Copy(mem.All(), host.All()); err != nil {
		log.Fatal(err)
	}
	if err := s.Synchronize(context.Background()); err != nil {
		log.Fatal(err)
	}
}
