package pod

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// A child that a process forks, and that executes no other program, has the process's sockets too. A connection then
// stays open until the child has ended as well, and a listener goes on to take connections: other servers would not
// notice that the process was killed. Only C can fork in this way, and only C runs in the child, so the C library
// closes there what is noted here: connections of links, and the listener. The connections of UCX may stay: a link ends
// with its own. Nothing is noted, and nothing closed, while there is no link and no listener.

// inherited notes a descriptor that a forked child has to close, or that it is not one any more; nil: there are no such
// children.
var inherited atomic.Pointer[func(fd int, closes bool)]

// CloseInChild sets the function that notes which descriptors the child of a fork has to close. It is called with true
// after a descriptor was opened, and with false before it is closed. It must not wait.
func CloseInChild(f func(fd int, closes bool)) { inherited.Store(&f) }

// ownSocket is a socket that children close.
type ownSocket struct {
	note func(fd int, closes bool)
	fd   int
	once sync.Once
}

// newOwnSocket notes a socket; nil if there is nothing to do.
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

// forget is called before the socket is closed: its number may be another file's afterwards.
func (o *ownSocket) forget() { o.once.Do(func() { o.note(o.fd, false) }) }

type ownConn struct {
	*net.TCPConn
	own *ownSocket
}

// Close implements net.Conn.
func (c *ownConn) Close() error {
	c.own.forget()
	return c.TCPConn.Close()
}

// notInherited makes a connection one that children close.
func notInherited(c net.Conn) net.Conn {
	if t, ok := c.(*net.TCPConn); ok {
		if o := newOwnSocket(t); o != nil {
			return &ownConn{t, o}
		}
	}
	return c
}

type ownListener struct {
	*net.TCPListener
	own *ownSocket
}

// Accept implements net.Listener.
func (l *ownListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err != nil {
		return nil, err
	}
	return notInherited(c), nil
}

// Close implements net.Listener.
func (l *ownListener) Close() error {
	l.own.forget()
	return l.TCPListener.Close()
}

// listenerNotInherited makes a listener, and the connections that it accepts, ones that children close.
func listenerNotInherited(l net.Listener) net.Listener {
	if t, ok := l.(*net.TCPListener); ok {
		if o := newOwnSocket(t); o != nil {
			return &ownListener{t, o}
		}
	}
	return l
}
