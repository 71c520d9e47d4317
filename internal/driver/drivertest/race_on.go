//go:build race

package drivertest

// raceDetector is set where the race detector runs: there sync.Pool drops what it is given at random,
// and allocations say nothing.
const raceDetector = true
