package pod

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Export is memory that processes of other servers can open. It stays until it is withdrawn and nobody has it open.
type Export struct {
	n      *Node    // immutable
	Handle Handle   // immutable
	about  About    // immutable
	size   uint64   // immutable
	bytes  []byte   // immutable until nobody uses it
	pages  []byte   // immutable until nobody uses it; the mapping that bytes is in
	wrote  func()   // immutable; may be nil; see Offer
	mirror Mirror   // immutable; may be nil; see ExportMirror
	closes bool     // immutable; it cannot be opened any more once it is withdrawn; see Offer
	file   *os.File // immutable until nobody uses it; nil if the memory is not to be mapped by others

	mirroring sync.Mutex // held while bytes and what they mirror are made the same

	mu      sync.Mutex
	users   int            // guarded by mu; the exporter, processes that have it open, messages in flight
	open    bool           // guarded by mu; every process of the pod may open it
	allowed map[int32]bool // guarded by mu; processes that may
	named   map[guest]bool // guarded by mu; processes of one server that may
	done    bool           // guarded by mu; withdrawn
}

// guest is a process of another server.
type guest struct{ server, pid int }

// Export offers memory, which is in a file at an offset, to processes of other servers: to all if open, else to those
// that Allow names. The file stays the caller's. It starts to listen.
func (n *Node) Export(f *os.File, offset uint64, about About, open bool) (*Export, error) {
	var secret [24]byte
	rand.Read(secret[:]) //nolint:errcheck // it never fails
	return n.export(f, offset, about, secret, &Export{open: open})
}

// Offer is Export under a secret that is the caller's, to processes that AllowAt names. Once it is withdrawn nobody
// opens it any more, while an Export can be opened as long as another process has it open. wrote, if it is not nil, is
// called after every write of another server; it must not wait.
func (n *Node) Offer(f *os.File, offset uint64, about About, secret [24]byte, wrote func()) (*Export, error) {
	return n.export(f, offset, about, secret, &Export{wrote: wrote, closes: true})
}

// Mirror is memory that this process cannot use by its address: a GPU's. Its methods may wait for a copy.
type Mirror interface {
	Load(offset uint64, to []byte) error
	Store(offset uint64, from []byte) error
	Close() // it is not used any more
}

// ExportMirror is Export for memory that is copied: before it is read by others, and after they have written. The
// mirror is the export's from here on, also where that fails.
func (n *Node) ExportMirror(m Mirror, about About, open bool) (*Export, error) {
	f, err := memoryFile(about.Size)
	if err != nil {
		m.Close()
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the mapping stays
	var secret [24]byte
	rand.Read(secret[:]) //nolint:errcheck // it never fails
	x, err := n.export(f, 0, about, secret, &Export{open: open, mirror: m})
	if err != nil {
		m.Close()
	}
	return x, err
}

// put writes data of another server to their place, which is inside.
func (x *Export) put(offset uint64, data []byte) uint8 {
	if x.mirror != nil {
		x.mirroring.Lock()
		defer x.mirroring.Unlock()
	}
	copy(x.bytes[offset:], data)
	if x.mirror != nil && x.mirror.Store(offset, x.bytes[offset:offset+uint64(len(data))]) != nil {
		return statusUnknown
	}
	if x.wrote != nil {
		x.wrote()
	}
	return statusDone
}

// fetch makes bytes what is to be read there; false if that is not possible.
func (x *Export) fetch(offset, n uint64) bool {
	if x.mirror == nil {
		return true
	}
	x.mirroring.Lock()
	defer x.mirroring.Unlock()
	return x.mirror.Load(offset, x.bytes[offset:offset+n]) == nil
}

// export makes x the export of memory in a file.
func (n *Node) export(f *os.File, offset uint64, about About, secret [24]byte, x *Export) (*Export, error) {
	if err := n.listen(); err != nil {
		return nil, err
	}
	lead := offset % uint64(os.Getpagesize())
	b, err := mapFile(f, offset-lead, lead+about.Size)
	if err != nil {
		return nil, err
	}
	x.n, x.about, x.size, x.bytes, x.pages, x.users = n, about, about.Size, b[lead:], b, 1 // lockcheck: it is new
	me := n.config.Me()
	x.Handle = Handle{Pod: n.config.Pod, Server: uint16(me.ID), Secret: secret}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		unmap(b)
		return nil, ErrClosed
	}
	x.keepFile(f, offset)
	x.Handle.Port = n.port
	n.exports[x.Handle.Secret] = x
	return x, nil
}

// Allow lets processes with these numbers open it, on any other server.
func (x *Export) Allow(pids []int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.allowed == nil {
		x.allowed = map[int32]bool{}
	}
	for _, p := range pids {
		x.allowed[p] = true
	}
}

// AllowAt lets processes of one server open it.
func (x *Export) AllowAt(server int, pids []int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.named == nil {
		x.named = map[guest]bool{}
	}
	for _, p := range pids {
		x.named[guest{server, int(p)}] = true
	}
}

// Port is where this process listens, which it starts to do.
func (n *Node) Port() (uint16, error) {
	if err := n.listen(); err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.port, nil
}

// Withdraw ends the export for processes that have not opened it. The others keep it, and an Export can be opened as
// long as one does.
func (x *Export) Withdraw() {
	x.mu.Lock()
	twice := x.done
	x.done = true
	last := !twice && x.users == 1
	x.mu.Unlock()
	if twice {
		return
	}
	if last {
		x.forget()
	}
	x.release()
}

// forget makes the export unknown.
func (x *Export) forget() {
	x.n.mu.Lock()
	defer x.n.mu.Unlock()
	delete(x.n.exports, x.Handle.Secret)
}

func (x *Export) retain() {
	x.mu.Lock()
	x.users++
	x.mu.Unlock()
}

// release frees the memory when it was the last use. It is called with no lock held.
func (x *Export) release() {
	x.mu.Lock()
	x.users--
	over := x.users == 0
	x.mu.Unlock()
	if over {
		x.forget()
		unmap(x.pages)
		if x.mirror != nil {
			x.mirror.Close()
		}
		if x.file != nil {
			x.file.Close() //nolint:errcheck // nothing was written by it
		}
	}
}

// admit opens the export for a process; "" if it may. again: its link has failed while it had the export open.
func (x *Export) admit(server int, pid int32, again bool) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.users == 0, x.closes && x.done && !again:
		return wordUnknown
	case !x.open && !x.allowed[pid] && !x.named[guest{server, int(pid)}]:
		return wordNotAllowed
	}
	x.users++
	return ""
}

// listen starts to take links, once. Nothing listens before something is exported.
func (n *Node) listen() error {
	if err := n.open(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	if n.listener != nil {
		return nil
	}
	me := n.config.Me()
	ports := []uint16{0}
	if me.Ports[0] != 0 {
		ports = ports[:0]
		for p := int(me.Ports[0]); p <= int(me.Ports[1]); p++ {
			ports = append(ports, uint16(p))
		}
	}
	var failed error
	for _, p := range ports {
		l, err := listenAt(me.Address, p)
		if err != nil {
			failed = err
			continue
		}
		l = listenerNotInherited(l)
		n.listener, n.port = l, portOf(l)
		n.serving.Go(func() { n.accept(l) })
		return nil
	}
	return fmt.Errorf("pod: server %d cannot listen at %s: %w", me.ID, me.Address, failed)
}

// find is an export by its secret.
func (n *Node) find(secret []byte) *Export {
	var key [24]byte
	if len(secret) != len(key) {
		return nil
	}
	copy(key[:], secret)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exports[key]
}

// Exports is how many exports there are, of which some may be withdrawn and still in use; and Opened how often they
// are open.
func (n *Node) Exports() (exports, opened int) {
	n.mu.Lock()
	all := slices.Collect(mapsValues(n.exports))
	n.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		opened += x.users
		if !x.done {
			opened--
		}
		x.mu.Unlock()
	}
	return len(all), opened
}
