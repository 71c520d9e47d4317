package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/dl"
	"ropeway/internal/kernel"
)

// object implements kernel.SharedObject.
type object struct {
	lib     *dl.Library
	support *support
	holds   atomic.Int64 // what keeps it, and 1 until it is closed
	closed  atomic.Bool
}

func init() { kernel.RegisterCPU(cpu{}) }

// cpu implements kernel.CPU.
type cpu struct{}

func (cpu) NewRun() kernel.Run { return new(run) }

// Load implements kernel.CPU.
func (cpu) Load(name string, image []byte) (kernel.SharedObject, error) {
	s, err := find()
	if err != nil {
		return nil, err
	}
	f, path, err := file(name, image)
	if err != nil {
		return nil, err
	}
	lib, err := dl.Open(path)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("the shared object cannot be loaded: %w", err)
	}
	o := &object{lib: lib, support: s}
	o.holds.Store(1)
	return o, nil
}

// file puts an image where the loader finds it: into a file in memory.
func file(name string, image []byte) (f *os.File, path string, err error) {
	name = filepath.Base(name)
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, "", fmt.Errorf("no file in memory for the shared object: %w", err)
	}
	f = os.NewFile(uintptr(fd), name)
	if _, err := f.Write(image); err != nil {
		f.Close()
		return nil, "", err
	}
	return f, unique("/proc/self") + fmt.Sprintf("/fd/%d", fd), nil
}

var loads atomic.Uint64

// unique is a folder under a name that was not used before: the loader takes an object whose name it knows for one
// that it has, and some are never unloaded. Each / and /. is a digit of a number.
func unique(folder string) string {
	for n := loads.Add(1); n > 0; n /= 2 {
		folder += [2]string{"/", "/."}[n%2]
	}
	return folder
}

// Symbol implements kernel.SharedObject.
func (o *object) Symbol(name string) (uintptr, error) { return o.lib.Symbol(name) }

// Hold implements kernel.SharedObject.
func (o *object) Hold() { o.holds.Add(1) }

// Release implements kernel.SharedObject.
func (o *object) Release() {
	if o.holds.Add(-1) == 0 {
		o.lib.Close() //nolint:errcheck // what cannot be unloaded stays
	}
}

// Close implements kernel.SharedObject.
func (o *object) Close() {
	if !o.closed.Swap(true) {
		o.Release()
	}
}
