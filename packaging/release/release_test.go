package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// small is a toolkit with one file of each kind.
func small() tree {
	return tree{
		"bin/ropeway":          {content: []byte("the command"), program: true},
		"lib64/libascendcl.so": {content: []byte("the library"), program: true},
		"lib64/libacl_rt.so":   {target: "libascendcl.so"}, "include/acl/acl.h": {content: []byte("a header")},
		"x86_64-linux/include": {target: "../include"}, "x86_64-linux/lib64": {target: "../lib64"},
		"lib64/pkgconfig/ascendcl.pc": {content: []byte("prefix=${pcfiledir}/../..\n" +
			"includedir=${prefix}/include\n")},
		"python/site-packages/acl/__init__.py": {content: []byte("import it")},
		"share/man/man1/ropeway.1":             {content: []byte("a page")},
	}
}

// TestShare: every file of a toolkit is in exactly one package, but the manual, which addCommandDocs compresses, and
// nothing needs the package of headers to run.
func TestShare(t *testing.T) {
	command, dev, python := tree{}, tree{}, tree{}
	share(processors[0], small(), command, dev, python)
	for name, of := range map[string]tree{
		"usr/lib/ropeway/bin/ropeway": command, "usr/lib/ropeway/lib64/libascendcl.so": command,
		"usr/bin/ropeway":                    command,
		"usr/lib/ropeway/x86_64-linux/lib64": command, "usr/lib/ropeway/x86_64-linux/include": dev,
		"usr/lib/ropeway/include":                dev,
		"usr/include/ascendcl-ropeway/acl/acl.h": dev, "usr/lib/python3/dist-packages/acl/__init__.py": python,
		"usr/lib/ropeway/python/site-packages/acl": python,
	} {
		found := 0
		for _, all := range []tree{command, dev, python} {
			if _, ok := all[name]; ok {
				found++
			}
		}
		if _, ok := of[name]; !ok || found != 1 {
			t.Errorf("%s is in %d packages, in the right one: %v", name, found, ok)
		}
	}
	if pc := string(dev["usr/lib/ropeway/lib64/pkgconfig/ascendcl.pc"].content); !strings.Contains(pc,
		"prefix=/usr/lib/ropeway\nincludedir=/usr/include/ascendcl-ropeway\n") {
		t.Errorf("ascendcl.pc: %s", pc)
	}
	if command["usr/lib/ropeway/lib64/libascendcl.so"].program {
		t.Error("a library may be run")
	}
}

// TestDebianPackage: dpkg reads what is written, the same bytes come out again, and files belong to root.
func TestDebianPackage(t *testing.T) {
	testenv.Need(t, "dpkg-deb")
	r := release{version: "1.2.3", date: time.Unix(1700000000, 0).UTC()}
	values := map[string]string{"Version": "1.2.3-0ropeway1", "Arch": "arm64", "Triplet": "aarch64-linux-gnu",
		"Glibc": "2.18", "Maintainer": "A <a@example.org>"}
	write := func() []byte {
		command := tree{}
		share(processors[1], small(), command, tree{}, tree{})
		content, err := r.debianPackage(debian{"ropeway", command}, values)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	content := write()
	if !bytes.Equal(content, write()) {
		t.Error("the same package has other bytes")
	}
	file := filepath.Join(t.TempDir(), "a.deb")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][]string{
		"--info": {"Package: ropeway", "Version: 1.2.3-0ropeway1", "Architecture: arm64",
			"Depends: libc6 (>= 2.18)", "postinst"},
		"--contents": {"-rwxr-xr-x root/root", "./usr/lib/ropeway/bin/ropeway", "2023-11-14",
			"./usr/bin/ropeway -> ../lib/ropeway/bin/ropeway"},
	} {
		cmd := exec.Command("dpkg-deb", args, file)
		cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg-deb %s: %v\n%s", args, err, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				t.Errorf("dpkg-deb %s has no %q:\n%s", args, w, out)
			}
		}
	}
	script, err := exec.Command("sh", "-euc",
		`dpkg-deb --ctrl-tarfile "$1" | tar -xO ./postinst | sh -n && dpkg-deb --ctrl-tarfile "$1" | tar -xO ./postinst`,
		"sh", file).CombinedOutput()
	if err != nil || !strings.Contains(string(script), "/usr/lib/aarch64-linux-gnu") {
		t.Errorf("postinst: %v\n%s", err, script)
	}
}

// TestSysrootList: each processor has the same packages, and a damaged line is refused.
func TestSysrootList(t *testing.T) {
	all, err := parseSysroot(sysrootList)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, p := range all {
		name, _, _ := strings.Cut(filepath.Base(p.path), "_")
		names[p.arch] = append(names[p.arch], name)
	}
	if len(names) != 2 || len(names["amd64"]) < 4 || !slices.Equal(names["amd64"], names["arm64"]) {
		t.Errorf("%v", names)
	}
	if _, err := parseSysroot("amd64 123 pool/x.deb\n"); err == nil {
		t.Error("a checksum that is none is accepted")
	}
}

// TestFetchRefuses: a package with another checksum is not used.
func TestFetchRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.deb"), []byte("other bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "got")
	if err := fetch(debianPackage{"amd64", strings.Repeat("0", 64), "pool/x.deb"}, to, dir); err == nil {
		t.Error("it is accepted")
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("it is kept")
	}
}

// TestSBOM: the document has what SPDX 2.3 asks for, each identifier once, and every relation leads somewhere.
func TestSBOM(t *testing.T) {
	lock, err := os.ReadFile("../../web/report/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := bundledScripts(lock)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range scripts {
		names = append(names, s.name)
		if s.licence == "" || s.version == "" {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Contains(names, "uplot") || !slices.Contains(names, "d3-array") || slices.Contains(names, "typescript") {
		t.Errorf("the report page bundles %v", names)
	}
	files := []spdxFile{{ID: spdxID("File", "a.deb"), Name: "./a.deb",
		Sums: []spdxChecksum{{"SHA256", strings.Repeat("0", 64)}}}}
	text, err := sbom("1.2.3", "abc", time.Unix(1700000000, 0).UTC(),
		append(scripts, bundled{"x/y", "v1", "pkg:golang/x/y@v1", "MIT"}), files)
	if err != nil {
		t.Fatal(err)
	}
	var d spdxDocument
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{d.ID: true}
	for _, p := range d.Packages {
		if known[p.ID] || p.Declared == "" || p.Download == "" || p.Name == "" {
			t.Errorf("%+v", p)
		}
		known[p.ID] = true
	}
	known[d.Files[0].ID] = true
	for _, r := range d.Relationships {
		if !known[r.Element] || !known[r.Related] {
			t.Errorf("%+v leads nowhere", r)
		}
	}
	if d.Version != "SPDX-2.3" || d.Creation.Created != "2023-11-14T22:13:20Z" || !strings.HasPrefix(d.Namespace,
		"https://") {
		t.Errorf("%+v", d)
	}
}

// TestInstallScript: install.sh takes what it promises, refuses a directory that it did not make, removes what a newer
// version no longer has, and uninstall.sh removes all of it and nothing else.
func TestInstallScript(t *testing.T) {
	source := t.TempDir()
	tarball := func(version string, files ...string) string {
		dir := filepath.Join(source, version)
		for _, name := range append(files, "bin/ropeway", "set_env.sh", "include/acl/acl.h", "share/ropeway/VERSION") {
			path := filepath.Join(dir, "toolkit", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(version+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, to := range map[string]string{"install.sh": "install.sh", "copy.sh": "copy.sh",
			"uninstall.sh": "toolkit/uninstall.sh"} {
			text, err := os.ReadFile("../" + name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, to), text, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	prefix, bin := filepath.Join(t.TempDir(), "a place", "ropeway"), filepath.Join(t.TempDir(), "bin")
	run := func(want bool, name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if (err == nil) != want {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	there := func(name string) bool { _, err := os.Lstat(name); return err == nil }
	old, next := tarball("0.9.0", "lib64/gone.so"), tarball("1.0.0", "lib64/new.so")
	run(true, old+"/install.sh", "--prefix", prefix, "--bin", bin)
	if out := run(true, next+"/install.sh", "--prefix="+prefix); !strings.Contains(out, "ropeway 1.0.0 is in "+prefix) {
		t.Error(out)
	}
	if there(prefix+"/lib64/gone.so") || !there(prefix+"/lib64/new.so") {
		t.Error("upgrading does not make it what the new version is")
	}
	run(false, next+"/install.sh", "--nosuch")
	run(false, next+"/install.sh", "--prefix")
	run(false, next+"/install.sh", "--prefix", source) // has other files in it
	if err := os.WriteFile(prefix+"/lib64/mine", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := run(true, prefix+"/uninstall.sh"); !strings.Contains(out, "has other files in it") ||
		there(prefix+"/bin") || !there(prefix+"/lib64/mine") || there(bin+"/ropeway") {
		t.Errorf("uninstalling beside a file of the user's: %s", out)
	}
	if err := os.RemoveAll(prefix); err != nil {
		t.Fatal(err)
	}
	run(true, next+"/install.sh", "--prefix", prefix)
	run(true, prefix+"/uninstall.sh")
	if there(prefix) {
		t.Error("something is left")
	}
}
