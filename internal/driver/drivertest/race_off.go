//go:build !race

package drivertest

const raceDetector = false
