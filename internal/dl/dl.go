// Package dl opens shared libraries and finds and calls their functions, without cgo.
package dl

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// Library is an open shared library. It stays open for the life of the process, or until Close.
type Library struct {
	name   string
	handle uintptr
}

// Open loads a library by name or path. The error holds the loader's own text.
func Open(name string) (*Library, error) { return open(name, purego.RTLD_LOCAL) }

// OpenGlobal is Open for a library whose functions are those of libraries, too, that are opened later.
func OpenGlobal(name string) (*Library, error) { return open(name, purego.RTLD_GLOBAL) }

// What dlfcn.h of Linux has besides.
const (
	noLoad   = 0x4
	noDelete = 0x1000
)

// Keep has a library stay for the life of the process, if it is loaded.
func Keep(name string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if h, err := purego.Dlopen(name, purego.RTLD_NOW|noLoad|noDelete); err == nil {
		_ = purego.Dlclose(h)
	}
}

func open(name string, scope int) (*Library, error) {
	runtime.LockOSThread() // dlerror's text belongs to the thread
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(name, purego.RTLD_NOW|scope)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Library{name, h}, nil
}

// Close unloads the library, if nothing else has it open. None of its code may be running.
func (l *Library) Close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlclose(l.handle)
}

// Process is all that the process has loaded already.
func Process() *Library { return &Library{"the process", purego.RTLD_DEFAULT} }
