package capitest

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// also are the names of the library besides libascendcl.so.
var also = []string{
	"acl_rt", "acl_rt_impl", "runtime", "acl_tdt_channel", "acl_tdt_queue", "msprofiler", "profapi",
	"acl_prof", "ascend_dump",
	"platform",
}

// TestSampleBuilds proves that builds in the style of the vendor's samples find the toolkit: they source
// bin/setenv.bash, read version.info, compile with the directories and link by the names and paths that such samples
// use. What they build runs.
func TestSampleBuilds(t *testing.T) {
	for name, want := range map[string]int{"script": 1, "names": 10, "paths": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range []string{"bash", "g++", "cmake", "make"} {
				testenv.Need(t, tool)
			}
			dir := copyTree(t, "capi/test/testdata/builds")
			out := command(t, filepath.Join(dir, name), []string{"ASCEND_INSTALL_PATH=" + toolkit(t)}, "bash", "run.sh")
			if got := strings.Count(out, "[SUCCESS]"); got != want {
				t.Errorf("%d programs of %d succeed\n%s", got, want, out)
			}
		})
	}
}

// TestLinkNames proves that a program which links the library by any of its names, in any of the directories for that,
// runs with that name's part of the API and one library: a program that names several has it once.
func TestLinkNames(t *testing.T) {
	testenv.Need(t, "g++") // as gcc -xc++ does
	t.Parallel()
	kit := toolkit(t)
	object := filepath.Join(t.TempDir(), "main.o")
	command(t, "testdata/builds", nil, "gcc", "-xc++", "-DPARTS", "-c", "main.cpp", "-o", object, "-I"+kit+"/include")
	arch := strings.TrimSuffix(cpus[runtime.GOARCH], "-linux")
	for _, folder := range []string{"lib64", "lib64/stub", "devlib", "devlib/linux/" + arch} {
		all := []string{}
		for _, name := range append([]string{"ascendcl"}, also...) {
			all = append(all, "-l"+name)
		}
		for _, names := range [][]string{{"-lascendcl"}, {"-lmsprofiler"}, {"-lacl_tdt_queue"}, all} {
			program := filepath.Join(t.TempDir(), "main")
			args := append([]string{"-o", program, object, "-L" + filepath.Join(kit, folder), "-Wl,--no-as-needed"},
				names...)
			command(t, ".", nil, "g++", args...)
			// Run with what was linked with, as programs do that have no other library.
			env := []string{"LD_LIBRARY_PATH=" + filepath.Join(kit, folder)}
			out := passes(t, env, "sh", "-c", `"$1" && ldd "$1"`, "sh", program)
			if !strings.Contains(out, "[SUCCESS]") || strings.Count(out, "libascendcl.so => ") != 1 {
				t.Errorf("%s, %v:\n%s", folder, names, out)
			}
		}
	}
}

// TestNeededByAnotherName proves that a program built against a toolkit where the parts are libraries of their own,
// each with its own name inside, finds all of them here, as one library with one state.
func TestNeededByAnotherName(t *testing.T) {
	t.Parallel()
	kit, dir := toolkit(t), t.TempDir()
	main, err := os.ReadFile("testdata/builds/main.cpp")
	testenv.OK(t, err)
	functions := ""
	calls := regexp.MustCompile(`\bacl\w+\(`).FindAllString(string(main), -1)
	slices.Sort(calls)
	for _, call := range slices.Compact(calls) {
		functions += "int " + call + "void) { return 1; }\n"
	}
	var link []string
	for _, name := range also { // libraries with names of their own, to link with
		stub := filepath.Join(dir, "lib"+name+".so")
		source := file(t, "stub.c", functions)
		command(t, ".", nil, "gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,lib"+name+".so", "-o", stub, source)
		link = append(link, stub)
	}
	program := filepath.Join(t.TempDir(), "main")
	args := []string{"-DPARTS", "-o", program, "testdata/builds/main.cpp", "-I" + kit + "/include",
		"-Wl,--no-as-needed"}
	args = append(args, link...)
	command(t, ".", nil, "g++", args...)
	binary, err := elf.Open(program)
	testenv.OK(t, err)
	defer binary.Close()
	needed, err := binary.ImportedLibraries()
	for _, name := range also {
		if err != nil || !slices.Contains(needed, "lib"+name+".so") {
			t.Errorf("the program needs %v, not lib%s.so: what follows proves nothing (%v)", needed, name, err)
		}
	}
	out := passes(t, []string{"LD_LIBRARY_PATH=" + kit + "/lib64"}, "sh", "-c", `"$1" && ldd "$1"`, "sh", program)
	once := strings.Count(out, kit+"/lib64/lib") == 1
	if !strings.Contains(out, "[SUCCESS]") || !once || strings.Contains(out, "not found") {
		t.Errorf("the parts are not one library of the toolkit:\n%s", out)
	}
}

// TestVersionInfo proves that the files with a version agree with each other, with the page that explains them, and
// with what the library returns.
func TestVersionInfo(t *testing.T) {
	t.Parallel()
	kit := toolkit(t)
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(kit, name))
		testenv.OK(t, err)
		return string(data)
	}
	text := read("share/info/runtime/version.info")
	m := regexp.MustCompile(`^Version=((\d+)\.(\d+)\.(\d+))\n$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("version.info is %q", text)
	}
	page, err := os.ReadFile(root + "/docs/toolkit.md")
	testenv.OK(t, err)
	api := strings.TrimSpace(passes(t, nil, "sed", "-n", "s/^Version: //p", kit+"/lib64/pkgconfig/ascendcl.pc"))
	if text := string(page); !strings.Contains(text, "**"+m[1]+"**") || !strings.Contains(text, "**"+api+"**") {
		t.Errorf("docs/toolkit.md explains other versions than %s and %s", m[1], api)
	}
	if read("runtime/version.info") != m[0] {
		t.Error("runtime/version.info is another one")
	}
	cpu := cpus[runtime.GOARCH]
	if info := read(cpu + "/ascend_toolkit_install.info"); !strings.Contains(info, "version="+m[1]+"\n") {
		t.Errorf("ascend_toolkit_install.info is %q", info)
	}
	if info := read("share/info/runtime/scene.info"); info != "os=linux\nos_version=\narch="+strings.TrimSuffix(cpu,
		"-linux")+"\n" {
		t.Errorf("scene.info is %q", info)
	}
	source := fmt.Sprintf(`#include <acl/acl.h>
#include <stdio.h>
#include <string.h>
#include <version/cann_version.h>
#include <version/runtime_version.h>
int main(void)
{
	char text[128] = "";
	int32_t number = 0;
	if (aclsysGetVersionStr("runtime", text) || aclsysGetVersionNum("runtime", &number))
		return 1;
	if (CANN_MAJOR != %[2]s || CANN_MINOR != %[3]s || CANN_PATCH != %[4]s || CANN_VERSION_NUM != RUNTIME_VERSION_NUM)
		return 2;
	if (strcmp(text, "%[1]s") || strcmp(text, CANN_VERSION_STR) || strcmp(text, RUNTIME_VERSION_STR))
		return 3;
	return number == CANN_VERSION_NUM ? 0 : 4;
}
`, m[1], m[2], m[3], m[4])
	program := filepath.Join(t.TempDir(), "version")
	buildC(t, "gcc", program, []string{file(t, "version.c", source)}, "-I"+kit+"/include",
		"-L"+kit+"/lib64", "-lascendcl")
	passes(t, nil, "bash", "-c", `source "$1/bin/setenv.bash" && "$2"`, "bash", kit, program)
}

// cmakeProject is a project that uses the package in each way.
const cmakeProject = `cmake_minimum_required(VERSION 3.16)
project(found LANGUAGES CXX)
find_package(AscendCL %s)
if(NOT AscendCL_FOUND)
    message(STATUS "not found: ${AscendCL_NOT_FOUND_MESSAGE}")
    return()
endif()
message(STATUS "home ${AscendCL_HOME} version ${AscendCL_VERSION} includes ${AscendCL_INCLUDE_DIRS}")
foreach(name ascendcl acl_rt msprofiler)
    add_executable(main_${name} main.cpp)
    target_link_libraries(main_${name} PRIVATE AscendCL::${name})
endforeach()
add_executable(main_plain main.cpp)
target_link_libraries(main_plain PRIVATE ${AscendCL_LIBRARIES})
find_package(AscendCL REQUIRED) # a second time
enable_testing()
add_test(NAME plain COMMAND main_plain)
add_test(NAME part COMMAND main_msprofiler)
`

// configured writes the project with arguments of find_package and configures it.
func configured(t *testing.T, arguments string, env []string, flags ...string) (dir, out string) {
	t.Helper()
	testenv.Need(t, "cmake")
	testenv.Need(t, "g++")
	dir = copyTree(t, "capi/test/testdata/builds")
	if err := os.WriteFile(filepath.Join(dir, "CMakeLists.txt"), fmt.Appendf(nil, cmakeProject, arguments),
		0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cmake", append([]string{"-S", ".", "-B", "build"}, flags...)...)
	cmd.Dir, cmd.Env = dir, append(cleanEnv(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(arguments, "REQUIRED") {
		t.Errorf("cmake %v: %v", flags, err)
	}
	return dir, string(text)
}

// TestCMakePackage proves that find_package(AscendCL) finds the toolkit in each way that CMake has, wherever the
// toolkit was moved to, that what it defines builds programs which run, and that it refuses versions and components
// that are not there.
func TestCMakePackage(t *testing.T) {
	t.Parallel()
	kit := filepath.Join(t.TempDir(), "a place  with spaces", "kit")
	copied(t, toolkit(t), kit)
	version := strings.TrimSpace(passes(t, nil, "sed", "-n", "s/^Version: //p", kit+"/lib64/pkgconfig/ascendcl.pc"))

	for _, tt := range []struct {
		name, arguments string
		env, flags      []string
	}{
		{name: "set_env.sh", arguments: "REQUIRED"},
		{name: "prefix in the environment", arguments: "REQUIRED", env: []string{"CMAKE_PREFIX_PATH=" + kit}},
		{name: "prefix", arguments: "1.0 REQUIRED", flags: []string{"-DCMAKE_PREFIX_PATH=" + kit}},
		{name: "root", arguments: "1.17 REQUIRED COMPONENTS acl_rt msprofiler",
			flags: []string{"-DAscendCL_ROOT=" + kit}},
		{name: "directory", arguments: version + " EXACT REQUIRED", flags: []string{"-DAscendCL_DIR=" + kit +
			"/lib64/cmake/AscendCL"}},
		{name: "hint", arguments: `REQUIRED HINTS "$ENV{ASCEND_HOME_PATH}"`, env: []string{"ASCEND_HOME_PATH=" + kit}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "set_env.sh" {
				vars, err := shellRun(t, []string{"bash"}, "/", `. "$1/set_env.sh"`, nil, kit)
				testenv.OK(t, err)
				tt.env = []string{"CMAKE_PREFIX_PATH=" + vars["CMAKE_PREFIX_PATH"]}
			}
			dir, out := configured(t, tt.arguments, tt.env, tt.flags...)
			if !strings.Contains(out, "home "+kit+" version "+version+" includes "+kit+"/include\n") {
				t.Fatalf("finds another toolkit or none:\n%s", out)
			}
			if tt.name == "root" { // the others would build the same
				command(t, dir, nil, "cmake", "--build", "build")
				out := command(t, dir, nil, "ctest", "--test-dir", "build")
				if !regexp.MustCompile(`100% tests passed.* out of 2\b`).MatchString(out) {
					t.Error(out)
				}
			}
		})
	}
	for _, tt := range []struct{ name, arguments, says string }{
		{"later version", "1.999", "1.999"},
		{"other first number", "2", "2"},
		{"not exact", "1.16.0 EXACT", "1.16.0"},
		{"unknown component", "COMPONENTS acl_rt opapi", "opapi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, out := configured(t, tt.arguments+` HINTS "$ENV{ASCEND_HOME_PATH}"`, []string{"ASCEND_HOME_PATH=" + kit})
			if !strings.Contains(out, "not found: ") || !strings.Contains(out, tt.says) {
				t.Errorf("is found, or does not say what is missing:\n%s", out)
			}
		})
	}
}

// otherToolkit are the lines of docs/howto-cmake.md for toolkits without a package.
const otherToolkit = `
find_package(AscendCL QUIET)
if(NOT AscendCL_FOUND)
    add_library(AscendCL::ascendcl SHARED IMPORTED)
    set_target_properties(AscendCL::ascendcl PROPERTIES
        IMPORTED_LOCATION "$ENV{ASCEND_HOME_PATH}/lib64/libascendcl.so"
        INTERFACE_INCLUDE_DIRECTORIES "$ENV{ASCEND_HOME_PATH}/include")
endif()
`

// TestCMakeOtherToolkit proves these lines with a toolkit that has lost its package, and with one that has it.
func TestCMakeOtherToolkit(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "cmake")
	kit, bare := toolkit(t), t.TempDir()
	copied(t, kit, bare)
	for _, folder := range []string{"lib64/cmake", "share/cmake"} {
		testenv.OK(t, os.RemoveAll(filepath.Join(bare, folder)))
	}
	for _, home := range []string{bare, kit} {
		dir := copyTree(t, "capi/test/testdata/builds")
		project := "cmake_minimum_required(VERSION 3.16)\nproject(other LANGUAGES CXX)\n" + otherToolkit +
			"add_executable(main main.cpp)\ntarget_link_libraries(main PRIVATE AscendCL::ascendcl)\n"
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "CMakeLists.txt"), []byte(project), 0o644))
		env := []string{"ASCEND_HOME_PATH=" + home, "CMAKE_PREFIX_PATH=" + home}
		command(t, dir, env, "cmake", "-S", ".", "-B", "build")
		command(t, dir, env, "cmake", "--build", "build")
		if out := passes(t, nil, filepath.Join(dir, "build/main")); !strings.Contains(out, "[SUCCESS]") {
			t.Errorf("%s: %s", home, out)
		}
	}
}

// TestNotTheRuntime proves what docs/c.md says of functions that are no part of the runtime: a program that calls one
// does not link, with the words of the page, and one that was linked elsewhere stops with the loader's words.
func TestNotTheRuntime(t *testing.T) {
	t.Parallel()
	text, _ := page(t)
	kit, dir := toolkit(t), t.TempDir()
	source := file(t, "strong.c", `#include <stdio.h>
int aclInit(const char *), aclmdlLoadFromFile(const char *, unsigned *);
int main(void)
{
	unsigned id;
	if (aclInit(NULL))
		return 2;
	puts("begins");
	fflush(stdout);
	return aclmdlLoadFromFile("model", &id);
}
`)
	link := []string{"-o", dir + "/main", source, "-L" + kit + "/lib64", "-lascendcl"}
	out, err := exec.Command("gcc", link...).CombinedOutput()
	const undefined = "undefined reference to `aclmdlLoadFromFile'"
	if err == nil || !strings.Contains(string(out), undefined) || !strings.Contains(text, "    "+undefined+"\n") {
		t.Errorf("it links, or the page has other words: %v\n%s", err, out)
	}
	command(t, ".", nil, "gcc", "-shared", "-fPIC", "-Wl,-soname,libascendcl.so", "-o", dir+"/libascendcl.so",
		file(t, "vendor.c", "int aclInit(void) { return 0; }\nint aclmdlLoadFromFile(void) { return 0; }\n"))
	for mode, begins := range map[string]bool{"lazy": true, "now": false} {
		command(t, ".", nil, "gcc", "-o", dir+"/main", source, "-L"+dir, "-lascendcl", "-Wl,-z,"+mode)
		r := run(t, []string{"LD_LIBRARY_PATH=" + kit + "/lib64"}, dir+"/main")
		says := regexp.MustCompile("symbol lookup error: .*undefined symbol: aclmdlLoadFromFile").MatchString(r.stderr)
		if r.code != 127 || !says || strings.Contains(r.stdout, "begins") != begins {
			t.Errorf("linked with -z %s: exit code %d\n%s%s", mode, r.code, r.stdout, r.stderr)
		}
	}
}
