//go:build !amd64

package dl

func callInt(fn uintptr, args []uintptr) int32 { return int32(Call(fn, args...)) }
