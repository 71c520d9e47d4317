package pod

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"ropeway/internal/testenv"
	"ropeway/internal/ucx"
)

const onUCX = "transport: ucx-tcp\n"

// needUCX skips a test if there is no UCX, and keeps the warning out of the output.
func needUCX(t *testing.T) {
	t.Helper()
	if err := ucx.Load(); err != nil {
		testenv.Missing(t, err.Error())
	}
	warnings = io.Discard
	t.Cleanup(func() { warnings = os.Stderr })
}

// TestUCXWarns proves that a pod file with ucx-tcp causes a warning, and that others do not.
func TestUCXWarns(t *testing.T) {
	needUCX(t)
	for more, want := range map[string]bool{onUCX: true, onTCP: false, near: false} {
		var said bytes.Buffer
		warnings = &said
		file := podFile(t, 2, more)
		a, b := node(t, file, 0), node(t, file, 1)
		x, _ := export(t, a, 4096, true)
		well(t, b, x.Handle)
		if got := strings.Contains(said.String(), "write to all of its memory"); got != want {
			t.Errorf("%s: the warning is %q", more, said.String())
		}
	}
}

// TestRDMAOnly proves that UCX uses neither TCP nor shared memory in a pod with an RDMA device, even if the environment
// asks for them.
func TestRDMAOnly(t *testing.T) {
	needUCX(t)
	t.Setenv("UCX_TLS", "tcp")
	t.Setenv("UCX_NET_DEVICES", "lo")
	file := podFile(t, 2, near+"devices: mlx5_9:1\n")
	n := node(t, file, 0)
	if e, err := n.newEngine(); err == nil {
		e.close(ErrClosed)
		t.Error("UCX has a worker")
	} else if !errors.Is(err, ErrHere) {
		t.Error(err)
	}
}
