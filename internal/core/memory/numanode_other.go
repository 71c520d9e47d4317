//go:build !linux

package memory

func numaNode() int32 { return 0 }
