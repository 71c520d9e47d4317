package pod

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

// TestWholeMessages proves when UCX keeps no message: where it can use TCP alone.
func TestWholeMessages(t *testing.T) {
	for _, c := range []struct {
		devices, env, list string // of the pod file; UCX_NET_DEVICES and UCX_TLS, if they are set
		whole              bool
	}{
		{"", "", "", true},
		{"eth0,eth1", "", "", true},
		{"eth0", "", "all", true},
		{"eth0", "", "^sm", true},
		{"eth0", "", "sm,tcp", true},
		{"eth0", "", "rc,sm", false},
		{"eth0", "", "^tcp", false},
		{"mlx5_0:1", "", "", false},
		{"mlx5_0:1", "", "tcp", true},
		{"mlx5_0:1", "eth0", "", true},
		{"eth0", "mlx5_0:1", "", false},
		{"eth0", "all", "", false},
		{"eth0", "all", "tcp", true},
	} {
		for name, value := range map[string]string{"UCX_NET_DEVICES": c.env, transports: c.list} {
			t.Setenv(name, value) // which restores it
			if value == "" {
				os.Unsetenv(name)
			}
		}
		config, err := Read(podFile(t, 1, "devices: "+c.devices+"\n"), "0")
		if err != nil {
			t.Fatal(err)
		}
		_, whole, err := config.options()
		if err != nil || whole != 0 != c.whole {
			t.Errorf("%+v: messages of %d bytes are whole, %v", c, whole, err)
		}
	}
}

// TestSegmentsOfUCX proves that the environment does not change the segments of TCP: processes with other ones end each
// other.
func TestSegmentsOfUCX(t *testing.T) {
	t.Setenv("UCX_TCP_TX_SEG_SIZE", "4k")
	t.Setenv("UCX_TCP_RX_SEG_SIZE", "4k")
	copied(t, 1, 3*pieceMost)
}

// TestManyPlaces proves that copies of more places than one message has room for reach all of them.
func TestManyPlaces(t *testing.T) { copied(t, 5*scatters, 260) }

// copied writes and reads segments of n bytes each, with room between them.
func copied(t *testing.T, segments, n int) {
	t.Helper()
	file := podFile(t, 2, "")
	owner, user := node(t, file, 0), node(t, file, 1)
	size := segments * (n + 16)
	x, there := export(t, owner, size, true)
	r, err := user.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	here, back := heap(t, segments*n), heap(t, segments*n)
	pattern(here, 1)
	place := func(b []byte) (list []Segment) {
		for i := range segments {
			list = append(list, Segment{addressOf(b) + uintptr(i*n), uint64(i * (n + 16)), uint64(n)})
		}
		return list
	}
	if err := wait(t, r.Write, place(here)...); err != nil {
		t.Fatal(err)
	}
	for i := range segments {
		at := i * (n + 16)
		if !bytes.Equal(there[at:at+n], here[i*n:(i+1)*n]) || slices.Max(there[at+n:at+n+16]) != 0 {
			t.Fatalf("segment %d is not what was written", i)
		}
	}
	if err := wait(t, r.Read, place(back)...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(here, back) {
		t.Error("other bytes were read than written")
	}
}
