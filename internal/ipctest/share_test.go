//go:build linux

package ipctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

const buffer = 4 * lane

// exporter is a worker that shares a buffer with everybody, and the key.
func exporter(t testing.TB, flags int, how ...func(*exec.Cmd)) (*worker, string) {
	t.Helper()
	w := start(t, how...)
	w.Does("malloc a %d", buffer)
	return w, w.Does("export a %d %d", buffer, flags)
}

// TestShared proves that an importer sees the exporter's bytes and the exporter the importer's, without a copy, and
// that each frees what it had.
func TestShared(t *testing.T) {
	a := start(t)
	before := a.Does("census")
	a.Does("malloc a %d", buffer)
	a.Does("fill a 0 %d 1", buffer)
	key := a.Does("export a %d 0", buffer)
	b := start(t)
	none := b.Does("census")
	a.Does("allow %s %d", key, b.Pid())
	b.Does("import x %s 0", key)
	b.Does("check x 0 %d 1", buffer)
	b.Does("fill x 100 1000 2")
	a.Does("check a 100 1000 2")
	a.Does("fill a 0 100 3")
	b.Does("check x 0 100 3")
	b.Does("import y %s 0", key)
	b.Does("check y 100 1000 2")
	b.Does("close %s", key)
	b.Does("check y 100 1000 2")
	b.Does("close %s", key)
	if after := soon(none, func() string { return b.Does("census") }); after != none {
		t.Errorf("the importer has %s, had %s", after, none)
	}
	a.Does("close %s", key)
	a.Does("free a")
	if after := soon(before, func() string { return a.Does("census") }); after != before {
		t.Errorf("the exporter has %s, had %s", after, before)
	}
}

// TestWhiteList proves that only named processes import, and that the message says what to do.
func TestWhiteList(t *testing.T) {
	a, key := exporter(t, 0)
	b, c := start(t), start(t)
	words := []string{fmt.Sprint("process ", a.Pid(), " has not named process ", b.Pid()), "aclrtIpcMemSetImportPid"}
	b.fails(507899, words, "import x %s 0", key)
	a.Does("allow %s %d", key, b.Pid())
	b.Does("import x %s 0", key)
	c.fails(507899, nil, "import x %s 0", key)
	a.Does("allow %s %d", key, 1<<22+1)                                       // no such process: without effect
	b.fails(507899, []string{"does not export"}, "allow %s %d", key, c.Pid()) // importers do not decide
	c.fails(507899, nil, "import x %s 0", key)
}

// TestReplayedKeys proves that keys are good for nothing after the export, the exporter, or a guess.
func TestReplayedKeys(t *testing.T) {
	a, key := exporter(t, 1)
	b := start(t)
	b.Does("import x %s 0", key)
	b.Does("close %s", key)
	guess := key[:56] + string("0123456789abcdef"[(int(key[56])+1)%16])
	if guess == key {
		guess = key[:56] + "x"
	}
	b.fails(507899, nil, "import x %s 0", guess)
	second := a.Does("export a %d 1", buffer)
	a.Does("close %s", key)
	b.fails(507899, []string{"no longer"}, "import x %s 0", key)
	b.Does("import x %s 0", second)
	a.Does("close %s", second)
	b.fails(507899, []string{"has closed the key"}, "import x %s 0", second)
	third := a.Does("export a %d 1", buffer)
	a.Kill()
	b.fails(507899, []string{"has ended"}, "import x %s 0", third)
	c, fresh := exporter(t, 1) // the exporter's next start
	b.fails(507899, nil, "import x %s 0", third)
	b.Does("import y %s 0", fresh)
	c.Does("fill a 0 10 7")
	b.Does("check y 0 10 7")
	b.Does("check x 0 10 0") // what a killed process shared stays with its importers
	b.Does("close %s", second)
	b.Does("close %s", fresh)
}

// TestStoppedExporter proves that an exporter that does not run holds an importer up for a while, not for ever.
func TestStoppedExporter(t *testing.T) {
	a, key := exporter(t, 1)
	b := start(t)
	b.Does("import x %s 0", key)
	stop(t, a)
	b.fails(507022, []string{fmt.Sprint("process ", a.Pid()), "stopped"}, "import y %s 0", key)
	b.Does("fill x 0 10 1")
	testenv.OK(t, a.Cmd.Process.Signal(syscall.SIGCONT))
	b.Does("import y %s 0", key)
	a.Does("check a 0 10 1")
}

// stop stops a worker, and returns when none of its threads runs.
func stop(t *testing.T, w *worker) {
	t.Helper()
	testenv.OK(t, w.Cmd.Process.Signal(syscall.SIGSTOP))
	for running := true; running; time.Sleep(time.Millisecond) {
		running = false
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", w.Pid()))
		if err != nil || len(threads) == 0 {
			t.Fatalf("no threads: %v", err)
		}
		for _, name := range threads {
			text, err := os.ReadFile(name)
			_, state, _ := strings.Cut(string(text), ") ") // after the name of the program
			running = running || err == nil && !strings.HasPrefix(state, "T")
		}
	}
}

// as makes a worker another user's.
func as(uid uint32) func(*exec.Cmd) {
	return func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
}

// TestOtherUser proves that another user's process gets nothing, unless it is named.
func TestOtherUser(t *testing.T) {
	testenv.NeedProcess(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	a, key := exporter(t, 1)
	b := start(t, as(65534))
	b.fails(507899, []string{"another user", "65534"}, "import x %s 0", key)
	a.fails(207006, []string{"without a white list"}, "allow %s %d", key, b.Pid())
	listed := a.Does("export a %d 0", buffer)
	a.Does("allow %s %d", listed, b.Pid())
	b.Does("import x %s 0", listed)
	b.Does("fill x 0 10 4")
	a.Does("check a 0 10 4")

	c, theirs := exporter(t, 1, as(65534))
	d := start(t, as(65533))
	d.fails(507899, nil, "import x %s 0", theirs)
	a.Does("import x %s 0", theirs) // root may have what it likes
	c.Does("check a 0 10 0")
}

// TestFullShm proves that sharing does not care for /dev/shm, nor for room in the temporary directory.
func TestFullShm(t *testing.T) {
	mounts := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	testenv.NeedProcess(t, mounts)
	alone := func(c *exec.Cmd) {
		c.SysProcAttr = mounts
		c.Env = append(c.Env, "TMPDIR=/dev/shm")
	}
	a, b := start(t, alone), start(t, alone)
	for _, w := range []*worker{a, b} {
		if s := w.Ask("fullshm"); s != "ok " {
			t.Skipf("cannot fill /dev/shm here: %s", s)
		}
	}
	a.Does("malloc a %d", buffer)
	key := a.Does("export a %d 1", buffer)
	b.Does("import x %s 0", key)
	b.Does("fill x 0 %d 5", buffer)
	a.Does("check a 0 %d 5", buffer)
}

// fullShm gives this process, which is in a mount namespace of its own, a /dev/shm without room.
func fullShm() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k"); err != nil {
		return err
	}
	f, err := os.Create("/dev/shm/fill")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return nil
		}
	}
}
