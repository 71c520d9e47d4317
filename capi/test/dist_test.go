package capitest

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// cpus is how the toolkit's folders name the processors that Go names.
var cpus = map[string]string{"amd64": "x86_64-linux", "arm64": "aarch64-linux"}

// makes runs make in the repository.
func makes(t *testing.T, args ...string) (string, error) {
	t.Helper()
	testenv.Need(t, "make")
	out, err := exec.Command("make", append([]string{"-C", root, "--no-print-directory"}, args...)...).CombinedOutput()
	return string(out), err
}

// copied has the script that puts toolkits in place make "to" like "from".
func copied(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command(root+"/tools/packaging/copy.sh", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy.sh: %v\n%s", err, out)
	}
}

// entry is what a name in a tree stands for.
type entry struct {
	mode   fs.FileMode
	target string // of a link
	inode  uint64
	time   int64
}

// tree lists everything below dir.
func tree(t *testing.T, dir string) map[string]entry {
	t.Helper()
	found := map[string]entry{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{mode: info.Mode(), inode: info.Sys().(*syscall.Stat_t).Ino, time: info.ModTime().UnixNano()}
		if e.mode.Type() == fs.ModeSymlink {
			e.target, err = os.Readlink(path)
		}
		rel, _ := filepath.Rel(dir, path)
		found[rel] = e
		return err
	})
	testenv.OK(t, err)
	return found
}

// names are the sorted names of a tree.
func names(tree map[string]entry) []string {
	var list []string
	for name := range tree {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// wantLayout fails the test if dir is not a toolkit for a processor: everything that builds look for, and nothing else.
func wantLayout(t *testing.T, dir, arch string) {
	t.Helper()
	cpu := cpus[arch]
	want := map[string]string{ // mode, or the link's target
		"bin": "drwxr-xr-x", "bin/ropeway": "-rwxr-xr-x",
		"include": "drwxr-xr-x", "lib64": "drwxr-xr-x",
		"lib64/libascendcl.so": "-rwxr-xr-x", "lib64/libropeway_core.so": "-rwxr-xr-x",
		"lib64/libropeway_check.so": "-rwxr-xr-x",
		"lib64/pkgconfig":           "drwxr-xr-x", "lib64/pkgconfig/ascendcl.pc": "-rw-r--r--",
		"lib64/pkgconfig/ropeway.pc":                 "-rw-r--r--",
		"lib64/cmake/AscendCL/AscendCLRopeway.cmake": "-rw-r--r--",
		"set_env.sh": "-rw-r--r--", cpu: "drwxr-xr-x", cpu + "/include": "../include", cpu + "/lib64": "../lib64",
		cpu + "/bin": "../bin", cpu + "/devlib": "../devlib", cpu + "/ascend_toolkit_install.info": "-rw-r--r--",
		"bin/setenv.bash": "../set_env.sh", "lib64/cmake": "drwxr-xr-x", "lib64/cmake/AscendCL": "drwxr-xr-x",
		"lib64/cmake/AscendCL/AscendCLConfig.cmake":        "-rw-r--r--",
		"lib64/cmake/AscendCL/AscendCLConfigVersion.cmake": "-rw-r--r--",
		"share/cmake": "drwxr-xr-x", "share/cmake/AscendCL": "../../lib64/cmake/AscendCL", "share/info": "drwxr-xr-x",
		"share/info/runtime": "drwxr-xr-x", "share/info/runtime/version.info": "-rw-r--r--",
		"share/info/runtime/scene.info": "-rw-r--r--",
		// where older builds look
		"acllib": "drwxr-xr-x", "acllib/include": "../include", "acllib/lib64": "../lib64",
		"runtime": "drwxr-xr-x", "runtime/include": "../include", "runtime/lib64": "../lib64",
		"toolkit": "drwxr-xr-x", "toolkit/include": "../include", "toolkit/lib64": "../lib64",
		"runtime/version.info": "../share/info/runtime/version.info", "lib64/stub": "drwxr-xr-x",
		"devlib":       "drwxr-xr-x",
		"devlib/linux": "drwxr-xr-x", "devlib/linux/" + strings.TrimSuffix(cpu, "-linux"): "../../lib64",
	}
	for _, name := range append([]string{"ascendcl"}, also...) {
		file := "lib" + name + ".so"
		if name != "ascendcl" {
			want["lib64/"+file] = "libascendcl.so"
		}
		want["lib64/stub/"+file], want["devlib/"+file] = "../libascendcl.so", "../lib64/libascendcl.so"
	}
	for name, e := range tree(t, headerDir) {
		want["include/"+name] = map[bool]string{true: "drwxr-xr-x", false: "-rw-r--r--"}[e.mode.IsDir()]
	}
	want["share"], want["share/man"] = "drwxr-xr-x", "drwxr-xr-x"
	for name, e := range tree(t, root+"/tools/packaging/man") {
		want["share/man/"+name] = map[bool]string{true: "drwxr-xr-x", false: "-rw-r--r--"}[e.mode.IsDir()]
	}
	const packages = "python/site-packages"
	want["python"], want[packages] = "drwxr-xr-x", "drwxr-xr-x"
	want[packages+"/acl"] = "drwxr-xr-x"
	want[packages+"/ropeway_pytest.py"], want[packages+"/ropeway_jupyter.py"] = "-rw-r--r--", "-rw-r--r--"
	for name := range tree(t, root+"/python/acl") {
		if ext := filepath.Ext(name); ext == ".py" || ext == ".pyi" || ext == ".typed" {
			want[packages+"/acl/"+name] = "-rw-r--r--"
		}
	}
	want[packages+"/acl/_fast.abi3.so"] = "-rwxr-xr-x"
	found := tree(t, dir)
	delete(found, ".inputs") // of make dist, which a release does not have
	for name, is := range want {
		e, ok := found[name]
		if got := e.mode.String(); !ok || got != is && e.target != is {
			t.Errorf("%s: %s %s, want %s", name, got, e.target, is)
		}
		delete(found, name)
	}
	if len(found) > 0 {
		t.Errorf("nobody expects %v", names(found))
	}
	if _, err := os.Stat(filepath.Join(dir, cpu, "lib64/libacl_rt.so")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"bin/ropeway", "lib64/libascendcl.so",
		"lib64/libropeway_core.so", "lib64/libropeway_check.so"} {
		f, err := elf.Open(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
			t.Errorf("%s is for %v, want %v", name, f.Machine, want)
		}
		f.Close()
	}
}

// TestDistLayout proves that make dist writes what builds look for, in the layout of the vendor's toolkit.
func TestDistLayout(t *testing.T) {
	wantLayout(t, toolkit(t), runtime.GOARCH)
}

// TestCopyReplaces proves how the toolkit is put in place: a file in use stays whole, what is the same stays, headers
// that are gone are removed, and what is not ours is left alone.
func TestCopyReplaces(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	write := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		testenv.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testenv.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(from, "lib64/lib.so", "old")
	write(from, "include/acl/same.h", "same")
	write(from, "include/acl/gone.h", "gone")
	testenv.OK(t, os.Symlink("lib.so", filepath.Join(from, "lib64/link.so")))
	copied(t, from, to)
	first := tree(t, to)

	inUse, err := os.Open(filepath.Join(to, "lib64/lib.so"))
	testenv.OK(t, err)
	defer inUse.Close()
	write(to, "lib64/theirs.so", "theirs")
	write(from, "lib64/lib.so", "new, and longer")
	os.Remove(filepath.Join(from, "include/acl/gone.h"))
	os.Remove(filepath.Join(from, "lib64/link.so"))
	testenv.OK(t, os.Symlink("other.so", filepath.Join(from, "lib64/link.so")))
	copied(t, from, to)
	second := tree(t, to)

	text := make([]byte, 64)
	if n, _ := inUse.Read(text); string(text[:n]) != "old" {
		t.Errorf("a program that uses the old file reads %q", text[:n])
	}
	if data, _ := os.ReadFile(filepath.Join(to, "lib64/lib.so")); string(data) != "new, and longer" {
		t.Errorf("the new file has %q", data)
	}
	if first["include/acl/same.h"] != second["include/acl/same.h"] {
		t.Error("a file that was the same was touched")
	}
	if got := second["lib64/link.so"].target; got != "other.so" {
		t.Errorf("the link goes to %s", got)
	}
	want := []string{"include", "include/acl", "include/acl/same.h", "lib64", "lib64/lib.so", "lib64/link.so",
		"lib64/theirs.so"}
	if got := names(second); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestInstallAndMove proves that make install wants to know where, puts DESTDIR before it and remembers neither, copes
// with spaces, and that the toolkit works where it is moved to: by set_env.sh, and by a path in the program. The make
// dist in it is the second into its directory, and leaves every file alone.
func TestInstallAndMove(t *testing.T) {
	kit := t.TempDir()
	copied(t, toolkit(t), kit) // others use it meanwhile
	stamp, err := os.ReadFile(toolkit(t) + "/.inputs")
	testenv.OK(t, err)
	testenv.OK(t, os.WriteFile(kit+"/.inputs", stamp, 0o644))
	if out, err := makes(t, "install", "DIST="+kit); err == nil || !strings.Contains(out, "PREFIX=") {
		t.Errorf("without PREFIX: %v\n%s", err, out)
	}
	before := tree(t, kit)
	stage, prefix := t.TempDir(), "/a place  with spaces/kit"
	if out, err := makes(t, "install", "DIST="+kit, "DESTDIR="+stage, "PREFIX="+prefix); err != nil {
		t.Fatalf("make install: %v\n%s", err, out)
	}
	after := tree(t, kit)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(names(before), names(after)...)))) {
		if before[name] != after[name] {
			t.Errorf("%s: %+v, and after another make dist %+v", name, before[name], after[name])
		}
	}
	dir := stage + prefix
	wantLayout(t, dir, runtime.GOARCH)
	for name, e := range tree(t, dir) {
		if !e.mode.IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		testenv.OK(t, err)
		for _, path := range []string{stage, prefix, kit, toolkit(t)} {
			if strings.Contains(string(data), path) {
				t.Errorf("%s has %s in it", name, path)
			}
		}
	}

	smoke, err := filepath.Abs("testdata/smoke.c")
	testenv.OK(t, err)
	build := exec.Command("sh", "-euc", `. ./set_env.sh; gcc -I"$ASCEND_HOME_PATH/include" -o smoke "$1" \
		-L"$ASCEND_TOOLKIT_HOME/$2/lib64" -lascendcl -Wl,-rpath,'$ORIGIN/lib64'`, "sh", smoke, cpus[runtime.GOARCH])
	build.Dir, build.Env = dir, cleanEnv()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	testenv.OK(t, os.Rename(dir, moved))
	passes(t, nil, filepath.Join(moved, "smoke")) // finds lib64 beside itself
	away := filepath.Join(t.TempDir(), "smoke")
	testenv.OK(t, os.Rename(filepath.Join(moved, "smoke"), away))
	if r := run(t, nil, away); r.code == 0 {
		t.Error("the program runs without a toolkit: what follows proves nothing")
	}
	passes(t, nil, "sh", "-euc", `. "$1"/set_env.sh; exec "$2"`, "sh", moved, away)
}

// TestPkgConfig proves that what pkg-config says is enough to build a program, wherever the toolkit lies, and that its
// version is that of the headers.
func TestPkgConfig(t *testing.T) {
	testenv.Need(t, "pkg-config")
	dir := filepath.Join(t.TempDir(), "a place  with spaces", "kit")
	copied(t, toolkit(t), dir)
	env := []string{"PKG_CONFIG_PATH=" + dir + "/lib64/pkgconfig"}
	program := filepath.Join(t.TempDir(), "smoke")
	passes(t, env, "sh", "-euc", `eval gcc -o "$1" testdata/smoke.c $(pkg-config --cflags --libs ascendcl)`, "sh",
		program)
	passes(t, []string{"LD_LIBRARY_PATH=" + dir + "/lib64"}, program)

	header, err := os.ReadFile(dir + "/include/acl/acl_rt.h")
	testenv.OK(t, err)
	var want []string
	for _, part := range []string{"MAJOR", "MINOR", "PATCH"} {
		m := regexp.MustCompile(`#define ACL_` + part + `_VERSION\s+(\d+)`).FindSubmatch(header)
		if m == nil {
			t.Fatalf("acl_rt.h has no ACL_%s_VERSION", part)
		}
		want = append(want, string(m[1]))
	}
	if got := strings.TrimSpace(passes(t, env, "pkg-config", "--modversion", "ascendcl")); got != strings.Join(want,
		".") {
		t.Errorf("version %s, in the headers %v", got, want)
	}
}

// oldestGlibc is the second number of the oldest glibc 2 that has everything a library asks for.
func oldestGlibc(t *testing.T, library string) int {
	t.Helper()
	f, err := elf.Open(library)
	testenv.OK(t, err)
	defer f.Close()
	needs, err := f.DynamicVersionNeeds()
	testenv.OK(t, err)
	oldest := 0
	for _, need := range needs {
		for _, version := range need.Needs {
			if text, ok := strings.CutPrefix(version.Dep, "GLIBC_2."); ok {
				minor, _, _ := strings.Cut(text, ".")
				n, err := strconv.Atoi(minor)
				if err != nil {
					t.Fatalf("%s: %s", library, version.Dep)
				}
				oldest = max(oldest, n)
			}
		}
	}
	if oldest == 0 {
		t.Fatalf("%s asks nothing of glibc", library)
	}
	return oldest
}

// wantGlibc fails the test if a toolkit needs another glibc than the README says. One that was built with an older
// glibc may need less.
func wantGlibc(t *testing.T, dir string) {
	t.Helper()
	readme, err := os.ReadFile(root + "/README.md")
	testenv.OK(t, err)
	said := regexp.MustCompile(`glibc 2\.(\d+) or later`).FindAllSubmatch(readme, -1)
	if len(said) != 1 {
		t.Fatalf("README.md says %d times which glibc is needed, want once", len(said))
	}
	want, _ := strconv.Atoi(string(said[0][1]))
	got := max(oldestGlibc(t, dir+"/lib64/libascendcl.so"), oldestGlibc(t, dir+"/lib64/libropeway_core.so"),
		oldestGlibc(t, dir+"/lib64/libropeway_check.so"))
	if got > want || got < want && testenv.CI() {
		t.Errorf("the libraries need glibc 2.%d, README.md says 2.%d", got, want)
	}
}

// TestOldestGlibc proves the README's line on glibc from what the libraries ask the loader for.
func TestOldestGlibc(t *testing.T) {
	wantGlibc(t, toolkit(t))
}

// TestArm64 proves that the toolkit is built for arm64 too, and that a program for arm64 runs with it, in qemu. The
// tests of the core run there with make test-arm64.
func TestArm64(t *testing.T) {
	if runtime.GOARCH == "arm64" {
		t.Skip("on arm64 every other test shows it")
	}
	testenv.Long(t, "it builds everything once more")
	const cc, qemu = "aarch64-linux-gnu-gcc", "qemu-aarch64"
	testenv.Need(t, cc)
	testenv.Need(t, qemu)
	dir := t.TempDir()
	if out, err := makes(t, "dist-arm64", "DIST="+dir); err != nil {
		t.Fatalf("make dist-arm64: %v\n%s", err, out)
	}
	wantLayout(t, dir, "arm64")
	wantGlibc(t, dir)
	program := filepath.Join(t.TempDir(), "smoke")
	out, err := exec.Command(cc, "-I"+dir+"/aarch64-linux/include", "-o", program, "testdata/smoke.c",
		"-L"+dir+"/aarch64-linux/lib64", "-lascendcl", "-Wl,-rpath,"+dir+"/lib64").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// qemu keeps account of every page of address space, so a small device starts sooner.
	passes(t, []string{"ROPEWAY_DEVICE_MEMORY=1GiB"}, qemu, "-L", "/usr/aarch64-linux-gnu", program)
	if got := passes(t, nil, qemu, "-L", "/usr/aarch64-linux-gnu", filepath.Join(dir, "bin/ropeway"),
		"version"); !strings.Contains(got, "linux/arm64") {
		t.Errorf("ropeway version: %s", got)
	}
}
