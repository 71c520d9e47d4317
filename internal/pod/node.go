package pod

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ropeway/internal/ucx"
)

// Node is a process of a pod. New opens nothing: the first export or import loads UCX, and the first export starts
// listening.
type Node struct {
	config  *Config        // immutable
	tls     *tls.Config    // immutable
	pid     int32          // immutable; the process number in white lists
	secret  token          // immutable; known only to this process
	serving sync.WaitGroup // goroutines of the node
	ctx     context.Context
	cancel  context.CancelFunc

	mu        sync.Mutex
	ucx       *ucx.Context          // guarded by mu; nil before the first use
	listening []net.Listener        // guarded by mu; none before the first export
	port      uint16                // guarded by mu; of the listeners
	exports   map[[24]byte]*Export  // guarded by mu; by secret
	guests    []net.Conn            // guarded by mu; connections that have proved the key, oldest first
	unproven  []net.Conn            // guarded by mu; those that have not, oldest first
	served    map[token]carrier     // guarded by mu; newest link of each node that imports from this one
	tickets   map[ticket]*admission // guarded by mu; unused tickets
	links     map[place]*link       // guarded by mu; to other processes
	dialing   map[place]*dialing    // guarded by mu; links being made
	closed    bool                  // guarded by mu
}

// dialing is a link being made. There is at most one to each process, because the owner ends the older of two links.
type dialing struct {
	done chan struct{} // closed when the link was made or has failed
	err  error         // why it has failed; written before done is closed
}

// place identifies a process of the pod by its server and port.
type place struct{ server, port uint16 }

// New returns a node.
func New(c *Config) (*Node, error) {
	t, err := c.credentials()
	if err != nil {
		return nil, err
	}
	n := &Node{
		config: c, tls: t, pid: int32(os.Getpid()), exports: map[[24]byte]*Export{},
		served: map[token]carrier{}, tickets: map[ticket]*admission{}, links: map[place]*link{},
		dialing: map[place]*dialing{}, secret: newToken(),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// Config returns the configuration of the pod.
func (n *Node) Config() *Config { return n.config }

// openLocked opens UCX, once. mu is held.
func (n *Node) openLocked() error {
	if n.closed {
		return ErrClosed
	}
	if n.ucx != nil {
		return nil
	}
	if n.config.Transport == TransportUCX {
		warnUCX()
	}
	c, err := ucx.Open(n.config.options())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHere, err)
	}
	n.ucx = c
	return nil
}

// newEngine starts an engine, for a link. It ends when the link fails, or by its close.
func (n *Node) newEngine() (*engine, error) {
	n.mu.Lock()
	if err := n.openLocked(); err != nil {
		n.mu.Unlock()
		return nil, err
	}
	c := n.ucx
	n.serving.Add(1) // keeps c open
	n.mu.Unlock()
	e, err := newEngine(c, n.config.Timeout)
	if err != nil {
		n.serving.Done()
		return nil, fmt.Errorf("%w: %w", ErrHere, err)
	}
	go func() {
		defer n.serving.Done()
		e.run()
	}()
	return e, nil
}

// warnings receives the text of warnUCX.
var warnings io.Writer = os.Stderr

// warnUCX warns of the access that "transport: ucx-tcp" allows.
func warnUCX() {
	fmt.Fprintln(warnings, "ropeway: with transport: ucx-tcp every host that reaches this process over the network, "+
		"and every user of this machine, can write to all of its memory and end it, without the pod's key. "+
		"Use it for measuring, on a network of your own.")
}

// options returns the options of UCX. Whatever the environment says, UCX uses only RDMA, where the adapter checks
// accesses to memory, and neither TCP nor shared memory, where nothing does. With "transport: ucx-tcp" it uses only
// TCP. The cache of registered memory is off: nothing is registered, and the context would keep 2 MiB of each closed
// worker.
func (c *Config) options() []ucx.Option {
	transports := "ib"
	if c.Transport == TransportUCX {
		transports = "tcp"
	}
	return []ucx.Option{{Name: "TLS", Value: transports, Must: true},
		{Name: "NET_DEVICES", Value: c.ucxDevices()}, {Name: "RCACHE_ENABLE", Value: "n"}}
}

// ucxDevices returns the devices for UCX; "" if UCX is not used.
func (c *Config) ucxDevices() string {
	switch {
	case c.Transport == TransportUCX && c.Devices == "":
		d, _ := deviceOf(c.Me().Address)
		return d
	case c.Transport == TransportUCX, c.Transport == TransportAuto && strings.Contains(c.Devices, ":"):
		return c.Devices
	case c.Transport == TransportAuto && c.Devices == "":
		return rdmaOf(c.Me().Address)
	}
	return ""
}

// rdmaOf returns the RDMA device and port that has an address, as in mlx5_0:1; "" if there is none.
func rdmaOf(a netip.Addr) string {
	name, ok := deviceOf(a)
	if !ok {
		return ""
	}
	files, _ := filepath.Glob("/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*") //nolint:errcheck // valid
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(text)) == name {
			part := strings.Split(file, "/")
			return part[4] + ":" + part[6]
		}
	}
	return ""
}

// Close ends all exports, imports and copies in flight, and waits.
func (n *Node) Close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	n.cancel()
	for _, l := range n.listening {
		l.Close() //nolint:errcheck // it ends accept
	}
	for _, c := range slices.Concat(n.guests, n.unproven) {
		c.Close() //nolint:errcheck // it ends their goroutines
	}
	for _, l := range n.links {
		l.conn.Close() //nolint:errcheck // likewise
	}
	n.mu.Unlock()
	n.serving.Wait()
	n.mu.Lock()
	left := maps.Clone(n.exports)
	if n.ucx != nil {
		n.ucx.Close()
	}
	n.mu.Unlock()
	for _, x := range left {
		x.Withdraw()
	}
}

func mapsValues[K comparable, V any](m map[K]V) iter.Seq[V] { return maps.Values(m) }

// listenOn listens at a port: on a Unix socket for processes on this machine, and on TCP if there are other machines.
// Port 0 means any port; at is the one chosen.
func (n *Node) listenOn(port uint16) (all []net.Listener, at uint16, err error) {
	me := n.config.Me()
	if !n.allNear() {
		l, err := net.Listen("tcp", netip.AddrPortFrom(me.Address, port).String())
		if err != nil {
			return nil, 0, err
		}
		all, port = append(all, l), uint16(l.Addr().(*net.TCPAddr).Port)
	}
	if !n.isNear(me) {
		return all, port, nil
	}
	for try := range 100 {
		p := port
		if p == 0 {
			p = uint16(1024 + mathrand.IntN(1<<16-1024))
		}
		l, err := net.Listen("unix", n.socketName(place{uint16(me.ID), p}))
		switch {
		case err == nil:
			return append(all, l), p, nil
		case port != 0 || try == 99:
			for _, l := range all {
				l.Close() //nolint:errcheck // nothing was written
			}
			return nil, 0, err
		}
	}
	panic("unreachable")
}

const (
	mostGuests   = 4096                  // most connections that have proved the key
	mostUnproven = 64                    // most connections that have not
	acceptPause  = 10 * time.Millisecond // pause after an error such as too many open files
)

// accept takes connections until the listener is closed.
func (n *Node) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-n.ctx.Done():
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		u := unixOf(c)
		keepAlive(c, n.config.Timeout)
		c = notInherited(c)
		if u != nil && sameUser(u) != nil || !n.enter(c) {
			c.Close() //nolint:errcheck // nothing was written
			continue
		}
		n.serving.Go(func() {
			defer n.leave(c)
			n.guest(c)
		})
	}
}

// enter adds a connection to the unproven ones, and reports whether the node is open.
func (n *Node) enter(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.unproven = withRoom(n.unproven, mostUnproven, c)
	return true
}

// withRoom adds a connection to a list. If the list is full, it closes one first.
func withRoom(list []net.Conn, most int, c net.Conn) []net.Conn {
	if len(list) >= most {
		i := crowd(list)
		list[i].Close() //nolint:errcheck // it ends its goroutine
		list = slices.Delete(list, i, i+1)
	}
	return append(list, c)
}

// crowd returns the index of the first connection from the network with the most connections: a server that makes many
// displaces its own, not those of other servers.
func crowd(list []net.Conn) (first int) {
	many := map[netip.Prefix]int{}
	for _, c := range list {
		many[networkOf(c)]++
	}
	most := 0
	for i, c := range list {
		if k := many[networkOf(c)]; k > most {
			first, most = i, k
		}
	}
	return first
}

// networkOf returns the network that a connection comes from: an IPv4 address, or the first 64 bits of an IPv6 address,
// as a machine has many of those.
func networkOf(c net.Conn) netip.Prefix {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	a := from.AddrPort().Addr().Unmap()
	p, err := a.Prefix(min(a.BitLen(), 64))
	if err != nil {
		return netip.Prefix{} // the address is not valid
	}
	return p
}

// proven records that a connection has proved the key, unless it was closed to make room.
func (n *Node) proven(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.unproven, c); i >= 0 {
		n.unproven = slices.Delete(n.unproven, i, i+1)
		n.guests = withRoom(n.guests, mostGuests, c)
	}
}

func (n *Node) leave(c net.Conn) {
	c.Close() //nolint:errcheck // it has ended
	n.mu.Lock()
	defer n.mu.Unlock()
	is := func(x net.Conn) bool { return x == c }
	n.unproven, n.guests = slices.DeleteFunc(n.unproven, is), slices.DeleteFunc(n.guests, is)
}

// importer returns the secret name of this node as an importer from a process. It differs for each process.
func (n *Node) importer(to place) (t token) {
	h := hmac.New(sha256.New, n.secret[:])
	binary.Write(h, binary.LittleEndian, to) //nolint:errcheck // a hash takes everything
	copy(t[:], h.Sum(nil))
	return t
}
