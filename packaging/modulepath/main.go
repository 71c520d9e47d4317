// Command modulepath changes the path of the module everywhere: in go.mod, in imports, and where code, tests and
// pages name a package.
//
//	go run ./packaging/modulepath example.com/ropeway
//
// It is for the day the repository gets a home. The name of the product, its command and its variables stay.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./packaging/modulepath NEW, such as example.com/ropeway")
		os.Exit(2)
	}
	changed, err := change(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "modulepath:", err)
		os.Exit(1)
	}
	fmt.Printf("%d files changed; go build ./... and go run ./spec/gen show whether it is complete\n", changed)
}

// valid are paths that a module may have, as far as this command cares.
var valid = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~-]*(/[A-Za-z0-9][A-Za-z0-9._~-]*)*$`)

// change gives the module in dir the path to, and returns how many files it wrote.
func change(dir, to string) (int, error) {
	if !valid.MatchString(to) {
		return 0, fmt.Errorf("%q is no path of a module", to)
	}
	from, err := modulePath(filepath.Join(dir, "go.mod"))
	if err != nil || from == to {
		return 0, err
	}
	files, packages, err := find(dir)
	if err != nil {
		return 0, err
	}
	c := newChanger(from, to, packages)
	changed := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return changed, err
		}
		after, err := c.file(name, text)
		if err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		if bytes.Equal(after, text) {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return changed, err
		}
		if err := os.WriteFile(name, after, info.Mode().Perm()); err != nil {
			return changed, err
		}
		changed++
	}
	return changed, nil
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

func modulePath(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	m := moduleLine.FindSubmatch(text)
	if m == nil {
		return "", errors.New(name + " has no module line")
	}
	return string(m[1]), nil
}

// kinds are the files that may name packages.
var kinds = []string{".go", ".mod", ".md", ".yaml", ".py", ".sh", ".tmpl", ".work"}

// left are directories with nothing to change.
var left = []string{".git", "bin", "dist", "dist-arm64", "node_modules", ".venv"}

// find lists the files that may name packages, and the directories of packages, from dir on.
func find(dir string) (files, packages []string, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(left, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		ext := filepath.Ext(name)
		if slices.Contains(kinds, ext) || d.Name() == "Makefile" || ext == "" &&
			filepath.Base(filepath.Dir(name)) == ".ci" {
			files = append(files, name)
		}
		if ext == ".go" || d.Name() == "go.mod" {
			rel, err := filepath.Rel(dir, filepath.Dir(name))
			if err != nil {
				return err
			}
			packages = append(packages, filepath.ToSlash(rel))
		}
		return nil
	})
	slices.Sort(packages)
	return files, slices.Compact(packages), err
}

// changer changes paths that begin with one module's to another's.
type changer struct {
	from, to string
	named    *regexp.Regexp // a package of the module, where text names it
	bare     *regexp.Regexp // the module itself, where a page shows an import or a go.mod
}

func newChanger(from, to string, packages []string) *changer {
	var dirs []string
	for _, p := range packages {
		for ; p != "."; p = pathDir(p) {
			dirs = append(dirs, regexp.QuoteMeta(p))
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) }) // the longest that matches
	dirs = slices.Compact(dirs)
	quoted := regexp.QuoteMeta(from)
	return &changer{from, to,
		regexp.MustCompile(`(^|[^A-Za-z0-9_./$}~-])` + quoted + `/(` + strings.Join(dirs, "|") +
			`)([^A-Za-z0-9_./-]|\.[A-Z(]|$)`),
		regexp.MustCompile(`(?m)^(\s*(?:import |require |replace |use )?(?:_ )?"?)` + quoted +
			`("| v0| =>)|(-(?:replace|require)[= ])` + quoted + `([=@])`),
	}
}

func pathDir(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return "."
}

// file returns what a file becomes.
func (c *changer) file(name string, text []byte) ([]byte, error) {
	switch filepath.Ext(name) {
	case ".go":
		return c.source(name, text)
	case ".mod":
		// Modules in directories below require this one, and say where it is.
		text = c.bare.ReplaceAll(text, []byte("${1}${3}"+c.to+"${2}${4}"))
		return moduleLine.ReplaceAllFunc(text, func(line []byte) []byte {
			p := strings.TrimPrefix(string(line), "module ")
			if p == c.from || strings.HasPrefix(p, c.from+"/") {
				p = c.to + p[len(c.from):]
			}
			return []byte("module " + p)
		}), nil
	case ".md":
		text = c.bare.ReplaceAll(text, []byte("${1}${3}"+c.to+"${2}${4}"))
	}
	return c.names(text), nil
}

// names changes where text names packages. What ends one name may begin the next, so it looks twice.
func (c *changer) names(text []byte) []byte {
	for range 2 {
		text = c.named.ReplaceAll(text, []byte("${1}"+c.to+"/${2}${3}"))
	}
	return text
}

// source changes a Go file: its imports, whatever they are, then what its strings and comments name. It stays
// formatted if it was.
func (c *changer) source(name string, text []byte) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	after := slices.Clone(text)
	for _, i := range slices.Backward(f.Imports) {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil || p != c.from && !strings.HasPrefix(p, c.from+"/") {
			continue
		}
		start, end := set.Position(i.Path.Pos()).Offset, set.Position(i.Path.End()).Offset
		after = slices.Replace(after, start, end, []byte(strconv.Quote(c.to+p[len(c.from):]))...)
	}
	after = c.names(after)
	if bytes.Equal(after, text) {
		return text, nil
	}
	if was, err := format.Source(text); err == nil && bytes.Equal(was, text) {
		return format.Source(after)
	}
	return after, nil
}
