//go:build race && (!amd64 || noasm)

package memcopy

// raceGeneric is set where the race detector's own C code does the write of
// ProbeWrite: a fault there ends the process.
const raceGeneric = true
