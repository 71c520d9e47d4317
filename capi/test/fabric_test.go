package capitest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/driver/cuda/imitation"
)

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
	program := compile(t, []string{"fabric.c"})
	for _, apart := range []bool{false, true} { // only root gets namespaces; others run in one network twice
		for _, scene := range []string{"forms", "names", "orders", "model", "asked"} {
			if r := servers(t, apart, program, scene); r.code != 0 {
				t.Errorf("%s, apart %v: exit code %d\n%s%s", scene, apart, r.code, r.stdout, r.stderr)
			}
		}
		if r := servers(t, apart, program, "killed"); r.code != 137 || strings.Contains(r.stdout+r.stderr, "[1]") {
			t.Errorf("killed, apart %v: exit code %d\n%s%s", apart, r.code, r.stdout, r.stderr)
		}
	}
}

// TestFabricForked proves that a server that was killed is missed at once although a child that it forked has its
// sockets: copies with its memory fail, and the memory that it had imported is freed by the owner.
func TestFabricForked(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"forkedservers.c"})
	for scene, want := range map[string]int{"owner": 137, "importer": 0} {
		for _, apart := range []bool{false, true} {
			if r := servers(t, apart, program, scene); r.code != want || strings.Contains(r.stdout+r.stderr, "[") {
				t.Errorf("the %s is killed, apart %v: exit code %d\n%s%s", scene, apart, r.code, r.stdout, r.stderr)
			}
		}
	}
}

// TestFabricOnImitation proves the same of servers whose devices are GPUs, on a libcuda that is made up.
func TestFabricOnImitation(t *testing.T) {
	t.Parallel()
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
	program := compile(t, []string{"farkeys.c"})
	for _, apart := range []bool{false, true} {
		if r := servers(t, apart, program, "keys"); r.code != 0 {
			t.Errorf("apart %v: exit code %d\n%s%s", apart, r.code, r.stdout, r.stderr)
		}
	}
}

// TestPodHint proves that an import says what is missing where a process has no pod, or the number of the owner's
// server.
func TestPodHint(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"podhint.c"})
	for scene, want := range map[string]string{
		"none": "if it is of another server, ROPEWAY_POD has to be set here",
		"same": "if it is of another machine, that is server 0 of the pod, too; ROPEWAY_POD_SERVER says",
	} {
		if r := servers(t, true, program, scene); r.code != 0 || !strings.Contains(r.stdout, want) {
			t.Errorf("%s: exit code %d\n%s%s", scene, r.code, r.stdout, r.stderr)
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

// sanitizedServers runs a program that was built with a sanitizer as two servers. Their bytes go over TCP if apart,
// else memory is mapped. ThreadSanitizer reports everything: a server that ended at the first report would leave the
// other one waiting.
func sanitizedServers(t *testing.T, apart bool, program, scene string) result {
	t.Helper()
	env := []string{"TSAN_OPTIONS=atexit_sleep_ms=0:report_thread_leaks=0"}
	return sanitizedRun(t, env, filepath.Join(toolkit(t), "bin", "ropeway"), "run", "--pod", "2",
		fmt.Sprintf("--namespaces=%v", apart), program, scene, t.TempDir())
}

// onServers makes compile build a program with the sanitizer for sanitizedServers: its libraries go before those of
// LD_LIBRARY_PATH.
func (s *sanitizer) onServers(t *testing.T) []string {
	t.Helper()
	return append(s.flags(t), "-Wl,--disable-new-dtags")
}

// TestFabricSanitized proves that programs on two servers are clean under ASan, with its leak check, and under TSan.
func TestFabricSanitized(t *testing.T) {
	t.Parallel()
	for _, s := range []*sanitizer{addresses, races} {
		for source, scenes := range map[string][]string{"fabric.c": {"forms", "names", "orders", "model"},
			"farkeys.c": {"keys"}, "fabric_race.c": {"locked"}} {
			program := compile(t, []string{source}, s.onServers(t)...)
			for _, scene := range scenes {
				// ASan sees mapped memory, TSan what comes over TCP.
				r := sanitizedServers(t, s == races, program, scene)
				if r.code != 0 || strings.Contains(r.stderr, "Sanitizer") {
					t.Errorf("%s: %s %s: exit code %d\n%s%s", s.name, source, scene, r.code, r.stdout, r.stderr)
				}
			}
		}
	}
}

// TestFabricRace proves that TSan finds a race of a program over memory of another server: in its own code, and in
// functions of C that it calls. With a lock the same program is
// clean: TestFabricSanitized.
func TestFabricRace(t *testing.T) {
	t.Parallel()
	program := compile(t, []string{"fabric_race.c"}, races.onServers(t)...)
	for _, scene := range []string{"raced", "moved"} {
		for _, apart := range []bool{false, true} {
			r := sanitizedServers(t, apart, program, scene)
			if r.code != 66 || !strings.Contains(r.stderr, "ThreadSanitizer: data race") ||
				!strings.Contains(r.stderr, "counts") || strings.Contains(r.stderr, "[0]") {
				t.Errorf("%s, apart %v: exit code %d, and not a race of server 1\n%s%s", scene, apart, r.code,
					r.stdout, r.stderr)
			}
		}
	}
}
