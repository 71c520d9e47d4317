package advice_test

import (
	"fmt"

	"ropeway/internal/observe"
	"ropeway/internal/timeline/advice"
	"ropeway/internal/timeline/sample"
)

// A program that copies from ordinary memory is advised to pin it.
func ExampleOf() {
	b := sample.New()
	thread, stream := b.Thread("main"), b.Stream(0)
	for range 4 {
		b.Copy(thread, stream, observe.HostToDevice, observe.Pageable, 6<<20)
	}
	for _, a := range advice.Of(b.Run()) {
		fmt.Println(a.Title)
		for _, n := range a.Numbers {
			fmt.Printf("  %s: %s\n", n.Label, n.Value)
		}
	}
	// Output:
	// Pin the host memory of 4 copies
	//   copies: 4
	//   bytes: 24 MiB
	//   time blocked: 4.2 ms
	//   longest of one thread: 4.2 ms, 100% of the run
	//   these copies reached: 5.99 GB/s
}
