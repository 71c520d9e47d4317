// Command notice writes NOTICE: the work of others that is in what we hand out, with its licences. That is the Go
// modules linked into the command and the library, Go's own runtime and library, and the scripts in the report page.
//
//	go run ./tools/packaging/notice          writes NOTICE
//	go run ./tools/packaging/notice -check   writes nothing, exits 1 if it is stale
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ropeway/tools/packaging/licence"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 if NOTICE is stale")
	flag.Parse()
	if err := run(".", *check); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	want, err := notice(root)
	if err != nil {
		return err
	}
	name := filepath.Join(root, "NOTICE")
	if !check {
		return os.WriteFile(name, want, 0o644)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		return errors.New("NOTICE is stale: go run ./tools/packaging/notice")
	}
	return nil
}

// part is a work of others.
type part struct {
	name, version string
	where         string // in what of ours it is
	files         []licence.File
}

// programs are the packages that become binaries, and these.
var programs = []struct{ pkg, binary string }{{"./cmd/ropeway", "ropeway"}, {"./capi", "libropeway_core.so"}}

// notice makes the text of NOTICE.
func notice(root string) ([]byte, error) {
	parts, err := modules(root)
	if err != nil {
		return nil, err
	}
	scripts, err := bundled(root)
	if err != nil {
		return nil, err
	}
	parts = append(parts, scripts...)
	var b bytes.Buffer
	b.WriteString("ropeway\n\nLicensed under the Apache License, Version 2.0; see LICENSE.\n\n" +
		"What is handed out has the work of others in it, under these licences. Their texts follow.\n" +
		"Written by go run ./tools/packaging/notice; a test compares.\n\n")
	for _, p := range parts {
		id, err := licence.Identify(p.files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(&b, "%-41s %-37s %-19s %s\n", p.name, p.version, id, p.where)
	}
	for _, p := range parts {
		for _, f := range p.files {
			line := strings.Repeat("=", 80)
			fmt.Fprintf(&b, "\n%s\n%s: %s\n%s\n\n%s\n", line, p.name, f.Name, line, strings.TrimSpace(f.Text))
		}
	}
	return b.Bytes(), nil
}

// module is what "go list" says of one.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// modules are those whose packages are linked into programs, on either processor, and Go itself.
func modules(root string) ([]part, error) {
	found := map[string]module{}
	where := map[string][]string{} // binaries, by module
	for _, program := range programs {
		for _, arch := range []string{"amd64", "arm64"} {
			linked, err := dependencies(root, program.pkg, arch)
			if err != nil {
				return nil, err
			}
			for _, m := range linked {
				found[m.Path] = m
				if !slices.Contains(where[m.Path], program.binary) {
					where[m.Path] = append(where[m.Path], program.binary)
				}
			}
		}
	}
	var parts []part
	for _, m := range found {
		files, err := licence.Files(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		parts = append(parts, part{m.Path, m.Version, strings.Join(where[m.Path], ", "), files})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	for _, p := range parts {
		if p.name == "golang.org/x/sys" { // its licence is Go's own, word for word
			return slices.Insert(parts, 0, part{"Go", "of go.mod, or later", p.where, p.files[:1]}), nil
		}
	}
	return nil, errors.New("golang.org/x/sys is not linked any more: take Go's licence from elsewhere")
}

// dependencies are the modules of the packages that a program is linked from.
func dependencies(root, program, arch string) (all []module, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=-mod=readonly")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ Module *module }
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main {
			all = append(all, *p.Module)
		}
	}
}

var others = regexp.MustCompile(`(?s)<!-- Parts of this page are the work of others:\n\n(.*)\n-->`)

// bundled are the scripts in the report page, which carries their licences. Their versions are those of the lock file.
func bundled(root string) (parts []part, err error) {
	page, err := os.ReadFile(filepath.Join(root, "internal/report/page.html"))
	if err != nil {
		return nil, err
	}
	lock, err := os.ReadFile(filepath.Join(root, licence.Lock))
	if err != nil {
		return nil, err
	}
	scripts, err := licence.Scripts(lock)
	if err != nil {
		return nil, err
	}
	m := others.FindSubmatch(page)
	if m == nil {
		return nil, errors.New("the report page names no work of others")
	}
	for _, p := range scripts {
		_, text, found := strings.Cut("\n"+string(m[1]), "\n"+p.Name+"\n\n")
		if !found {
			return nil, fmt.Errorf("the report page does not have the licence of %s", p.Name)
		}
		for _, other := range scripts { // up to the next one
			text, _, _ = strings.Cut(text, "\n\n"+other.Name+"\n\n")
		}
		parts = append(parts, part{p.Name, p.Version, "the report page", []licence.File{{Name: "LICENSE", Text: text}}})
	}
	return parts, nil
}
