package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ropeway"
	"ropeway/pod"
)

// TestOwnAndUse: one server sees what the other one has written, each on a runtime of its own.
func TestOwnAndUse(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pod.key": strings.Repeat("k", 32),
		"pod.yaml": "key: pod.key\nservers:\n  - {id: 0, address: 127.0.0.1}\n" +
			"  - {id: 1, address: 127.0.0.1}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ROPEWAY_PRODUCT", "A3")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for server := range 2 {
		rt, err := ropeway.Open(pod.WithServer(filepath.Join(dir, "pod.yaml"), server), ropeway.WithDevices(1))
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		go func() { ended <- on(ctx, rt, filepath.Join(dir, "block")) }()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
			cancel() // the other one waits
		}
	}
}
