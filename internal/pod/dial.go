package pod

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Retries of connections that the other side closes without a word because strangers occupy its room.
const (
	dialTries = 6
	dialPause = 10 * time.Millisecond // before the second try; it doubles for each later one
)

// dial makes a link.
func (n *Node) dial(to place) (l *link, err error) {
	if !n.config.Has(int(to.server)) {
		return nil, fmt.Errorf("%w: the pod has no server %d", ErrUnknown, to.server)
	}
	err = n.insist(func() (err error) {
		l, err = n.dialOnce(to)
		return err
	})
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, ErrHere), errors.Is(err, ErrClosed):
		return nil, err
	case errors.Is(err, errKey):
		return nil, fmt.Errorf("%w: server %d has another key", ErrGone, to.server)
	case isTimeout(err):
		return nil, fmt.Errorf("%w for %v: server %d", ErrTimeout, n.config.Timeout, to.server)
	}
	return nil, fmt.Errorf("%w: server %d: %w", ErrGone, to.server, err)
}

// insist calls f, and retries it a few times if it returns errDropped.
func (n *Node) insist(f func() error) error {
	begin := time.Now()
	for try := 0; ; try++ {
		err := f()
		if !errors.Is(err, errDropped) || try+1 == dialTries || time.Since(begin) > n.config.Timeout {
			return err
		}
		select {
		case <-n.ctx.Done():
			return ErrClosed
		case <-time.After(dialPause << try):
		}
	}
}

// errDropped is the error of a connection that the other side accepted and closed without a word.
var errDropped = errors.New("it ends the connection")

// dropped returns err, wrapped as errDropped if it is the error of such a connection.
func dropped(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", errDropped, err)
	}
	return err
}

// dialOnce makes a link with a single try.
func (n *Node) dialOnce(to place) (*link, error) {
	raw, err := n.reach(to, time.Now().Add(n.config.Timeout))
	if err != nil {
		return nil, err
	}
	l := &link{n: n, to: to, failed: make(chan struct{}), responses: make(chan response, 1)}
	c := tls.Client(raw, n.tls)
	l.conn = c
	if err = l.greet(raw, c); err == nil {
		return l, nil
	}
	raw.Close() //nolint:errcheck // it cannot be used
	if l.c != nil {
		l.c.close(ErrClosed)
	}
	return nil, dropped(err)
}

// reach connects to a process: by its Unix socket if it is on this machine and has one, else over TCP. It sets the
// deadline for everything on the connection.
func (n *Node) reach(to place, deadline time.Time) (net.Conn, error) {
	c, err := n.reachRaw(to, deadline)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(deadline) //nolint:errcheck // a connection that is closed fails later
	keepAlive(c, n.config.Timeout)
	return notInherited(c), nil
}

func (n *Node) reachRaw(to place, deadline time.Time) (net.Conn, error) {
	server, _ := n.config.server(int(to.server))
	if n.isNear(server) {
		c, err := n.dialUnix(to, deadline)
		if err == nil {
			return c, nil
		}
		if n.allNear() {
			return nil, err
		}
	}
	d := net.Dialer{Deadline: deadline}
	return d.DialContext(n.ctx, "tcp", netip.AddrPortFrom(server.Address, to.port).String())
}

// dialUnix connects to the Unix socket of a process, which must have the same user.
func (n *Node) dialUnix(to place, deadline time.Time) (*net.UnixConn, error) {
	d := net.Dialer{Deadline: deadline}
	c, err := d.DialContext(n.ctx, "unix", n.socketName(to))
	if err != nil {
		return nil, err
	}
	u := c.(*net.UnixConn)
	if err := sameUser(u); err != nil {
		u.Close() //nolint:errcheck // nothing was written
		return nil, err
	}
	return u, nil
}

// greet proves the key and agrees with the owner on the carrier of copies.
func (l *link) greet(raw net.Conn, c *tls.Conn) (err error) {
	limit := l.n.config.Timeout
	if err := c.HandshakeContext(l.n.ctx); err != nil {
		return err
	}
	mine, me := newToken(), l.n.importer(l.to)
	hello := request{Do: doHello, Protocol: protocol, Server: l.n.config.Me().ID, Pid: int(l.n.pid), Importer: me[:]}
	failed := func(err error) {
		l.once.Do(func() { l.why = err; close(l.failed) })
		go raw.Close()
	}
	var e *engine
	if unixOf(raw) == nil && l.n.config.ucxDevices() != "" {
		if e, err = l.n.newEngine(); err != nil {
			return err
		}
		l.c = e
		hello.Worker, hello.Token = e.w.Address(), mine[:]
	}
	if err := writeFrame(c, limit, hello); err != nil {
		return err
	}
	var a response
	if err := readFrame(c, limit, false, &a); err != nil {
		return err
	}
	if a.Refused != "" || len(a.Worker) > 0 && (e == nil || len(a.Token) != len(token{})) {
		return fmt.Errorf("pod: the other side refuses: %q", a.Refused)
	}
	raw.SetDeadline(time.Time{}) //nolint:errcheck // a connection that is closed fails below
	if len(a.Worker) > 0 {
		err = e.connect(a.Worker, mine, token(a.Token), failed)
	} else {
		if e != nil {
			e.close(ErrClosed) // the owner has no UCX
		}
		l.c = newRequester(l.n, l.dialBulk, failed)
	}
	return err
}

// dialBulk makes a connection for copies.
func (l *link) dialBulk() (p *pipe, err error) {
	deadline := time.Now().Add(l.n.config.Timeout)
	err = l.n.insist(func() (err error) {
		p, err = l.dialBulkOnce(deadline)
		return err
	})
	if err != nil {
		err = gone(err)
	}
	return p, err
}

func (l *link) dialBulkOnce(deadline time.Time) (*pipe, error) {
	n := l.n
	a, err := l.ask(request{Do: doBulk})
	if err != nil {
		return nil, err
	}
	var proof, answer ticket
	if copy(proof[:], a.Proof) != len(proof) || len(a.Ticket) != len(proof) {
		return nil, errAnswer
	}
	raw, err := n.reach(l.to, deadline)
	if err != nil {
		return nil, err
	}
	k := &counted{Conn: raw}
	c := net.Conn(k)
	if unixOf(raw) == nil && !(n.config.Plain && a.Plain) {
		c = tls.Client(k, n.tls)
	}
	if _, err = c.Write(append([]byte(bulkMagic), a.Ticket...)); err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err == nil && !proof.same(answer[:]) {
		err = errAnswer
	}
	if err != nil {
		raw.Close() //nolint:errcheck // it cannot be used
		return nil, dropped(err)
	}
	raw.SetDeadline(time.Time{}) //nolint:errcheck // a connection that is closed fails below
	return newPipe(k, c), nil
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
