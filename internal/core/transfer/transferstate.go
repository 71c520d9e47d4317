// Package transfer implements the calls that move or compute bytes: copies, batches, descriptors, fills, reductions,
// random numbers, and copies of symbols.
package transfer

import (
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// transferState is a runtime's state of data buffers and symbols.
type transferState struct {
	buffers core.Table[dataBuffer]
	symbols symbols
}

var transferPart = core.NewPart(func(*core.Runtime) *transferState {
	s := &transferState{}
	s.buffers.Kind = handles.Buffer
	return s
})

func transferOf(rt *core.Runtime) *transferState { return transferPart.Of(rt) }

// LiveBuffers returns the number of data buffers that the program has not destroyed.
func LiveBuffers(rt *core.Runtime) int { return transferOf(rt).buffers.Count() }
