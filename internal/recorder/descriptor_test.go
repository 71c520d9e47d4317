package recorder

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// TestDescriptorTaken: a program that closes all descriptors and opens files of its own there keeps them as they are.
func TestDescriptorTaken(t *testing.T) {
	r := open(t)
	fd := int(r.file.Fd())
	if fd < 500 {
		t.Errorf("the descriptor is %d, where programs close", fd)
	}
	name := filepath.Join(t.TempDir(), "theirs")
	testenv.OK(t, os.WriteFile(name, []byte("five\n"), 0o666))
	theirs, err := os.Open(name)
	testenv.OK(t, err)
	defer theirs.Close()
	rw, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0)
	testenv.OK(t, err)
	testenv.OK(t, unix.Dup3(rw, fd, unix.O_CLOEXEC))
	unix.Close(rw)
	for n := range uint32(2 * Slots * SlotBytes / RecordBytes) {
		one(r, 1, n)
	}
	if err := r.Close(); err == nil {
		t.Error("Close says that nothing is missing")
	}
	if err := r.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "five\n" {
		t.Errorf("the program's file has %d bytes, %v", len(b), err)
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		t.Errorf("the program's descriptor: %v", err)
	}
	unix.Close(fd)
}

// TestNobodyWaits: where the directory was removed with the one above it, nothing is recorded.
func TestNobodyWaits(t *testing.T) {
	above := filepath.Join(t.TempDir(), "gone")
	if _, err := Open(Options{Dir: filepath.Join(above, "recorded")}); err == nil {
		t.Error("it is recorded")
	}
	if _, err := os.Stat(above); !os.IsNotExist(err) {
		t.Errorf("%s is back: %v", above, err)
	}
}
