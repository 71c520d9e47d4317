package far

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/pod"
)

// TestDeviceClose proves that closing a device frees its imports.
func TestDeviceClose(t *testing.T) {
	b := setUp(t)
	b.q.Close()
	b.ok(b.dev.Close())
	if l := b.b.Locate(b.at); l.Place != driver.Nowhere {
		t.Errorf("after the device was closed there is %+v", l)
	}
	if err := b.b.Map(b.at, b.far); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("mapped: %v", err)
	}
	b.ok(b.b.Unmap(b.at))
	b.ok(b.b.Release(b.at))
	b.dev = must[driver.Device](t)(b.b.Open(1))
	b.q = b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.sink.TaskFailed}})
}

// TestShareMeanwhile proves that memory can be shared, which moves it, during copies to and from it.
func TestShareMeanwhile(t *testing.T) {
	b := setUp(t)
	want := b.random()
	copy(b.their(), want)
	for range 5 {
		clear(b.onDev())
		b.q.Copy(b.local, b.at, size, driver.Tag{})
		s := must[*driver.Shared](t)(b.b.ShareAt(b.local))
		s.File.Close()
		if err := b.wait(); err != nil || !bytes.Equal(b.onDev(), want) {
			t.Fatalf("bytes were lost: %v", err)
		}
	}
}

// TestNames proves that a process that is not allowed cannot import, and that arbitrary bytes are not a handle.
func TestNames(t *testing.T) {
	b := setUp(t)
	m := must[driver.Memory](t)(b.a.Create(0, extent, driver.PageHugeFirst))
	x := must[driver.FarExport](t)(b.a.ExportFar(m, m.Size(), false))
	h := x.Handle()
	if _, err := b.b.ImportFar(h[:], 1); !errors.Is(err, driver.ErrNotAllowed) {
		t.Errorf("not named: %v", err)
	}
	x.Allow([]int32{int32(os.Getpid())})
	in := must[driver.Memory](t)(b.b.ImportFar(h[:], 1))
	b.ok(in.Free())
	if s, ok := b.b.OwnerFar(h[:]); !ok || s != 0 {
		t.Errorf("made by server %d", s)
	}
	if _, err := b.b.ImportFar(make([]byte, 128), 1); !errors.Is(err, driver.ErrFault) {
		t.Errorf("zeros: %v", err)
	}
	if server, _ := b.b.Server(); server != 1 {
		t.Errorf("this is server %d", server)
	}
	if driver.FarHandle != pod.HandleSize {
		t.Error("handles have two sizes")
	}
}
