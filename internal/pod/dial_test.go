package pod

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// TestCrowd proves that strangers at one address displace each other, not the older connection of a server at another
// address.
func TestCrowd(t *testing.T) {
	a := node(t, podFile(t, 2, ""), 0)
	export(t, a, 4096, true)
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", listenerOf(a))
		testenv.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	first := dial("127.0.0.1")
	for range 3 * mostUnproven {
		dial("127.0.0.9")
	}
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		a.mu.Lock()
		n := len(a.unproven)
		kept := slices.ContainsFunc(a.unproven, func(c net.Conn) bool {
			return c.RemoteAddr().String() == first.LocalAddr().String()
		})
		a.mu.Unlock()
		if n == mostUnproven {
			if !kept {
				t.Error("the first connection was pushed out by those of another address")
			}
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d connections are kept", n)
		}
	}
}

// remote is a connection from a given address.
type remote struct {
	net.Conn
	from   net.TCPAddr
	closed bool
}

func (r *remote) RemoteAddr() net.Addr { return &r.from }
func (r *remote) Close() error         { r.closed = true; return nil }

// TestCrowdOfMembers proves that a server with the key that makes more connections than an owner accepts displaces its
// own, not those of another server.
func TestCrowdOfMembers(t *testing.T) {
	a := node(t, podFile(t, 2, ""), 0)
	var all []*remote
	for i := range mostGuests + 2 {
		r := &remote{from: net.TCPAddr{IP: net.IPv4(10, 0, 0, 2)}}
		if i < 2 {
			r.from.IP = net.IPv4(10, 0, 0, 1)
		}
		all = append(all, r)
		if !a.enter(r) {
			t.Fatal("a connection is refused")
		}
		a.proven(r)
	}
	for i, r := range all {
		if want := i == 2 || i == 3; r.closed != want {
			t.Errorf("connection %d: closed %v", i, r.closed)
		}
	}
	for _, r := range all {
		a.leave(r)
	}
	if len(a.guests)+len(a.unproven) > 0 {
		t.Errorf("%d connections are kept", len(a.guests)+len(a.unproven))
	}
}

// TestDropped proves that an import and a copy retry a connection that the other side closes without a word, as an
// owner does that strangers keep busy, and that an import does not retry for ever.
func TestDropped(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	l := listener(t)
	drop := make(chan bool, 2*dialTries) // whether to drop each successive connection; later ones are passed on
	seen := make(chan bool, 4*dialTries)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			seen <- true
			select {
			case ends := <-drop:
				if ends {
					c.Close()
					continue
				}
			default:
			}
			go pass(c, listenerOf(a), io.Discard)
		}
	}()
	h := x.Handle
	h.Port = portOf(l)
	drop <- true
	drop <- true
	drop <- false // control
	drop <- true
	well(t, b, h)
	const made = 5 // three dropped ones, one for control, one for the copy
	if len(seen) != made {
		t.Errorf("%d connections, 3 of which were ended", len(seen))
	}
	for range 2 * dialTries {
		drop <- true
	}
	if _, err := b.Import(h); !errors.Is(err, ErrGone) {
		t.Errorf("of an owner that ends all connections: %v", err)
	}
	if len(seen) != made+dialTries {
		t.Errorf("%d connections to an owner that ends all", len(seen)-made)
	}
}

// TestNotHere proves that a process that cannot use UCX reports that, and not that the other server is gone.
func TestNotHere(t *testing.T) {
	file := podFile(t, 2, "")
	a, b, c := node(t, file, 0), node(t, file, 1), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	c.config.Transport, c.config.Devices = TransportUCX, "nosuch0"
	_, err := c.Import(x.Handle)
	if !errors.Is(err, ErrHere) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "ucp_init") {
		t.Errorf("import: %v", err)
	}
	if _, err = c.Export(memfd(t, 4096), 0, About{Size: 4096}, true); !errors.Is(err, ErrHere) {
		t.Errorf("export: %v", err)
	}
	well(t, b, x.Handle)
}
