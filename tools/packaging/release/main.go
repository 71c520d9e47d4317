// Command release writes everything that is released into a directory: for each processor a tarball of the toolkit,
// Debian packages, an RPM and a wheel, and then an SBOM and checksums. "make release" calls it.
//
// It builds the files of the commit, in a directory of their own, and refuses a repository with changes. The same
// commit makes the same bytes wherever it is built: nothing of the machine gets in but the compilers. The C parts are
// linked with the libraries of an old Debian (sysroot.txt), so that they run with an old glibc.
package main

import (
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
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
	commit  string
	date    time.Time // of every file
	about   about
	made    []string  // names of files in out, in the order they were made
	bundled []bundled // what others wrote and is compiled in
}

func main() {
	var r release
	root := flag.String("root", "../../..", "the repository")
	flag.StringVar(&r.out, "out", "../../../release", "directory to write; what is in it is removed first")
	flag.StringVar(&r.work, "work", "../../../bin/release", "directory to build in")
	only := flag.String("arch", "", "make it for this processor only, amd64 or arm64")
	mirror := flag.String("debian", "", "where the packages of sysroot.txt are, an address or a directory")
	flag.Parse()
	if err := r.run(*root, *only, *mirror); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run(root, only, mirror string) error {
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
	syscall.Umask(0o022)
	source, err := os.MkdirTemp("", "ropeway-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(source)
	if err := r.checkOut(root, source); err != nil {
		return err
	}
	if err := os.Chdir(source); err != nil {
		return err
	}
	if err := r.describe(); err != nil {
		return err
	}
	fmt.Printf("ropeway %s, dated %s\n", r.version, r.date.Format(time.RFC3339))
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
	if err := r.copyFile("tools/packaging/Containerfile", "Containerfile"); err != nil {
		return err
	}
	if err := r.writeSBOM(); err != nil {
		return err
	}
	return r.writeSums()
}

// checkOut writes the files of the commit that is checked out in root to a directory. A changed file is an error.
func (r *release) checkOut(root, to string) error {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return fmt.Errorf("releases are built from a repository: %w", err)
	}
	if changed != "" {
		return fmt.Errorf("releases are built from a commit, and these files differ from it:\n%s", changed)
	}
	if r.commit, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	date, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return err
	}
	r.date = time.Unix(seconds, 0).UTC()
	archive := filepath.Join(r.work, "source.tar")
	defer os.Remove(archive)
	if _, err := git("archive", "--output", archive, r.commit); err != nil {
		return err
	}
	if err := os.Setenv("SOURCE_DATE_EPOCH", date); err != nil { // nfpm prefers it to the date that it is told
		return err
	}
	return loud(exec.Command("tar", "-xf", archive, "--no-same-permissions", "-C", to))
}

// about has the parts of CITATION.cff that packages repeat. The owner fills them in; what is empty is left out.
type about struct {
	Homepage   string                         `yaml:"url"`
	Repository string                         `yaml:"repository-code"`
	Contact    []struct{ Name, Email string } `yaml:"contact"`
}

func (a about) homepage() string { return cmp.Or(a.Homepage, a.Repository) }

// maintainer returns the contact, or what says that there is none: Debian's packages must have one.
func (a about) maintainer() string { return cmp.Or(a.contact(), "Unset Maintainer <unset@localhost>") }

// contact returns the first contact, as Debian writes it.
func (a about) contact() string {
	if len(a.Contact) == 0 || a.Contact[0].Name == "" || a.Contact[0].Email == "" {
		return ""
	}
	return fmt.Sprintf("%s <%s>", a.Contact[0].Name, a.Contact[0].Email)
}

// describe reads the version, and what else the repository says of itself.
func (r *release) describe() error {
	text, err := os.ReadFile("VERSION")
	if err != nil {
		return err
	}
	r.version = strings.TrimSpace(string(text))
	if text, err = os.ReadFile("CITATION.cff"); err != nil {
		return err
	}
	return yaml.Unmarshal(text, &r.about)
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
		"CGO_CFLAGS=-O2", "CGO_LDFLAGS=-O2")
	return loud(cmd)
}

func (r *release) writeWheel(kit string) error {
	out, err := exec.Command(or("PYTHON", "python3"), "python/backend.py", "wheel", "--toolkit", kit, "--out",
		r.out).Output()
	if err != nil {
		return err
	}
	r.made = append(r.made, filepath.Base(strings.TrimSpace(string(out))))
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
