// Command release writes everything that is released into a directory: for each processor a tarball of the toolkit,
// Debian packages and a wheel, and then an SBOM and checksums. "make release" calls it.
//
// The same commit makes the same bytes wherever it is built: nothing of the machine gets in but the compilers. The C
// parts are linked with the libraries of an old Debian (sysroot.txt), so that they run with an old glibc.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// processor is one that there are releases for.
type processor struct {
	goarch  string // as Go and Debian name it
	triplet string // as gcc and Debian's directories name it
	vendor  string // as the vendor's layout names it
}

var processors = []processor{
	{"amd64", "x86_64-linux-gnu", "x86_64-linux"},
	{"arm64", "aarch64-linux-gnu", "aarch64-linux"},
}

// release is what is being made.
type release struct {
	out     string // where it goes
	work    string // where it is built
	version string
	commit  string    // "" outside a repository
	date    time.Time // of every file
	made    []string  // names of files in out, in the order they were made
	bundled []bundled // what others wrote and is compiled in
}

func main() {
	var r release
	flag.StringVar(&r.out, "out", "release", "directory to write; what is in it is removed first")
	flag.StringVar(&r.work, "work", "bin/release", "directory to build in")
	only := flag.String("arch", "", "make it for this processor only, amd64 or arm64")
	mirror := flag.String("debian", "", "where the packages of sysroot.txt are, an address or a directory")
	flag.Parse()
	if err := r.run(*only, *mirror); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run(only, mirror string) error {
	if err := r.describe(); err != nil {
		return err
	}
	fmt.Printf("ropeway %s, dated %s\n", r.version, r.date.Format(time.RFC3339))
	for _, dir := range []*string{&r.out, &r.work} {
		path, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = path
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	if err := r.empty(); err != nil {
		return err
	}
	for _, p := range processors {
		if only != "" && only != p.goarch {
			continue
		}
		if err := r.forProcessor(p, mirror); err != nil {
			return fmt.Errorf("%s: %w", p.goarch, err)
		}
	}
	if err := r.copyFile("packaging/Containerfile", "Containerfile"); err != nil {
		return err
	}
	if err := r.writeSBOM(); err != nil {
		return err
	}
	return r.writeSums()
}

// describe finds out version, commit and date.
func (r *release) describe() error {
	text, err := os.ReadFile("VERSION")
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	r.version = strings.TrimSpace(string(text))
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err == nil {
		r.commit = strings.TrimSpace(string(commit))
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		out, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return errors.New("there is no repository to take the date from: set SOURCE_DATE_EPOCH")
		}
		seconds = strings.TrimSpace(string(out))
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.date = time.Unix(n, 0).UTC()
	return nil
}

// empty removes what an earlier run has written. Anything else is left, and an error.
func (r *release) empty() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ours := strings.Contains(e.Name(), "ropeway") || slices.Contains([]string{"SHA256SUMS", "Containerfile"},
			e.Name())
		if !ours || e.IsDir() {
			return fmt.Errorf("%s is not from an earlier run; move it", filepath.Join(r.out, e.Name()))
		}
		if err := os.Remove(filepath.Join(r.out, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// forProcessor makes what is made once for each processor.
func (r *release) forProcessor(p processor, mirror string) error {
	root, err := sysroot(p, filepath.Join(r.work, "sysroot"), mirror)
	if err != nil {
		return err
	}
	kit := filepath.Join(r.work, p.goarch)
	if err := os.RemoveAll(kit); err != nil {
		return err
	}
	if err := r.build(p, root, kit); err != nil {
		return err
	}
	oldest, err := oldestGlibc(filepath.Join(kit, "lib64"))
	if err != nil {
		return err
	}
	fmt.Printf("%s needs glibc %s or later\n", p.goarch, oldest)
	files, err := read(kit)
	if err != nil {
		return err
	}
	if err := r.bundledIn(kit); err != nil {
		return err
	}
	if err := r.writeTarball(p, files); err != nil {
		return err
	}
	if err := r.writeWheel(kit); err != nil {
		return err
	}
	return r.writePackages(p, files, oldest)
}

// build makes the toolkit, by make dist with a compiler for the processor and the old libraries.
func (r *release) build(p processor, root, kit string) error {
	cc, err := compiler(p, root, r.work)
	if err != nil {
		return err
	}
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -buildvcs=false")
	cmd := exec.Command("make", "--no-print-directory", "dist", "DIST="+kit, "CFLAGS=-O2 -s",
		"GOLINK=-s -w -buildid= -X main.commit="+r.commit)
	cmd.Env = append(os.Environ(), "GOARCH="+p.goarch, "GOOS=linux", "CC="+cc, "GOFLAGS="+flags,
		"CGO_CFLAGS=-O2", "CGO_LDFLAGS=-O2", "PYTHON_INCLUDE="+filepath.Join(root, "usr/include/python3.9"))
	return loud(cmd)
}

func (r *release) writeWheel(kit string) error {
	out, err := exec.Command(or("PYTHON", "python3"), "python/backend.py", "wheel", "--toolkit", kit, "--out",
		r.out).Output()
	if err != nil {
		return err
	}
	name := filepath.Base(strings.TrimSpace(string(out)))
	if !strings.Contains(name, "-abi3-") {
		return fmt.Errorf("%s has no extension: Python's headers were not found", name)
	}
	r.made = append(r.made, name)
	return nil
}

func (r *release) copyFile(from, name string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return r.write(name, text)
}

// write writes a file of the release.
func (r *release) write(name string, content []byte) error {
	r.made = append(r.made, name)
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// writeSums writes the checksums of all files, as sha256sum does.
func (r *release) writeSums() error {
	names := slices.Sorted(slices.Values(r.made))
	var b strings.Builder
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), name)
	}
	if err := r.write("SHA256SUMS", []byte(b.String())); err != nil {
		return err
	}
	fmt.Print(b.String())
	return nil
}

// loud runs a command whose output is shown only if it fails.
func loud(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		os.Stderr.Write(out) //nolint:errcheck // there is nowhere to say so
		return fmt.Errorf("%s: %w", cmd, err)
	}
	return nil
}

// or is a variable of the environment, or the value for where it is empty.
func or(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
