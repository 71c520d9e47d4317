package pod

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
	"ropeway/internal/ucx"
)

// need skips a test where there is no UCX, or one that is too old; in CI there is a good one.
func need(t testing.TB) {
	t.Helper()
	if err := ucx.Load(); err != nil {
		testenv.Missing(t, err.Error())
	}
}

// heap is n bytes that stay where they are as long as the test runs: a copy has an address alone.
func heap(t testing.TB, n int) []byte {
	b := make([]byte, n)
	t.Cleanup(func() { runtime.KeepAlive(b) })
	return b
}

// podFile writes a pod of n servers on loopback addresses, and its key.
func podFile(t testing.TB, n int, more string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pod.key"), []byte("0123456789abcdef0123456789abcdef"),
		0o600); err != nil {
		t.Fatal(err)
	}
	text := "key: pod.key\n" + more + "servers:\n"
	for i := range n {
		text += fmt.Sprintf("  - {id: %d, address: 127.0.0.1}\n", i)
	}
	file := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// node is server i of a pod.
func node(t testing.TB, file string, i int) *Node {
	t.Helper()
	need(t)
	c, err := Read(file, fmt.Sprint(i))
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// memfd is a file with size bytes.
func memfd(t testing.TB, size int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("pod-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	return f
}

// export is memory of a node, and its bytes.
func export(t testing.TB, n *Node, size int, open bool) (*Export, []byte) {
	t.Helper()
	x, err := n.Export(memfd(t, size), 0, About{Size: uint64(size), Device: 3}, open)
	if err != nil {
		t.Fatal(err)
	}
	return x, x.bytes
}

// wait runs a copy and returns how it ended.
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

// TestCopies proves that bytes arrive, in both directions, in pieces of all sizes.
func TestCopies(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	const size = 8 << 20
	x, theirs := export(t, a, size, true)
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := wait(t, write, append([]Segment(nil), segs...)...); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(theirs, mine) {
			t.Error("a list was written wrongly")
		}
	}
	back := heap(t, size)
	for i := range segs {
		segs[i].Local = addressOf(back) + uintptr(segs[i].Offset)
	}
	if err := wait(t, r.Read, segs...); err != nil {
		t.Fatal(err)
	}
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

// TestLife proves that memory stays until it is withdrawn and nobody has it open, in either order, and is then unknown.
func TestLife(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, theirs := export(t, a, 1<<20, true)
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	x.Withdraw()
	theirs[7] = 42
	got := heap(t, 8)
	if err := wait(t, r.Read, Segment{addressOf(got), 0, 8}); err != nil || got[7] != 42 {
		t.Errorf("after the owner has withdrawn it: %v %v", got, err)
	}
	again, err := b.Import(x.Handle) // others hold it
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	r2.Close()
	if n, open := a.Exports(); n != 1 || open != 0 {
		t.Errorf("%d exports, %d of them open", n, open)
	}
}

// TestReplaced proves that copies with memory of a process that has ended fail because it is gone, also if another
// process listens at its port by then: it does not know the memory.
func TestReplaced(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
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

// TestOfferWithdrawn proves that what was offered cannot be opened any more once it is withdrawn, although a process
// has it open and keeps it, also over a link that fails.
func TestOfferWithdrawn(t *testing.T) {
	file := podFile(t, 3, "")
	a, b, c := node(t, file, 0), node(t, file, 1), node(t, file, 2)
	x, err := a.Offer(memfd(t, 4096), 0, About{Size: 4096}, [24]byte{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Node{b, c} {
		x.AllowAt(n.config.Me().ID, []int32{n.pid})
	}
	open := func(n *Node) *Remote {
		r, err := n.Import(x.Handle)
		if err != nil {
			t.Fatal(err)
		}
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

// TestWhiteList proves that a process that is not named gets nothing.
func TestWhiteList(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, false)
	if _, err := b.Import(x.Handle); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("not named: %v", err)
	}
	x.Allow([]int32{int32(os.Getpid())})
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	h := x.Handle
	h.Secret[0] ^= 1
	if _, err := b.Import(h); !errors.Is(err, ErrUnknown) {
		t.Errorf("another secret: %v", err)
	}
}

// TestAfterSleep proves that the time for a copy begins with the copy, however long the engine has slept before.
func TestAfterSleep(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	e, one, end := r.link.e, heap(t, 1), make(chan error, 1)
	c := &transfer{end: e.end, share: r.share, write: true, segs: []Segment{{addressOf(one), 0, 1}},
		done: func(err error) { end <- err }}
	e.mu.Lock()
	e.inbox = append(e.inbox, func() { e.now = e.now.Add(-time.Hour) })
	e.arrived = append(e.arrived, c)
	e.wake()
	e.mu.Unlock()
	select {
	case err := <-end:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the copy does not end")
	}
}

// TestFault proves that memory of this process that is not there ends a copy with an error, and nothing else.
func TestFault(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4<<20, true)
	r, err := b.Import(x.Handle)
	if err != nil {
		t.Fatal(err)
	}
	hole, err := unix.Mmap(-1, 0, 4<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []func([]Segment, func(error)){r.Write, r.Read} {
		if err := wait(t, f, Segment{addressOf(hole), 0, 100}); !errors.Is(err, ErrFault) {
			t.Errorf("a small copy: %v", err)
		}
		if err := wait(t, f, Segment{addressOf(hole), 0, 4 << 20}); err == nil {
			t.Error("a large copy with no memory has succeeded")
		}
	}
	one := heap(t, 1)
	if err := wait(t, r.Write, Segment{addressOf(one), 0, 1}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
