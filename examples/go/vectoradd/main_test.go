package main

import (
	"context"
	"fmt"
	"testing"

	"ropeway/ropewaytest"
)

// Example runs the program.
func Example() {
	if err := run(context.Background(), nil); err != nil {
		fmt.Println(err)
	}
	// Output: 65536 sums in 8 blocks: 0 are wrong
}

// TestSums: the program makes no mistake that the checker finds.
func TestSums(t *testing.T) {
	wrong, err := sums(t.Context(), ropewaytest.Device(t), nil)
	if err != nil || wrong != 0 {
		t.Errorf("%d sums are wrong, %v", wrong, err)
	}
}
