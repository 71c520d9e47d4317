package capitest

import (
	"fmt"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
)

// TestTwoDevices proves that a program for two devices finds them, with memory of their own, whatever they are:
// software, or two on one GPU.
func TestTwoDevices(t *testing.T) {
	t.Parallel()
	passes(t, []string{"ROPEWAY_DEVICES=2"}, compile(t, []string{"devices.c"}))
}

// TestOnOneGPU proves the same of a libcuda that is made up, with one GPU, and that the devices have no more than it
// together. Without a number of devices there is one.
func TestOnOneGPU(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"devices.c"})
	env := []string{"LD_PRELOAD=" + imitation.Build(t), "ROPEWAY_DRIVER=cuda"}
	var first, second, gpu uint64
	out := passes(t, append(env, "ROPEWAY_DEVICES=2"), program)
	if _, err := fmt.Sscan(out, &first, &second); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	gpu = 8<<30 - 100<<20 // see the imitation
	if first+second > gpu || first+second < gpu-64<<20 || first-second > 1<<20 {
		t.Errorf("the devices have %d and %d, the GPU %d", first, second, gpu)
	}
	out = passes(t, append(env, "ROPEWAY_DEVICES=2", "ROPEWAY_DEVICE_MEMORY=128M"), program)
	if _, err := fmt.Sscan(out, &first, &second); err != nil || first != 128<<20 || second != first {
		t.Errorf("with 128M each the devices have %d and %d (%v)", first, second, err)
	}
	if r := run(t, env, program); r.code != 1 {
		t.Errorf("without a number there is not one device: %s%s", r.stdout, r.stderr)
	}
}
