package kernel_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"ropeway/internal/kernel"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
)

// TestLoadable: shared objects that this machine has are loadable, and neither they nor any corrupt one make the check
// panic or go on for ever.
func TestLoadable(t *testing.T) {
	images := [][]byte{kerneltest.Compile(t, "int n = 5; int *p = &n; void first(void) {}\n"+
		"__attribute__((constructor)) static void begin(void) { n++; }")}
	names := []string{"compiled"}
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"} {
		list, _ := filepath.Glob(filepath.Join(dir, "*.so.*")) //nolint:errcheck // a pattern that is right
		for _, file := range list {
			if image, err := os.ReadFile(file); err == nil && len(image) > 4 && string(image[:4]) == "\x7fELF" {
				images, names = append(images, image), append(names, file)
			}
		}
	}
	for i, image := range images {
		if err := kernel.Loadable(image); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
	for _, change := range []struct {
		what string
		tag  elf.DynTag
		at   int // byte of the entry that changes
	}{{"a first function in the middle of another", elf.DT_INIT, 8}, {"no size of a table", elf.DT_RELASZ, 6}} {
		image := slices.Clone(images[0])
		dynamic := image[dynamicTable(t, image):]
		for binary.LittleEndian.Uint64(dynamic) != uint64(change.tag) {
			dynamic = dynamic[16:]
		}
		dynamic[change.at] += 42
		if err := kernel.Loadable(image); !errors.Is(err, kernel.ErrImage) {
			t.Errorf("%s: %v", change.what, err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 20000 {
		image := slices.Clone(images[0])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(image) - 8)
			if r.IntN(2) == 0 {
				image[at] = byte(r.Uint32())
				continue
			}
			binary.LittleEndian.PutUint64(image[at:], []uint64{0, 1, 1<<64 - 1, 1<<63 - 1, 1 << 40, uint64(len(image)),
				0x1000, 0x2000, 0x4000}[r.IntN(9)])
		}
		if err := kernel.Loadable(image[:len(image)-r.IntN(2)*r.IntN(len(image))]); err != nil {
			refused++
			if !errors.Is(err, kernel.ErrImage) {
				t.Fatalf("%v is no ErrImage", err)
			}
		}
	}
	if refused < 1000 {
		t.Errorf("%d corrupt objects were refused", refused)
	}
	runtime.KeepAlive(images)
}

// dynamicTable returns where the dynamic table of a shared object is in its file.
func dynamicTable(t *testing.T, image []byte) uint64 {
	f, err := elf.NewFile(bytes.NewReader(image))
	testenv.OK(t, err)
	return f.Section(".dynamic").Offset
}
