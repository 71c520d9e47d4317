package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/kernel"
	"ropeway/internal/readfile"
)

// read reads the kernels of a binary that the driver can run, or of its stand-in. magic selects the type of kernels
// without one of their own; path is the binary's file, if any.
func (s *state) read(api, arg string, b *binary, magic uint32, path string) *core.Error {
	l := s.launcher()
	if l == nil {
		return core.Unsupported(api, arg, "the %s driver runs no kernels", s.rt.Driver.Name())
	}
	o := kernel.Options{Default: kernel.DefaultType(magic, s.pairs()), Pairs: s.pairs()}
	var found search
	if !l.Runs(kernel.FormatOf(b.image)) {
		found = s.standIn(l, b, path, o)
	}
	if f := kernel.FormatOf(b.image); !l.Runs(f) {
		searched := ""
		if b.stand == "" {
			searched = found.String()
		}
		return b.unusable(api, arg, kernel.Advice(f, s.rt.Driver.Name(), l.Runs, searched))
	}
	table, err := kernel.Read(b.image, o)
	if err != nil {
		return b.unusable(api, arg, err.Error())
	}
	if found.wanted != nil {
		table.Describe(found.wanted)
	}
	b.table, b.options = table, o
	// Only the device knows the parameters of compiled code; they are queried at the lookup.
	b.lazy = b.lazy && table.Format != kernel.Cubin && table.Format != kernel.Fatbin
	return nil
}

// loadMissing is load for a file that does not exist, since without a compiler for NPUs it cannot be built. It loads a
// stand-in with its name, or returns an error with the files considered.
func (s *state) loadMissing(api, path string, why error, lazy bool, handle *core.Handle) *core.Error {
	b := newBinary(filepath.Base(path), nil)
	b.lazy = lazy
	l := s.launcher()
	if l == nil {
		return core.Refused(api, "binPath", "%s: %v", path, why)
	}
	found := s.standIn(l, b, path, kernel.Options{})
	if b.stand != "" {
		return s.load(api, "binPath", b, 0, path, handle)
	}
	searched := found.String()
	if searched != "" {
		searched = ", and nothing stands in for it in " + searched
	}
	return core.Refused(api, "binPath", "%s: %v%s", path, why, searched)
}

// unusable refuses a binary; the error tells whether its stand-in is the problem.
func (b *binary) unusable(api, arg, why string) *core.Error {
	if b.stand != "" {
		why = fmt.Sprintf("%s stands in for it (ROPEWAY_KERNELS) and cannot be used: %s", b.stand, why)
	}
	return core.Refused(api, arg, "%s", why)
}

// subject returns the name of the binary for an error: a stand-in may lack something that the program's binary has.
func (b *binary) subject() string {
	if b.stand != "" {
		return b.stand + ", which stands in for the binary (ROPEWAY_KERNELS),"
	}
	return "the binary"
}

// search is a search for a stand-in for a binary.
type search struct {
	wanted *kernel.Table // kernels of the program's binary; nil if it cannot be read, or there was no search
	folder string        // "": no folder
	files  []string      // files with the reason why they were rejected
	none   string        // why there are no files
}

// String returns a text for an error without a stand-in; "" without a folder.
func (s *search) String() string {
	const most = 4 // files
	switch {
	case s.folder == "":
		return ""
	case len(s.files) == 0:
		return s.folder + ", the folder of ROPEWAY_KERNELS: " + s.none
	}
	more := ""
	if n := len(s.files) - most; n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return s.folder + ", the folder of ROPEWAY_KERNELS: " + strings.Join(s.files[:min(len(s.files), most)], "; ") + more
}

// rejects records why a file was rejected.
func (s *search) rejects(file, format string, args ...any) {
	s.files = append(s.files, filepath.Base(file)+" "+fmt.Sprintf(format, args...))
}

// standIn replaces a binary that the driver cannot run by a stand-in from the folder: the file of the same name, except
// for the extension, or the first, by name, that has all of its kernels. Without one it does not change the binary.
func (s *state) standIn(l driver.Launcher, b *binary, path string, o kernel.Options) search {
	var found search
	core.Locked(&s.mu, func() { found.folder = s.folder })
	if found.folder == "" {
		return found
	}
	if _, err := os.ReadDir(found.folder); err != nil {
		found.none = "it cannot be read: " + cause(err)
		return found
	}
	if wanted, err := kernel.Read(b.image, o); err == nil {
		found.wanted = wanted
	}
	var names, extensions []string
	for _, f := range kernel.Stand {
		if !l.Runs(f.Format) {
			continue
		}
		extensions = append(extensions, f.Extension)
		if path == "" {
			continue
		}
		name := filepath.Base(kernel.SideName(path, f.Extension))
		file := filepath.Join(found.folder, name)
		image, err := readfile.Regular(file, mostBytes)
		if err == nil {
			b.image, b.name, b.stand = image, name, file
			return found
		}
		names = append(names, name)
		if !errors.Is(err, fs.ErrNotExist) {
			found.rejects(file, "cannot be read: %s", cause(err))
		}
	}
	if found.wanted == nil || found.wanted.Open {
		found.none = "which kernels the binary has is not known, so only a file of its name stands in for it"
		if len(names) > 0 {
			found.none = "it has no " + strings.Join(names, " and no ")
		}
		return found
	}
	for _, extension := range extensions {
		if s.covering(b, &found, filepath.Join(found.folder, "*"+extension)) {
			break
		}
	}
	found.none = "it has no " + strings.Join(extensions, " and no ")
	return found
}

// cause returns the text of a file's error without the file name.
func cause(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// covering replaces a binary by the first file, by name, that has all of the wanted kernels.
func (s *state) covering(b *binary, found *search, pattern string) bool {
	files, _ := filepath.Glob(pattern) //nolint:errcheck // the pattern is valid
	for _, file := range files {
		image, err := readfile.Regular(file, mostBytes)
		if err != nil {
			found.rejects(file, "cannot be read: %s", cause(err))
			continue
		}
		have, err := kernel.Read(image, kernel.Options{Pairs: s.pairs()})
		if err != nil {
			found.rejects(file, "cannot be used: %v", err)
			continue
		}
		if lacking := lacks(have, found.wanted); lacking != "" {
			found.rejects(file, "has no kernel %s", lacking)
			continue
		}
		b.image, b.name, b.stand = image, filepath.Base(file), file
		return true
	}
	return false
}

// lacks returns a text with the wanted kernels that a binary does not have; "" if it has all.
func lacks(have, wanted *kernel.Table) string {
	const most = 3
	var names []string
	for _, k := range wanted.Kernels() {
		if have.Find(k.Name) == nil {
			names = append(names, k.Name)
		}
	}
	more := ""
	if n := len(names) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names[:min(len(names), most)], ", ") + more
}
