package capitest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/testenv"
)

// examples are the programs of examples/c and examples/cpp, and all that they print.
var examples = map[string][]string{
	"async_copy": {
		"Two copies are queued: 1048576 bytes to the device, and back.",
		"", // what the host did meanwhile: see below
		"", // what came back
	},
	"batch": {
		"16 pages of 4096 bytes were copied with one call, each to its own place.",
		"Their order on the device: ahofmdkbipgnelcj",
		"A page in the wrong kind of memory is refused, with its number: 5.",
	},
	"descriptor": {
		"The descriptor names red: 4096 bytes of the target are red.",
		"The stream rewrote the descriptor: the same call copied blue.",
	},
	"two_streams": {
		"12 chunks are queued: one stream copies them to the device, the other back.",
		"All of them came back through 2 buffers, and every byte is right.",
	},
	"vector_add": {
		"Two copies, a kernel of 8 blocks and a copy back are queued.",
		"All 65536 sums are right.",
	},
	"graph": {
		"129 copies and 4 events are one model.",
		"It ran 1000 times, and every result is right.",
	},
	"callbacks": {
		"The report thread checked all 5 rounds, byte by byte.",
		"The library called its host function 5 times.",
	},
}

// examplesOf returns those of a language.
func examplesOf(language string) map[string][]string {
	all := maps.Clone(examples)
	if language == "cpp" {
		all["kernel_graph"] = []string{"48 copies, a kernel and 4 events are one model.",
			"It ran 10 times, and every sum is right."}
	}
	return all
}

// The two async_copy programs differ in what they copy: bytes and numbers.
var asyncCopy = map[string][]string{
	"c":   {"Meanwhile the host added up the bytes: 133693440.", "Every byte came back."},
	"cpp": {"Meanwhile the host computed the mean: 131072.", "Every number came back."},
}

// TestExamples builds the examples with their own Makefiles and runs each, also with launch blocking, which must change
// nothing that a program can see.
func TestExamples(t *testing.T) {
	for _, language := range []string{"c", "cpp"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel() // as nearly all tests here: they mostly compile
			kit := toolkit(t)
			if language == "cpp" {
				testenv.Need(t, "g++")
			}
			dir := copyTree(t, "examples/"+language)
			home := []string{"ASCEND_HOME_PATH=" + kit, "LD_LIBRARY_PATH=" + kit + "/lib64"}
			command(t, dir, home, "make")
			for name, lines := range examplesOf(language) {
				if (name == "vector_add" || name == "kernel_graph") && testDriver == "cuda" {
					continue // its kernel is one of the CPU; examples/gpu has the other
				}
				want := slices.Clone(lines)
				if name == "async_copy" {
					copy(want[1:], asyncCopy[language])
				}
				program := filepath.Join(dir, name)
				for _, env := range [][]string{nil, {"ASCEND_LAUNCH_BLOCKING=1"}} {
					got := passes(t, append(env, home...), program)
					if got != strings.Join(want, "\n")+"\n" {
						t.Errorf("%s %v prints\n%swant\n%s", name, env, got, strings.Join(want, "\n"))
					}
				}
			}

			// A program that cannot go on says which call failed, with which code and why, and ends with 1.
			r := run(t, append(home, "ROPEWAY_PRODUCT=310P"), filepath.Join(dir, "batch"))
			if r.code != 1 || !strings.Contains(r.stderr, "error 207000") || !strings.Contains(r.stderr,
				"310P has no batch copies") {
				t.Errorf("batch on a product without batch copies: exit code %d\n%s", r.code, r.stderr)
			}

			// Without ASCEND_HOME_PATH, pkg-config is asked.
			testenv.Need(t, "pkg-config")
			command(t, dir, []string{"PKG_CONFIG_PATH=" + kit + "/lib64/pkgconfig"}, "make", "-B", "async_copy")
			passes(t, home[1:], filepath.Join(dir, "async_copy"))
		})
	}
}

// TestExampleCMake finds the toolkit in each way that the project knows, and builds and tests with the first.
func TestExampleCMake(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "cmake")
	testenv.Need(t, "g++")
	kit := toolkit(t)
	dir := filepath.Join(copyTree(t, "examples"), "cmake")
	for i, way := range []struct{ env, flag string }{
		{env: "ASCEND_HOME_PATH=" + kit},
		{env: "ASCEND_TOOLKIT_HOME=" + kit},
		{flag: "-DASCEND_HOME_PATH=" + kit},
	} {
		build := fmt.Sprintf("build%d", i)
		out := command(t, dir, []string{way.env}, "cmake", "-S", ".", "-B", build, way.flag)
		if !strings.Contains(out, "Found AscendCL: "+kit+"/lib64/libascendcl.so (found version ") {
			t.Errorf("%+v finds another toolkit or none:\n%s", way, out)
		}
	}
	command(t, dir, nil, "cmake", "--build", "build0")
	// without LD_LIBRARY_PATH: CMake writes the path into the programs
	out := command(t, dir, nil, "ctest", "--test-dir", "build0")
	if !regexp.MustCompile(`100% tests passed.* out of 3\b`).MatchString(out) {
		// in between, CMake before 4 counts those that failed
		t.Error(out)
	}
}

// copyTree copies a directory of the repository to a temporary one.
func copyTree(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	testenv.OK(t, os.CopyFS(to, os.DirFS(filepath.Join(root, dir))))
	return to
}

// command runs a tool in a directory; it must succeed. It returns all that was printed. The test is skipped where the
// tool is missing.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	if !strings.Contains(name, "/") {
		testenv.Need(t, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(cleanEnv(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// block is a fenced block of a page: what stands after the fence, and the lines.
type block struct {
	language, file string
	text           string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)(?: ([a-z.]+))?\n(.*?)^```$")

// page is docs/c.md and its blocks.
func page(t *testing.T) (string, []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/c.md"))
	testenv.OK(t, err)
	var blocks []block
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block{m[1], m[2], m[3]})
	}
	return string(text), blocks
}

// TestPageCI runs the steps of the page's CI snippet on a project that has the page's own CTest lines in it.
func TestPageCI(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "cmake")
	testenv.Need(t, "g++")
	_, blocks := page(t)
	dir := checkout(t)
	project := filepath.Join(dir, "examples/cmake")
	testenv.OK(t, os.Symlink(dir, filepath.Join(project, "ropeway")))
	lists, err := os.OpenFile(filepath.Join(project, "CMakeLists.txt"), os.O_APPEND|os.O_WRONLY, 0)
	testenv.OK(t, err)
	defer lists.Close()
	fmt.Fprintln(lists, "add_executable(my_test ../c/batch.c)\ntarget_link_libraries(my_test AscendCL::ascendcl)")
	script := "set -eu\n"
	for _, b := range blocks {
		switch b.language {
		case "cmake":
			fmt.Fprint(lists, b.text)
		case "yaml":
			for _, step := range regexp.MustCompile(`(?m)^ *- run: (.*)$`).FindAllStringSubmatch(b.text, -1) {
				if !strings.HasPrefix(step[1], "git ") && !strings.HasPrefix(step[1], "make ") { // checkout did these
					script += step[1] + "\n"
				}
			}
		}
	}
	out := command(t, project, nil, "sh", "-c", script)
	if !strings.Contains(out, "copies_on_a_950") || !strings.Contains(out,
		"100% tests passed, 0 tests failed out of 4") {
		t.Error(out)
	}
}

// TestPageMissing: the page quotes what a function that is not built yet says.
func TestPageMissing(t *testing.T) {
	text, _ := page(t)
	line := regexp.MustCompile(`(?m)^    (ropeway: (\w+) is not built in ropeway yet.*)$`).FindStringSubmatch(text)
	if line == nil {
		t.Fatal("the page does not show what a function that is not built yet says")
	}
	kit := toolkit(t)
	dir := t.TempDir()
	source := "#include <acl/acl.h>\n#include <unistd.h>\nint main(void) { return " + line[2] +
		"(getpid(), NULL) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT; }\n"
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "missing.c"), []byte(source), 0o644))
	command(t, dir, nil, "gcc", "missing.c", "-o", "missing", "-I"+kit+"/include", "-L"+kit+"/lib64", "-lascendcl")
	r := run(t, []string{"LD_LIBRARY_PATH=" + kit + "/lib64"}, filepath.Join(dir, "missing"))
	if r.code != 0 || r.stderr != line[1]+"\n" {
		t.Errorf("exit code %d and\n%s\nwant 0 and\n%s", r.code, r.stderr, line[1])
	}
}

// checkout is a directory that looks like a clone of the repository after make dist, as far as the page goes.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testenv.OK(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))))
	testenv.OK(t, os.Symlink(toolkit(t), filepath.Join(dir, "dist")))
	return dir
}

// mistakes is a program with one mistake of its own for each tool.
const mistakes = `
#include <pthread.h>
#include <stdlib.h>
#include <acl/acl.h>

static int shared;
static void *add(void *unused) { for (int i = 0; i < 1000; i++) shared++; return unused; }

int main(void)
{
	pthread_t thread;
	char *volatile lost = malloc(64);
	aclInit(NULL);
	aclrtSetDevice(0);
	pthread_create(&thread, NULL, add, NULL);
	add(NULL); /* a race */
	pthread_join(thread, NULL);
	lost = NULL; /* a leak */
	char *gone = malloc(64);
	free(gone);
#ifdef USE_AFTER_FREE
	((char *volatile)gone)[0]++;
#endif
	return lost != NULL || shared == 0;
}
`

// TestMistakes: the library's words to the sanitizers, and the file that keeps valgrind quiet about the core, hide no
// mistake of a program.
func TestMistakes(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "valgrind")
	kit := toolkit(t)
	supp, err := filepath.Abs(filepath.Join(root, "examples/c/valgrind.supp"))
	testenv.OK(t, err)
	dir := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(dir, "mistakes.c"), []byte(mistakes), 0o644))
	program := filepath.Join(dir, "mistakes")
	for _, tt := range []struct {
		flag string
		tool []string
		want string
	}{
		{"-fsanitize=address", nil, "Direct leak of 64 byte(s)"},
		{"-fsanitize=thread", testenv.Settled(t), "data race"},
		{"-DUSE_AFTER_FREE", []string{"valgrind", "--quiet", "--error-exitcode=1", "--suppressions=" + supp},
			"Invalid read of size 1"},
	} {
		command(t, dir, nil, "gcc", tt.flag, "-w", "mistakes.c", "-o", program, "-I"+kit+"/include", "-L"+kit+"/lib64",
			"-lascendcl", "-pthread")
		line := append(tt.tool, program)
		r := run(t, []string{"LD_LIBRARY_PATH=" + kit + "/lib64", "ROPEWAY_DEVICES=1", "ROPEWAY_DEVICE_MEMORY=64M"},
			line[0], line[1:]...)
		if r.code == 0 || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%s: exit code %d, and %q is not in\n%s", tt.flag, r.code, tt.want, r.stderr)
		}
	}
}
