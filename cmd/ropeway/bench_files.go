package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// benchFiles are files that are to be written, by name. Each is a temporary one beside it until it is written, so that
// what cannot be written shows before anything is measured, and what is there stays until then.
type benchFiles map[string]*os.File

func openBenchFiles(f *benchFlags) (benchFiles, error) {
	o := benchFiles{}
	for _, name := range []string{f.json, f.csv, f.html} {
		if name == "" || name == stdoutName {
			continue
		}
		err := error(nil)
		if o[name] != nil {
			err = fmt.Errorf("%s would be written twice", name)
		} else if info, wrong := os.Stat(name); wrong == nil && !info.Mode().IsRegular() {
			o[name], err = os.OpenFile(name, os.O_WRONLY, 0) // a pipe or a terminal
		} else {
			o[name], err = os.CreateTemp(filepath.Dir(name), ".ropeway-bench-*")
		}
		if err != nil {
			o.discard()
			return nil, &failure{err: fmt.Errorf("%s cannot be written: %w", name, err),
				next: "name a file in a directory that exists and may be written"}
		}
	}
	return o, nil
}

// write writes one of them.
func (o benchFiles) write(name string, write func(io.Writer) error) error {
	f := o[name]
	err := write(f)
	if f.Name() != name {
		err = errors.Join(err, f.Chmod(0o644))
	}
	err = errors.Join(err, f.Close())
	if err == nil && f.Name() != name {
		err = os.Rename(f.Name(), name)
	}
	if err == nil {
		delete(o, name)
	}
	return err
}

// discard removes what was not written.
func (o benchFiles) discard() {
	for name, f := range o {
		if f == nil {
			continue
		}
		f.Close()
		if f.Name() != name {
			os.Remove(f.Name())
		}
	}
}
