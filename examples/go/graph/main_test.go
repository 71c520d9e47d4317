package main

import (
	"testing"

	"ropeway/ropewaytest"
)

// Example runs the program.
func Example() {
	main()
	// Output: 1000 runs, then one from another buffer: 0 results were wrong
}

// TestSteps: the program makes no mistake that the checker finds.
func TestSteps(t *testing.T) {
	wrong, err := steps(t.Context(), ropewaytest.Device(t))
	if err != nil || wrong != 0 {
		t.Errorf("%d results are wrong, %v", wrong, err)
	}
}
