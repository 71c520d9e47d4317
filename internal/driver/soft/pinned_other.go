//go:build !amd64 && !arm64

package soft

var pinnedAt []uintptr
