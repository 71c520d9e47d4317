package capitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/testenv"
)

// gpuEnv makes a program use the cuda driver: on a GPU, or on an imitation of libcuda.
func gpuEnv(t *testing.T) []string {
	t.Helper()
	env := []string{"ROPEWAY_DRIVER=cuda"}
	if !onGPU {
		env = append(env, "LD_PRELOAD="+imitation.Build(t))
	}
	return env
}

// fatbinText is what an imitation takes for a fatbin: PTX after the magic number.
func fatbinText(ptx string) []byte {
	head := make([]byte, 64)
	copy(head, "\x50\xed\x55\xba")
	return append(head, ptx...)
}

// gpuBinaries are the kernels as files, by kind. On a machine with a GPU and nvcc they are compiled from
// kernels/gpu.cu.
func gpuBinaries(t *testing.T) (files map[string]string, compiled bool) {
	t.Helper()
	dir := t.TempDir()
	files = map[string]string{"text.ptx": filepath.Join(dir, "text.ptx")}
	testenv.OK(t, os.WriteFile(files["text.ptx"], []byte(drivertest.PTX), 0o644))
	if !onGPU {
		files["made-up.fatbin"] = filepath.Join(dir, "made-up.fatbin")
		testenv.OK(t, os.WriteFile(files["made-up.fatbin"], fatbinText(drivertest.PTX), 0o644))
		return files, false
	}
	if _, err := exec.LookPath("nvcc"); err != nil {
		t.Log("there is no nvcc: only PTX text is run")
		return files, false
	}
	for kind, flags := range map[string][]string{
		"ptx": {"-ptx", "-arch=compute_75"}, "cubin": {"-cubin", "-arch=native"},
		"fatbin": {"-fatbin", "-gencode", "arch=compute_75,code=[sm_75,compute_75]"},
	} {
		path := filepath.Join(dir, "gpu."+kind)
		out, err := exec.Command("nvcc", append(flags, "-o", path, "testdata/kernels/gpu.cu")...).CombinedOutput()
		if err != nil {
			t.Fatalf("nvcc %s: %v\n%s", kind, err, out)
		}
		files["gpu."+kind] = path
	}
	return files, true
}

// TestKernelsCUDA proves that every form of a launch runs kernels of PTX, cubins and fatbins on the cuda driver; that a
// kernel that breaks the GPU ends with the code of its failure, in the exception callback with its handle, and in a
// model with that of the model; that kernels of models run, are changed and disabled, recorded and not; and that other
// binaries are refused with what to do.
func TestKernelsCUDA(t *testing.T) {
	t.Parallel()
	program, env := compile(t, []string{"kernel_gpu.c"}), gpuEnv(t)
	files, compiled := gpuBinaries(t)
	for kind, path := range files {
		args := []string{path}
		if compiled && kind != "text.ptx" {
			args = append(args, "compiled")
		}
		t.Run(kind, func(t *testing.T) {
			passes(t, env, program, append([]string{"all"}, args...)...)
			passes(t, append(slices.Clone(env), "ROPEWAY_PRODUCT=950"), program, append([]string{"simt"}, args...)...)
			passes(t, env, program, "fault", path, "wild", "507015")
			passes(t, env, program, "fault", path, "trap", "507016")
			passes(t, env, program, "model", path)
			passes(t, env, program, "fault", path, "wild", "507011", "in a model")
			passes(t, append(slices.Clone(env), "ROPEWAY_TRACE="+t.TempDir()), program, "model", path)
		})
	}
	dir := t.TempDir()
	object := compile(t, []string{"kernels/functions.c"}, "-shared", "-fPIC")
	bad := filepath.Join(dir, "bad.ptx")
	text := ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry sum() { nonsense }\n"
	npu := filepath.Join(dir, "npu.o")
	image, err := os.ReadFile(object)
	testenv.OK(t, err)
	image[18], image[19] = 0x29, 0x10 // its machine number
	for path, data := range map[string][]byte{bad: []byte(text), npu: image} {
		testenv.OK(t, os.WriteFile(path, data, 0o644))
	}
	passes(t, env, program, "refused", object, "PTX, a cubin or a fatbin")
	passes(t, env, program, "refused", npu, "ROPEWAY_KERNELS")
	passes(t, env, program, "refused", bad, "the compiler says: ")

	// a file of the same name stands in for what the driver cannot run
	stand := filepath.Join(dir, "stand")
	testenv.OK(t, os.Mkdir(stand, 0o755))
	testenv.OK(t, os.WriteFile(filepath.Join(stand, "npu.ptx"), []byte(drivertest.PTX), 0o644))
	passes(t, append(slices.Clone(env), "ROPEWAY_KERNELS="+stand), program, "all", npu)
}

// addPTX has the head of the example's kernel: an imitation knows the rest by its name.
const addPTX = ".version 6.0\n.target sm_50\n.address_size 64\n" +
	".visible .entry add(.param .u64 x, .param .u64 y, .param .u64 z, .param .u64 n) { ret; }\n"

// TestExampleGPU proves that examples/gpu adds vectors, with a kernel for a GPU and with one for the CPU.
func TestExampleGPU(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"../../../examples/gpu/vector_add.c"}, "-I../../examples/c")
	const want = "added 1048576 numbers on 64 blocks\n"
	path := filepath.Join(t.TempDir(), "add.ptx")
	if onGPU {
		if _, err := exec.LookPath("nvcc"); err != nil {
			t.Skip("there is no nvcc")
		}
		out, err := exec.Command("nvcc", "-ptx", "-o", path, "../../examples/gpu/vector_add.cu").CombinedOutput()
		if err != nil {
			t.Fatalf("nvcc: %v\n%s", err, out)
		}
	} else if err := os.WriteFile(path, []byte(addPTX), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := passes(t, gpuEnv(t), program, path); got != want {
		t.Errorf("it prints %q", got)
	}
	if testDriver != "" {
		return
	}
	source := filepath.Join(t.TempDir(), "add.c")
	text := "void add(const float *x, const float *y, float *z, unsigned long n)\n" +
		"{ for (unsigned long i = 0; i < n; i++) z[i] = x[i] + y[i]; }\n"
	testenv.OK(t, os.WriteFile(source, []byte(text), 0o644))
	object := filepath.Join(t.TempDir(), "add.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", object, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	if got := passes(t, nil, program, object); got != want {
		t.Errorf("on the software device it prints %q", got)
	}
}
