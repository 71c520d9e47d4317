package core

import "ropeway/internal/core/handles"

// Handle is a program's reference to an object, and Table finds the object.
type (
	Handle       = handles.Handle
	Table[T any] = handles.Table[T]
)
