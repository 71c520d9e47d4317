//go:build !race || (amd64 && !noasm)

package memcopy

const raceGeneric = false
