// Package share passes files from one process to another that knows a key.
//
// An exporting process has a [Broker]. With its first export the broker listens at an abstract Unix socket, whose name
// ends with a random tag; with the last one it stops. Nothing is in the file system: when the process ends, even if
// it is killed, the kernel removes the socket and the files. A [Key] is the tag and a secret. An importing process
// connects, sends a request, and gets one reply with a note and up to four files (SCM_RIGHTS).
//
// # Access
//
//   - The secret never travels. The importer sends a hash of it, and the exporter proves with a MAC over the
//     importer's nonce that it created the key. A process that takes the name of one that has ended learns nothing
//     and cannot forge a reply.
//   - A key that is unknown, withdrawn, guessed or of another kind is refused with the same reply, after a short
//     delay.
//   - With a white list only named processes, of any user, get an item. A process is identified by a pidfd, so that a
//     later one with the same number is refused.
//   - Without a white list, processes of the exporter's user and of root get it.
//
// An importer keeps the files until it closes them: withdrawing a key only prevents further imports. Processes can
// connect if they are in one network namespace.
//
// # Peers that misbehave
//
// A reply is one bounded message under a time limit, on both sides. At most 64 peers are served at a time; when
// another connects, the connection of the one that has waited longest is closed. Requests of another user's process
// that is not on a white list are always refused. Four such peers at a time get this error; others are disconnected
// at once, so that a flood of them costs the exporter little and does not displace other peers.
package share

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Kind is the kind of an item. A key is valid for one kind.
type Kind uint8

// Kinds.
const (
	Allocation Kind = iota + 1 // device memory with an address (aclrtIpcMem…)
	Physical                   // memory without an address (shareable handles)
	Notify
	Event
)

// Limits of an item.
const (
	MaxNote  = 1024
	MaxFiles = 4
)

// Item is the data and files that one process passes to another.
type Item struct {
	Kind  Kind
	Note  []byte     // data for the importer; at most MaxNote bytes
	Files []*os.File // at most MaxFiles
}

// Close closes the files.
func (it *Item) Close() {
	for _, f := range it.Files {
		f.Close() //nolint:errcheck // nothing was written
	}
	it.Files = nil
}

// Options of an export.
type Options struct {
	Open  bool // no white list: any process of the same user or of root may import
	Short bool // the key fits in 64 bits

	// Place is the address of this process for other servers: 28 bits, which are in the key's text; 0 if they cannot
	// import.
	Place uint32
}

// Errors. The text of an error of Import tells the user what to do.
var (
	ErrUnknown    = errors.New("unknown key")
	ErrGone       = errors.New("the exporting process has ended")
	ErrNotAllowed = errors.New("not allowed")
	ErrOtherUser  = fmt.Errorf("%w to other users", ErrNotAllowed) // no white list
	ErrSilent     = errors.New("the exporting process does not reply")
	ErrGarbage    = errors.New("the process that replies is not the exporting one")
	ErrNoProcess  = errors.New("no such process")
	ErrClosed     = errors.New("closed")
)

// Broker has the exports of a process. The zero value is ready for use. Methods may be called concurrently.
type Broker struct {
	// Realm is set before the first use: only processes of the same realm find each other. 0 is a machine; others are
	// servers of a pod, several of which may run on one machine.
	Realm uint32

	mu      sync.Mutex
	exports map[[32]byte]*export // guarded by mu; by the id that an importer sends
	server  *server              // guarded by mu; nil while nothing is exported
	named   map[int32]*process   // guarded by mu; processes on white lists
	closed  bool                 // guarded by mu
	serving sync.WaitGroup       // goroutines of servers
}

// export is an exported item.
type export struct {
	key     Key
	item    Item
	open    bool       // guarded by Broker.mu
	allowed []*process // guarded by Broker.mu; the white list
}

// Export exports an item under a new key. It takes ownership of the item's files, even if it fails.
func (b *Broker) Export(it Item, o Options) (Key, error) {
	k, err := b.export(it, o)
	if err != nil {
		it.Close()
	}
	return k, err
}

func (b *Broker) export(it Item, o Options) (Key, error) {
	if len(it.Note) > MaxNote || len(it.Files) > MaxFiles {
		return Key{}, fmt.Errorf("share: a note of %d bytes and %d files; %d and %d are possible", len(it.Note),
			len(it.Files), MaxNote, MaxFiles)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return Key{}, ErrClosed
	}
	if b.server == nil {
		d, err := b.open()
		if err != nil {
			return Key{}, err
		}
		b.server = d
	}
	if b.exports == nil {
		b.exports = map[[32]byte]*export{}
	}
	for {
		k := newKey(b.server.tag, o.Short)
		k.place = o.Place
		id := k.id(it.Kind)
		if b.exports[id] != nil { // random 44 bits may repeat
			continue
		}
		it.Note = slices.Clone(it.Note)
		b.exports[id] = &export{key: k, item: it, open: o.Open}
		return k, nil
	}
}

// find returns the export of a key, or nil, and its id in the map. b.mu is held.
func (b *Broker) find(k Key) (*export, [32]byte) {
	for kind := Allocation; kind <= Event; kind++ {
		id := k.id(kind)
		if x := b.exports[id]; x != nil {
			return x, id
		}
	}
	return nil, [32]byte{}
}

// Owns reports whether this process exports the key.
func (b *Broker) Owns(k Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, _ := b.find(k)
	return x != nil
}

// Allow adds processes to the white list of the key: all of them or, with an error, none. ErrUnknown, ErrNoProcess.
func (b *Broker) Allow(k Key, pids []int32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, _ := b.find(k)
	if x == nil {
		return fmt.Errorf("%w: this process does not export it, or no longer", ErrUnknown)
	}
	var named []*process
	for _, pid := range pids {
		p, err := b.hold(pid)
		if err != nil {
			b.letGo(named)
			return err
		}
		named = append(named, p)
	}
	for _, p := range named {
		if slices.Contains(x.allowed, p) {
			b.letGo([]*process{p}) // it is on the list already
		} else {
			x.allowed = append(x.allowed, p)
		}
	}
	return nil
}

// Open disables the white list of a key.
func (b *Broker) Open(k Key) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, _ := b.find(k)
	if x == nil {
		return fmt.Errorf("%w: this process does not export it, or no longer", ErrUnknown)
	}
	x.open = true
	return nil
}

// Withdraw ends an export and closes its files; importers keep what they have. False if this process does not export
// the key.
func (b *Broker) Withdraw(k Key) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, id := b.find(k)
	if x == nil {
		return false
	}
	b.end(x, id)
	if len(b.exports) == 0 {
		b.server.close()
		b.server = nil
	}
	return true
}

// end removes an export. b.mu is held.
func (b *Broker) end(x *export, id [32]byte) {
	delete(b.exports, id)
	b.letGo(x.allowed)
	x.item.Close()
}

// Close withdraws all exports and returns once no peer is being served. Later exports are refused.
func (b *Broker) Close() {
	b.mu.Lock()
	b.closed = true
	for id, x := range b.exports {
		b.end(x, id)
	}
	if b.server != nil {
		b.server.close()
		b.server = nil
	}
	b.mu.Unlock()
	b.serving.Wait()
}

// Count returns the number of exports.
func (b *Broker) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.exports)
}

// hold returns the process with a number and counts a reference of a white list. b.mu is held.
func (b *Broker) hold(pid int32) (*process, error) {
	p := b.named[pid]
	if p == nil || !p.alive() {
		var err error
		if p, err = openProcess(pid); err != nil {
			return nil, err
		}
		if b.named == nil {
			b.named = map[int32]*process{}
		}
		b.named[pid] = p // lists with the previous process of that number keep it
	}
	p.lists++
	return p, nil
}

// letGo releases the references of a white list. b.mu is held.
func (b *Broker) letGo(list []*process) {
	for _, p := range list {
		if p.lists--; p.lists == 0 {
			p.close()
			if b.named[p.pid] == p {
				delete(b.named, p.pid)
			}
		}
	}
}
