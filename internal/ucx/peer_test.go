package ucx

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Numbers of UCX's TCP transport.
const (
	tcpMagic   = 0xCAFEBABE12345678 // what a connection begins with
	tcpHeader  = 5                  // bytes before each message: what it is, and its length
	tcpConnect = 32                 // is a message of the transport itself
	tcpAck     = 2                  // that the connection is accepted
	tcpAlive   = 35                 // is one that says that the other side lives
	amWireup   = 1                  // is one by which endpoints introduce themselves to each other
	amSingle   = 23                 // is one of ours
)

// peer is the other side of a worker's connection, which is no UCX: it can do in any order what a process does that
// ends.
type peer struct {
	t       *testing.T
	l       net.Listener
	address []byte // of a worker that is at its port
	conn    net.Conn
}

// newPeer makes a peer: a worker is made and closed, and the peer listens where it did.
func newPeer(t *testing.T) *peer {
	t.Helper()
	need(t)
	for range 100 { // another process may take the port
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		_, port, _ := net.SplitHostPort(at)
		l.Close()
		p := &peer{t: t}
		if p.address = addressAt(port); p.address == nil {
			continue
		}
		if p.l, err = net.Listen("tcp", at); err != nil {
			continue
		}
		t.Cleanup(func() { p.l.Close() })
		return p
	}
	t.Fatal("no port is free")
	return nil
}

// addressAt is the address of a worker at a port, which is closed; nil if it cannot be there.
func addressAt(port string) []byte {
	c, err := Open(append([]Option{{Transport: "TCP", Name: "PORT_RANGE", Value: port + "-" + port}}, loopback...), 0)
	if err != nil {
		return nil
	}
	defer c.Close()
	w, err := c.NewWorker(&end{})
	if err != nil {
		return nil
	}
	defer w.Close()
	return w.Address()
}

// take accepts the connection of a worker, which goes on meanwhile, and reads what it asks for.
func (p *peer) take(a *end) {
	p.t.Helper()
	p.during(a, "it asks for a connection", func() (err error) {
		p.l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
		var magic [8]byte
		for begun := false; !begun; { // others may have tried before
			if p.conn, err = p.l.Accept(); err != nil {
				return err
			}
			p.conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, err := io.ReadFull(p.conn, magic[:])
			begun = err == nil
		}
		p.conn.SetDeadline(time.Now().Add(time.Minute))
		if got := binary.LittleEndian.Uint64(magic[:]); got != tcpMagic {
			return fmt.Errorf("the connection begins with %#x", got)
		}
		what, _, err := p.message()
		if err == nil && what != tcpConnect {
			err = fmt.Errorf("the first message is %d", what)
		}
		return err
	})
}

// during calls f while a worker goes on.
func (p *peer) during(a *end, what string, f func() error) {
	p.t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	until(p.t, what, func() bool {
		select {
		case err := <-done:
			if err != nil {
				p.t.Fatal(err)
			}
			return true
		default:
			return false
		}
	}, a)
}

// message reads a message that does not only say that the other side lives.
func (p *peer) message() (what byte, data []byte, err error) {
	for {
		var head [tcpHeader]byte
		if _, err := io.ReadFull(p.conn, head[:]); err != nil {
			return 0, nil, err
		}
		data = make([]byte, binary.LittleEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(p.conn, data); err != nil {
			return 0, nil, err
		}
		if head[0] != tcpAlive {
			return head[0], data, nil
		}
	}
}

// acknowledge accepts what was asked for.
func (p *peer) acknowledge() {
	p.t.Helper()
	if _, err := p.conn.Write([]byte{tcpConnect, 4, 0, 0, 0, tcpAck, 0, 0, 0}); err != nil {
		p.t.Fatal(err)
	}
}

// reset ends the connection as the kernel does for a process that is killed with data unread.
func (p *peer) reset() {
	p.conn.(*net.TCPConn).SetLinger(0)
	p.conn.Close()
}

// broken waits until a connection of the worker has failed, before the worker knows.
func (e *end) broken(t *testing.T) {
	t.Helper()
	top, err := e.FD()
	if err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		for _, set := range watched(top) {
			for _, fd := range watched(set) {
				if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 0); n > 0 { // an error, or that it has ended
					return
				}
			}
		}
	}
	t.Fatal("the connection lives")
}

// alone runs the test in a process of its own, which UCX may abort, and reports whether this is that process.
func alone(t *testing.T) bool {
	t.Helper()
	const here = "ROPEWAY_UCX_ALONE"
	if os.Getenv(here) != "" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run", fmt.Sprintf("^%s$", t.Name()))
	cmd.Env = append(os.Environ(), here+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestReset proves that nothing worse than an error comes of a peer that ends in the moment in which it has accepted
// the connection, with messages waiting for that: UCX, which would have a message of its own waiting there, aborts.
func TestReset(t *testing.T) {
	need(t)
	if !alone(t) {
		return
	}
	for range 20 {
		p := newPeer(t)
		a := newWhole(t, 1<<10)
		if err := a.Connect(p.address); err != nil {
			t.Fatal(err)
		}
		p.take(a)
		for id := range uint64(4) {
			if done, err := a.Send([]byte("h"), 0, 0, id); done || err != nil {
				t.Fatalf("a message before there is a connection: %v, %v", done, err)
			}
		}
		p.acknowledge()
		p.reset()
		a.broken(t)
		until(t, "the worker knows", func() bool { return a.failed != nil }, a)
		a.Close()
		for id := range uint64(4) {
			if a.sent[id] == nil {
				t.Errorf("message %d was sent to nobody", id)
			}
		}
	}
}

// full has the peer take no connection until it accepts those that it has, which release ends.
func (p *peer) full() (release func()) {
	p.t.Helper()
	raw, err := p.l.(*net.TCPListener).SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
	if err != nil {
		p.t.Fatal(err)
	}
	var all []net.Conn
	for range 100 {
		c, err := net.DialTimeout("tcp", p.l.Addr().String(), 50*time.Millisecond)
		if err != nil { // its packets are dropped
			return func() {
				for _, c := range all {
					c.Close()
				}
			}
		}
		all = append(all, c)
	}
	p.t.Fatal("it takes all connections")
	return nil
}

// TestConnect proves that Connect does not wait for a server whose packets are lost, and that messages go there when
// they are not lost any more.
func TestConnect(t *testing.T) {
	p := newPeer(t)
	release := p.full()
	a := newWhole(t, 1<<10)
	connected := make(chan error, 1)
	go func() { connected <- a.Connect(p.address) }()
	select {
	case err := <-connected:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits")
	}
	if done, err := a.Send([]byte("h"), 0, 0, 1); done || err != nil {
		t.Fatalf("a message before there is a connection: %v, %v", done, err)
	}
	release()
	p.take(a)
	p.acknowledge()
	p.during(a, "the message came", func() error {
		what, _, err := p.message()
		if err == nil && what != amSingle {
			err = fmt.Errorf("a message of kind %d", what)
		}
		return err
	})
}

// TestNothingElse proves that a worker whose messages are whole sends them and nothing else, in their order, also when
// the connection is full: UCX does not begin to introduce endpoints to each other.
func TestNothingElse(t *testing.T) {
	p := newPeer(t)
	a := newWhole(t, 1<<20)
	if err := a.Connect(p.address); err != nil {
		t.Fatal(err)
	}
	p.take(a)
	const messages = 64
	data := make([]byte, 256<<10)
	waiting := 0
	for id := range uint64(messages) {
		header := binary.LittleEndian.AppendUint64(nil, id)
		done, err := a.Send(header, addressOf(data), uint64(len(data)), id)
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			waiting++
		}
		if id == messages/2 {
			p.acknowledge()
			for range 100 { // until the connection is full, or before
				a.Progress()
			}
		}
	}
	if waiting < messages/2 {
		t.Fatalf("%d messages wait", waiting)
	}
	p.during(a, "all was read", func() error {
		for id := range uint64(messages) {
			what, data, err := p.message()
			if err != nil {
				return err
			}
			if what != amSingle {
				return fmt.Errorf("message %d is of kind %d; %d is that of introductions", id, what, amWireup)
			}
			if got := binary.LittleEndian.Uint64(data[len(data)-8:]); got != id {
				return fmt.Errorf("message %d is number %d", id, got)
			}
		}
		return nil
	})
	until(t, "all is sent", func() bool { return len(a.sent) == waiting }, a)
	for id, err := range a.sent {
		if err != nil {
			t.Errorf("message %d: %v", id, err)
		}
	}
	if _, err := a.Send(make([]byte, 8), addressOf(data), 1<<20, 0); err == nil {
		t.Error("a message that is not whole was sent")
	}
}
