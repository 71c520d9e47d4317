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

// read reads the files of a directory, but not what is there for git.
func read(dir string) (tree, error) {
	t := tree{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Name() == ".gitignore" {
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

// below is the part of the tree in one of the directories, without the others.
func (t tree) below(dirs ...string) tree {
	part := tree{}
	for name, f := range t {
		if slices.ContainsFunc(dirs, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }) {
			part[name] = f
		}
	}
	return part
}

// add puts the files of another tree below a directory.
func (t tree) add(dir string, other tree) {
	for name, f := range other {
		t[path.Join(dir, name)] = f
	}
}

// pack writes a tar of the tree below a directory, compressed: sorted, of one date, owned by root. Directories come
// before what is in them.
func (t tree) pack(top string, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	done := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		f := t[name]
		full := path.Join(top, name)
		if strings.HasPrefix(top, "./") || top == "." {
			full = "./" + full // as dpkg writes it
		}
		if err := parents(w, full, date, done); err != nil {
			return nil, err
		}
		if f.dir {
			if err := parents(w, full+"/", date, done); err != nil {
				return nil, err
			}
			continue
		}
		h := tar.Header{Name: full, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(f.content)), ModTime: date,
			Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if f.program {
			h.Mode = 0o755
		}
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

// parents writes the directories above a file that are not done yet.
func parents(w *tar.Writer, name string, date time.Time, done map[string]bool) error {
	for i, c := range name {
		if c != '/' || done[name[:i]] {
			continue
		}
		done[name[:i]] = true
		if err := w.WriteHeader(&tar.Header{Name: name[:i] + "/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: date,
			Uname: "root", Gname: "root", Format: tar.FormatGNU}); err != nil {
			return err
		}
	}
	return nil
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
	examples, err := read("examples")
	if err != nil {
		return err
	}
	all := tree{}
	all.add("toolkit", kit)
	all.add("toolkit/share/ropeway/examples", examples.below("c", "cpp", "cmake", "python"))
	if err := all.readFiles(map[string]string{
		"install.sh":                         "packaging/install.sh",
		"copy.sh":                            "packaging/copy.sh",
		"README":                             "packaging/README.tarball",
		"LICENSE":                            "LICENSE",
		"toolkit/uninstall.sh":               "packaging/uninstall.sh",
		"toolkit/share/ropeway/LICENSE":      "LICENSE",
		"toolkit/share/ropeway/CHANGELOG.md": "CHANGELOG.md",
		"toolkit/share/ropeway/VERSION":      "VERSION",
	}); err != nil {
		return err
	}
	if err := notice(all, "NOTICE"); err != nil {
		return err
	}
	name := fmt.Sprintf("ropeway-%s-linux-%s", r.version, p.goarch)
	content, err := all.pack(name, r.date)
	if err != nil {
		return err
	}
	return r.write(name+".tar.gz", content)
}

// notice adds the licences of what is bundled, where the repository has them.
func notice(t tree, name string) error {
	content, err := os.ReadFile("NOTICE")
	if os.IsNotExist(err) {
		return nil
	}
	t[name] = file{content: content}
	return err
}
