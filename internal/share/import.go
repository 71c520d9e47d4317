package share

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	patience  = 5 * time.Second      // with the exporter
	fullPause = 2 * time.Millisecond // if too many processes connect
	maxAgain  = 10                   // retries with an exporter that closes the connection
)

// Import returns the item that this or another process exports under a key. The caller closes its files. It takes at
// most five seconds. ErrUnknown, ErrGone, ErrNotAllowed, ErrSilent, ErrGarbage.
func (b *Broker) Import(k Key, kind Kind) (Item, error) {
	until := time.Now().Add(patience)
	for again := maxAgain; ; again-- {
		it, err := b.importUntil(k, kind, until)
		// The connection ended without a reply: the exporter has ended, or closed it because it had too many. A retry
		// distinguishes the two.
		if errors.Is(err, io.EOF) && again > 0 {
			time.Sleep(fullPause)
			continue
		}
		return it, err
	}
}

func (b *Broker) importUntil(k Key, kind Kind, until time.Time) (Item, error) {
	c, err := connect(b.socketName(k.tag), until)
	if b.Realm != 0 && errors.Is(err, ErrGone) {
		err = fmt.Errorf("%w. If it is of another server of the pod: FABRIC handles of memory reach others, and keys "+
			"with a white list", err)
	}
	if err != nil {
		return Item{}, err
	}
	defer c.Close()
	if p, err := peerOf(c); err == nil && p.hasEnded() {
		return Item{}, fmt.Errorf("%w; a process that it forked keeps its socket open", ErrGone)
	}
	c.SetDeadline(until) //nolint:errcheck // a connection that is closed fails below
	q := ask(k, kind)
	if _, err := c.Write(q.encode()); err != nil {
		return Item{}, ended(c, err)
	}
	text, files, err := receive(c)
	it := Item{Kind: kind, Files: files}
	if err != nil {
		it.Close()
		return Item{}, ended(c, err)
	}
	a, ok := decodeReply(text, k, q.nonce)
	if !ok || a.files != len(files) || a.status != granted && len(files) > 0 {
		it.Close()
		return Item{}, fmt.Errorf("%w: %s replies for it with something else; get a new key", ErrGarbage, name(c))
	}
	it.Note = a.note
	switch a.status {
	case granted:
		return it, nil
	case notNamed:
		if a.value == 0 {
			return Item{}, fmt.Errorf("%w: %s does not see this process, which is in another container, so it "+
				"cannot have named it for the key", ErrNotAllowed, name(c))
		}
		return Item{}, fmt.Errorf("%w: %s has not named process %d, which is this one, for the key", ErrNotAllowed,
			name(c), a.value)
	case otherUser:
		return Item{}, fmt.Errorf("%w: %s belongs to another user than this one, %d, and has not named process %d "+
			"for the key", ErrOtherUser, name(c), a.value, os.Getpid())
	}
	return Item{}, fmt.Errorf("%w: %s does not export it, or no longer", ErrUnknown, name(c))
}

// connect connects to the process that listens at a name. It only waits if the backlog of the process is full: the
// process is stopped, or too many others connect.
func connect(at *net.UnixAddr, until time.Time) (*net.UnixConn, error) {
	for {
		c, err := net.DialUnix("unixpacket", nil, at)
		if errors.Is(err, syscall.EAGAIN) {
			c, err = wait(at, time.Until(until))
		}
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("%w, or it has closed the key", ErrGone)
		case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR):
			return nil, fmt.Errorf("share: cannot reach the exporting process: %w", err)
		case time.Now().After(until):
			return nil, fmt.Errorf("%w within %v: too many processes ask it, or it is stopped", ErrSilent, patience)
		}
		time.Sleep(fullPause)
	}
}

// ended returns the error for a missing reply.
func ended(c *net.UnixConn, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w within %v: %s is stopped or very busy", ErrSilent, patience, name(c))
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("%w before it replied (%w)", ErrGone, io.EOF)
	case errors.Is(err, ErrGarbage):
		return fmt.Errorf("%w: %s sends too much; get a new key", ErrGarbage, name(c))
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("share: no file descriptor is free in this process for what %s sends: %w", name(c), err)
	}
	return fmt.Errorf("share: %s: %w", name(c), err)
}

// name returns the name of the process at the other end, for messages.
func name(c *net.UnixConn) string {
	if p, err := peerOf(c); err == nil && p.pid > 0 {
		return fmt.Sprintf("process %d", p.pid)
	}
	return "the exporting process"
}
