//go:build linux

package share

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"ropeway/internal/testenv"
)

// The test binary is also the other process: SHARE_ROLE says what it is to do. It says on its standard output what it
// did and ends with its standard input.
func TestMain(m *testing.M) {
	switch os.Getenv("SHARE_ROLE") {
	case "export":
		var b Broker
		k, err := b.Export(Item{Kind: Allocation, Note: []byte("from afar"), Files: []*os.File{file(&testing.T{},
			"from afar")}}, Options{Open: os.Getenv("SHARE_OPEN") != ""})
		if os.Getenv("SHARE_HEIR") != "" { // another process with the socket, as a forked child would be
			heir := exec.Command("sleep", "60")
			heir.ExtraFiles = []*os.File{b.server.listener}
			heir.Start()
			fmt.Println(heir.Process.Pid)
		}
		fmt.Println(k.Text(), err)
	case "import":
		in := bufio.NewReader(os.Stdin)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			k, _ := ParseText(strings.TrimSpace(line))
			it, err := Import(k, Allocation)
			if err != nil {
				fmt.Println("refused:", err)
				continue
			}
			fmt.Println("got", content(&testing.T{}, it.Files[0]))
			it.Close()
		}
	case "closed":
		fmt.Println(withoutStreams())
	case "flood":
		flood()
	case "crowd":
		crowd()
	case "sleep":
		fmt.Println("here")
	case "":
		goleak.VerifyTestMain(m)
		return
	}
	io.Copy(io.Discard, os.Stdin)
}

// withoutStreams exports with standard streams closed and says what has their numbers.
func withoutStreams() string {
	for fd := range 3 {
		saved, err := syscall.Dup(fd)
		if err != nil {
			return err.Error()
		}
		defer syscall.Dup3(saved, fd, 0)
	}
	for fd := range 3 {
		syscall.Close(fd)
	}
	var b Broker
	k, err := b.Export(Item{Kind: Event}, Options{})
	if err == nil {
		err = b.Allow(k, []int32{1})
	}
	if err != nil {
		return err.Error()
	}
	for fd := range 3 {
		if to, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd)); err == nil && !strings.HasPrefix(to,
			"anon_inode:[event") {
			// those are of the Go runtime
			return fmt.Sprint(to, " has number ", fd)
		}
	}
	return "fine"
}

// child is another process in a role.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func spawn(t testing.TB, role string, uid uint32, env ...string) *child {
	t.Helper()
	var attr *syscall.SysProcAttr
	if uid != 0 {
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return spawnAs(t, role, attr, env...)
}

func spawnAs(t testing.TB, role string, attr *syscall.SysProcAttr, env ...string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command("/proc/self/exe")}
	c.Env = append(append(os.Environ(), "SHARE_ROLE="+role), env...)
	c.Stderr = os.Stderr
	c.SysProcAttr = attr
	var err error
	if c.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	testenv.OK(t, err)
	c.out = bufio.NewReader(out)
	testenv.OK(t, c.Start())
	t.Cleanup(c.kill)
	return c
}

func (c *child) kill() {
	c.Process.Kill()
	c.in.Close()
	c.Wait()
}

// line is the next thing the child says.
func (c *child) line(t testing.TB) string {
	t.Helper()
	s, err := c.out.ReadString('\n')
	testenv.OK(t, err)
	return strings.TrimSpace(s)
}

// imports has the child import a key and is what came of it.
func (c *child) imports(t testing.TB, k Key) string {
	t.Helper()
	if _, err := io.WriteString(c.in, k.Text()+"\n"); err != nil {
		t.Fatal(err)
	}
	return c.line(t)
}

// exported is the key that an exporting child made.
func (c *child) exported(t testing.TB) Key {
	t.Helper()
	text, _, _ := strings.Cut(c.line(t), " ")
	k, ok := ParseText(text)
	if !ok {
		t.Fatalf("%q is no key", text)
	}
	return k
}

func wantText(t testing.TB, got string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			t.Errorf("%q does not say %q", got, w)
		}
	}
}

func TestOtherProcess(t *testing.T) {
	b := broker(t)
	k := mustExport(t, b, "shared", Options{})
	c, d := spawn(t, "import", 0), spawn(t, "import", 0)
	wantText(t, c.imports(t, k), "refused: not allowed", fmt.Sprint("process ", os.Getpid(), " has"),
		fmt.Sprint("process ", c.Process.Pid, ","))
	testenv.OK(t, b.Allow(k, []int32{int32(c.Process.Pid)}))
	wantText(t, c.imports(t, k), "got shared")
	wantText(t, d.imports(t, k), "refused: not allowed")
	testenv.OK(t, b.Open(k))
	wantText(t, d.imports(t, k), "got shared")
	b.Withdraw(k)
	wantText(t, c.imports(t, k), "refused: the exporting process has ended, or it has closed the key")
}

// Another user's process gets nothing but what was shared with it by name.
func TestOtherUser(t *testing.T) {
	testenv.NeedProcess(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	b := broker(t)
	k := mustExport(t, b, "of root", Options{Open: true})
	c := spawn(t, "import", 65534)
	wantText(t, c.imports(t, k), "refused: not allowed to other users", "another user than this one, 65534")
	testenv.OK(t, b.Allow(k, []int32{int32(c.Process.Pid)}))
	wantText(t, c.imports(t, k), "got of root")

	e := spawn(t, "export", 65534, "SHARE_OPEN=1") // root may have anything
	it, err := b.Import(e.exported(t), Allocation)
	testenv.OK(t, err)
	it.Close()
	f := spawn(t, "import", 65533)
	wantText(t, f.imports(t, k), "refused: not allowed")
}

// A process that has ended is not on the list any more, even if another has its number.
func TestNumberOfAnotherProcess(t *testing.T) {
	b := broker(t)
	k := mustExport(t, b, "for one process", Options{})
	first := spawn(t, "sleep", 0)
	first.line(t)
	pid := first.Process.Pid
	testenv.OK(t, b.Allow(k, []int32{int32(pid)}))
	named := b.named[int32(pid)]
	if !named.alive() {
		t.Fatal("a process that runs counts as ended")
	}
	first.kill()
	if named.alive() {
		t.Fatal("a process that has ended counts as running")
	}
	wantError(t, b.Allow(k, []int32{int32(pid)}), ErrNoProcess)
	second := again(t, pid)
	if second == nil {
		return
	}
	wantText(t, second.imports(t, k), "refused: not allowed")
	testenv.OK(t, b.Allow(k, []int32{int32(pid)}))
	wantText(t, second.imports(t, k), "got for one process")
}

// again is a process that has the number of one that ended, or nil where that cannot be had.
func again(t *testing.T, pid int) *child {
	for range 50 {
		if os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0) != nil {
			t.Log("the kernel does not let us choose a process's number; the rest is not tried")
			return nil
		}
		if c := spawn(t, "import", 0); c.Process.Pid == pid {
			return c
		} else {
			c.kill()
		}
	}
	t.Log("the number was always taken; the rest is not tried")
	return nil
}

// An exporter in a container cannot name processes outside it, and the message says why.
func TestOtherPidNamespace(t *testing.T) {
	testenv.NeedProcess(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	c := spawnAs(t, "export", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
	_, err := Import(c.exported(t), Allocation)
	wantError(t, err, ErrNotAllowed, "another container")
	d := spawnAs(t, "export", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "SHARE_OPEN=1")
	it, err := Import(d.exported(t), Allocation)
	testenv.OK(t, err)
	it.Close()
}

func TestWithoutPidfd(t *testing.T) {
	c := spawn(t, "sleep", 0)
	c.line(t)
	at, err := Began(int32(c.Process.Pid))
	testenv.OK(t, err)
	p := &process{pid: int32(c.Process.Pid), fd: -1, began: at}
	if !p.alive() {
		t.Error("a process that runs counts as ended")
	}
	c.kill()
	if p.alive() {
		t.Error("a process that has ended counts as running")
	}
	p.close()
}

// A process that was killed has ended before its parent asks for its end; one whose first thread alone has ended has
// not.
func TestReadStat(t *testing.T) {
	const line = "17 (a) b (c) %s 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 20 %d 0 4711 18 19\n"
	for _, c := range []struct {
		state   string
		threads int
		ended   bool
	}{{"R", 1, false}, {"S", 7, false}, {"T", 1, false}, {"Z", 1, true}, {"Z", 0, true}, {"X", 0, true},
		{"Z", 3, false}} {
		switch at, err := readStat(fmt.Sprintf(line, c.state, c.threads)); {
		case c.ended && !errors.Is(err, syscall.ESRCH):
			t.Errorf("%s with %d threads: %q, %v; it has ended", c.state, c.threads, at, err)
		case !c.ended && (err != nil || at != "4711"):
			t.Errorf("%s with %d threads: %q, %v; it began at 4711", c.state, c.threads, at, err)
		}
	}
	for _, odd := range []string{"", "17", "17 (a", "17 (a) Z 1 2"} {
		if at, err := readStat(odd); err == nil || errors.Is(err, syscall.ESRCH) {
			t.Errorf("%q says nothing of a process; got %q, %v", odd, at, err)
		}
	}
}

// In a process without standard streams nothing of ours gets their numbers.
func TestNoStandardStreams(t *testing.T) {
	c := spawn(t, "closed", 0)
	wantText(t, c.line(t), "fine")
}

func TestExporterEnds(t *testing.T) {
	b := broker(t)
	c := spawn(t, "export", 0, "SHARE_OPEN=1")
	k := c.exported(t)
	it, err := b.Import(k, Allocation)
	if err != nil || string(it.Note) != "from afar" {
		t.Fatalf("%q, %v", it.Note, err)
	}
	c.kill()
	if content(t, it.Files[0]) != "from afar" {
		t.Error("what was imported went with the exporter")
	}
	it.Close()
	_, err = b.Import(k, Allocation)
	wantError(t, err, ErrGone)
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil || strings.Contains(string(text), socketName(k.tag).Name+"\n") {
		t.Errorf("the socket of a killed process is still there (%v)", err)
	}
}

// A child that has the socket of an exporter that has ended holds nobody up.
func TestHeir(t *testing.T) {
	c := spawn(t, "export", 0, "SHARE_OPEN=1", "SHARE_HEIR=1")
	heir, err := strconv.Atoi(c.line(t))
	testenv.OK(t, err)
	defer syscall.Kill(heir, syscall.SIGKILL)
	k := c.exported(t)
	c.kill()
	_, err = Import(k, Allocation)
	wantError(t, err, ErrGone, "forked")
}

// A process that takes the name of an exporter that has ended cannot pass anything off.
func TestNameTaken(t *testing.T) {
	c := spawn(t, "export", 0, "SHARE_OPEN=1")
	k := c.exported(t)
	c.kill()
	f := fakeAt(t, k, func(q request) ([]byte, []*os.File) {
		a := reply{status: granted, files: 1, note: []byte("of another process")}
		other := newKey(k.tag, false)
		return a.encode(&other, q.nonce), []*os.File{file(t, "of another process")}
	})
	_, err := Import(k, Allocation)
	wantError(t, err, ErrGarbage, "get a new key")
	f()
}

func TestStoppedExporter(t *testing.T) {
	c := spawn(t, "export", 0, "SHARE_OPEN=1")
	k := c.exported(t)
	testenv.OK(t, c.Process.Signal(syscall.SIGSTOP))
	testenv.Eventually(t, "the process stops", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		testenv.OK(t, err)
		return strings.Contains(string(b), ") T ")
	})
	_, err := Import(k, Allocation)
	wantError(t, err, ErrSilent, fmt.Sprint("process ", c.Process.Pid), "stopped")
	testenv.OK(t, c.Process.Signal(syscall.SIGCONT))
	it, err := Import(k, Allocation)
	testenv.OK(t, err)
	it.Close()
}

func TestExporterEndsMeanwhile(t *testing.T) {
	for range 20 {
		c := spawn(t, "export", 0, "SHARE_OPEN=1")
		k := c.exported(t)
		done := make(chan error)
		go func() {
			it, err := Import(k, Allocation)
			it.Close()
			done <- err
		}()
		c.kill()
		if err := <-done; err != nil && !errors.Is(err, ErrGone) {
			t.Fatal(err)
		}
	}
}

// A process that has no descriptor free for what it imports gets that error, and not that the exporter misbehaves.
func TestImportWithoutDescriptors(t *testing.T) {
	e := spawn(t, "export", 0, "SHARE_OPEN=1")
	k := e.exported(t)
	it, err := Import(k, Allocation) // now the network poller has what it needs
	testenv.OK(t, err)
	it.Close()
	var was syscall.Rlimit
	testenv.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	next, err := syscall.Dup(0) // the lowest that is free
	testenv.OK(t, err)
	syscall.Close(next)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(next) + 1,
		Max: was.Max}); err != nil {
		// the connection takes it
		t.Fatal(err)
	}
	it, err = Import(k, Allocation)
	testenv.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was))
	if !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrGarbage) || len(it.Files) > 0 {
		t.Errorf("%d files, %v", len(it.Files), err)
	} else {
		wantText(t, err.Error(), "no file descriptor is free in this process")
	}
	if it, err = Import(k, Allocation); err != nil {
		t.Error("with descriptors again:", err)
	}
	it.Close()
}
