package ucx

import (
	"bytes"
	"errors"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/testenv"
)

// loopback is TCP inside this machine.
var loopback = []Option{{Name: "TLS", Value: "tcp"}, {Name: "NET_DEVICES", Value: "lo"}}

// end is a worker that remembers what it was called with.
type end struct {
	*Worker
	headers, data [][]byte
	sent          map[uint64]error
	failed        error
}

func (e *end) Message(m *Message) {
	e.headers, e.data = append(e.headers, bytes.Clone(m.Header)), append(e.data, bytes.Clone(m.Data))
}
func (e *end) Sent(id uint64, err error) { e.sent[id] = err }
func (e *end) Failed(err error)          { e.failed = err }

// need skips a test where there is no UCX, or one that is too old; in CI there is a good one.
func need(t testing.TB) {
	t.Helper()
	if err := Load(); err != nil {
		testenv.Missing(t, err.Error())
	}
}

func newEnd(t testing.TB, o []Option) *end {
	t.Helper()
	need(t)
	e := &end{sent: map[uint64]error{}}
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if e.Worker, err = c.NewWorker(e); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// until lets workers go on until something is true.
func until(t testing.TB, what string, f func() bool, ends ...*end) {
	t.Helper()
	for begin := time.Now(); !f(); {
		for _, e := range ends {
			e.Progress()
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("waited in vain until ", what)
		}
	}
}

// deep takes n KiB of stack.
func deep(n int) (sum byte) {
	var page [1 << 10]byte
	if n > 0 {
		page[n%len(page)] = deep(n - 1)
	}
	return page[n%len(page)] + 1
}

// TestAddr proves that what C gets the address of stays there when the stack of its goroutine moves.
func TestAddr(t *testing.T) {
	done := make(chan [2]uintptr)
	go func() { // with a small stack
		s := new(scratch)
		before := addr(&s.out)
		deep(1 << 10)
		done <- [2]uintptr{before, addr(&s.out)}
	}()
	if a := <-done; a[0] != a[1] {
		t.Errorf("it moves from %#x to %#x", a[0], a[1])
	}
}

// TestMessages proves that headers and data arrive, small and large.
func TestMessages(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	if err := a.Connect(b.Address()); err != nil {
		t.Fatal(err)
	}
	small := []byte("small")
	header := []byte("header")
	done, err := a.Send(header, addr(&small[0]), uint64(len(small)), 1)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the small message was sent", func() bool { _, ok := a.sent[1]; return ok || done }, a, b)
	until(t, "it arrived", func() bool { return len(b.data) == 1 }, a, b)
	if string(b.headers[0]) != "header" || string(b.data[0]) != "small" {
		t.Errorf("got %q %q", b.headers[0], b.data[0])
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if done, err = a.Send(header, addr(&large[0]), uint64(len(large)), 2); err != nil {
		t.Fatal(err)
	}
	until(t, "the large message arrived", func() bool { return len(b.data) == 2 }, a, b)
	until(t, "it was sent", func() bool { _, ok := a.sent[2]; return ok || done }, a, b)
	if !bytes.Equal(b.data[1], large) || a.sent[2] != nil {
		t.Error("the large message is another one", a.sent[2])
	}
}

// TestNoDevice proves that a worker that cannot be made is an error.
func TestNoDevice(t *testing.T) {
	need(t)
	c, err := Open([]Option{{Name: "TLS", Value: "tcp"}, {Name: "NET_DEVICES", Value: "no-such-device"}})
	if err != nil {
		return
	}
	defer c.Close()
	if w, err := c.NewWorker(&end{}); err == nil {
		w.Close()
		t.Error("a worker without a device")
	}
}

// TestClose proves that closing a worker ends what is in flight on it, whatever the other side does: it is dead, or
// alive and reads nothing, with the connection full or not.
func TestClose(t *testing.T) {
	for _, connected := range []bool{false, true} {
		a, b := newEnd(t, loopback), newEnd(t, loopback)
		for _, c := range [][2]*end{{a, b}, {b, a}} {
			if err := c[0].Connect(c[1].Address()); err != nil {
				t.Fatal(err)
			}
		}
		if connected {
			for _, e := range []*end{a, b} {
				e.Send([]byte("h"), 0, 0, 1) //nolint:errcheck // the next lines show
			}
			until(t, "both have a message", func() bool { return len(a.headers) == 1 && len(b.headers) == 1 }, a, b)
		}
		large := make([]byte, 1<<20)
		flying := 0
		for i := range 64 { // more than the kernel takes
			done, err := a.Send([]byte("h"), addr(&large[0]), uint64(len(large)), uint64(2+i))
			if err != nil {
				t.Fatal(err)
			}
			if !done {
				flying++
			}
			a.Progress()
		}
		clear(a.sent)
		a.Close()
		for id, err := range a.sent {
			if err == nil {
				t.Errorf("message %d was sent to nobody", id)
			}
		}
		if flying == 0 || len(a.sent) == 0 {
			t.Errorf("%d messages in flight, %d ended", flying, len(a.sent))
		}
		if _, err := a.Send([]byte("h"), 0, 0, 3); !errors.Is(err, Canceled) {
			t.Errorf("sending on a closed endpoint: %v", err)
		}
	}
}

// TestNumbers proves that numbers of workers are used again, and never twice at a time.
func TestNumbers(t *testing.T) {
	a := newEnd(t, loopback)
	workersMu.Lock()
	old := lastNum
	lastNum = mostNumber - 1
	workersMu.Unlock()
	defer func() {
		workersMu.Lock()
		lastNum = max(old, lastNum)
		workersMu.Unlock()
	}()
	b, c := newEnd(t, loopback), newEnd(t, loopback)
	if b.number != mostNumber || c.number == 0 || c.number > mostNumber || c.number == a.number {
		t.Errorf("numbers %d, %d, %d", a.number, b.number, c.number)
	}
	if workerOf(b.id(5)) != b.Worker || workerOf(c.id(5)) != c.Worker {
		t.Error("a number is another worker's")
	}
}

// TestPeerGone proves that an endpoint fails when the other worker goes.
func TestPeerGone(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	if err := a.Connect(b.Address()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Send([]byte("h"), 0, 0, 1); err != nil {
		t.Fatal(err)
	}
	until(t, "it arrived", func() bool { return len(b.headers) == 1 }, a, b)
	b.Close()
	n := uint64(10)
	until(t, "the endpoint failed", func() bool {
		n++
		a.Send([]byte("h"), 0, 0, n) //nolint:errcheck // it fails sooner or later
		return a.failed != nil
	}, a)
}

// TestSleep proves that an armed worker's descriptor becomes readable when a message comes, and by Signal.
func TestSleep(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	if err := a.Connect(b.Address()); err != nil {
		t.Fatal(err)
	}
	a.Send([]byte("h"), 0, 0, 1) //nolint:errcheck // the next line shows
	until(t, "it arrived", func() bool { return len(b.headers) == 1 }, a, b)
	fd, err := b.FD()
	if err != nil {
		t.Fatal(err)
	}
	readable := func(ms int) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, ms)
		return err == nil && n == 1
	}
	until(t, "it is idle", func() bool { return !a.Progress() && b.Arm() && !readable(0) }, a, b)
	b.Signal()
	if !readable(60000) {
		t.Fatal("Signal does not wake")
	}
	until(t, "it is idle again", func() bool { return !a.Progress() && b.Arm() && !readable(0) }, a, b)
	a.Send([]byte("h"), 0, 0, 2) //nolint:errcheck // the next line shows
	for begin := time.Now(); !readable(1); a.Progress() {
		if time.Since(begin) > time.Minute {
			t.Fatal("a message does not wake")
		}
	}
}

// TestSignalsStayOurs proves that loading UCX leaves the handler of SIGSEGV to the Go runtime.
func TestSignalsStayOurs(t *testing.T) {
	need(t)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("a fault was no panic")
		}
	}()
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	if page[0] == 1 {
		t.Error("a closed page was read")
	}
}

// TestOption proves that an option takes effect, unless the environment has it, and that one that this version does not
// know does no harm: 1.21 refuses names that 1.20 ignores.
func TestOption(t *testing.T) {
	need(t)
	newEnd(t, append([]Option{{Name: "NO_SUCH_OPTION", Value: "1"}, {Name: "RCACHE_ENABLE", Value: "no number"}},
		loopback...))
	none := []Option{{Name: "TLS", Value: "tcp"}, {Name: "NET_DEVICES", Value: "no-such-device"}}
	t.Setenv("UCX_NET_DEVICES", "lo")
	newEnd(t, none)
	none[1].Must = true
	if c, err := Open(none); err == nil {
		defer c.Close()
		if w, err := c.NewWorker(&end{}); err == nil {
			w.Close()
			t.Error("the environment overrules an option that must be")
		}
	}
}
