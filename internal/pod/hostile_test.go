package pod

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// well proves that an owner still serves members of the pod.
func well(t *testing.T, b *Node, h Handle) {
	t.Helper()
	r, err := b.Import(h)
	if err != nil {
		t.Fatalf("somebody who may import is refused: %v", err)
	}
	defer r.Close()
	one := heap(t, 1)
	one[0] = 77
	if err := wait(t, r.Write, Segment{addressOf(one), 5, 1}); err != nil {
		t.Fatalf("somebody who may write cannot: %v", err)
	}
}

// listenerOf returns the address of a node's listener.
func listenerOf(n *Node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listening[0].Addr().String()
}

// TestQuiet proves that nothing listens, and UCX has no worker, before something is exported.
func TestQuiet(t *testing.T) {
	n := node(t, podFile(t, 2, ""), 0)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listening != nil || n.ucx != nil {
		t.Error("a node that exports and imports nothing listens")
	}
}

// TestWrongKey proves that a server with another key can neither import nor pose as an owner.
func TestWrongKey(t *testing.T) {
	file, other := podFile(t, 2, quick), podFile(t, 2, quick)
	if err := os.WriteFile(filepath.Join(filepath.Dir(other), "pod.key"), bytes.Repeat([]byte("x"), 40),
		0o600); err != nil {
		t.Fatal(err)
	}
	a, b, c := node(t, file, 0), node(t, file, 1), node(t, other, 1)
	x, _ := export(t, a, 4096, true)
	if _, err := c.Import(x.Handle); !errors.Is(err, ErrGone) {
		t.Errorf("with another key: %v", err)
	}
	if n, open := a.Exports(); n != 1 || open != 0 {
		t.Errorf("%d exports, %d open", n, open)
	}
	well(t, b, x.Handle)
}

// TestScanner proves that any number of strangers that connect and send garbage, or nothing, do not disturb members.
func TestScanner(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	var open []net.Conn
	for i := range 500 {
		c, err := net.Dial("tcp", listenerOf(a))
		testenv.OK(t, err)
		open = append(open, c)
		switch i % 3 {
		case 1:
			io.WriteString(c, "GET / HTTP/1.1\r\n\r\n") //nolint:errcheck // it may have been closed
		case 2:
			c.Write(bytes.Repeat([]byte{0x16, 3, 1, 0xff}, 1000)) //nolint:errcheck // as above
		}
	}
	well(t, b, x.Handle)
	for _, c := range open {
		c.Close()
	}
	for begin := time.Now(); ; runtime.Gosched() {
		a.mu.Lock()
		n := len(a.unproven)
		a.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d connections are kept", n)
		}
	}
}

// listener listens in front of an owner: handles with its port lead there.
func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.OK(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// pass forwards the bytes of in to an address, and to said, and those of the answer back, until one side ends.
func pass(in net.Conn, to string, said io.Writer) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	for _, c := range []net.Conn{in, out} {
		c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // it is open
	}
	var back sync.WaitGroup
	back.Go(func() { io.Copy(in, out); in.Close() }) //nolint:errcheck // it ends with a connection
	io.Copy(io.MultiWriter(out, said), in)           //nolint:errcheck // likewise
	out.Close()
	back.Wait()
}

// TestReplay proves that a recorded import cannot be replayed.
func TestReplay(t *testing.T) {
	file := podFile(t, 2, quick)
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	l := listener(t)
	var said bytes.Buffer // bytes sent by the importer
	var wg sync.WaitGroup
	wg.Go(func() {
		if in, err := l.Accept(); err == nil {
			pass(in, listenerOf(a), &said)
		}
	})
	h := x.Handle
	h.Port = portOf(l)
	r, err := b.Import(h)
	testenv.OK(t, err)
	if n, open := a.Exports(); n != 1 || open != 1 {
		t.Fatalf("%d exports, %d open", n, open)
	}
	testenv.OK(t, r.Close())
	l.Close()
	wg.Wait()
	c, err := net.Dial("tcp", listenerOf(a))
	testenv.OK(t, err)
	defer c.Close()
	c.Write(said.Bytes())                      //nolint:errcheck // it may be closed before the end
	c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // a connection that is closed fails below
	if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the owner does not hang up: %v", err)
	}
	if n, open := a.Exports(); n != 1 || open != 0 {
		t.Errorf("%d exports, %d open, after a replay", n, open)
	}
	if bytes.Contains(said.Bytes(), h.Secret[:]) {
		t.Error("the secret travels in the clear")
	}
	well(t, b, x.Handle)
}

// insider is an attacker with the key.
type insider struct {
	conn *tls.Conn // control
	bulk *tls.Conn // for copies
}

// proves returns a TLS connection to an owner that proves the key.
func proves(t *testing.T, owner *Node) *tls.Conn {
	t.Helper()
	raw, err := net.Dial("tcp", listenerOf(owner))
	testenv.OK(t, err)
	c := tls.Client(raw, owner.tls)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	testenv.OK(t, c.Handshake())
	return c
}

func sneak(t *testing.T, owner *Node) *insider {
	t.Helper()
	i := &insider{conn: proves(t, owner), bulk: proves(t, owner)}
	me := newToken()
	i.says(t, request{Do: doHello, Protocol: protocol, Server: 1, Pid: os.Getpid(), Importer: me[:]})
	a := i.says(t, request{Do: doBulk})
	if _, err := i.bulk.Write(append([]byte(bulkMagic), a.Ticket...)); err != nil {
		t.Fatal(err)
	}
	proof := make([]byte, len(ticket{}))
	if _, err := io.ReadFull(i.bulk, proof); err != nil || !bytes.Equal(proof, a.Proof) {
		t.Fatal("the owner proves nothing", err)
	}
	return i
}

// says sends a request over the control connection and returns the response.
func (i *insider) says(t *testing.T, r request) (a response) {
	t.Helper()
	testenv.OK(t, writeFrame(i.conn, time.Minute, r))
	if err := readFrame(i.conn, time.Minute, false, &a); err != nil || a.Refused != "" {
		t.Fatal(err, a.Refused)
	}
	return a
}

// opens opens an export and returns its number.
func (i *insider) opens(t *testing.T, h Handle) uint64 {
	t.Helper()
	return i.says(t, request{Do: doOpen, Secret: h.Secret[:]}).Share
}

// asks sends a request for copies and returns the answer; false if the owner ends the connection instead.
func (i *insider) asks(t *testing.T, h header, data []byte) (header, bool) {
	t.Helper()
	var b [headerSize]byte
	h.op = 7
	h.put(&b)
	if _, err := i.bulk.Write(append(b[:], data...)); err != nil {
		return h, false
	}
	if _, err := io.ReadFull(i.bulk, b[:]); err != nil {
		return h, false
	}
	got, ok := getHeader(b[:])
	if !ok || got.op != 7 {
		t.Fatalf("answered by %+v", got)
	}
	if got.kind == kData {
		if _, err := io.CopyN(io.Discard, i.bulk, int64(got.length)); err != nil {
			t.Fatal(err)
		}
	}
	return got, true
}

// TestInsider proves that an owner checks every range and every list in the requests of a member. Invalid requests are
// refused, or end the connection, and change nothing.
func TestInsider(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	const size = 8192
	x, theirs := export(t, a, size, true)
	y, others := export(t, a, size, true) // which the insider has not opened
	list := func(pairs ...uint64) (b []byte) {
		for j := 0; j < len(pairs); j += 2 {
			b = putPlace(b, pairs[j], pairs[j+1])
		}
		return b
	}
	const max = 1<<64 - 1
	const share = 1 // the first export opened
	for name, c := range map[string]struct {
		h    header
		data []byte
		want int // status; -1 if the connection ends
	}{
		"another number": {header{kind: kWrite, share: 2, length: 1}, []byte{1}, statusUnknown},
		"number 0":       {header{kind: kRead, share: 0, length: 1}, nil, statusUnknown},
		"past the end":   {header{kind: kWrite, share: share, offset: size, length: 1}, []byte{1}, statusRange},
		"over the end": {header{kind: kWrite, share: share, offset: size - 1, length: 2}, []byte{1, 1},
			statusRange},
		"around the end": {header{kind: kWrite, share: share, offset: max, length: 2}, []byte{1, 1},
			statusRange},
		"writes nothing":        {header{kind: kWrite, share: share}, nil, statusBad},
		"writes too much":       {header{kind: kWrite, share: share, length: readMost + 1}, nil, -1},
		"reads past the end":    {header{kind: kRead, share: share, offset: size, length: 1}, nil, statusRange},
		"reads around the end":  {header{kind: kRead, share: share, offset: max, length: 8}, nil, statusRange},
		"reads too much":        {header{kind: kRead, share: share, length: max}, nil, -1},
		"reads nothing":         {header{kind: kRead, share: share}, nil, statusBad},
		"list past the end":     {header{kind: kGather, share: share, count: 1, length: 1}, list(size, 1), statusRange},
		"list around the end":   {header{kind: kGather, share: share, count: 1, length: 2}, list(max, 2), statusRange},
		"list that is too long": {header{kind: kGather, share: share, count: max >> 32}, list(0, 1), -1},
		"list of nothing":       {header{kind: kGather, share: share, count: 0}, nil, statusBad},
		"list of too much": {header{kind: kGather, share: share, count: placesMost, length: readMost},
			bytes.Repeat(list(0, size), placesMost), statusBad},
		"list of more than it says": {header{kind: kGather, share: share, count: 1, length: 1}, list(0, 3), statusBad},
		"scatter past the end": {header{kind: kScatter, share: share, count: 1, length: 1}, append(list(size, 1), 1),
			statusRange},
		"scatter with less": {header{kind: kScatter, share: share, count: 1, length: 1}, append(list(0, 3), 1),
			statusBad},
		"scatter with more": {header{kind: kScatter, share: share, count: 1, length: 2}, append(list(0, 1), 1, 1),
			statusBad},
		"an answer to nothing": {header{kind: kAck, share: share}, nil, -1},
		"data for nothing":     {header{kind: kData, share: share}, []byte{1}, -1},
		"no such kind":         {header{kind: 99, share: share}, nil, -1},
	} {
		i := sneak(t, a)
		i.opens(t, x.Handle)
		got := -1
		if h, ok := i.asks(t, c.h, c.data); ok {
			if got = int(h.status); h.kind != kAck {
				t.Errorf("%s: data came", name)
			}
			if h, ok := i.asks(t, header{kind: kRead, share: share, length: 1}, nil); !ok || h.kind != kData {
				t.Errorf("%s: a good request is not answered any more", name)
			}
		}
		if got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
		i.conn.Close()
	}
	if !bytes.Equal(theirs, make([]byte, size)) || !bytes.Equal(others, make([]byte, size)) {
		t.Error("memory was changed")
	}
	well(t, b, y.Handle)
}

// TestGreedy proves that an importer that sends requests and reads no answers loses its link, and no other does.
func TestGreedy(t *testing.T) {
	file := podFile(t, 2, quick)
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 8<<20, true)
	i := sneak(t, a)
	share := i.opens(t, x.Handle)
	for range 100 {
		var one [headerSize]byte
		(&header{kind: kRead, share: share, length: readMost}).put(&one)
		if _, err := i.bulk.Write(one[:]); err != nil {
			break
		}
	}
	testenv.Eventually(t, "its link ends", func() bool { _, open := a.Exports(); return open == 0 })
	well(t, b, x.Handle)
}

// TestFrames proves that a member may send arbitrary bytes over TLS without harm.
func TestFrames(t *testing.T) {
	file := podFile(t, 2, quick)
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	frame := func(text string) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	for name, text := range map[string][]byte{
		"nothing": nil, "half a length": {1, 0}, "a huge length": {255, 255, 255, 255}, "less than it says": {100, 0, 0,
			0, '{'},
		"no JSON": frame("hello"), "other JSON": frame("[1,2]"), "another protocol": frame(`{"Do":"hello","Protocol":9}`),
		"no importer": frame(`{"Do":"hello","Protocol":3}`), "no token": frame(`{"Do":"hello","Protocol":3,"Worker":"AAAA"}`),
		"no ticket": []byte(bulkMagic), "a ticket of nobody": append([]byte(bulkMagic), make([]byte, 32)...),
		"no hello": frame(`{"Do":"open"}`), "deep": frame(strings.Repeat("[", 10000)),
	} {
		c := proves(t, a)
		c.Write(text)  //nolint:errcheck // it may be closed
		c.CloseWrite() //nolint:errcheck // as above
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the owner does not hang up: %v", name, err)
		}
	}
	i := sneak(t, a)
	i.conn.Write(frame(`{"Do":"nonsense"}`)) //nolint:errcheck // as above
	if _, err := io.Copy(io.Discard, i.conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("nonsense after hello: %v", err)
	}
	well(t, b, x.Handle)
}

// portOf returns the port of a listener.
func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }
