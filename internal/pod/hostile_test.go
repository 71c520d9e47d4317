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

	"ropeway/internal/ucx"
)

// well proves that an owner still serves those who may.
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

// listenerOf is where a node listens.
func listenerOf(n *Node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listener.Addr().String()
}

// TestQuiet proves that nothing listens, and UCX has no worker, before something is exported.
func TestQuiet(t *testing.T) {
	n := node(t, podFile(t, 2, ""), 0)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listener != nil || n.ucx != nil {
		t.Error("a node that exports and imports nothing listens")
	}
}

// TestWrongKey proves that a server with another key gets nothing, and that one is not taken for an owner.
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

// TestScanner proves that strangers that connect and send something else, or nothing, leave the others alone, however
// many they are.
func TestScanner(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	var open []net.Conn
	for i := range 3 * mostUnproven {
		c, err := net.Dial("tcp", listenerOf(a))
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// pass passes on what comes from in to an address, and to said, and back, until one of them ends.
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

// TestReplay proves that what somebody has recorded of an import is worth nothing.
func TestReplay(t *testing.T) {
	file := podFile(t, 2, quick)
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	l := listener(t)
	var said bytes.Buffer // by the importer
	var wg sync.WaitGroup
	wg.Go(func() {
		if in, err := l.Accept(); err == nil {
			pass(in, listenerOf(a), &said)
		}
	})
	h := x.Handle
	h.Port = portOf(l)
	r, err := b.Import(h)
	if err != nil {
		t.Fatal(err)
	}
	if n, open := a.Exports(); n != 1 || open != 1 {
		t.Fatalf("%d exports, %d open", n, open)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	wg.Wait()
	c, err := net.Dial("tcp", listenerOf(a))
	if err != nil {
		t.Fatal(err)
	}
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

// insider is somebody who has the key and does what no node does.
type insider struct {
	w    *ucx.Worker
	conn *tls.Conn
	to   token // what the owner's messages begin with
	back []header
	data []byte
}

func (i *insider) Message(m *ucx.Message) {
	if h, ok := getHeader(m.Header); ok {
		i.back = append(i.back, h)
		i.data = append(i.data, m.Data...)
	}
}
func (i *insider) Sent(uint64, error) {}
func (i *insider) Failed(error)       {}

// proves is a TLS connection to an owner, of somebody who has the key.
func proves(t *testing.T, owner *Node) *tls.Conn {
	t.Helper()
	raw, err := net.Dial("tcp", listenerOf(owner))
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, owner.tls)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

func sneak(t *testing.T, owner *Node) *insider {
	t.Helper()
	i := &insider{conn: proves(t, owner)}
	options, _, err := owner.config.options()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ucx.Open(options, 0) // it sends what it likes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if i.w, err = c.NewWorker(i); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.w.Close)
	mine := newToken()
	hello := request{Do: doHello, Protocol: protocol, Server: 1, Pid: os.Getpid(), Worker: i.w.Address(),
		Token: mine[:], Importer: mine[:]}
	if err := writeFrame(i.conn, time.Minute, hello); err != nil {
		t.Fatal(err)
	}
	var a response
	if err := readFrame(i.conn, time.Minute, false, &a); err != nil {
		t.Fatal(err)
	}
	i.to = token(a.Token)
	if err = i.w.Connect(a.Worker); err != nil {
		t.Fatal(err)
	}
	return i
}

// opens opens an export and returns its number.
func (i *insider) opens(t *testing.T, h Handle) uint64 {
	t.Helper()
	var a response
	if err := writeFrame(i.conn, time.Minute, request{Do: doOpen, Secret: h.Secret[:]}); err != nil {
		t.Fatal(err)
	}
	if err := readFrame(i.conn, time.Minute, false, &a); err != nil || a.Refused != "" {
		t.Fatal(err, a.Refused)
	}
	return a.Share
}

// asks sends a request and returns the answer; none if there is none while another one is answered.
func (i *insider) asks(t *testing.T, h header, data []byte, share uint64) *header {
	t.Helper()
	i.back = nil
	send := func(h header, data []byte) {
		h.token = i.to
		var b [headerSize]byte
		h.put(&b)
		own := append(bytes.Clone(data), 0)
		sent = append(sent, b[:], own) // kept for UCX
		if _, err := i.w.Send(b[:], addressOf(own), uint64(len(data)), 1); err != nil {
			t.Fatal(err)
		}
	}
	h.op = 7
	send(h, data)
	send(header{kind: kRead, op: 8, share: share, length: 1}, nil)
	var got *header
	for begin := time.Now(); ; i.w.Progress() {
		for j := range i.back {
			switch i.back[j].op {
			case 7:
				got = &i.back[j]
			case 8:
				return got
			}
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("no answer")
		}
	}
}

var sent [][]byte

// TestInsider proves that an owner checks what those ask for who have the key: every range and every list. Messages
// that make no sense get an answer that says so, or none, and change nothing.
func TestInsider(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	const size = 8192
	x, theirs := export(t, a, size, true)
	y, others := export(t, a, size, true) // which the insider has not opened
	i := sneak(t, a)
	share := i.opens(t, x.Handle)
	list := func(pairs ...uint64) (b []byte) {
		for j := 0; j < len(pairs); j += 2 {
			b = putPlace(b, pairs[j], pairs[j+1])
		}
		return b
	}
	const max = 1<<64 - 1
	for name, c := range map[string]struct {
		h    header
		data []byte
		want int // status; -1 if there is no answer
	}{
		"another number": {header{kind: kWrite, share: share + 1, length: 1}, []byte{1}, statusUnknown},
		"number 0":       {header{kind: kRead, share: 0, length: 1}, nil, statusUnknown},
		"past the end":   {header{kind: kWrite, share: share, offset: size, length: 1}, []byte{1}, statusRange},
		"over the end": {header{kind: kWrite, share: share, offset: size - 1, length: 2}, []byte{1, 1},
			statusRange},
		"around the end": {header{kind: kWrite, share: share, offset: max, length: 2}, []byte{1, 1},
			statusRange},
		"length that lies":      {header{kind: kWrite, share: share, length: 9}, []byte{1}, statusBad},
		"reads past the end":    {header{kind: kRead, share: share, offset: size, length: 1}, nil, statusRange},
		"reads around the end":  {header{kind: kRead, share: share, offset: max, length: 8}, nil, statusRange},
		"reads too much":        {header{kind: kRead, share: share, length: max}, nil, statusBad},
		"reads nothing":         {header{kind: kRead, share: share}, nil, statusBad},
		"list past the end":     {header{kind: kGather, share: share, count: 1}, list(size, 1), statusRange},
		"list around the end":   {header{kind: kGather, share: share, count: 1}, list(max, 2), statusRange},
		"list that is too long": {header{kind: kGather, share: share, count: max >> 32}, list(0, 1), statusBad},
		"list of nothing":       {header{kind: kGather, share: share, count: 0}, nil, statusBad},
		"list that is cut":      {header{kind: kGather, share: share, count: 2}, list(0, 1), statusBad},
		"list of too much": {header{kind: kGather, share: share, count: placesMost},
			bytes.Repeat(list(0, size), placesMost), statusBad},
		"scatter past the end": {header{kind: kScatter, share: share, count: 1}, append(list(size, 1), 1),
			statusRange},
		"scatter with less": {header{kind: kScatter, share: share, count: 1}, append(list(0, 3), 1), statusRange},
		"scatter with more": {header{kind: kScatter, share: share, count: 1}, append(list(0, 1), 1, 1),
			statusRange},
		"scatter with no list": {header{kind: kScatter, share: share, count: 9}, []byte{1}, statusBad},
		"an answer to nothing": {header{kind: kAck, share: share}, nil, -1},
		"data for nothing":     {header{kind: kData, share: share}, []byte{1}, -1},
		"no such kind":         {header{kind: 99, share: share}, nil, -1},
	} {
		got := -1
		if h := i.asks(t, c.h, c.data, share); h != nil {
			got = int(h.status)
			if h.kind != kAck {
				t.Errorf("%s: data came", name)
			}
		}
		if got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	for _, h := range [][]byte{nil, {1}, make([]byte, headerSize-1), make([]byte, headerSize),
		make([]byte, headerSize+1)} {
		if _, err := i.w.Send(append(h, 0)[:len(h)], 0, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	if h := i.asks(t, header{kind: kRead, share: share, length: 1}, nil, share); h == nil || h.kind != kData {
		t.Error("a good request is not answered any more")
	}
	if !bytes.Equal(theirs, make([]byte, size)) || !bytes.Equal(others, make([]byte, size)) {
		t.Error("memory was changed")
	}
	well(t, b, y.Handle)
}

// TestGreedy proves that an importer that asks and takes no answers loses its link, and nobody else does.
func TestGreedy(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 8<<20, true)
	i := sneak(t, a)
	share := i.opens(t, x.Handle)
	var b64 [headerSize]byte
	for op := range 4 * mostServe { // the worker makes no progress of its own, so nothing of what comes is taken
		h := header{token: i.to, kind: kRead, op: uint64(op), share: share, length: pieceMost}
		h.put(&b64)
		one := bytes.Clone(b64[:])
		sent = append(sent, one)
		if _, err := i.w.Send(one, 0, 0, 1); err != nil {
			break
		}
	}
	for begin := time.Now(); ; {
		i.w.Progress()
		if _, open := a.Exports(); open == 0 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("it is still served")
		}
	}
	well(t, b, x.Handle)
}

// TestFrames proves that what is sent over TLS by somebody who has the key may be anything.
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
		"no worker": frame(`{"Do":"hello","Protocol":1,"Token":"AAAAAAAAAAAAAAAAAAAAAA=="}`), "no token": frame(`{"Do":"hello","Protocol":1,"Worker":"AAAA"}`),
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
