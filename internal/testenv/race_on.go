//go:build race

package testenv

// Race reports whether the race detector is on. There sync.Pool drops what it is given at random, so allocations cannot
// be counted.
const Race = true
