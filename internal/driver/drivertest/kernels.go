package drivertest

import (
	_ "embed"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
)

// Kernels returns a binary with kernels that the driver can run; it skips the test if there is none.
func Kernels(t testing.TB, d driver.Driver) []byte {
	t.Helper()
	l := d.Caps().Launch
	if l == nil {
		t.Skip("the driver runs no kernels")
	}
	if l.Runs(kernel.PTX) {
		return []byte(PTX)
	}
	kerneltest.Support(t)
	return kerneltest.Compile(t, cKernels)
}

// cKernels are for a CPU, PTX has the same for a GPU. On a GPU blocks and threads share the work; on a CPU blocks do.
//
//	sum      z[i] = x[i] + y[i], for i < n
//	times    p[i] *= scale, a variable of the binary
//	follow   adds 1 to the word that *p leads to
//	mix      to[i] += from[i]*v + i, for i < n; bytes. Where to and from share bytes, they are the same
//	nothing  does nothing
//
// And for GPUs alone:
//
//	wild     writes to an address
//	trap     stops itself
//	linger   ends after so many nanoseconds
//	place    writes the number of each thread to its place of a list
//
//go:embed testdata/kernels.c
var cKernels string

// PTX has the same kernels for a GPU, and those for GPUs alone. What imitates one knows them by their names.
//
//go:embed testdata/kernels.ptx
var PTX string
