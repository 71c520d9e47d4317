package pod

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCrowd proves that strangers at one address push each other out, and not the connection of a server at another
// address, although it came first.
func TestCrowd(t *testing.T) {
	a := node(t, podFile(t, 2, ""), 0)
	export(t, a, 4096, true)
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", listenerOf(a))
		if err != nil {
			t.Fatal(err)
		}
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

// TestDropped proves that an import tries again when its connection is ended before the other side has said anything,
// as by an owner that strangers keep busy, and that it does not try for ever.
func TestDropped(t *testing.T) {
	file := podFile(t, 2, "")
	a, b := node(t, file, 0), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	l := listener(t)
	drop := make(chan bool, 2*dialTries) // what happens to connections, one after the other; later ones are passed on
	seen := make(chan bool, 4*dialTries)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			seen <- true
			select {
			case <-drop:
				c.Close()
			default:
				go pass(c, listenerOf(a), io.Discard)
			}
		}
	}()
	h := x.Handle
	h.Port = portOf(l)
	drop <- true
	drop <- true
	well(t, b, h)
	if len(seen) != 3 {
		t.Errorf("%d connections, 2 of which were ended", len(seen))
	}
	for range 2 * dialTries {
		drop <- true
	}
	if _, err := b.Import(h); !errors.Is(err, ErrGone) {
		t.Errorf("of an owner that ends all connections: %v", err)
	}
	if len(seen) != 3+dialTries {
		t.Errorf("%d connections to an owner that ends all", len(seen)-3)
	}
}

// TestNotHere proves that a process that cannot use UCX says so, and does not take the other server for dead.
func TestNotHere(t *testing.T) {
	file := podFile(t, 2, "")
	a, b, c := node(t, file, 0), node(t, file, 1), node(t, file, 1)
	x, _ := export(t, a, 4096, true)
	c.config.Devices = "nosuch0"
	_, err := c.Import(x.Handle)
	if !errors.Is(err, ErrHere) || errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "ucp_init") {
		t.Errorf("import: %v", err)
	}
	if _, err = c.Export(memfd(t, 4096), 0, About{Size: 4096}, true); !errors.Is(err, ErrHere) {
		t.Errorf("export: %v", err)
	}
	well(t, b, x.Handle)
}
