//go:build race

package ropeway_test

const raced = true // the race detector is on: pools drop what they are given, so there are allocations
