package pod

import (
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The port of a process accepts three kinds of connections:
//
//	control   TLS, then frames: hello, open, close, bulk
//	copies    TLS, then bulkMagic and a ticket from control, then requests
//	          or bulkMagic and a ticket without TLS, on a Unix socket and with "encryption: none"
//	a file    bulkMagic and a ticket from open, on a Unix socket; answered by the file of the memory
//
// A ticket is random, is sent over TLS to a process that has proved the key, and is valid once, for the pod's timeout.
// The owner answers it with the proof that was sent with it, so that both ends know each other.

// carrier moves the bytes of a link. An importer starts copies; an owner opens and shuts exports.
type carrier interface {
	stop(err error)  // fails the link, without waiting
	close(err error) // fails the link and waits until it uses no memory
}

// starter is the importer's carrier.
type starter interface {
	carrier
	start(t *transfer) // t.done is called when the copy has ended
}

// opener is the owner's carrier.
type opener interface {
	carrier
	open(share uint64, x *Export) bool
	shut(share uint64)
}

// ticket admits one connection.
type ticket [32]byte

const bulkMagic = "RWB3" // as the length of a frame it would be too long

// admission is the purpose of a ticket: copies of a link, or the file of an export.
type admission struct {
	proof ticket
	to    *responder
	file  *Export   // nil: copies
	until time.Time // guarded by Node.mu; the ticket is not valid later
}

// admit creates a ticket, which ends with its responder; false if there are too many.
func (n *Node) admit(to *responder, file *Export) (t, proof ticket, ok bool) {
	rand.Read(t[:])     //nolint:errcheck // it never fails
	rand.Read(proof[:]) //nolint:errcheck // likewise
	n.mu.Lock()
	defer n.mu.Unlock()
	if to.tickets >= mostLanes {
		n.endTickets(func(a *admission) bool { return a.to == to && a.late() })
	}
	if n.closed || to.tickets >= mostLanes {
		return t, proof, false
	}
	n.tickets[t] = &admission{proof: proof, to: to, file: file, until: time.Now().Add(n.config.Timeout)}
	to.tickets++
	return t, proof, true
}

// redeem ends a ticket and returns its admission; nil if it was not valid.
func (n *Node) redeem(t ticket) *admission {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.tickets[t]
	if a == nil {
		return nil
	}
	delete(n.tickets, t)
	if a.to.tickets--; a.late() {
		return nil
	}
	return a
}

// late reports whether the ticket has expired. Node.mu is held.
func (a *admission) late() bool { return time.Now().After(a.until) }

// endTickets ends the tickets for which which returns true. mu is held.
func (n *Node) endTickets(which func(a *admission) bool) {
	for t, a := range n.tickets {
		if which(a) {
			delete(n.tickets, t)
			a.to.tickets--
		}
	}
}

// prefixed is a connection whose first bytes, head, were read already.
type prefixed struct {
	net.Conn
	head []byte
}

// Read implements net.Conn.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

const tlsHandshake = 0x16 // the first byte of a TLS connection

// guest serves a connection of another process.
func (n *Node) guest(raw net.Conn) {
	raw.SetDeadline(time.Now().Add(n.config.Timeout)) //nolint:errcheck // a connection that is closed fails below
	var head [4]byte
	if _, err := io.ReadFull(raw, head[:]); err != nil {
		return
	}
	k := &counted{Conn: raw}
	if head[0] != tlsHandshake {
		if string(head[:]) == bulkMagic && (n.config.Plain || unixOf(raw) != nil) {
			n.bulk(raw, k, k)
		}
		return
	}
	c := tls.Server(&prefixed{k, head[:]}, n.tls)
	if c.HandshakeContext(n.ctx) != nil {
		return
	}
	n.proven(raw)
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	if string(head[:]) == bulkMagic {
		n.bulk(raw, k, c)
		return
	}
	var hello request
	if readBody(c, head, &hello) != nil {
		return
	}
	raw.SetDeadline(time.Time{}) //nolint:errcheck // as above
	n.control(raw, c, &hello)
}

// bulk serves a connection that begins with a ticket. k is raw, and c is k or TLS over it.
func (n *Node) bulk(raw net.Conn, k *counted, c net.Conn) {
	var t ticket
	if _, err := io.ReadFull(c, t[:]); err != nil {
		return
	}
	a := n.redeem(t)
	if a == nil {
		return
	}
	n.proven(raw)
	if a.file != nil {
		a.file.sendFile(unixOf(raw), a.proof)
		return
	}
	if _, err := c.Write(a.proof[:]); err != nil {
		return
	}
	raw.SetDeadline(time.Time{}) //nolint:errcheck // a connection that is closed fails below
	a.to.serve(newPipe(k, c))
}

// control serves the control connection of a link.
func (n *Node) control(raw net.Conn, c *tls.Conn, hello *request) {
	limit := n.config.Timeout
	if hello.Do != doHello || hello.Protocol != protocol || len(hello.Importer) != len(token{}) ||
		len(hello.Worker) > 0 && len(hello.Token) != len(token{}) {
		writeFrame(c, limit, response{Refused: wordProtocol}) //nolint:errcheck // it is refused anyway
		return
	}
	a := response{Pid: int(n.pid)}
	ended := func(error) { go raw.Close() }
	var to opener
	var r *responder
	if len(hello.Worker) > 0 && n.config.ucxDevices() != "" {
		e, err := n.newEngine()
		if err != nil {
			writeFrame(c, limit, response{Refused: err.Error()}) //nolint:errcheck // as above
			return
		}
		to = e
		mine := newToken()
		a.Worker, a.Token = e.w.Address(), mine[:]
		n.serve(token(hello.Importer), to)
		defer n.unserve(token(hello.Importer), to)
		if e.connect(hello.Worker, mine, token(hello.Token), ended) != nil {
			return
		}
	} else {
		r = newResponder(n, ended)
		to = r
		n.serve(token(hello.Importer), to)
		defer n.unserve(token(hello.Importer), to)
	}
	if writeFrame(c, limit, a) != nil {
		return
	}
	opened := map[uint64]*Export{}
	for last := uint64(0); ; {
		var q request
		if readFrame(c, limit, true, &q) != nil {
			return
		}
		var a response
		switch q.Do {
		case doOpen:
			x := n.find(q.Secret)
			if len(opened) >= mostOpened {
				return
			}
			if a.Refused = wordUnknown; x != nil {
				a.Refused = x.admit(hello.Server, int32(hello.Pid), q.Again)
			}
			if a.Refused == "" {
				last++
				a.Share, a.About = last, x.about
				opened[last] = x
				if !to.open(last, x) {
					x.release() // the link has ended
					return
				}
				if r != nil && x.file != nil && unixOf(raw) != nil {
					if t, proof, ok := n.admit(r, x); ok {
						a.Ticket, a.Proof = t[:], proof[:]
					}
				}
			}
		case doClose:
			delete(opened, q.Share)
			to.shut(q.Share)
		case doBulk:
			t, proof, ok := ticket{}, ticket{}, false
			if r != nil {
				t, proof, ok = n.admit(r, nil)
			}
			if !ok {
				return
			}
			a.Ticket, a.Proof, a.Plain = t[:], proof[:], n.config.Plain
		default:
			return
		}
		if writeFrame(c, limit, a) != nil {
			return
		}
	}
}

// serve registers the owner's end of a link. It first closes the older link of the same importer and waits: writes that
// the importer has given up, but that are still on their way, must not arrive after those of the new link.
func (n *Node) serve(importer token, c carrier) {
	n.mu.Lock()
	old := n.served[importer]
	n.served[importer] = c
	n.mu.Unlock()
	if old != nil {
		old.close(fmt.Errorf("%w: it has made another link", ErrGone))
	}
}

// unserve ends the owner's end of a link, and its tickets.
func (n *Node) unserve(importer token, c carrier) {
	c.close(fmt.Errorf("%w: its connection has ended", ErrGone))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.served[importer] == c {
		delete(n.served, importer)
	}
	n.endTickets(func(a *admission) bool { return carrier(a.to) == c })
}

const mostOpened = 1 << 16 // most exports that a process has open

// share lets the other side use an export that was admitted.
func (x *end) share(share uint64, export *Export) {
	if x.e.why != nil {
		export.release()
		return
	}
	x.shares[share] = export
}

// giveUp undoes share.
func (x *end) giveUp(share uint64) {
	if export := x.shares[share]; export != nil {
		delete(x.shares, share)
		export.release()
	}
}

// keepAlive makes the kernel detect that the other machine is gone, without wake-ups of this process.
func keepAlive(c net.Conn, limit time.Duration) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetKeepAliveConfig(net.KeepAliveConfig{ //nolint:errcheck // without it the loss is only detected later
			Enable: true, Idle: max(limit/2, time.Second), Interval: max(limit/4, time.Second), Count: 3,
		})
	}
}

// sendFile sends the file of the export and the proof of its ticket.
func (x *Export) sendFile(c *net.UnixConn, proof ticket) {
	if c != nil && x.file != nil {
		c.WriteMsgUnix(proof[:], unix.UnixRights(int(x.file.Fd())), nil) //nolint:errcheck // the importer notices
	}
}

// same reports whether b equals t, in constant time.
func (t *ticket) same(b []byte) bool { return subtle.ConstantTimeCompare(t[:], b) == 1 }
