package pod

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// heap returns n bytes that do not move while the test runs: a copy has only their address.
func heap(t testing.TB, n int) []byte {
	b := make([]byte, n)
	t.Cleanup(func() { runtime.KeepAlive(b) })
	return b
}

// podFile writes the file of a pod of n servers on loopback addresses, and its key.
func podFile(t testing.TB, n int, more string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pod.key"), []byte("0123456789abcdef0123456789abcdef"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(more, "transport:") {
		more += onTCP
	}
	text := "key: pod.key\n" + more + "servers:\n"
	for i := range n {
		text += fmt.Sprintf("  - {id: %d, address: 127.0.0.1}\n", i)
	}
	file := filepath.Join(dir, "pod.yaml")
	testenv.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// node returns a node on server i of a pod.
func node(t testing.TB, file string, i int) *Node {
	t.Helper()
	c, err := Read(file, fmt.Sprint(i))
	testenv.OK(t, err)
	n, err := New(c)
	testenv.OK(t, err)
	t.Cleanup(n.Close)
	return n
}

// memfd returns a file with size bytes.
func memfd(t testing.TB, size int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("pod-test", unix.MFD_CLOEXEC)
	testenv.OK(t, err)
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { f.Close() })
	testenv.OK(t, f.Truncate(int64(size)))
	return f
}

// export exports memory of a node, and returns its bytes.
func export(t testing.TB, n *Node, size int, open bool) (*Export, []byte) {
	t.Helper()
	x, err := n.Export(memfd(t, size), 0, About{Size: uint64(size), Device: 3}, open)
	testenv.OK(t, err)
	return x, x.bytes
}

// wait runs a copy and returns its error.
func wait(t testing.TB, f func([]Segment, func(error)), segs ...Segment) error {
	t.Helper()
	c := make(chan error, 1)
	f(segs, func(err error) { c <- err })
	select {
	case err := <-c:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("a copy does not end")
		return nil
	}
}

// TestCopies proves that bytes arrive, in both directions, in pieces of all sizes, on every transport.
func TestCopies(t *testing.T) {
	for _, more := range []string{onTCP, onTCP + "encryption: none\n", onTCP + "connections: 4\n", near, onUCX} {
		t.Run(strings.ReplaceAll(strings.TrimSpace(more), "\n", ", "), func(t *testing.T) { copies(t, more) })
	}
}

func copies(t *testing.T, more string) {
	if more == onUCX {
		needUCX(t)
	}
	file := podFile(t, 2, more)
	a, b := node(t, file, 0), node(t, file, 1)
	const size = 8 << 20
	x, theirs := export(t, a, size, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	if r.About != (About{Size: size, Device: 3}) {
		t.Errorf("imported %+v", r.About)
	}
	rnd := testenv.Rand(t)(0)
	mine := heap(t, size)
	for i := range mine {
		mine[i] = byte(rnd.Uint32())
	}
	at := func(off int) uintptr { return addressOf(mine[off:]) }
	for _, n := range []int{0, 1, 64, 4096, pieceMost - 1, pieceMost, pieceMost + 1, readMost - 1,
		readMost, readMost + 1, size} {
		off := rnd.IntN(size - n + 1)
		for _, write := range []func([]Segment, func(error)){r.Write, r.WriteStaying} {
			clear(theirs)
			if err := wait(t, write, Segment{at(0), uint64(off), uint64(n)}); err != nil {
				t.Fatal(n, err)
			}
			if !bytes.Equal(theirs[off:off+n], mine[:n]) || len(bytes.Trim(theirs[:off],
				"\x00"))+len(bytes.Trim(theirs[off+n:], "\x00")) > 0 {
				t.Errorf("%d bytes were written wrongly", n)
			}
		}
		back := heap(t, n+2)
		if err := wait(t, r.Read, Segment{addressOf(back) + 1, uint64(off), uint64(n)}); err != nil {
			t.Fatal(n, err)
		}
		if !bytes.Equal(back[1:n+1], mine[:n]) || back[0] != 0 || back[n+1] != 0 {
			t.Errorf("%d bytes were read wrongly", n)
		}
	}
	// Lists of segments of all sizes, in a random order.
	clear(theirs)
	var segs []Segment
	var sizes []int
	for left := size; left > 0; {
		n := min(left, []int{0, 1, 100, 4096, 70000, 300000}[rnd.IntN(6)])
		sizes = append(sizes, n)
		left -= n
	}
	off := 0
	for _, n := range sizes {
		segs = append(segs, Segment{at(off), uint64(off), uint64(n)})
		off += n
	}
	rnd.Shuffle(len(segs), func(i, j int) { segs[i], segs[j] = segs[j], segs[i] })
	for _, write := range []func([]Segment, func(error)){r.Write, r.WriteStaying} {
		clear(theirs)
		testenv.OK(t, wait(t, write, append([]Segment(nil), segs...)...))
		if !bytes.Equal(theirs, mine) {
			t.Error("a list was written wrongly")
		}
	}
	back := heap(t, size)
	for i := range segs {
		segs[i].Local = addressOf(back) + uintptr(segs[i].Offset)
	}
	testenv.OK(t, wait(t, r.Read, segs...))
	if !bytes.Equal(back, mine) {
		t.Error("a list was read wrongly")
	}
	if err := wait(t, r.Read, Segment{addressOf(back), size - 1, 2}); !errors.Is(err, ErrRange) {
		t.Errorf("past the end: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestLife proves that memory stays until it is withdrawn and closed by all processes, in either order, and is then
// unknown.
func TestLife(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, theirs := export(t, a, 1<<20, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	x.Withdraw()
	theirs[7] = 42
	got := heap(t, 8)
	if err := wait(t, r.Read, Segment{addressOf(got), 0, 8}); err != nil || got[7] != 42 {
		t.Errorf("after the owner has withdrawn it: %v %v", got, err)
	}
	again, err := b.Import(x.Handle) // another process has it open
	testenv.OK(t, err)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n, open := a.Exports(); n != 0 || open != 0 {
		t.Errorf("%d exports are left, %d of them open", n, open)
	}
	if _, err := b.Import(x.Handle); !errors.Is(err, ErrUnknown) {
		t.Errorf("after the last has closed it: %v", err)
	}
	if err := r.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	y, _ := export(t, a, 4096, true)
	r2, err := b.Import(y.Handle)
	testenv.OK(t, err)
	r2.Close()
	if n, open := a.Exports(); n != 1 || open != 0 {
		t.Errorf("%d exports, %d of them open", n, open)
	}
}

// TestReplaced proves that copies with memory of a process that has ended fail with ErrGone, even if another process,
// which does not know the memory, listens at its port.
func TestReplaced(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	a.Close()
	other := node(t, file, 0)
	other.config.Servers[0].Ports = [2]uint16{x.Handle.Port, x.Handle.Port}
	export(t, other, 4096, true)
	got := heap(t, 8)
	for range 2 {
		err := wait(t, r.Read, Segment{addressOf(got), 0, 8})
		if !errors.Is(err, ErrGone) || errors.Is(err, ErrUnknown) {
			t.Errorf("memory of the first process: %v", err)
		}
	}
	r.Close()
}

// TestOfferWithdrawn proves that an offer cannot be opened once it is withdrawn, even though a process has it open and
// keeps it, also over a link that fails.
func TestOfferWithdrawn(t *testing.T) {
	file := podFile(t, 3, "")
	a, b, c := node(t, file, 0), node(t, file, 1), node(t, file, 2)
	x, err := a.Offer(memfd(t, 4096), 0, About{Size: 4096}, [24]byte{1}, nil)
	testenv.OK(t, err)
	for _, n := range []*Node{b, c} {
		x.AllowAt(n.config.Me().ID, []int32{n.pid})
	}
	open := func(n *Node) *Remote {
		r, err := n.Import(x.Handle)
		testenv.OK(t, err)
		return r
	}
	first, second := open(b), open(c)
	x.Withdraw()
	if _, err := b.Import(x.Handle); !errors.Is(err, ErrUnknown) {
		t.Errorf("after it was withdrawn: %v", err)
	}
	first.mu.Lock()
	link := first.link
	first.mu.Unlock()
	link.fail(ErrGone)
	<-link.failed
	got := heap(t, 8)
	for _, r := range []*Remote{first, second} {
		if err := wait(t, r.Read, Segment{addressOf(got), 0, 8}); err != nil {
			t.Errorf("a process that has it: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhiteList proves that a process that is not allowed cannot import.
func TestWhiteList(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, false)
	if _, err := b.Import(x.Handle); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("not named: %v", err)
	}
	x.Allow([]int32{int32(os.Getpid())})
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	r.Close()
	h := x.Handle
	h.Secret[0] ^= 1
	if _, err := b.Import(h); !errors.Is(err, ErrUnknown) {
		t.Errorf("another secret: %v", err)
	}
}

// TestFault proves that unmapped memory of this process only fails the copy.
func TestFault(t *testing.T) {
	for _, more := range []string{"encryption: tls\n", "encryption: none\n"} {
		t.Run(more[12:16], func(t *testing.T) { faults(t, more) })
	}
}

func faults(t *testing.T, more string) {
	file := podFile(t, 2, more)
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4<<20, true)
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	hole, err := unix.Mmap(-1, 0, 4<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	testenv.OK(t, err)
	for _, f := range []func([]Segment, func(error)){r.Write, r.Read} {
		if err := wait(t, f, Segment{addressOf(hole), 0, 100}); !errors.Is(err, ErrFault) {
			t.Errorf("a small copy: %v", err)
		}
		if err := wait(t, f, Segment{addressOf(hole), 0, 4 << 20}); err == nil {
			t.Error("a large copy with no memory has succeeded")
		}
	}
	there := heap(t, 128<<10)
	list := []Segment{{addressOf(there), 0, 60 << 10}, {addressOf(hole), 60 << 10, 8 << 10},
		{addressOf(there) + 60<<10, 70 << 10, 60 << 10}}
	for range 3 { // the link still works
		if err := wait(t, r.Read, append([]Segment(nil), list...)...); !errors.Is(err, ErrFault) {
			t.Errorf("a list with a place that is not there: %v", err)
		}
	}
	one := heap(t, 1)
	if err := wait(t, r.Write, Segment{addressOf(one), 0, 1}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
