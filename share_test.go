package ropeway

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closed is a channel that Close closes.
type closed chan struct{}

func (c closed) Close() error { close(c); return nil }

// TestImportGivenUp: what an import opens after its context has ended is closed.
func TestImportGivenUp(t *testing.T) {
	giveUp, cancel := context.WithCancel(t.Context())
	c, answer, asked := make(closed), make(chan struct{}), make(chan struct{})
	go func() { <-asked; cancel() }()
	if _, err := importing(giveUp, func() (closed, error) {
		close(asked)
		<-answer
		return c, nil
	}); err != context.Canceled {
		t.Errorf("given up: %v", err)
	}
	close(answer)
	<-c
	other, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := errors.New("refused")
	if _, err := importing(other, func() (closed, error) { return nil, failed }); err != failed {
		t.Errorf("refused: %v", err)
	}
}

// TestImportsForgotten: keys that were imported and freed, or failed, are not remembered.
func TestImportsForgotten(t *testing.T) {
	const n = 4096
	r, err := Open(WithDevices(1), WithDeviceMemory(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d, err := r.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		key, err := mem.Share()
		if err != nil {
			t.Fatal(err)
		}
		in, err := d.Import(t.Context(), key, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(in.Close(), mem.Unshare(key)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Import(t.Context(), key, n); err == nil {
			t.Error("a key that was closed is imported")
		}
	}
	if n := len(r.imports.have); n > 0 {
		t.Errorf("%d are remembered", n)
	}
}
