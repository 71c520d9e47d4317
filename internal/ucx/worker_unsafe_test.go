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
var loopback = []Option{{"TLS", "tcp"}, {"NET_DEVICES", "lo"}}

// end is a worker that remembers what it was called with.
type end struct {
	*Worker
	headers, data [][]byte
	sent          map[uint64]error
	failed        map[uint64]error
}

func (e *end) Message(m *Message) {
	e.headers, e.data = append(e.headers, bytes.Clone(m.Header)), append(e.data, bytes.Clone(m.Data))
}
func (e *end) Sent(id uint64, err error)   { e.sent[id] = err }
func (e *end) Failed(id uint64, err error) { e.failed[id] = err }

// need skips a test where there is no UCX; in CI there is one.
func need(t testing.TB) {
	t.Helper()
	if err := Load(); err != nil {
		if errors.Is(err, ErrMissing) {
			testenv.Missing(t, err.Error())
		}
		t.Skip(err) // one that is too old
	}
}

func newEnd(t testing.TB, o []Option) *end {
	t.Helper()
	need(t)
	e := &end{sent: map[uint64]error{}, failed: map[uint64]error{}}
	w, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	e.Worker = w
	t.Cleanup(w.Close)
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

// TestMessages proves that headers and data arrive, small and large.
func TestMessages(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	ep, err := a.Connect(b.Address(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	small := []byte("small")
	header := []byte("header")
	done, err := ep.Send(header, addr(&small[0]), uint64(len(small)), 1)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the small message was sent", func() bool { _, ok := a.sent[1]; return ok || done }, a, b)
	until(t, "it arrived", func() bool { return len(b.data) == 1 }, a, b)
	if string(b.headers[0]) != "header" || string(b.data[0]) != "small" {
		t.Errorf("got %q %q", b.headers[0], b.data[0])
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if done, err = ep.Send(header, addr(&large[0]), uint64(len(large)), 2); err != nil {
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
	if w, err := New(&end{}, []Option{{"TLS", "tcp"}, {"NET_DEVICES", "no-such-device"}}); err == nil {
		w.Close()
		t.Error("a worker without a device")
	}
}

// TestForcedClose proves that closing an endpoint ends what is in flight on it, whatever the other side does.
func TestForcedClose(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	ep, err := a.Connect(b.Address(), 1)
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 1<<20)
	if _, err := ep.Send([]byte("h"), addr(&large[0]), uint64(len(large)), 2); err != nil {
		t.Fatal(err)
	}
	ep.Close()
	until(t, "it ended", func() bool { _, ok := a.sent[2]; return ok }, a)
	if a.sent[2] == nil {
		t.Error("it was sent to nobody")
	}
	if _, err := ep.Send([]byte("h"), 0, 0, 3); !errors.Is(err, Canceled) {
		t.Errorf("sending on a closed endpoint: %v", err)
	}
}

// TestPeerGone proves that an endpoint fails when the other worker goes.
func TestPeerGone(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	ep, err := a.Connect(b.Address(), 9)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	if _, err := ep.Send([]byte("h"), 0, 0, 1); err != nil {
		t.Fatal(err)
	}
	until(t, "it arrived", func() bool { return len(b.headers) == 1 }, a, b)
	b.Close()
	n := uint64(10)
	until(t, "the endpoint failed", func() bool {
		n++
		ep.Send([]byte("h"), 0, 0, n) //nolint:errcheck // it fails sooner or later
		return a.failed[9] != nil
	}, a)
}

// TestSleep proves that an armed worker's descriptor becomes readable when a message comes, and by Signal.
func TestSleep(t *testing.T) {
	a, b := newEnd(t, loopback), newEnd(t, loopback)
	ep, err := a.Connect(b.Address(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	ep.Send([]byte("h"), 0, 0, 1) //nolint:errcheck // the next line shows
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
	ep.Send([]byte("h"), 0, 0, 2) //nolint:errcheck // the next line shows
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
