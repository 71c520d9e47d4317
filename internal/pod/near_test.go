package pod

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestNearAllowed proves that UCX_TLS says whether memory may be mapped.
func TestNearAllowed(t *testing.T) {
	for text, want := range map[string]bool{
		"tcp": false, "tcp,shm": true, "all": true, "^sm": false, "^tcp": true, "posix": true, "rc,ud": false,
	} {
		t.Setenv(transports, text)
		if got := nearAllowed(); got != want {
			t.Errorf("UCX_TLS=%s: %v", text, got)
		}
	}
	near(t)
	if !nearAllowed() {
		t.Error("not allowed by itself")
	}
}

// TestNear proves that memory of a process on the same machine is mapped, that copies of all sizes arrive in both
// directions, in one and in several parts, and that ranges outside are refused.
func TestNear(t *testing.T) {
	near(t)
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	const size = 3*nearInline + 8192
	x, there := export(t, a, size, true)
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if r.near == nil {
		t.Fatal("the memory is not mapped")
	}
	here, back := heap(t, size), heap(t, size)
	pattern(here, 3)
	for _, segs := range [][]int{{size}, {1, 4095, size - 4096}, {nearInline, 64, 2*nearInline + 8128}} {
		clear(there)
		clear(back)
		var to, from []Segment
		at := 0
		for _, n := range segs {
			to = append(to, Segment{addressOf(here[at:]), uint64(at), uint64(n)})
			from = append(from, Segment{addressOf(back[at:]), uint64(at), uint64(n)})
			at += n
		}
		if err := wait(t, r.Write, to...); err != nil {
			t.Fatal(err)
		}
		if at, n := differ(there, here); n > 0 {
			t.Fatalf("%v: %d other bytes, the first at %d", segs, n, at)
		}
		if err := wait(t, r.Read, from...); err != nil {
			t.Fatal(err)
		}
		if at, n := differ(back, here); n > 0 {
			t.Fatalf("%v: %d other bytes read, the first at %d", segs, n, at)
		}
	}
	if err := wait(t, r.Write, Segment{addressOf(here), size - 8, 16}); !errors.Is(err, ErrRange) {
		t.Errorf("past the end: %v", err)
	}
	if err := wait(t, r.Write, Segment{1 << 20, 0, 64}); !errors.Is(err, ErrFault) {
		t.Errorf("from memory that is not there: %v", err)
	}
	v := r.near
	x.Withdraw()
	if err := wait(t, r.Read, Segment{addressOf(back), 0, 64}); err != nil {
		t.Errorf("after its owner withdrew it: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := v.users.Load(); n != 0 {
		t.Errorf("%d users of memory that was given up", n)
	}
	if err := wait(t, r.Read, Segment{addressOf(back), 0, 64}); !errors.Is(err, ErrClosed) {
		t.Errorf("after it was given up: %v", err)
	}
}

// TestNearPartOfFile proves that a file with more in it than what is exported is not passed on.
func TestNearPartOfFile(t *testing.T) {
	near(t)
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, err := a.Export(memfd(t, 16384), 4096, About{Size: 4096}, true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if r.near != nil {
		t.Error("a file with other memory was passed on")
	}
	one := heap(t, 4096)
	pattern(one, 5)
	if err := wait(t, r.Write, Segment{addressOf(one), 0, 4096}); err != nil {
		t.Error(err)
	}
	if _, n := differ(x.bytes, one); n > 0 {
		t.Error("the copy did not arrive")
	}
}

// TestNearNames proves that an owner connects to no socket but those of importers.
func TestNearNames(t *testing.T) {
	near(t)
	a := node(t, podFile(t, 1, ""), 0)
	x, _ := export(t, a, 4096, true)
	name := fmt.Sprintf("ropeway-test-%d-%s", os.Getpid(), "0123456789abcdef0123456789abcdef")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	for _, name := range []string{name, "", nearPrefix, nearPrefix + "x123456789abcdef0123456789abcdef"} {
		if x.sendFile(name, a.config.Timeout) {
			t.Errorf("%q got the file", name)
		}
	}
	good, name := listenNear()
	if good == nil {
		t.Fatal("no socket")
	}
	defer good.Close() //nolint:errcheck // nothing was written
	if !x.sendFile(name, a.config.Timeout) {
		t.Error("an importer did not get the file")
	}
}

// TestNearKilled proves that copies with mapped memory of a process that was killed fail, that memory of one that is
// stopped is still there, and that nothing is left of either.
func TestNearKilled(t *testing.T) {
	near(t)
	file := podFile(t, 2, quick)
	owner, user := launch(t, file, 0), launch(t, file, 1)
	before := user.Does("files")
	h := owner.Does("export %d", 16<<20)
	owner.Does("fill 4")
	user.Does("import %s", h)
	user.Does("read 4")
	user.Does("write 7")
	owner.Does("has 7")
	owner.Signal(syscall.SIGSTOP)
	user.Does("write 8")
	owner.Signal(syscall.SIGCONT)
	owner.Does("has 8")
	user.Send("loop")
	if user.Line() != "looping" {
		t.Fatal("no loop")
	}
	owner.Kill()
	ended(t, user)
	user.Ask("close")
	user.soon(before, "files")
}

// TestNearNotified proves that memory whose owner is called after writes is not mapped, and that it is called.
func TestNearNotified(t *testing.T) {
	near(t)
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	wrote := make(chan struct{}, 8)
	x, err := a.Offer(memfd(t, 4096), 0, About{Size: 4096}, [24]byte{1}, func() { wrote <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	x.AllowAt(b.config.Me().ID, []int32{b.pid})
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if r.near != nil {
		t.Error("the memory is mapped")
	}
	one := heap(t, 8)
	if err := wait(t, r.Write, Segment{addressOf(one), 0, 8}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wrote:
	case <-time.After(time.Minute):
		t.Error("the owner was not called")
	}
}
