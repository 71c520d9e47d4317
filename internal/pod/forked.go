package pod

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// A forked child that does not execute another program inherits the process's sockets. A connection then stays open
// until the child has ended as well, and a listener still accepts connections: other servers would not notice that the
// process was killed. Only C can fork in this way, and only C runs in the child, so the C library closes the
// descriptors recorded here: connections of links, and listeners. Connections of UCX may stay, because a link ends with
// its control connection. Without a link or a listener nothing is recorded or closed.

// inherited records whether a forked child has to close a descriptor; nil: there are no such children.
var inherited atomic.Pointer[func(fd int, closes bool)]

// CloseInChild sets the function that records the descriptors which a forked child has to close. It is called with true
// after a descriptor was opened, and with false before it is closed. It must not wait.
func CloseInChild(f func(fd int, closes bool)) { inherited.Store(&f) }

// ownSocket is a socket that children close.
type ownSocket struct {
	note func(fd int, closes bool)
	fd   int
	once sync.Once
}

// newOwnSocket records a socket; nil if there is nothing to record.
func newOwnSocket(s syscall.Conn) *ownSocket {
	note := inherited.Load()
	if note == nil {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	o := &ownSocket{note: *note}
	if raw.Control(func(fd uintptr) { o.fd = int(fd); o.note(o.fd, true) }) != nil {
		return nil // it is closed
	}
	return o
}

// forget must be called before the socket is closed: another file may get its number afterwards.
func (o *ownSocket) forget() { o.once.Do(func() { o.note(o.fd, false) }) }

type ownConn struct {
	net.Conn
	own *ownSocket
}

// Close implements net.Conn.
func (c *ownConn) Close() error {
	c.own.forget()
	return c.Conn.Close()
}

// notInherited returns c wrapped so that children close its socket.
func notInherited(c net.Conn) net.Conn {
	if s, ok := c.(syscall.Conn); ok {
		if o := newOwnSocket(s); o != nil {
			return &ownConn{c, o}
		}
	}
	return c
}

// inner returns the connection that notInherited has wrapped.
func inner(c net.Conn) net.Conn {
	if o, ok := c.(*ownConn); ok {
		return o.Conn
	}
	return c
}

// unixOf returns the Unix socket of a connection; nil if it has none.
func unixOf(c net.Conn) *net.UnixConn {
	u, _ := inner(c).(*net.UnixConn)
	return u
}

type ownListener struct {
	net.Listener
	own *ownSocket
}

// Close implements net.Listener.
func (l *ownListener) Close() error {
	l.own.forget()
	return l.Listener.Close()
}

// listenerNotInherited returns l wrapped so that children close its socket.
func listenerNotInherited(l net.Listener) net.Listener {
	if s, ok := l.(syscall.Conn); ok {
		if o := newOwnSocket(s); o != nil {
			return &ownListener{l, o}
		}
	}
	return l
}
