// Package transfer is what moves or computes bytes: copies, batches, descriptors, fills, reductions, random numbers,
// and copies to symbols.
package transfer

import (
	"ropeway/internal/core"
	"ropeway/internal/core/handles"
)

// transferState is what a runtime knows of data buffers and symbols.
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

// LiveBuffers returns how many data buffers the program has not destroyed.
func LiveBuffers(rt *core.Runtime) int { return transferOf(rt).buffers.Count() }
