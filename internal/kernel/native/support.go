// Package native runs kernels that are functions of shared objects, on this CPU.
//
// The functions are called by C code of libascendcl.so (capi/shim/kernel.c): it records which block a thread runs,
// and recovers a thread from a kernel that has crashed or does not end. A C program is linked to that library; for
// other programs it is opened when the first kernel is loaded.
//
// Lock order: outside.mu → process.mu → peer.mu. process.mu is held during requests to the keeper, so another
// goroutine handles the keeper's own reports.
package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"ropeway/internal/dl"
)

// library is the library with the functions.
const library = "libascendcl.so"

// support has the addresses of the functions that run kernels.
type support struct{ run, stop, prepare, watch uintptr }

var (
	mu       sync.Mutex
	given    support  // guarded by mu; set by Use, or found
	prepared *support // guarded by mu; nil: not yet
)

// Use sets the addresses of the functions that run kernels. A program that has libascendcl.so calls it.
func Use(run, stop, prepare, watch uintptr) {
	mu.Lock()
	defer mu.Unlock()
	given = support{run, stop, prepare, watch}
}

// find returns the functions, and prepares the process for kernels.
func find() (*support, error) {
	mu.Lock()
	defer mu.Unlock()
	if prepared != nil {
		return prepared, nil
	}
	s := given
	if s.run == 0 {
		var err error
		if s, err = open(); err != nil {
			return nil, fmt.Errorf("kernels on a CPU need %s: "+
				"set LD_LIBRARY_PATH to the lib64 folder of the toolkit: %w", library, err)
		}
		given = s
	}
	if e := dl.CallInt(s.prepare); e != 0 {
		return nil, fmt.Errorf("kernels cannot be run: %w", syscall.Errno(e))
	}
	prepared = &s
	return prepared, nil
}

// open finds them in the process, or opens the library.
func open() (support, error) {
	if s, err := functions(dl.Process()); err == nil {
		return s, nil
	}
	names := []string{library}
	if home := os.Getenv("ASCEND_TOOLKIT_HOME"); home != "" {
		names = append(names, filepath.Join(home, "lib64", library))
	}
	var errs []error
	for _, name := range names {
		l, err := dl.OpenGlobal(name)
		if err == nil {
			return functions(l)
		}
		errs = append(errs, err)
	}
	return support{}, errors.Join(errs...)
}

func functions(l *dl.Library) (s support, err error) {
	for name, at := range map[string]*uintptr{
		"ropeway_kernel_run": &s.run, "ropeway_kernel_stop": &s.stop, "ropeway_kernel_prepare": &s.prepare,
		"ropeway_kernel_watch": &s.watch,
	} {
		if *at, err = l.Symbol(name); err != nil {
			return support{}, err
		}
	}
	return s, nil
}
