package pod

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ropeway/internal/ucx"
)

// Node is a process of a pod. Making one opens nothing: UCX is loaded by the first export or import, and the first
// export listens.
type Node struct {
	config  *Config        // immutable
	tls     *tls.Config    // immutable
	pid     int32          // immutable; what white lists of other servers have
	secret  token          // immutable; no other process knows it
	serving sync.WaitGroup // goroutines of the node
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	ucx      *ucx.Context         // guarded by mu; nil before the first use
	listener net.Listener         // guarded by mu; nil before the first export
	port     uint16               // guarded by mu; of the listener
	exports  map[[24]byte]*Export // guarded by mu; by secret
	guests   map[net.Conn]bool    // guarded by mu; connections of other processes
	unproven []net.Conn           // guarded by mu; those of them that have not shown the key, the oldest first
	served   map[token]*engine    // guarded by mu; the newest link of each node that imports from here
	links    map[place]*link      // guarded by mu; to other processes
	dialing  map[place]*dialing   // guarded by mu; links that are being made
	closed   bool                 // guarded by mu
}

// dialing is a link that is being made. There is one at a time to each process: a newer one ends an older one there.
type dialing struct {
	done chan struct{} // closed when it has ended
	err  error         // how; written before done is closed
}

// place is where a process of the pod listens.
type place struct{ server, port uint16 }

// New makes a node.
func New(c *Config) (*Node, error) {
	t, err := c.credentials()
	if err != nil {
		return nil, err
	}
	n := &Node{
		config: c, tls: t, pid: int32(os.Getpid()), exports: map[[24]byte]*Export{},
		guests: map[net.Conn]bool{}, served: map[token]*engine{}, links: map[place]*link{},
		dialing: map[place]*dialing{}, secret: newToken(),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// Config is what the pod is like.
func (n *Node) Config() *Config { return n.config }

// open opens UCX, once.
func (n *Node) open() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.openLocked()
}

// openLocked is open; mu is held.
func (n *Node) openLocked() error {
	if n.closed {
		return ErrClosed
	}
	if n.ucx != nil {
		return nil
	}
	options, whole, err := n.config.options()
	if err == nil {
		n.ucx, err = ucx.Open(options, whole)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrHere, err)
	}
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
	n.serving.Add(1) // c stays open
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

// options are those of UCX, and how long the messages are that it gets only when there is room for them, or 0. It uses
// the network device that has the server's address, and no other. Shared memory is left out: UCX 1.13 does not take it
// for endpoints that report a failed peer, and it costs every link 4 MiB, four descriptors and most of the time that
// making a worker takes; memory that is near is mapped instead (near.go). The cache of registered memory is off:
// nothing is registered, and the context would keep 2 MiB of each worker that has gone.
//
// Over TCP a message fits into one of its segments, so that it is sent by one system call, and is in one piece when it
// is received; UCX by itself has segments of 8 KiB, and puts messages of several together in a buffer. All processes
// must have the same segments, whatever their environment says. Where there is TCP alone, UCX gets messages only when
// there is room for them, and keeps none: those that it keeps end the process when the other side ends at a wrong time
// (RATIONALE.md). Zero-copy sends that fail do that, too. Connecting does not wait for a server whose packets are lost.
func (c *Config) options() (o []ucx.Option, whole uint64, err error) {
	devices := c.Devices
	if devices == "" {
		d, ok := deviceOf(c.Me().Address)
		if !ok {
			return nil, 0, fmt.Errorf("this machine has no network device with the address %s of server %d",
				c.Me().Address, c.Me().ID)
		}
		devices = d
	}
	segment := strconv.Itoa(segmentMost)
	o = []ucx.Option{
		{Name: "NET_DEVICES", Value: devices},
		{Name: "RCACHE_ENABLE", Value: "n"},
		{Transport: "TCP", Name: "TX_SEG_SIZE", Value: segment, Must: true},
		{Transport: "TCP", Name: "RX_SEG_SIZE", Value: segment, Must: true},
		{Transport: "TCP", Name: "TX_BUFS_GROW", Value: "2"},
		{Transport: "TCP", Name: "RX_BUFS_GROW", Value: "2"},
	}
	if !tcpAlone(devices) {
		return append(o, ucx.Option{Name: "TLS", Value: "^sm,self"}), 0, nil
	}
	return append(o, ucx.WholeTCP()...), messageMost, nil
}

// tcpAlone reports whether TCP is all that UCX can use: its user wants nothing else, or the devices are none of RDMA,
// which have a port in their name.
func tcpAlone(devices string) bool {
	if text, set := os.LookupEnv("UCX_NET_DEVICES"); set {
		devices = text
	}
	return wanted("all", "tcp") &&
		(os.Getenv("UCX_TLS") == "tcp" || devices != "all" && !strings.Contains(devices, ":"))
}

// Close ends everything: exports, imports and copies in flight. It waits.
func (n *Node) Close() {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return
	}
	n.closed = true
	n.cancel()
	if n.listener != nil {
		n.listener.Close() //nolint:errcheck // it ends accept
	}
	for c := range n.guests {
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

func listenAt(a netip.Addr, port uint16) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(a.String(), strconv.Itoa(int(port))))
}

func portOf(l net.Listener) uint16 { return uint16(l.Addr().(*net.TCPAddr).Port) }

const (
	mostGuests   = 1024                  // processes of other servers that are linked at a time
	mostUnproven = 64                    // connections that have not shown the key yet
	acceptPause  = 10 * time.Millisecond // when there are too many open files
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
		if !n.enter(c) {
			c.Close() //nolint:errcheck // nothing was written
			continue
		}
		n.serving.Go(func() {
			defer n.leave(c)
			n.guest(c)
		})
	}
}

// enter takes a connection in. Of too many that have not shown the key, one has to go; and with the most guests nobody
// else comes in.
func (n *Node) enter(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || len(n.guests)-len(n.unproven) >= mostGuests {
		return false
	}
	if len(n.unproven) >= mostUnproven {
		i := crowd(n.unproven)
		n.unproven[i].Close() //nolint:errcheck // it ends its goroutine
		n.unproven = slices.Delete(n.unproven, i, i+1)
	}
	n.guests[c] = true
	n.unproven = append(n.unproven, c)
	return true
}

// crowd is the first connection of the network that most of them come from: a stranger that makes many is in its own
// way, and not in that of servers elsewhere.
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

// networkOf is where a connection comes from: an address, or 64 bits of one of IPv6, of which a machine has many.
func networkOf(c net.Conn) netip.Prefix {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	a := from.AddrPort().Addr().Unmap()
	p, err := a.Prefix(min(a.BitLen(), 64))
	if err != nil {
		return netip.Prefix{} // it has no address
	}
	return p
}

// proven notes that a connection has shown the key.
func (n *Node) proven(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unproven = slices.DeleteFunc(n.unproven, func(x net.Conn) bool { return x == c })
}

func (n *Node) leave(c net.Conn) {
	c.Close() //nolint:errcheck // it has ended
	n.proven(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.guests, c)
}

// guest serves one process of another server.
func (n *Node) guest(raw net.Conn) {
	limit := n.config.Timeout
	c := tls.Server(raw, n.tls)
	raw.SetDeadline(time.Now().Add(limit)) //nolint:errcheck // a connection that is closed fails below
	if c.HandshakeContext(n.ctx) != nil {
		return
	}
	raw.SetDeadline(time.Time{}) //nolint:errcheck // likewise
	var hello request
	if readFrame(c, limit, false, &hello) != nil {
		return
	}
	n.proven(raw)
	if hello.Do != doHello || hello.Protocol != protocol || len(hello.Token) != len(token{}) ||
		len(hello.Importer) != len(token{}) || len(hello.Worker) == 0 {
		writeFrame(c, limit, response{Refused: wordProtocol}) //nolint:errcheck // it is refused anyway
		return
	}
	keepAlive(raw, limit)
	e, err := n.newEngine()
	if err != nil {
		writeFrame(c, limit, response{Refused: err.Error()}) //nolint:errcheck // as above
		return
	}
	defer n.unserve(token(hello.Importer), e)
	n.serve(token(hello.Importer), e)
	mine := newToken()
	if e.connect(hello.Worker, mine, token(hello.Token), func(error) { go raw.Close() }) != nil {
		return
	}
	x := e.end
	if writeFrame(c, limit, response{Pid: int(n.pid), Worker: e.w.Address(), Token: mine[:]}) != nil {
		return
	}
	opened := map[uint64]*Export{}
	for last := uint64(0); ; {
		var r request
		if readFrame(c, limit, true, &r) != nil {
			return
		}
		var a response
		switch r.Do {
		case doOpen:
			export := n.find(r.Secret)
			if len(opened) >= mostOpened {
				return
			}
			if a.Refused = wordUnknown; export != nil {
				a.Refused = export.admit(hello.Server, int32(hello.Pid), r.Again)
			}
			if a.Refused == "" {
				last++
				a.Share, a.About = last, export.about
				opened[last] = export
				if !e.call(func() { x.take(last, export) }) {
					export.release() // the engine has ended, and does not
					return
				}
				a.Near = r.Near != "" && export.sendFile(r.Near, limit)
			}
		case doClose:
			delete(opened, r.Share)
			e.call(func() { x.giveUp(r.Share) })
		default:
			return
		}
		if writeFrame(c, limit, a) != nil {
			return
		}
	}
}

// serve notes the engine of a link. It ends the older one of the same importer and waits: writes that the importer has
// given up and that are still on their way must not arrive after those of the new link.
func (n *Node) serve(importer token, e *engine) {
	n.mu.Lock()
	old := n.served[importer]
	n.served[importer] = e
	n.mu.Unlock()
	if old != nil {
		old.close(fmt.Errorf("%w: it has made another link", ErrGone))
	}
}

// unserve ends the engine of a link.
func (n *Node) unserve(importer token, e *engine) {
	e.close(fmt.Errorf("%w: its connection has ended", ErrGone))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.served[importer] == e {
		delete(n.served, importer)
	}
}

// importer is what this node calls itself when it imports from a process. Another process does not learn it.
func (n *Node) importer(to place) (t token) {
	h := hmac.New(sha256.New, n.secret[:])
	binary.Write(h, binary.LittleEndian, to) //nolint:errcheck // a hash takes everything
	copy(t[:], h.Sum(nil))
	return t
}

const mostOpened = 1 << 20 // exports that one process has open

// take lets the other side use an export, which was admitted.
func (x *end) take(share uint64, export *Export) {
	if x.e.why != nil {
		export.release()
		return
	}
	x.shares[share] = export
}

// giveUp ends that.
func (x *end) giveUp(share uint64) {
	if export := x.shares[share]; export != nil {
		delete(x.shares, share)
		export.release()
	}
}

// keepAlive has the kernel notice that the other machine is gone, without anybody waking up for it.
func keepAlive(c net.Conn, limit time.Duration) {
	if t, ok := c.(interface {
		SetKeepAliveConfig(net.KeepAliveConfig) error
	}); ok {
		t.SetKeepAliveConfig(net.KeepAliveConfig{ //nolint:errcheck // it is only noticed later
			Enable: true, Idle: max(limit/2, time.Second), Interval: max(limit/4, time.Second), Count: 3,
		})
	}
}
