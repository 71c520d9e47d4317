package pod

import (
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Export is memory that processes of other servers can open. It stays until it is withdrawn and closed by all of them.
type Export struct {
	n      *Node    // immutable
	Handle Handle   // immutable
	about  About    // immutable
	size   uint64   // immutable
	bytes  []byte   // immutable while users is not 0
	pages  []byte   // immutable while users is not 0; the mapping that contains bytes
	wrote  func()   // immutable; may be nil; see Offer
	mirror Mirror   // immutable; may be nil; see ExportMirror
	closes bool     // immutable; it cannot be opened once it is withdrawn; see Offer
	file   *os.File // immutable while users is not 0; nil if others cannot map the memory

	mirroring sync.Mutex // held while bytes and the mirror are synchronised

	mu      sync.Mutex
	users   int            // guarded by mu; the exporter, processes that have it open, and messages in flight
	open    bool           // guarded by mu; every process of the pod may open it
	allowed map[int32]bool // guarded by mu; processes that may, on any server
	named   map[guest]bool // guarded by mu; processes that may, with their server
	done    bool           // guarded by mu; withdrawn
}

// guest is a process of another server.
type guest struct{ server, pid int }

// Export exports memory in a file at an offset to processes of other servers: to all if open, else to those of Allow.
// The caller keeps the file. Export starts listening.
func (n *Node) Export(f *os.File, offset uint64, about About, open bool) (*Export, error) {
	var secret [24]byte
	rand.Read(secret[:]) //nolint:errcheck // it never fails
	return n.export(f, offset, about, secret, &Export{open: open})
}

// Offer is Export with a secret of the caller, to the processes of AllowAt. Once it is withdrawn it cannot be opened,
// unlike an Export, which can be opened while any process has it open. wrote, if not nil, is called after every write
// of another server; it must not wait.
func (n *Node) Offer(f *os.File, offset uint64, about About, secret [24]byte, wrote func()) (*Export, error) {
	return n.export(f, offset, about, secret, &Export{wrote: wrote, closes: true})
}

// Mirror is memory that this process cannot access by its address, such as a GPU's. Its methods may wait for a copy.
type Mirror interface {
	Load(offset uint64, to []byte) error
	Store(offset uint64, from []byte) error
	Close() // no method is called afterwards
}

// ExportMirror is Export for memory that has to be copied: before other servers read it, and after they have written.
// The export owns the mirror, even if ExportMirror fails.
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

// put writes data of another server at offset, which was checked.
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

// fetch loads bytes from the mirror before a read; false if that fails.
func (x *Export) fetch(offset, n uint64) bool {
	if x.mirror == nil {
		return true
	}
	x.mirroring.Lock()
	defer x.mirroring.Unlock()
	return x.mirror.Load(offset, x.bytes[offset:offset+n]) == nil
}

// export makes x an export of memory in a file.
func (n *Node) export(f *os.File, offset uint64, about About, secret [24]byte, x *Export) (*Export, error) {
	if err := n.listen(); err != nil {
		return nil, err
	}
	lead := offset % uint64(os.Getpagesize())
	b, err := mapFile(f, offset-lead, lead+about.Size)
	if err != nil {
		return nil, err
	}
	x.n, x.about, x.size, x.bytes, x.pages, x.users = n, about, about.Size, b[lead:], b, 1 // lockcheck: x is new
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

// Allow lets processes with these numbers, on any server, open the export.
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

// AllowAt lets processes of one server open the export.
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

// Port starts listening, if necessary, and returns the port of this process.
func (n *Node) Port() (uint16, error) {
	if err := n.listen(); err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.port, nil
}

// Withdraw ends the export for processes that have not opened it. Others keep it, and while one does, an Export can
// still be opened.
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

// forget removes the export from the node.
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

// release ends a use; the last one frees the memory. No lock may be held.
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

// admit adds a process as a user of the export and returns "", or returns why it may not open it. again means that its
// link failed while it had the export open.
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

// listen starts accepting links, once. A process does not listen before its first export.
func (n *Node) listen() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return ErrClosed
	}
	if n.listening != nil {
		return nil
	}
	if n.config.ucxDevices() != "" {
		if err := n.openLocked(); err != nil {
			return err
		}
	}
	me := n.config.Me()
	var failed error
	for p := int(me.Ports[0]); p <= int(me.Ports[1]); p++ {
		all, port, err := n.listenOn(uint16(p))
		if err != nil {
			failed = err
			continue
		}
		n.port = port
		for _, l := range all {
			l = listenerNotInherited(l)
			n.listening = append(n.listening, l)
			n.serving.Go(func() { n.accept(l) })
		}
		return nil
	}
	return fmt.Errorf("pod: server %d cannot listen at %s: %w", me.ID, me.Address, failed)
}

// find returns the export with a secret, or nil.
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

// Exports returns the number of exports, including withdrawn ones that are still in use, and the number of times they
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
