package kernels

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// The structs have the parameters that the PTX declares, at the offsets a launch expects: each at a multiple of its
// size.
func TestParameters(t *testing.T) {
	entry := regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)`)
	param := regexp.MustCompile(`\.param (?:\.align 8 \.b8 \w+\[(\d+)\]|\.[us](32|64))`)
	declared, structs := map[string][]uintptr{}, map[string]string{}
	for _, e := range entry.FindAllStringSubmatch(PTX, -1) {
		at := uintptr(0)
		for _, p := range param.FindAllStringSubmatch(e[2], -1) {
			if p[1] != "" {
				structs[e[1]] = p[1]
				continue
			}
			size := uintptr(4)
			if p[2] == "64" {
				size = 8
			}
			at = (at + size - 1) &^ (size - 1)
			declared[e[1]] = append(declared[e[1]], at)
			at += size
		}
	}
	for name, params := range map[string]any{
		Gather: GatherParams{}, Descriptor: DescriptorParams{}, Offset: OffsetParams{}, Move: MoveParams{},
	} {
		var offsets []uintptr
		for _, f := range reflect.VisibleFields(reflect.TypeOf(params)) {
			if f.Name != "_" {
				offsets = append(offsets, f.Offset)
			}
		}
		if !reflect.DeepEqual(offsets, declared[name]) {
			t.Errorf("%s: fields at %v, the kernel has parameters at %v", name, offsets, declared[name])
		}
		delete(declared, name)
	}
	if got, want := structs[Few], fmt.Sprint(reflect.TypeFor[FewParams]().Size()); got != want || len(structs) != 1 {
		t.Errorf("%s has %s bytes of parameters, want %s", Few, got, want)
	}
	if len(declared) > 0 {
		t.Errorf("kernels that nobody knows: %v", declared)
	}
}

func TestLayouts(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  uintptr
	}{{Entry{}, 16}, {Found{}, 32}, {Range{}, 16}} {
		if got := reflect.TypeOf(tt.value).Size(); got != tt.want {
			t.Errorf("%T has %d bytes, copy.cu says %d", tt.value, got, tt.want)
		}
	}
}

// The PTX asks for no more than package documentation promises.
func TestPTXIsForOldDrivers(t *testing.T) {
	for _, line := range []string{".version 7.0\n", ".target sm_70\n", ".address_size 64\n"} {
		if !strings.Contains(PTX, line) {
			t.Errorf("copy.ptx has no line %q", line)
		}
	}
}

// copy.ptx is what nvcc makes of copy.cu. Few machines have nvcc, those that build for CI do not, so this one may
// skip in CI. Another release of nvcc makes other PTX of the same source; only the one that made copy.ptx can tell.
func TestPTXIsUpToDate(t *testing.T) {
	if strings.Contains(PTX, "_GLOBAL__N_") {
		t.Error("a name in copy.ptx comes from an unnamed namespace: it has a hash of the path of copy.cu in it")
	}
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Skip("nvcc is not installed")
	}
	version, err := exec.Command(nvcc, "--version").Output()
	testenv.OK(t, err)
	release := regexp.MustCompile(`release [\d.]+, V[\d.]+`)
	if here, made := release.FindString(string(version)), release.FindString(PTX); here != made {
		t.Skipf("nvcc is %q, copy.ptx was made by %q", here, made)
	}
	out := filepath.Join(t.TempDir(), "copy.ptx")
	if text, err := exec.Command("./ptx.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("ptx.sh: %v\n%s", err, text)
	}
	fresh, err := os.ReadFile(out)
	testenv.OK(t, err)
	if string(fresh) != PTX {
		t.Error("copy.ptx is not what ptx.sh makes of copy.cu; run make ptx")
	}
}
