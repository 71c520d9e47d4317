// Command twoservers has one block of a KV cache on two servers. Server 0 has it in device memory and shares it by a
// fabric handle, 128 bytes that travel by a file here and by any means between machines. The other server maps the same
// memory, reads it and changes it. Server 0 does nothing for that.
//
//	ropeway run --pod 2 ./twoservers /tmp/block
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"ropeway"
	_ "ropeway/check" // ropeway check ropeway run --pod 2 ./twoservers /tmp/block checks it
	"ropeway/pod"     // ROPEWAY_POD says which servers there are
)

const size = 4 << 20

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 || os.Getenv("ROPEWAY_POD") == "" {
		log.Fatal("start it with ropeway run --pod 2, and with a file for the handle")
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	rt, err := ropeway.Open()
	if err != nil {
		return err
	}
	defer rt.Close() // closes everything below, too
	return on(ctx, rt, file)
}

// on does what is to do on the server that this is.
func on(ctx context.Context, rt *ropeway.Runtime, file string) error {
	dev, err := rt.Device(0)
	if err != nil {
		return err
	}
	server, err := pod.Server(dev)
	if err != nil {
		return err
	}
	if server == 0 {
		return own(ctx, dev, file)
	}
	return use(ctx, dev, file)
}

// own is the server that has the block.
func own(ctx context.Context, dev *ropeway.Device, file string) error {
	mem, err := dev.AllocPhysical(size)
	if err != nil {
		return err
	}
	defer mem.Close()
	block, err := place(dev, mem)
	if err != nil {
		return err
	}
	defer block.Close()
	if err := dev.Fill(block.Range(0, size), 'a'); err != nil {
		return err
	}
	handle, err := mem.ShareFabric() // any process of the pod may import it; those that are named, if there are any
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".part", handle[:], 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".part", file); err != nil {
		return err
	}
	if err := wait(ctx, file, false); err != nil { // the other server removes it when it is done
		return err
	}
	if err := expect(dev, block, 'b'); err != nil {
		return err
	}
	fmt.Println("It changed every byte, and server 0 sees the change.")
	return nil
}

// use is the server that uses it.
func use(ctx context.Context, dev *ropeway.Device, file string) error {
	if err := wait(ctx, file, true); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mem, err := dev.ImportFabric(ctx, ropeway.FabricHandle(text))
	if err != nil {
		return err
	}
	defer mem.Close()
	block, err := place(dev, mem)
	if err != nil {
		return err
	}
	defer block.Close()
	if err := expect(dev, block, 'a'); err != nil {
		return err
	}
	fmt.Printf("Server 1 read the %d bytes of server 0.\n", size)
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.Fill(block.Range(0, size), 'b'); err != nil { // queued, as with any memory
		return err
	}
	if err := stream.Synchronize(ctx); err != nil {
		return err
	}
	return os.Remove(file)
}

// place gives memory addresses, wherever it is.
func place(dev *ropeway.Device, mem *ropeway.Physical) (*ropeway.Reservation, error) {
	r, err := dev.Reserve(mem.Len())
	if err != nil {
		return nil, err
	}
	if err := r.Map(0, mem); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// expect copies the block to the host, and compares each byte.
func expect(dev *ropeway.Device, block *ropeway.Reservation, each byte) error {
	got := make([]byte, size)
	if err := dev.Copy(ropeway.Pageable(got), block.Range(0, size)); err != nil {
		return err
	}
	if n := bytes.Count(got, []byte{each}); n != size {
		return fmt.Errorf("%d bytes of %d are %q", n, size, each)
	}
	return nil
}

// wait waits until a file is there, or is not there any more.
func wait(ctx context.Context, file string, there bool) error {
	for {
		if _, err := os.Stat(file); err == nil == there {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
