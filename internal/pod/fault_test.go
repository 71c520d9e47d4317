package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

const quick = "timeout: 1s\n" // of pods whose copies have to fail soon

// ended checks that a loop of copies has ended within the timeout of a pod with quick; a loaded machine gets more time.
func ended(t *testing.T, s *server) {
	t.Helper()
	text, ok := strings.CutPrefix(s.Line(), "ok ")
	var ms int
	if _, err := fmt.Sscan(text, &ms); !ok || err != nil || ms > 30000 {
		t.Errorf("the copies ended with %q", text)
	}
}

// TestProcesses proves that two processes share memory without any action of the owner's program.
func TestProcesses(t *testing.T) {
	file := podFile(t, 2, "")
	owner, user := launch(t, file, 0), launch(t, file, 1)
	h := owner.Does("export %d", 5<<20)
	user.Does("import %s", h)
	user.Does("write 1")
	owner.Does("has 1")
	owner.Does("fill 2")
	user.Does("read 2")
	owner.Does("withdraw")
	user.Does("read 2")
	user.Does("close")
	owner.soon("0 0", "exports")
}

// TestKilledOwner proves that copies end when the owner is killed, and that memory of another process on that server
// can be imported.
func TestKilledOwner(t *testing.T) {
	file := podFile(t, 2, quick)
	user := launch(t, file, 1)
	files := ""
	for i := range 3 {
		owner := launch(t, file, 0)
		h := owner.Does("export %d", 16<<20)
		user.Does("import %s", h)
		user.Does("write 3")
		user.Send("loop")
		if user.Line() != "looping" {
			t.Fatal("no loop")
		}
		owner.Kill()
		ended(t, user)
		if a := user.Ask("write 1"); !strings.HasPrefix(a, "error") {
			t.Errorf("writing to the dead: %s", a)
		}
		user.Ask("close")
		if i == 0 {
			files = user.Does("files")
			continue
		}
		user.soon(files, "files")
	}
}

// TestKilledUser proves that memory that a killed process had open is released, and that other processes continue.
func TestKilledUser(t *testing.T) {
	file := podFile(t, 3, "timeout: 8s\n")
	owner, other := launch(t, file, 0), launch(t, file, 2)
	h := owner.Does("export %d", 16<<20)
	other.Does("import %s", h)
	files := ""
	for i := range 3 {
		user := launch(t, file, 1)
		user.Does("import %s", h)
		owner.soon("1 2", "exports")
		user.Send("loop")
		if user.Line() != "looping" {
			t.Fatal("no loop")
		}
		user.Kill()
		owner.soon("1 1", "exports")
		other.Does("write 4")
		owner.Does("has 4")
		if i == 0 {
			files = owner.Does("files")
			continue
		}
		owner.soon(files, "files")
	}
}

// TestStopped proves that copies with a stopped process end in time, and that it can be used again when it continues.
func TestStopped(t *testing.T) {
	file := podFile(t, 2, quick)
	owner, user := launch(t, file, 0), launch(t, file, 1)
	h := owner.Does("export %d", 16<<20)
	user.Does("import %s", h)
	user.Send("loop")
	if user.Line() != "looping" {
		t.Fatal("no loop")
	}
	owner.Signal(syscall.SIGSTOP)
	ended(t, user)
	if a := user.Ask("write 1"); !strings.HasPrefix(a, "error") {
		t.Errorf("writing to the stopped: %s", a)
	}
	owner.Signal(syscall.SIGCONT)
	again := ""
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if again = user.Ask("write 9"); again == "ok" {
			break
		}
	}
	if again != "ok" {
		t.Fatal(again)
	}
	owner.Does("has 9")
}

// network is two joined network namespaces, with an address in each.
type network struct {
	names, devices, addresses [2]string
}

// joined returns a network, or skips the test if there cannot be one.
func joined(t testing.TB) *network {
	t.Helper()
	testenv.Need(t, "ip")
	n, err := tryJoin(t)
	if err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	return n
}

// tryJoin is joined, but returns an error if the kernel lacks a feature, or refuses it to this user or this container.
func tryJoin(t testing.TB) (*network, error) {
	t.Helper()
	if os.Getuid() != 0 {
		return nil, errors.New("only root can make them")
	}
	n := &network{}
	for i := range 2 {
		n.names[i] = fmt.Sprintf("ropeway-%d-%d", os.Getpid(), i)
		n.devices[i] = fmt.Sprintf("rw%d-%d", os.Getpid()%100000, i)
		n.addresses[i] = fmt.Sprintf("10.77.9.%d", i+1)
		if _, err := runIP("netns", "add", n.names[i]); err != nil {
			return nil, err
		}
		t.Cleanup(func() { ip(t, "netns", "delete", n.names[i]) })
		// It mounts, which may not be allowed in a container.
		if _, err := runIP("netns", "exec", n.names[i], "true"); err != nil {
			return nil, err
		}
	}
	if _, err := runIP("link", "add", n.devices[0], "mtu", "9000", "netns", n.names[0], "type", "veth",
		"peer", "name", n.devices[1],
		"mtu", "9000", "netns", n.names[1]); err != nil {
		return nil, err
	}
	for i := range 2 {
		ip(t, "-n", n.names[i], "addr", "add", n.addresses[i]+"/24", "dev", n.devices[i])
		ip(t, "-n", n.names[i], "link", "set", "lo", "up")
		ip(t, "-n", n.names[i], "link", "set", n.devices[i], "up")
	}
	for i := range 2 { // until it runs
		testenv.Eventually(t, n.devices[i]+" comes up", func() bool {
			out, err := runIP("-n", n.names[i], "-o", "link", "show", "dev", n.devices[i], "up")
			return err == nil && strings.Contains(out, "state UP")
		})
	}
	return n, nil
}

// runIP runs the program ip, for at most a minute.
func runIP(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if _, err := runIP(args...); err != nil {
		t.Fatal(err)
	}
}

// podOn writes the file of a pod with a server in each namespace.
func podOn(t testing.TB, n *network, more string) string {
	t.Helper()
	file := podFile(t, 1, more)
	text, err := os.ReadFile(file)
	testenv.OK(t, err)
	list := fmt.Sprintf("- {id: 0, address: %s}\n  - {id: 1, address: %s}\n", n.addresses[0], n.addresses[1])
	text = []byte(strings.Replace(string(text), "- {id: 0, address: 127.0.0.1}\n", list, 1))
	testenv.OK(t, os.WriteFile(file, text, 0o600))
	return file
}

// in starts server i in its namespace.
func (n *network) in(t testing.TB, file string, i int) *server {
	return launch(t, file, i, "ip", "netns", "exec", n.names[i])
}

// TestNamespaces proves that memory is shared between two network namespaces, and that copies fail when the link
// between them is cut, and work again when it is back.
func TestNamespaces(t *testing.T) {
	n := joined(t)
	file := podOn(t, n, quick)
	owner, user := n.in(t, file, 0), n.in(t, file, 1)
	h := owner.Does("export %d", 16<<20)
	user.Does("import %s", h)
	user.Does("write 1")
	owner.Does("has 1")
	owner.Does("fill 2")
	user.Does("read 2")
	user.Send("loop")
	if user.Line() != "looping" {
		t.Fatal("no loop")
	}
	ip(t, "-n", n.names[0], "link", "set", n.devices[0], "down")
	ended(t, user)
	if a := user.Ask("write 1"); !strings.HasPrefix(a, "error") {
		t.Errorf("writing over a link that is cut: %s", a)
	}
	ip(t, "-n", n.names[0], "link", "set", n.devices[0], "up")
	again := ""
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if again = user.Ask("write 9"); again == "ok" {
			break
		}
	}
	if again != "ok" {
		t.Fatal(again)
	}
	owner.Does("has 9")
	owner.soon("1 1", "exports")
}
