package main

import (
	"testing"

	"ropeway/ropewaytest"
)

// Example runs the program.
func Example() {
	main()
	// Output: 8 blocks of 65536 numbers: 0 came back wrong
}

// TestRoundTrip: the program makes no mistake that the checker finds.
func TestRoundTrip(t *testing.T) {
	wrong, err := roundTrip(t.Context(), ropewaytest.Device(t))
	if err != nil || wrong != 0 {
		t.Errorf("%d numbers are wrong, %v", wrong, err)
	}
}
