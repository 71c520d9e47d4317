package ropeway_test

import (
	"fmt"
	"os"
	"path/filepath"

	"ropeway"
)

// What a program does is recorded, for ropeway trace --from to show.
func ExampleWithTrace() {
	dir := must(os.MkdirTemp("", "recorded"))
	defer os.RemoveAll(dir)

	rt, err := ropeway.Open(ropeway.WithTrace(dir)) // a file in dir; ropeway trace --from dir shows it
	do(err)
	dev := must(rt.Device(0))
	mem := must(dev.Alloc(5))
	do(dev.Copy(mem.All(), ropeway.Pageable([]byte("bytes"))))
	do(rt.Close())

	fmt.Println(len(must(filepath.Glob(filepath.Join(dir, "*.ropeway")))), "file")
	// Output: 1 file
}
