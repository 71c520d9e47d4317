//go:build amd64 && !noasm

package memcopy

import (
	"testing"

	"golang.org/x/sys/cpu"
)

// forKernels runs f once with each kernel that the CPU has.
func forKernels(t *testing.T, f func(t *testing.T)) {
	for _, name := range []string{"avx512", "avx2", "generic"} {
		t.Run("kernel="+name, func(t *testing.T) {
			if !setKernel(t, name) {
				t.Skipf("kernel %s skipped: this CPU lacks it", name)
			}
			f(t)
		})
	}
}

// setKernel makes the named kernel the active one until the test ends, and
// reports whether the CPU has it.
func setKernel(t testing.TB, name string) bool {
	t.Cleanup(func() {
		hasAVX512, hasAVX2 = cpu.X86.HasAVX512F, cpu.X86.HasAVX2
		active = choose()
	})
	hasAVX512 = cpu.X86.HasAVX512F && name == "avx512"
	hasAVX2 = cpu.X86.HasAVX2 && name == "avx2"
	active = choose()
	return name == "generic" || active != nil && active.name == name
}

// kernelNames are the kernels that the CPU has, best first.
func kernelNames() []string {
	var names []string
	if cpu.X86.HasAVX512F {
		names = append(names, "avx512")
	}
	if cpu.X86.HasAVX2 {
		names = append(names, "avx2")
	}
	return append(names, "generic")
}

// copiers are the ways to copy; the inner ones reach the kernels at sizes
// where Copy would not use them yet.
var copiers = []copier{
	{name: "Copy", f: Copy},
	{name: "CopyStream", f: CopyStream},
	{name: "copyLarge", f: copyLarge, min: lineBytes + temporalStep},
	{name: "stream", min: lineBytes, apart: true, f: func(dst, src, n uintptr) {
		if active == nil {
			move(dst, src, n)
			return
		}
		stream(active, dst, src, n)
	}},
}

// fillers are likewise the ways to repeat a word over n bytes.
var fillers = []filler{
	{"fill", 0, fill},
	{"fillGeneric", 0, fillGeneric},
	{"fillStream", lineBytes + fillStep, func(dst uintptr, v uint32, n uintptr) {
		if active == nil {
			fillGeneric(dst, v, n)
			return
		}
		fillStream(active, dst, v, n)
	}},
}
