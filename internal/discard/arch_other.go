//go:build !amd64

package discard

// understood is whether the code of this machine can be followed.
const understood = false
