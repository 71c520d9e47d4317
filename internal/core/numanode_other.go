//go:build !linux

package core

func numaNode() int32 { return 0 }
