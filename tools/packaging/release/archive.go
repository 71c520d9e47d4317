package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of a tree that is packed: text, or a link to a target.
type file struct {
	content []byte
	target  string
	program bool // may be run
	dir     bool // a directory, for which nothing is in the package
}

// tree is files by their paths, slash separated and relative.
type tree map[string]file

// mode returns the permissions of the file.
func (f file) mode() fs.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

// read reads the files of a directory, but for those whose names begin with a dot.
func read(dir string) (tree, error) {
	t := tree{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		f := file{}
		if d.Type() == fs.ModeSymlink {
			f.target, err = os.Readlink(name)
		} else {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				f.program = info.Mode()&0o111 != 0
				f.content, err = os.ReadFile(name)
			}
		}
		t[filepath.ToSlash(rel)] = f
		return err
	})
	return t, err
}

// readFiles reads files of the repository, each to its place in the tree.
func (t tree) readFiles(files map[string]string) error {
	for name, from := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		t[name] = file{content: content, program: strings.HasSuffix(from, ".sh") && !strings.HasSuffix(from,
			"set_env.sh")}
	}
	return nil
}

// unpack writes the files below a directory.
func (t tree) unpack(dir string) error {
	for name, f := range t {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		var err error
		switch {
		case f.dir:
			err = os.MkdirAll(to, 0o755)
		case f.target != "":
			err = os.Symlink(f.target, to)
		default:
			err = os.WriteFile(to, f.content, f.mode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add puts the files of another tree below a directory.
func (t tree) add(dir string, other tree) {
	for name, f := range other {
		t[path.Join(dir, name)] = f
	}
}

// tar returns a tar of the tree below a directory, compressed: sorted, of one date, owned by root.
func (t tree) tar(top string, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		f := t[name]
		h := tar.Header{Name: path.Join(top, name), Typeflag: tar.TypeReg, Mode: int64(f.mode()),
			Size: int64(len(f.content)), ModTime: date, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if f.target != "" {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.target, 0o777
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// zipped is a text compressed as Debian wants documentation.
func zipped(content []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(content); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// writeTarball writes the toolkit with its installer.
func (r *release) writeTarball(p processor, kit tree) error {
	all := tree{}
	all.add("toolkit", kit)
	for _, dir := range []string{"c", "cpp", "cmake", "python"} {
		examples, err := read("examples/" + dir)
		if err != nil {
			return err
		}
		all.add("toolkit/share/ropeway/examples/"+dir, examples)
	}
	if err := all.readFiles(map[string]string{
		"install.sh":                         "tools/packaging/install.sh",
		"copy.sh":                            "tools/packaging/copy.sh",
		"README":                             "tools/packaging/README.tarball",
		"LICENSE":                            "LICENSE",
		"NOTICE":                             "NOTICE",
		"toolkit/uninstall.sh":               "tools/packaging/uninstall.sh",
		"toolkit/share/ropeway/LICENSE":      "LICENSE",
		"toolkit/share/ropeway/CHANGELOG.md": "CHANGELOG.md",
		"toolkit/share/ropeway/VERSION":      "VERSION",
	}); err != nil {
		return err
	}
	name := fmt.Sprintf("ropeway-%s-linux-%s", r.version, p.goarch)
	content, err := all.tar(name, r.date)
	if err != nil {
		return err
	}
	return r.write(name+".tar.gz", content)
}
