package core

import "ropeway/internal/core/handles"

// Handle is what a program holds of an object, and Table finds the object.
type (
	Handle       = handles.Handle
	Table[T any] = handles.Table[T]
)
