package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sysrootList names the packages of the old Debian: processor, SHA-256, path in the archive.
//
//go:embed sysroot.txt
var sysrootList string

// mirrors are where Debian keeps packages: releases in use, and those that are no longer.
var mirrors = []string{
	"http://deb.debian.org/debian/",
	"http://archive.debian.org/debian/",
	"http://snapshot.debian.org/archive/debian/20250801T000000Z/",
}

// debianPackage is a line of sysroot.txt.
type debianPackage struct{ arch, sum, path string }

func parseSysroot(list string) ([]debianPackage, error) {
	var all []debianPackage
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case len(words) != 3 || len(words[1]) != 2*sha256.Size:
			return nil, fmt.Errorf("sysroot.txt: %q is not a processor, a SHA-256 and a path", line)
		default:
			all = append(all, debianPackage{words[0], words[1], words[2]})
		}
	}
	return all, nil
}

// sysroot returns a directory with the packages unpacked. It is kept for the next run.
func sysroot(p processor, dir, mirror string) (string, error) {
	all, err := parseSysroot(sysrootList)
	if err != nil {
		return "", err
	}
	root := filepath.Join(dir, fmt.Sprintf("%s-%.12x", p.goarch, sha256.Sum256([]byte(sysrootList))))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	unfinished := root + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return "", err
	}
	for _, pkg := range all {
		if pkg.arch != p.goarch {
			continue
		}
		file := filepath.Join(dir, pkg.sum+".deb")
		if err := fetch(pkg, file, mirror); err != nil {
			return "", err
		}
		if err := loud(exec.Command("dpkg-deb", "-x", file, unfinished)); err != nil {
			return "", err
		}
	}
	if err := relative(unfinished); err != nil {
		return "", err
	}
	return root, os.Rename(unfinished, root)
}

// fetch brings a package, from the first place that has it, and refuses one with another checksum.
func fetch(pkg debianPackage, file, mirror string) error {
	if good(file, pkg.sum) {
		return nil
	}
	from := mirrors
	if mirror != "" {
		from = []string{mirror}
	}
	var last error
	for _, m := range from {
		content, err := get(m, pkg.path)
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(content)) != pkg.sum {
			err = fmt.Errorf("%s of %s is not the package that sysroot.txt names", pkg.path, m)
		}
		if err == nil {
			return os.WriteFile(file, content, 0o644)
		}
		last = err
	}
	return fmt.Errorf("%s: %w", path.Base(pkg.path), last)
}

func good(file, sum string) bool {
	content, err := os.ReadFile(file)
	return err == nil && fmt.Sprintf("%x", sha256.Sum256(content)) == sum
}

// get reads a file of an archive, which is an address or a directory.
func get(mirror, name string) ([]byte, error) {
	if !strings.Contains(mirror, "://") {
		content, err := os.ReadFile(filepath.Join(mirror, path.Base(name)))
		return content, err
	}
	client := http.Client{Timeout: 10 * time.Minute}
	answer, err := client.Get(strings.TrimSuffix(mirror, "/") + "/" + name)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", answer.Request.URL, answer.Status)
	}
	var b bytes.Buffer
	_, err = io.Copy(&b, answer.Body)
	return b.Bytes(), err
}

// relative makes links that begin with / lead to where they do in the sysroot, not to this machine's files.
func relative(root string) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		target, err := os.Readlink(name)
		if err != nil || !filepath.IsAbs(target) {
			return err
		}
		target, err = filepath.Rel(filepath.Dir(name), filepath.Join(root, target))
		if err != nil {
			return err
		}
		if err := os.Remove(name); err != nil {
			return err
		}
		return os.Symlink(target, name)
	})
}

// compiler writes a command that is gcc for a processor, with the headers and libraries of the sysroot and no others.
func compiler(p processor, root, dir string) (string, error) {
	gcc := p.triplet + "-gcc"
	headers, err := exec.Command(gcc, "-print-file-name=include").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", gcc, err)
	}
	file := filepath.Join(dir, "cc-"+p.goarch)
	lib := "/usr/lib/" + p.triplet
	text := fmt.Sprintf("#!/bin/sh\nexec %s --sysroot=%q -nostdinc -isystem %q -isystem %q -isystem %q "+
		"-B%q -L%q -L%q \"$@\"\n",
		gcc, root, strings.TrimSpace(string(headers)), root+"/usr/include/"+p.triplet, root+"/usr/include",
		root+lib, root+lib, root+"/lib/"+p.triplet)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		return "", err
	}
	return file, nil
}

// oldestGlibc is the oldest glibc that has everything the libraries of a directory ask for.
func oldestGlibc(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.so"))
	if err != nil {
		return "", err
	}
	oldest := 0
	for _, file := range files {
		f, err := elf.Open(file)
		if err != nil {
			return "", err
		}
		needs, err := f.DynamicVersionNeeds()
		f.Close()
		if err != nil {
			return "", err
		}
		for _, need := range needs {
			for _, version := range need.Needs {
				text, ok := strings.CutPrefix(version.Dep, "GLIBC_2.")
				minor, _, _ := strings.Cut(text, ".")
				if n, err := strconv.Atoi(minor); ok && err == nil {
					oldest = max(oldest, n)
				}
			}
		}
	}
	if oldest == 0 {
		return "", fmt.Errorf("the libraries in %s ask nothing of glibc", dir)
	}
	return fmt.Sprintf("2.%d", oldest), nil
}
