package pod

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// TestParse: valid pod files.
func TestParse(t *testing.T) {
	c, key, err := parse([]byte(`--- # a pod
pod: 7
key: "keys/pod.key"
timeout: 250ms
devices: mlx5_0:1,eth1
transport: tcp
encryption: none
connections: 3
servers:
  - {id: 0, address: 10.0.0.1}
- {id: 1022, address: "::1", ports: 7700-7799} # the last
`))
	want := &Config{
		Pod: 7, Timeout: 250 * time.Millisecond, Devices: "mlx5_0:1,eth1",
		Transport: TransportTCP, Plain: true, Connections: 3,
		Servers: []Server{{ID: 0, Address: netip.MustParseAddr("10.0.0.1")},
			{ID: 1022, Address: netip.MustParseAddr("::1"), Ports: [2]uint16{7700, 7799}}},
	}
	if err != nil || key != "keys/pod.key" || !reflect.DeepEqual(c, want) {
		t.Errorf("read %+v, %q, %v", c, key, err)
	}
}

// TestParseBad: the error of an invalid pod file has the reason and the line.
func TestParseBad(t *testing.T) {
	const good = "key: k\nservers:\n- {id: 0, address: 10.0.0.1}\n"
	for text, want := range map[string]string{
		"":                               "key: is missing",
		"key: k":                         "servers: is missing",
		"key: k\nservers: [1]":           "line 2",
		good + "key: k":                  "line 4",
		good + "colour: red":             "not one of pod",
		good + "timeout: 1":              "line 4",
		good + "timeout: 1ms":            "less than",
		good + "pod: -1":                 "line 4",
		good + "- {id: 0, address: ::1}": "twice", good + "pod: 1\n- {id: 1, address: ::1}": "line 5",
		"servers:\n  - id: 0\n":                             "a server is written",
		"servers:\n  id: 0\n":                               "on one line",
		"servers:\n- {id: 1023, address: ::1}":              "0 to 1022",
		"servers:\n- {id: x, address: ::1}":                 "line 2",
		"servers:\n- {id: 1}":                               "an id and an address",
		"servers:\n- {id: 1, address: 0.0.0.0}":             "reach",
		"servers:\n- {id: 1, address: host}":                "line 2",
		"servers:\n- {id: 1, address: ::1, ports: 9-8}":     "no port",
		"servers:\n- {id: 1, address: ::1, name: x}":        "not one of id",
		"servers:\n- {id: 1, address: ::1, ports: 0}":       "no port",
		"servers:\n- {id: 1, address: ::1, ports: 1-70000}": "no port",
	} {
		if _, _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestRead: the key is found beside the file, and must not be readable by others; the server is given by its number, or
// found by its address.
func TestRead(t *testing.T) {
	file := podFile(t, 2, "")
	if c, err := Read(file, "1"); err != nil || c.Me().ID != 1 || len(c.key) != 32 {
		t.Errorf("read %+v, %v", c, err)
	}
	for self, want := range map[string]string{"2": "no server 2", "x": "not the number", "": "ROPEWAY_POD_SERVER"} {
		if _, err := Read(file, self); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("server %q: %v", self, err)
		}
	}
	if c, err := Read(podFile(t, 1, ""), ""); err != nil || c.Me().ID != 0 {
		t.Errorf("by address: %v", err)
	}
	key := filepath.Join(filepath.Dir(file), "pod.key")
	testenv.OK(t, os.Chmod(key, 0o644))
	if _, err := Read(file, "1"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key for everybody: %v", err)
	}
	testenv.OK(t, os.WriteFile(key, []byte("short"), 0o600))
	os.Chmod(key, 0o600)
	if _, err := Read(file, "1"); err == nil || !strings.Contains(err.Error(), "32 bytes") {
		t.Errorf("a short key: %v", err)
	}
	if _, err := Read(file+"x", "1"); err == nil {
		t.Error("a file that is not there was read")
	}
}

// TestHandle: only a complete, unchanged handle is decoded.
func TestHandle(t *testing.T) {
	h := Handle{Pod: 3, Server: 9, Port: 65535, Secret: [24]byte{1, 2, 3}}
	var b [HandleSize]byte
	h.Put(b[:])
	if got, ok := ParseHandle(b[:]); !ok || got != h {
		t.Errorf("read %+v", got)
	}
	for i := range b {
		b[i] ^= 1
		if _, ok := ParseHandle(b[:]); ok {
			t.Errorf("byte %d was changed, and nobody noticed", i)
		}
		b[i] ^= 1
	}
	if _, ok := ParseHandle(b[:HandleSize-1]); ok {
		t.Error("a handle that is cut was read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("key: k\nservers:\n- {id: 0, address: 10.0.0.1, ports: 1-2}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, key, err := parse(text)
		if err == nil && (key == "" || len(c.Servers) == 0 || c.Timeout < leastTimeout) {
			t.Errorf("%q was read as %+v", text, c)
		}
	})
}
