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
	name    string // immutable; for people
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

// keepNeeded has the libraries stay that a shared object needs. They may have threads, as that of OpenMP has, which
// run on in their code when the object is unloaded.
func keepNeeded(image []byte) {
	for _, name := range kernel.Needed(image) {
		dl.Keep(name)
	}
}

// file puts an image where the loader finds it: into a file in memory.
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

// inMemory is the path of a file in memory; the program knows the file by its name.
var inMemory = regexp.MustCompile(`/proc/self[/.]*/fd/\d+`)

// fromLoader is an error of the loader, with the name of the shared object in the place of its path.
func fromLoader(name string, err error) error {
	text := inMemory.ReplaceAllString(err.Error(), name)
	if !strings.HasPrefix(text, name+":") {
		return fmt.Errorf("%s: %w", name, err)
	}
	return errors.New(text)
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

func (o *object) unload() { o.lib.Close() } //nolint:errcheck // what cannot be unloaded stays

// held counts what keeps an object. Threads of the program begin launches and those of the device end them, so they
// have a counter each, which are not in one cache line.
type held struct {
	begun  atomic.Uint64
	_      [56]byte
	ended  atomic.Uint64
	closed atomic.Bool
	gone   atomic.Bool // it was closed, and nothing keeps it any more
}

// Hold implements kernel.SharedObject.
func (h *held) Hold() { h.begun.Add(1) }

// ends ends what Hold has begun, and reports whether that was the last thing to keep an object that is closed.
func (h *held) ends() bool {
	h.ended.Add(1)
	return h.closed.Load() && h.isLast()
}

// closes closes the object, and reports whether nothing keeps it.
func (h *held) closes() bool {
	h.closed.Store(true)
	return h.isLast()
}

// isLast reports, once, that nothing keeps the object. What has ended has begun before, so if both are the same after
// ended was read, nothing was held when begun was.
func (h *held) isLast() bool {
	ended := h.ended.Load()
	return h.begun.Load() == ended && !h.gone.Swap(true)
}
