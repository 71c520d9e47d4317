package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ropeway/internal/dl"
	"ropeway/internal/kernel"
)

// object implements kernel.SharedObject.
type object struct {
	name    string // immutable; for messages
	lib     *dl.Library
	support *support
	held
}

func init() { kernel.RegisterCPU(cpu{}) }

// cpu implements kernel.CPU.
type cpu struct{}

func (cpu) NewRun() kernel.Run { return listed(new(run)) }

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
		return nil, fmt.Errorf("the shared object cannot be loaded: %w", fromLoader(name, errors.Unwrap(err)))
	}
	keepNeeded(image)
	return &object{name: name, lib: lib, support: s}, nil
}

// keepNeeded keeps the libraries that a shared object needs loaded for ever. They may have threads, like OpenMP's
// library, which would still run their code when the object is unloaded.
func keepNeeded(image []byte) {
	for _, name := range kernel.Needed(image) {
		dl.Keep(name)
	}
}

// file writes an image to a file in memory and returns its path for the loader.
func file(name string, image []byte) (f *os.File, path string, err error) {
	if err := kernel.Loadable(image); err != nil {
		return nil, "", fmt.Errorf("the shared object cannot be loaded: %w", err)
	}
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

// inMemory matches the path of a file in memory.
var inMemory = regexp.MustCompile(`/proc/self[/.]*/fd/\d+`)

// fromLoader returns an error of the loader with the path of the shared object replaced by its name.
func fromLoader(name string, err error) error {
	text := inMemory.ReplaceAllString(err.Error(), name)
	if !strings.HasPrefix(text, name+":") {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.New(text)
}

var loads atomic.Uint64

// unique returns a new name for a folder: the loader does not load an object whose path equals that of a loaded one,
// and some are never unloaded. Each / or /. is a binary digit of a number.
func unique(folder string) string {
	for n := loads.Add(1); n > 0; n /= 2 {
		folder += [2]string{"/", "/."}[n%2]
	}
	return folder
}

// Symbol implements kernel.SharedObject.
func (o *object) Symbol(name string) (uintptr, error) {
	at, err := o.lib.Symbol(name)
	if err != nil {
		return 0, fromLoader(o.name, errors.Unwrap(err))
	}
	return at, nil
}

// Release implements kernel.SharedObject.
func (o *object) Release() {
	if o.ends() {
		o.unload()
	}
}

// Close implements kernel.SharedObject.
func (o *object) Close() {
	if o.closes() {
		o.unload()
	}
}

func (o *object) unload() { o.lib.Close() } //nolint:errcheck // an object that cannot be unloaded stays

// held counts the references to an object. Threads of the program begin launches and threads of the device end them,
// so there are two counters, on different cache lines.
type held struct {
	begun  atomic.Uint64
	_      [56]byte
	ended  atomic.Uint64
	closed atomic.Bool
	gone   atomic.Bool // it was closed, and has no references
}

// Hold implements kernel.SharedObject.
func (h *held) Hold() { h.begun.Add(1) }

// ends releases a reference of Hold, and reports whether it was the last one of a closed object.
func (h *held) ends() bool {
	h.ended.Add(1)
	return h.closed.Load() && h.isLast()
}

// closes closes the object, and reports whether it has no references.
func (h *held) closes() bool {
	h.closed.Store(true)
	return h.isLast()
}

// isLast reports, once, that the object has no references. It reads ended first: each reference that has ended had
// begun before, so if begun then has the same value, no reference was held when begun was read.
func (h *held) isLast() bool {
	ended := h.ended.Load()
	return h.begun.Load() == ended && !h.gone.Swap(true)
}
