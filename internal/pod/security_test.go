package pod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// Each test here attacks a line about pods in SECURITY.md; so do hostile_test.go and near_test.go.

// hungUp reads until the other side of c closes the connection, and returns the bytes.
func hungUp(t *testing.T, c net.Conn) []byte {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // a connection that is closed fails below
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the owner does not hang up: %v", err)
	}
	return b
}

// TestSlowStrangers proves that a connection that does not prove the key ends after the pod's timeout: a silent one,
// one that closes its half, and one that sends a byte now and then.
func TestSlowStrangers(t *testing.T) {
	file := podFile(t, 2, quick)
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	var wg sync.WaitGroup
	for _, does := range []func(c *net.TCPConn){
		func(*net.TCPConn) {},
		func(c *net.TCPConn) { c.CloseWrite() },
		func(c *net.TCPConn) {
			for _, err := c.Write([]byte{tlsHandshake, 3, 1, 2, 0}); err == nil; time.Sleep(10 * time.Millisecond) {
				_, err = c.Write([]byte{1})
			}
		},
	} {
		c, err := net.Dial("tcp", listenerOf(a))
		testenv.OK(t, err)
		defer c.Close()
		wg.Go(func() { does(c.(*net.TCPConn)) })
		hungUp(t, c)
	}
	wg.Wait()
	well(t, b, x.Handle)
}

// TestTickets proves that a pod that encrypts refuses a connection without TLS even if its ticket is valid; that a
// ticket is valid once, not after the end of its control connection, and not after the pod's timeout; and that there is
// no answer without a ticket.
func TestTickets(t *testing.T) {
	for _, encryption := range []string{"tls", "none"} {
		file := podFile(t, 2, quick+"encryption: "+encryption+"\n")
		a, b := node(t, file, 0), node(t, file, 1)
		x, _ := export(t, a, 4096, true)
		i := sneak(t, a)
		shows := func(ticket []byte) string {
			c, err := net.Dial("tcp", listenerOf(a))
			testenv.OK(t, err)
			defer c.Close()
			c.Write(append([]byte(bulkMagic), ticket...)) //nolint:errcheck // it may be closed
			c.(*net.TCPConn).CloseWrite()                 //nolint:errcheck // likewise
			return string(hungUp(t, c))
		}
		got := i.says(t, request{Do: doBulk})
		want := ""
		if encryption == "none" {
			want = string(got.Proof)
		}
		if answer := shows(got.Ticket); answer != want {
			t.Errorf("encryption %s: a plain connection with a ticket is answered by %q", encryption, answer)
		}
		i.conn.Close()
		i = sneak(t, a)
		old := i.says(t, request{Do: doBulk})
		i.conn.Close()
		testenv.Eventually(t, "tickets go", func() bool { return len(tickets(a)) == 0 })
		i = sneak(t, a)
		late := i.says(t, request{Do: doBulk})
		for _, admitted := range tickets(a) {
			a.mu.Lock()
			admitted.until = time.Now().Add(-time.Second)
			a.mu.Unlock()
		}
		for name, ticket := range map[string][]byte{"used": got.Ticket, "old": old.Ticket, "late": late.Ticket,
			"zero": make([]byte, 32)} {
			if answer := shows(ticket); answer != "" {
				t.Errorf("encryption %s: a ticket that is %s is answered by %q", encryption, name, answer)
			}
		}
		well(t, b, x.Handle)
		i.conn.Close()
	}
}

// TestTicketsAreFew proves that an importer that asks for connections and makes none gets a few tickets, and loses its
// link if it asks for more, but that expired tickets are not counted.
func TestTicketsAreFew(t *testing.T) {
	a := node(t, podFile(t, 2, ""), 0)
	export(t, a, 4096, true)
	i := sneak(t, a)
	for range mostLanes {
		i.says(t, request{Do: doBulk})
	}
	a.mu.Lock()
	for _, admitted := range a.tickets {
		admitted.until = time.Now().Add(-time.Second)
	}
	a.mu.Unlock()
	for range mostLanes {
		i.says(t, request{Do: doBulk})
	}
	if n := len(tickets(a)); n != mostLanes {
		t.Errorf("%d tickets", n)
	}
	var none response
	testenv.OK(t, writeFrame(i.conn, time.Minute, request{Do: doBulk}))
	if err := readFrame(i.conn, time.Minute, false, &none); err == nil {
		t.Errorf("one more than %d tickets is given: %+v", mostLanes, none)
	}
}

func tickets(n *Node) []*admission {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*admission
	for _, a := range n.tickets {
		all = append(all, a)
	}
	return all
}

// TestEncrypted proves that copies are encrypted unless the pod files of both ends turn that off, and that the secret
// of memory is always encrypted.
func TestEncrypted(t *testing.T) {
	for _, c := range []struct {
		owner, user string
		clear       bool
	}{{"tls", "tls", false}, {"none", "tls", false}, {"tls", "none", false}, {"none", "none", true}} {
		a := node(t, podFile(t, 2, "encryption: "+c.owner+"\n"), 0)
		b := node(t, podFile(t, 2, "encryption: "+c.user+"\n"), 1)
		x, _ := export(t, a, 1<<16, true)
		l := listener(t)
		var mu sync.Mutex
		var said bytes.Buffer
		note := writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return said.Write(p)
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			for in, err := l.Accept(); err == nil; in, err = l.Accept() {
				wg.Go(func() { pass(in, listenerOf(a), note) })
			}
		})
		h := x.Handle
		h.Port = portOf(l)
		r, err := b.Import(h)
		testenv.OK(t, err)
		mine := heap(t, 1<<16)
		pattern(mine, 3)
		testenv.OK(t, wait(t, r.Write, Segment{addressOf(mine), 0, 1 << 16}))
		r.Close()
		b.Close()
		l.Close()
		wg.Wait()
		if got := bytes.Contains(said.Bytes(), mine[:64]); got != c.clear {
			t.Errorf("owner %s, importer %s: bytes in the clear: %v", c.owner, c.user, got)
		}
		if bytes.Contains(said.Bytes(), h.Secret[:]) {
			t.Errorf("owner %s, importer %s: the secret is in the clear", c.owner, c.user)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestScan proves that an owner listens only at the configured port, that an importer does not listen, and that between
// processes of one machine nothing listens on TCP.
func TestScan(t *testing.T) {
	for _, more := range []string{onTCP, near} {
		file := podFile(t, 2, more)
		owner, user := launch(t, file, 0), launch(t, file, 1)
		user.Does("import %s", owner.Does("export %d", 1<<20))
		user.Does("write 1")
		owner.Does("has 1")
		want := 1
		if more == near {
			want = 0
		}
		if got := tcpListeners(t, owner.Pid()); len(got) != want {
			t.Errorf("%s: the owner listens at %v", more, got)
		}
		if got := tcpListeners(t, user.Pid()); len(got) != 0 {
			t.Errorf("%s: the importer listens at %v", more, got)
		}
	}
}

// tcpListeners returns the sockets of a process that listen on TCP.
func tcpListeners(t *testing.T, pid int) (all []string) {
	t.Helper()
	own := map[string]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, f := range files {
		if to, err := os.Readlink(f); err == nil {
			own[to] = true
		}
	}
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			continue // no IPv6
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			if w := strings.Fields(line); len(w) > 9 && w[3] == "0A" && own["socket:["+w[9]+"]"] {
				all = append(all, w[1])
			}
		}
	}
	return all
}

// stranger is the variable that names the socket for a process of this binary to attack, as another user.
const stranger = "ROPEWAY_POD_TEST_STRANGER"

// attackNear connects 500 times to a socket of this machine, prints how often the owner closes the connection, and
// keeps the connections until its input ends.
func attackNear(name string) {
	list, err := os.ReadFile("/proc/net/unix")
	if err != nil || !strings.Contains(string(list), name) {
		fmt.Println("the socket is not shown", err)
		return
	}
	var kept []net.Conn
	hung := 0
	for range 500 {
		c, err := net.Dial("unix", name)
		if err != nil {
			continue
		}
		kept = append(kept, c)
		c.SetDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // a connection that is closed fails below
		if _, err := c.Read(make([]byte, 1)); isTimeout(err) {
			break
		}
		hung++
	}
	fmt.Println(hung, "hung up")
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // it ends with the test
	runtime.KeepAlive(kept)
}

// forOthers returns a copy of this binary that every user may execute.
func forOthers(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ropeway-pod-test")
	testenv.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	testenv.OK(t, err)
	binary, err := os.ReadFile(self)
	testenv.OK(t, err)
	name := filepath.Join(dir, "stranger")
	testenv.OK(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(name, binary, 0o755)))
	return name
}

// TestOtherUser proves that another user of this machine, who sees the names of all sockets, cannot use any of them,
// and that 500 tries do not keep processes of the owner's user from mapping memory.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root becomes another user")
	}
	file := podFile(t, 2, near+"timeout: 10m\n")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	attack := exec.Command(forOthers(t))
	attack.Env = []string{stranger + "=" + a.socketName(place{x.Handle.Server, x.Handle.Port})}
	attack.Dir = "/"
	attack.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	p := testenv.StartProcess(t, attack)
	if got := p.Line(); got != "500 hung up" {
		t.Errorf("another user connects to the owner's socket: %s", got)
	}
	r, err := b.Import(x.Handle)
	testenv.OK(t, err)
	defer r.Close()
	if r.near == nil {
		t.Error("memory is not mapped any more")
	}
}

func barePipe(c net.Conn) *pipe {
	k := &counted{Conn: c}
	return newPipe(k, k)
}

// FuzzGuest feeds a connection of a stranger to the port of a process.
func FuzzGuest(f *testing.F) {
	n := node(f, podFile(f, 2, quick+"encryption: none\n"), 0)
	f.Add([]byte(bulkMagic + "0123456789abcdef0123456789abcdef"))
	f.Add([]byte{tlsHandshake, 3, 1, 0, 5, 1, 0, 0, 1, 3})
	f.Fuzz(func(t *testing.T, text []byte) {
		fed(t, text, func(c net.Conn) { n.guest(c) })
	})
}

// fed calls serve with a connection that sends text and ends, and returns the answer.
func fed(t *testing.T, text []byte, serve func(net.Conn)) []byte {
	t.Helper()
	mine, theirs := net.Pipe()
	var wg sync.WaitGroup
	var answer []byte
	wg.Go(func() { serve(theirs); theirs.Close() })
	wg.Go(func() { answer, _ = io.ReadAll(mine) })
	mine.Write(text) //nolint:errcheck // it may be closed
	mine.Close()
	wg.Wait()
	return answer
}

// FuzzFrame feeds the body of a frame.
func FuzzFrame(f *testing.F) {
	f.Add(uint32(16), []byte(`{"Do":"hello","Protocol":3}`))
	f.Fuzz(func(t *testing.T, n uint32, text []byte) {
		var q request
		head := [4]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}
		if readBody(bytes.NewReader(text), head, &q) == nil && (n > mostFrame || int(n) > len(text)) {
			t.Errorf("a frame of %d bytes is read from %d", n, len(text))
		}
	})
}

// FuzzRequests feeds requests of a member that has opened one of two exports.
func FuzzRequests(f *testing.F) {
	n := node(f, podFile(f, 2, quick), 0)
	x, _ := export(f, n, 8192, true)
	y, others := export(f, n, 8192, true)
	defer runtime.KeepAlive(y)
	for _, h := range []header{{kind: kWrite, share: 1, length: 8}, {kind: kRead, share: 1, offset: 8190, length: 2},
		{kind: kScatter, share: 1, count: 1, length: 8}, {kind: kGather, share: 1, count: 2, length: 8}} {
		var b [headerSize]byte
		h.put(&b)
		f.Add(append(append(b[:], putPlace(nil, 3, 8)...), 1, 2, 3, 4, 5, 6, 7, 8))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := newResponder(n, func(error) {})
		x.retain()
		r.open(1, x)
		fed(t, text, func(c net.Conn) { r.serve(barePipe(c)) })
		r.close(ErrClosed)
		if !bytes.Equal(others, make([]byte, len(others))) {
			t.Error("memory that was not opened has changed")
		}
	})
}

// FuzzAnswers feeds the answer to a read of 64 bytes.
func FuzzAnswers(f *testing.F) {
	n := node(f, podFile(f, 2, quick), 0)
	var b [headerSize]byte
	(&header{kind: kData, length: 64}).put(&b)
	f.Add(append(b[:], make([]byte, 64)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		room := bytes.Repeat([]byte{7}, 192)
		fed(t, text, func(c net.Conn) {
			q := newRequester(n, func() (*pipe, error) { return barePipe(c), nil }, func(error) {})
			end := make(chan error, 1)
			q.start(&transfer{share: 1, segs: []Segment{{addressOf(room[64:]), 0, 64}},
				done: func(err error) { end <- err }})
			<-end
			q.close(ErrClosed)
		})
		if !bytes.Equal(room[:64], room[128:]) || room[0] != 7 || room[63] != 7 {
			t.Error("bytes beside those that were asked for have changed")
		}
	})
}

// FuzzHandle feeds arbitrary handles.
func FuzzHandle(f *testing.F) {
	f.Add(make([]byte, HandleSize))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, ok := ParseHandle(text)
		var b [HandleSize]byte
		if h.Put(b[:]); ok && !bytes.Equal(b[:], text[:HandleSize]) {
			t.Errorf("%x is read as %+v", text, h)
		}
	})
}
