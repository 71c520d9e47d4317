package launch_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
)

// npu turns a shared object into what looks like an NPU binary of the same kernels.
func npu(image []byte) []byte {
	image = slices.Clone(image)
	binary.LittleEndian.PutUint16(image[18:], 4137)
	return image
}

// TestStandIn: an NPU binary is refused with advice, unless the folder has a shared object for it: of its name, or of
// its kernels.
func TestStandIn(t *testing.T) {
	b := newBench(t, "A2")
	image := kerneltest.Compile(t, source)
	fake := npu(image)
	var h core.Handle
	err := launch.BinaryLoadFromData(b.Th, core.AddrOf(fake), uint64(len(fake)), nil, &h)
	b.Want(err, abi.ErrRTParamInvalid)
	if want := "ROPEWAY_KERNELS"; !strings.Contains(err.Text, want) {
		t.Errorf("%q does not name %s", err.Text, want)
	}
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "kernels.o")
	for name, data := range map[string][]byte{filepath.Join(dir, "other.so"): kerneltest.Compile(t,
		"void other(void) {}"), filepath.Join(dir, "some.so"): image, path: fake} {
		testenv.OK(t, os.WriteFile(name, data, 0o600))
	}
	launch.SetFolder(b.Runtime, dir)
	b.OK(launch.BinaryLoadFromData(b.Th, core.AddrOf(fake), uint64(len(fake)), nil, &b.bin))
	p := b.words(1, 4)
	b.OK(b.host("times", 1, 0, uint64(p), 1))
	b.OK(b.Th.SynchronizeStream(0))
	if got := b.read(p, 1)[0]; got != 12 {
		t.Errorf("%d, want 12", got)
	}
	var old, f core.Handle
	b.OK(launch.BinaryLoad(b.Th, launch.CreateBinary(b.Th, core.AddrOf(fake), uint64(len(fake))), &old))
	b.OK(launch.BinaryGetFunction(b.Th, old, text("times"), &f))
	only := kerneltest.Compile(t, "void named(void) {}")
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "kernels.so"), only, 0o600))
	b.OK(launch.BinaryLoadFromFile(b.Th, text(path), nil, &b.bin))
	b.function("named")

	// what is for a GPU is replaced in the same way
	ptx := []byte(".version 6.0\n.target sm_50\n.visible .entry times(.param .u64 p, .param .u64 n) { ret; }")
	b.OK(launch.BinaryLoadFromData(b.Th, core.AddrOf(ptx), uint64(len(ptx)), nil, &b.bin))
	b.OK(b.host("times", 1, 0, uint64(p), 1))
	b.OK(b.Th.SynchronizeStream(0))
	if got := b.read(p, 1)[0]; got != 36 {
		t.Errorf("%d, want 36", got)
	}
	missing := []byte(".version 6.0\n.target sm_50\n.visible .entry no_such() { ret; }")
	err = launch.BinaryLoadFromData(b.Th, core.AddrOf(missing), uint64(len(missing)), nil, &h)
	b.Want(err, abi.ErrRTParamInvalid)
	if want := "ROPEWAY_DRIVER=cuda"; !strings.Contains(err.Text, want) {
		t.Errorf("%q does not name %s", err.Text, want)
	}
}

// TestStandInForNothing: a file that was never built has a stand-in of its name; without one the error says so.
func TestStandInForNothing(t *testing.T) {
	b := newBench(t, "A2")
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), "out", "never.o")
	var h core.Handle
	b.Want(launch.BinaryLoadFromFile(b.Th, text(path), nil, &h), abi.ErrRTParamInvalid)
	launch.SetFolder(b.Runtime, dir)
	err := launch.BinaryLoadFromFile(b.Th, text(path), nil, &h)
	b.Want(err, abi.ErrRTParamInvalid)
	if want := "nothing stands in for it in " + dir; !strings.Contains(err.Text, want) {
		t.Errorf("%q, want %q", err.Text, want)
	}
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "never.so"), kerneltest.Compile(t, source), 0o600))
	b.OK(launch.BinaryLoadFromFile(b.Th, text(path), nil, &b.bin))
	p := b.words(1, 4)
	b.OK(b.host("times", 1, 0, uint64(p), 1))
	b.OK(b.Th.SynchronizeStream(0))
	if got := b.read(p, 1)[0]; got != 12 {
		t.Errorf("%d, want 12", got)
	}
}

// TestStandInMissing: with a folder, the error says what was looked at there and what is wrong with it; what a file
// lacks that stands in is blamed on that file.
func TestStandInMissing(t *testing.T) {
	b := newBench(t, "A2")
	compiled := kerneltest.Compile(t, "void first_3(void) {}\nvoid second(void) {}")
	fake, part := npu(compiled), kerneltest.Compile(t, "void second(void) {}")
	path := filepath.Join(t.TempDir(), "op.o")
	testenv.OK(t, os.WriteFile(path, fake, 0o600))
	for _, c := range []struct {
		name  string
		files map[string][]byte // nil: there is no folder
		want  string            // DIR is the folder
	}{
		{"no folder", nil, "in DIR, the folder of ROPEWAY_KERNELS: it cannot be read: no such file or directory"},
		{"empty", map[string][]byte{}, "in DIR, the folder of ROPEWAY_KERNELS: it has no .so"},
		{"others", map[string][]byte{"a.so": part, "b.so": []byte("junk"), "c.o": compiled},
			"in DIR, the folder of ROPEWAY_KERNELS: a.so has no kernel first_3; b.so cannot be used: "},
		{"junk", map[string][]byte{"op.so": []byte("junk"), "z.so": compiled},
			"DIR/op.so stands in for it (ROPEWAY_KERNELS) and cannot be used: these bytes are no kernel binary"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "folder")
			if c.files != nil {
				testenv.OK(t, os.Mkdir(dir, 0o700))
			}
			for name, data := range c.files {
				testenv.OK(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
			}
			launch.SetFolder(b.Runtime, dir)
			var h core.Handle
			err := launch.BinaryLoadFromFile(b.Th, text(path), nil, &h)
			b.Want(err, abi.ErrRTParamInvalid)
			if want := strings.ReplaceAll(c.want, "DIR", dir); !strings.Contains(err.Text, want) {
				t.Errorf("%q, want %q", err.Text, want)
			}
		})
	}
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "op.so"), part, 0o600))
	launch.SetFolder(b.Runtime, dir)
	var h, f core.Handle
	b.OK(launch.BinaryLoadFromFile(b.Th, text(path), nil, &h))
	who := filepath.Join(dir, "op.so") + ", which stands in for the binary (ROPEWAY_KERNELS), has"
	for _, err := range []*core.Error{launch.BinaryGetFunctionByEntry(b.Th, h, 3, &f),
		launch.BinaryGetFunction(b.Th, h, text("first_3"), &f)} {
		b.Want(err, abi.ErrRTParamInvalid)
		if !strings.Contains(err.Text, who) {
			t.Errorf("%q does not contain %q", err.Text, who)
		}
	}
}

// TestStandInTakesArrays: a program that launches with an array of arguments needs no meta data in the shared object
// that stands in: those of its own binary count.
func TestStandInTakesArrays(t *testing.T) {
	b := newBench(t, "A2")
	dir := t.TempDir()
	path, stand := filepath.Join(t.TempDir(), "kernels.o"), kerneltest.Compile(t,
		"#include <stdint.h>\nvoid set(uint32_t *p, uint32_t v) { *p += v; }")
	for name, data := range map[string][]byte{filepath.Join(dir, "kernels.so"): stand,
		path: npu(kerneltest.Compile(t, source))} {
		testenv.OK(t, os.WriteFile(name, data, 0o600))
	}
	launch.SetFolder(b.Runtime, dir)
	b.OK(launch.BinaryLoadFromFile(b.Th, text(path), nil, &b.bin))
	p, v := b.words(1, 4), []byte{9, 0, 0, 0}
	at := host(uint64(p))
	args := []core.Addr{core.AddrOf(at), core.AddrOf(v)}
	b.OK(launch.LaunchKernelWithArgsArray(b.Th, core.Addr(b.function("set")), 1, 0, nil, &args[0]))
	b.OK(b.Th.SynchronizeStream(0))
	if got := b.read(p, 1)[0]; got != 13 {
		t.Errorf("%d, want 13", got)
	}
}
