package core

// transferState is what a runtime knows of data buffers and symbols.
type transferState struct {
	buffers table[dataBuffer]
	symbols symbols
}

var transferPart = NewPart(func(*Runtime) *transferState {
	s := &transferState{}
	s.buffers.kind = bufferKind
	return s
})

func transferOf(rt *Runtime) *transferState { return transferPart.Of(rt) }

// LiveBuffers returns how many data buffers the program has not destroyed.
func LiveBuffers(rt *Runtime) int { return transferOf(rt).buffers.count() }
