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
)

// read reads the kernels of a binary that the driver can run, or of the one that stands in for it; magic is the number
// that chooses the type of kernels that do not say theirs, path the file that it is from, if any.
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
	// The parameters of what is already compiled are known to the device alone, and asked for when it is looked up.
	b.lazy = b.lazy && table.Format != kernel.Cubin && table.Format != kernel.Fatbin
	return nil
}

// unusable refuses a binary, and says if it is what stands in that cannot be used.
func (b *binary) unusable(api, arg, why string) *core.Error {
	if b.stand != "" {
		why = fmt.Sprintf("%s stands in for it (ROPEWAY_KERNELS) and cannot be used: %s", b.stand, why)
	}
	return core.Refused(api, arg, "%s", why)
}

// subject names the binary where it lacks something: the program's may have what the one that stands in has not.
func (b *binary) subject() string {
	if b.stand != "" {
		return b.stand + ", which stands in for the binary (ROPEWAY_KERNELS),"
	}
	return "the binary"
}

// search is a search for what stands in for a binary.
type search struct {
	wanted *kernel.Table // what the binary of the program has; nil if that cannot be read, or nothing was looked for
	folder string        // "": there is none
	files  []string      // why files do not stand in
	none   string        // why there are no files
}

// String is what to say where nothing stands in; "" without a folder.
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

// rejects notes why a file does not stand in.
func (s *search) rejects(file, format string, args ...any) {
	s.files = append(s.files, filepath.Base(file)+" "+fmt.Sprintf(format, args...))
}

// standIn replaces a binary that the driver cannot run by the file of the folder that stands in for it: one of the same
// name but for its extension, or the first, by name, that has all of its kernels. Without one the binary stays what it
// is.
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
		image, err := os.ReadFile(file)
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

// cause is what went wrong with a file, without its name.
func cause(err error) string {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err.Error()
	}
	return err.Error()
}

// covering replaces a binary by the first file, by name, that has all of the wanted kernels.
func (s *state) covering(b *binary, found *search, pattern string) bool {
	files, _ := filepath.Glob(pattern) //nolint:errcheck // a pattern that is right
	for _, file := range files {
		image, err := os.ReadFile(file)
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

// lacks is the kernels of a binary that another does not have, for people; "" if it has all.
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
