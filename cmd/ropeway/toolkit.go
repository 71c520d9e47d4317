package main

import (
	"debug/elf"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// homeVariable names a toolkit where the program itself is in none.
const homeVariable = "ROPEWAY_HOME"

// library is what programs load, below the root of a toolkit.
const library = "lib64/libascendcl.so"

// toolkit is a directory in the layout of the vendor's.
type toolkit struct {
	Root string `json:"root"`
	How  string `json:"how"` // how it was found
}

// findToolkit looks where the executable exe is, then where ROPEWAY_HOME says (home), then where "make dist" puts it.
func findToolkit(exe, home string) (*toolkit, error) {
	above := filepath.Dir(filepath.Dir(exe))
	if isToolkit(above) {
		return &toolkit{above, "this program is in it"}, nil
	}
	if home != "" {
		root, err := filepath.Abs(home)
		if err != nil {
			return nil, err
		}
		if !isToolkit(root) {
			return nil, &failure{err: fmt.Errorf("%s=%s has no %s", homeVariable, home, library),
				next: "unset it, or name a directory that make dist or make install wrote"}
		}
		return &toolkit{root, homeVariable}, nil
	}
	if dist := filepath.Join(above, "dist"); isToolkit(dist) {
		return &toolkit{dist, "built by make dist"}, nil
	}
	return nil, &failure{err: fmt.Errorf("there is no %s near %s", library, exe),
		next: "run make dist first, or set " + homeVariable + " to a directory that it wrote"}
}

func isToolkit(root string) bool {
	info, err := os.Stat(filepath.Join(root, library))
	return err == nil && info.Mode().IsRegular()
}

// toolkit finds the toolkit that this program belongs to.
func (a *app) toolkit() (*toolkit, error) {
	exe, err := executable()
	if err != nil {
		return nil, err
	}
	return findToolkit(exe, a.getenv(homeVariable))
}

// executable is the path of this program, with symbolic links resolved, by the kernel.
func executable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", &failure{err: err, next: "mount /proc: it says where this program is"}
	}
	return exe, nil
}

// docsVariable names the address of the documentation, for reports; without it the toolkit's is taken.
const docsVariable = "ROPEWAY_DOCS"

// docs is the address of the documentation that reports link to, "" if none is known.
func (a *app) docs() string {
	root := ""
	if t, err := a.toolkit(); err == nil {
		root = t.Root
	}
	return docsAt(a.getenv(docsVariable), root)
}

// docsAt is the address that is given, or that of the pages in a toolkit, with a slash at its end.
func docsAt(given, root string) string {
	if given != "" {
		return strings.TrimSuffix(given, "/") + "/"
	}
	dir := filepath.Join(root, "share", "doc", "ropeway", "html")
	if _, err := os.Stat(filepath.Join(dir, "index.html")); root == "" || err != nil {
		return ""
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir) + "/"}).String()
}

// machine is what processor the library is for.
func (t *toolkit) machine() elf.Machine {
	if f, err := elf.Open(filepath.Join(t.Root, library)); err == nil {
		defer f.Close()
		return f.Machine
	}
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
}
