package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

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

// TestPackages: dpkg and rpm read what is written, the same bytes come out again, files belong to root, and what the
// owner has not filled in is not there.
func TestPackages(t *testing.T) {
	t.Chdir("../../..")
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	r := release{version: "1.2.3", date: time.Unix(1700000000, 0).UTC(), work: t.TempDir()}
	values := map[string]string{"VERSION": "1.2.3", "ARCH": "arm64", "GLIBC": "2.18",
		"MAINTAINER": "A B <a@ropeway.test>"}
	write := func(recipe, format string) string {
		command := tree{}
		share(processors[1], small(), command, tree{}, tree{})
		name, content, err := r.pack(recipe, format, command, values)
		if err != nil {
			t.Fatal(err)
		}
		r.out = t.TempDir()
		if err := r.write(name, content); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(r.out, name)
	}
	same := func(a, b string) {
		t.Helper()
		one, err := os.ReadFile(a)
		other, err2 := os.ReadFile(b)
		if err != nil || err2 != nil || !bytes.Equal(one, other) {
			t.Errorf("%s has other bytes the second time: %v %v", filepath.Base(a), err, err2)
		}
	}
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%q is missing:\n%s", w, text)
			}
		}
	}
	ask := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "TZ=UTC", "LC_ALL=C")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	deb, rpm := write("ropeway", "deb"), write("ropeway-rpm", "rpm")
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // dates have seconds
	same(deb, write("ropeway", "deb"))
	same(rpm, write("ropeway-rpm", "rpm"))

	testenv.Need(t, "dpkg-deb")
	about := ask("dpkg-deb", "--info", deb)
	has(about, "Package: ropeway", "Version: 1.2.3-0ropeway1", "Architecture: arm64", "Depends: libc6 (>= 2.18)",
		"Maintainer: A B <a@ropeway.test>", "postinst")
	if strings.Contains(about, "Homepage") || strings.Contains(about, "example") {
		t.Errorf("invented:\n%s", about)
	}
	has(ask("dpkg-deb", "--contents", deb), "drwxr-xr-x root/root         0 2023-11-14 22:13 ./\n",
		"-rwxr-xr-x root/root", "./usr/lib/ropeway/bin/ropeway",
		"./usr/bin/ropeway -> ../lib/ropeway/bin/ropeway", "./usr/share/doc/ropeway/examples/c/async_copy.c")
	has(ask("sh", "-euc", `dpkg-deb --ctrl-tarfile "$1" | tar -xO ./postinst`, "sh", deb), "aarch64-linux-gnu")

	testenv.Need(t, "rpm")
	has(ask("rpm", "-qip", rpm), "Name        : ropeway", "Version     : 1.2.3", "Architecture: aarch64",
		"Apache-2.0")
	has(ask("rpm", "-qp", "--requires", rpm), "glibc >= 2.18")
	has(ask("rpm", "-qlvp", rpm), "-rwxr-xr-x", "root     root", "/usr/lib/ropeway/bin/ropeway", "Nov 14  2023",
		" /usr/share/doc/ropeway\n")
	has(ask("rpm", "-qp", "--scripts", rpm), "rm -rf /usr/lib/ropeway/python/site-packages/__pycache__")
	has(ask("rpm", "-Kv", rpm), "Payload SHA256 digest: OK")
}

// TestCheckOut: a release is made of what the commit has, not of what lies beside it, and of nothing while a file
// differs from the commit.
func TestCheckOut(t *testing.T) {
	testenv.Need(t, "git")
	repo := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		as := []string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@b"}
		cmd := exec.Command("git", append(as, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd, err, out)
		}
	}
	for _, name := range []string{"LICENSE", "NOTICE", "CHANGELOG.md", "tools/packaging/install.sh",
		"tools/packaging/copy.sh", "tools/packaging/README.tarball", "tools/packaging/uninstall.sh",
		"examples/c/copy.c", "examples/cpp/copy.cc",
		"examples/cmake/CMakeLists.txt", "examples/python/copy.py"} {
		put(name, name)
	}
	put("VERSION", "1.2.3\n")
	put("CITATION.cff", "url: https://ropeway.test\ncontact: [{name: A B, email: a@ropeway.test}]\n")
	put(".gitignore", "ignored\n")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "all", "--date", "2023-11-14T22:13:20Z")
	put("examples/c/copy", "built")
	put("examples/python/__pycache__/ignored", "built")

	r := release{work: t.TempDir(), out: t.TempDir()}
	source := t.TempDir()
	if err := r.checkOut(repo, source); err != nil {
		t.Fatal(err)
	}
	t.Chdir(source)
	if err := r.describe(); err != nil {
		t.Fatal(err)
	}
	if got := r.about.maintainer() + " " + r.about.homepage(); got != "A B <a@ropeway.test> https://ropeway.test" {
		t.Errorf("of CITATION.cff it takes %q", got)
	}
	if err := r.writeTarball(processors[0], small()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tar", "-tf", filepath.Join(r.out, "ropeway-1.2.3-linux-amd64.tar.gz")).Output()
	if err != nil || !strings.Contains(string(out), "/examples/c/copy.c\n") ||
		strings.Contains(string(out), "/copy\n") || strings.Contains(string(out), "ignored") {
		t.Errorf("%v\n%s", err, out)
	}

	put("examples/c/copy.c", "changed")
	if err := r.checkOut(repo, t.TempDir()); err == nil || !strings.Contains(err.Error(), "examples/c/copy.c") {
		t.Errorf("a changed file: %v", err)
	}
	git("add", ".")
	if err := r.checkOut(repo, t.TempDir()); err == nil || !strings.Contains(err.Error(), "examples/c/copy\n") {
		t.Errorf("a staged file: %v", err)
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
	lock, err := os.ReadFile("../../../web/report/package-lock.json")
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
	files := []*spdx.File{{FileSPDXIdentifier: spdxID("File", "a.deb"), FileName: "./a.deb",
		Checksums: []common.Checksum{{Algorithm: common.SHA256, Value: strings.Repeat("0", 64)}}}}
	text, err := sbom("1.2.3", "abc", time.Unix(1700000000, 0).UTC(),
		append(scripts, bundled{"x/y", "v1", "pkg:golang/x/y@v1", "MIT"}), files)
	if err != nil {
		t.Fatal(err)
	}
	d, err := spdxjson.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	known := map[common.ElementID]bool{d.SPDXIdentifier: true, d.Files[0].FileSPDXIdentifier: true}
	for _, p := range d.Packages {
		id := p.PackageSPDXIdentifier
		if known[id] || p.PackageLicenseDeclared == "" || p.PackageDownloadLocation == "" || p.PackageName == "" {
			t.Errorf("%+v", p)
		}
		known[id] = true
	}
	for _, r := range d.Relationships {
		if !known[r.RefA.ElementRefID] || !known[r.RefB.ElementRefID] {
			t.Errorf("%+v leads nowhere", r)
		}
	}
	if d.SPDXVersion != "SPDX-2.3" || d.CreationInfo.Created != "2023-11-14T22:13:20Z" ||
		!strings.HasPrefix(d.DocumentNamespace, "https://") || len(d.Packages) != len(scripts)+2 {
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
