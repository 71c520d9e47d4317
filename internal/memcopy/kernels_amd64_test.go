//go:build amd64 && !noasm

package memcopy

import (
	"os"
	"reflect"
	"runtime"
	"strings"
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

// TestIsIntel compares with what the kernel says.
func TestIsIntel(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	if want := strings.Contains(string(text), "GenuineIntel"); isIntel() != want {
		t.Errorf("isIntel is %v, and /proc/cpuinfo says %v", isIntel(), want)
	}
}

// TestKernelChoice checks which kernels are chosen, and that each sits in its field.
func TestKernelChoice(t *testing.T) {
	setKernel(t, "generic") // to have the features put back
	defer func(was bool) { onIntel = was }(onIntel)
	for _, c := range []struct {
		avx512, avx2, intel bool
		want                *kernels
	}{
		{true, true, true, &kernelsAVX512}, {true, true, false, &kernelsAVX2}, {true, false, false, &kernelsAVX512},
		{false, true, true, &kernelsAVX2}, {false, false, true, nil},
	} {
		if hasAVX512, hasAVX2, onIntel = c.avx512, c.avx2, c.intel; choose() != c.want {
			t.Errorf("AVX-512 %v, AVX2 %v, Intel %v: wrong kernels", c.avx512, c.avx2, c.intel)
		}
	}
	for suffix, k := range map[string]*kernels{"AVX512": &kernelsAVX512, "AVX2": &kernelsAVX2} {
		for want, f := range map[string]any{"copyStreamPages": k.copyPages, "copyStreamLinear": k.copyLinear,
			"copyTemporal": k.copyTemporal, "fillStream": k.fillStream, "fillTemporal": k.fillTemporal,
			"copySegments": k.copySegments} {
			if got := routineName(f); got != want+suffix {
				t.Errorf("%s: %s in place of %s", k.name, got, want+suffix)
			}
		}
	}
}

// TestKernelText checks what a copy that went well cannot show: a kernel that stores past the cache orders these stores
// before it returns, each leaves the upper halves of the registers clean, and AVX-512 kernels use only instructions of
// AVX512F, which is all that is asked of the CPU: forms that are 64 bytes wide, of 32 or 64-bit elements, and those of
// AVX.
func TestKernelText(t *testing.T) {
	text, err := os.ReadFile("memcopy_amd64.s")
	if err != nil {
		t.Skip(err) // on a machine that has only the test
	}
	wide := map[string]bool{"VMOVDQU64": true, "VMOVDQA64": true, "VMOVNTDQ": true, "VPBROADCASTQ": true}
	older := map[string]bool{"VMOVDQU": true, "VMOVQ": true, "VZEROUPPER": true} // of AVX
	kernels := strings.Split(string(text), "\nTEXT ·")[1:]
	seen := 0
	for _, k := range kernels {
		name, body, _ := strings.Cut(k, "(")
		if !strings.Contains(name, "AVX") {
			continue // probes: no vectors
		}
		seen++
		ends, clean := strings.Count(body, "\tRET\n"), strings.Count(body, "\tVZEROUPPER\n\tRET\n")
		if ends == 0 || ends != clean {
			t.Errorf("%s: %d of %d ends clean the registers", name, clean, ends)
		}
		if strings.Contains(body, "VMOVNT") && !strings.Contains(body, "\tSFENCE\n") {
			t.Errorf("%s: stores past the cache are not ordered", name)
		}
		for line := range strings.Lines(body) {
			f := strings.Fields(line)
			if len(f) == 0 || f[0][0] != 'V' || older[f[0]] || !strings.HasSuffix(name, "AVX512") {
				continue
			}
			if operands := strings.Join(f[1:], " "); !wide[f[0]] || strings.Contains(operands, "Y") {
				t.Errorf("%s: %s is not an instruction of AVX512F", name, strings.TrimSpace(line))
			}
		}
	}
	if seen != 12 {
		t.Errorf("%d kernels read, want 12", seen)
	}
}

// routineName is the name of an assembly routine of this package.
func routineName(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}
