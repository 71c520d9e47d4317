//go:build !amd64 || noasm

package memcopy

import "testing"

func forKernels(t *testing.T, f func(t *testing.T)) {
	t.Log("kernels avx512 and avx2 skipped: this build has no assembly")
	t.Run("kernel=generic", f)
}

func setKernel(t testing.TB, name string) bool { return name == "generic" }

func kernelNames() []string { return []string{"generic"} }

var copiers = []copier{{name: "Copy", f: Copy}, {name: "CopyStream", f: CopyStream}}

var fillers = []filler{{"fill", 0, fill}}
