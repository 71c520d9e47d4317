package pod_test

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"ropeway"
	"ropeway/pod"
)

// The server that has memory shares it, and a notify, with one process of another server. What that process and the
// keys are called travels by any means, by standard input and output here.
func ExampleSelf() {
	rt, err := ropeway.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	dev, err := rt.Device(0)
	if err != nil {
		log.Fatal(err)
	}
	var keys struct{ Block, Written ropeway.Key }

	own := func() error { // on one server
		var other ropeway.Process
		if err := json.NewDecoder(os.Stdin).Decode(&other); err != nil {
			return err
		}
		block, err := dev.Alloc(1 << 20)
		if err != nil {
			return err
		}
		written, err := dev.NewNotify()
		if err != nil {
			return err
		}
		if keys.Block, err = block.ShareWith(other); err != nil {
			return err
		}
		if keys.Written, err = written.ShareWith(other); err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(keys); err != nil {
			return err
		}
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		if err := s.WaitNotify(written, 0); err != nil { // what is queued now sees what the other server wrote
			return err
		}
		return s.Synchronize(context.Background())
	}

	use := func() error { // on the other
		self, err := pod.Self(dev)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(self); err != nil {
			return err
		}
		if err := json.NewDecoder(os.Stdin).Decode(&keys); err != nil {
			return err
		}
		block, err := dev.Import(context.Background(), keys.Block, 1<<20)
		if err != nil {
			return err
		}
		written, err := dev.ImportNotify(context.Background(), keys.Written)
		if err != nil {
			return err
		}
		s, err := dev.NewStream()
		if err != nil {
			return err
		}
		if err := s.Fill(block.All(), 'b'); err != nil {
			return err
		}
		if err := s.RecordNotify(written); err != nil {
			return err
		}
		return s.Synchronize(context.Background())
	}

	server, err := pod.Server(dev)
	if err == nil && server == 0 {
		err = own()
	} else if err == nil {
		err = use()
	}
	if err != nil {
		log.Fatal(err)
	}
}
