package capitest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/testenv"
)

// needUCX skips a test where there is no UCX; in CI there is one.
func needUCX(t *testing.T) {
	t.Helper()
	testenv.Need(t, "ucx_info")
}

// servers runs a scene of fabric.c on two servers, in networks of their own or in one.
func servers(t *testing.T, apart bool, program, scene string) result {
	t.Helper()
	return run(t, nil, filepath.Join(toolkit(t), "bin", "ropeway"), "run", "--pod", "2",
		fmt.Sprintf("--namespaces=%v", apart), program, scene, t.TempDir())
}

// TestFabric proves that memory of one server is mapped by another: every form of copy in both directions reaches it,
// in captured models, too; white lists and codes are as documented, it is released in any order, and copies with an
// owner that is killed end with a code while other streams go on.
func TestFabric(t *testing.T) {
	t.Parallel()
	needUCX(t)
	program := compile(t, []string{"fabric.c"})
	for _, apart := range []bool{false, true} { // only root gets namespaces; others run in one network twice
		for _, scene := range []string{"forms", "names", "orders", "model"} {
			if r := servers(t, apart, program, scene); r.code != 0 {
				t.Errorf("%s, apart %v: exit code %d\n%s%s", scene, apart, r.code, r.stdout, r.stderr)
			}
		}
		if r := servers(t, apart, program, "killed"); r.code != 137 || strings.Contains(r.stdout+r.stderr, "[1]") {
			t.Errorf("killed, apart %v: exit code %d\n%s%s", apart, r.code, r.stdout, r.stderr)
		}
	}
}

// TestFabricOnImitation proves the same of servers whose devices are GPUs, on a libcuda that is made up.
func TestFabricOnImitation(t *testing.T) {
	t.Parallel()
	needUCX(t)
	program, library := compile(t, []string{"fabric.c"}), imitation.Build(t)
	for _, scene := range []string{"forms", "names", "orders", "model"} {
		r := run(t, []string{"LD_PRELOAD=" + library, "ROPEWAY_DRIVER=cuda", "ROPEWAY_DEVICES=2"},
			filepath.Join(toolkit(t), "bin", "ropeway"), "run", "--pod", "2", program, scene, t.TempDir())
		if r.code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", scene, r.code, r.stdout, r.stderr)
		}
	}
}

// TestFarKeys proves that keys of memory and of notifies reach processes of another server that were named, and no
// others; that a record there comes after what its stream did before, also in a model; that words are written and
// waited for across servers; and that events stay on their server.
func TestFarKeys(t *testing.T) {
	t.Parallel()
	needUCX(t)
	program := compile(t, []string{"farkeys.c"})
	for _, apart := range []bool{false, true} {
		if r := servers(t, apart, program, "keys"); r.code != 0 {
			t.Errorf("apart %v: exit code %d\n%s%s", apart, r.code, r.stdout, r.stderr)
		}
	}
}

// TestTwoServers proves that the example does what it says, that it does nothing wrong, and that check and trace put
// the servers together.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	dir := copyTree(t, "examples/c")
	command(t, dir, []string{"ASCEND_HOME_PATH=" + toolkit(t)}, "make", "two_servers")
	twoServers(t, filepath.Join(dir, "two_servers"),
		"[0] Server 0 sees the pages that server 1 wrote, and the others as they were.")
}

// TestTwoServersInGo proves the same of the example in Go, and that the page builds and starts it in this way.
func TestTwoServersInGo(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/pod.md"))
	if err != nil || !strings.Contains(string(page), `
go build -o bin/twoservers ./examples/go/twoservers
ropeway run --pod 2 bin/twoservers bin/block
`) {
		t.Error("docs/pod.md starts it in another way", err)
	}
	twoServers(t, goProgram(t, filepath.Join(root, "examples/go/twoservers")),
		"[0] It changed every byte, and server 0 sees the change.")
}

// twoServers runs an example as two servers; first is what server 0 prints.
func twoServers(t *testing.T, example, first string) {
	t.Helper()
	needUCX(t)
	kit, dir := toolkit(t), t.TempDir()
	ropeway := filepath.Join(kit, "bin", "ropeway")
	want := []string{first, "[1] Server 1 read the 4194304 bytes of server 0."}
	prints := func(stdout string) bool { // in any order: they are two processes
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		slices.Sort(lines)
		return slices.Equal(lines, want)
	}
	if got := passes(t, nil, ropeway, "run", "--pod", "2", example, filepath.Join(dir, "handle")); !prints(got) {
		t.Errorf("it prints\n%swant\n%q", got, want)
	}
	r := run(t, nil, ropeway, "check", ropeway, "run", "--pod", "2", example, filepath.Join(dir, "handle"))
	if r.code != 0 || !prints(r.stdout) || !strings.Contains(r.stderr, "no findings") || !strings.Contains(r.stderr,
		"2 processes") {
		t.Errorf("checked: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r = run(t, nil, ropeway, "trace", "-o", filepath.Join(dir, "trace.json"), ropeway, "run", "--pod", "2", example,
		filepath.Join(dir, "handle"))
	if r.code != 0 || !prints(r.stdout) || !strings.Contains(r.stderr, "by 2 processes") {
		t.Errorf("traced: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "trace.json"))
	for _, name := range []string{"server 0: ", "server 1: "} {
		if err != nil || !strings.Contains(string(text), `"`+name+filepath.Base(example)) {
			t.Errorf("no process of the timeline is of %s%v", name, err)
		}
	}
	if r = run(t, []string{"LD_LIBRARY_PATH=" + kit + "/lib64"}, example, "handle"); r.code != 1 ||
		!strings.Contains(r.stderr, "ropeway run --pod 2") {
		t.Errorf("alone: exit code %d\n%s", r.code, r.stderr)
	}
}

// TestFabricSanitized proves that programs on two servers are clean under ASan, with its leak check.
func TestFabricSanitized(t *testing.T) {
	t.Parallel()
	needUCX(t)
	flags := append(addresses.flags(t), "-Wl,--disable-new-dtags") // before LD_LIBRARY_PATH
	for source, scenes := range map[string][]string{"fabric.c": {"forms", "names", "orders", "model"},
		"farkeys.c": {"keys"}} {
		program := compile(t, []string{source}, flags...)
		for _, scene := range scenes {
			r := sanitizedRun(t, nil, filepath.Join(toolkit(t), "bin", "ropeway"), "run", "--pod", "2", program, scene,
				t.TempDir())
			if r.code != 0 || strings.Contains(r.stderr, "Sanitizer") {
				t.Errorf("%s %s: exit code %d\n%s%s", source, scene, r.code, r.stdout, r.stderr)
			}
		}
	}
}
