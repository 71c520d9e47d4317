package ropeway

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"ropeway/internal/core"
)

// Key names memory, a notify or an event of one process for others. It is a short text without spaces, for a pipe, a file or a command line. Who has
// it, and may, has what it names.
type Key string

// keyRoom is how many bytes a key needs in C, with the zero at its end.
const keyRoom = 65

// cKey is a key as C has it.
func (k Key) cKey() []byte { return append([]byte(k), 0) }

func keyOf(text []byte) Key {
	text, _, _ = bytes.Cut(text, []byte{0})
	return Key(text)
}

// pids is a white list as C has it.
func pids(api string, with []int) ([]int32, error) {
	list := make([]int32, 0, len(with))
	for _, pid := range with {
		if pid <= 0 || pid > math.MaxInt32 {
			return nil, misuse(api, "pid", fmt.Sprintf("%d is no process", pid))
		}
		list = append(list, int32(pid))
	}
	return list, nil
}

// mostNamed is how many processes aclrtIpcMemSetImportPid takes at a time.
const mostNamed = 31

// Share lets other processes have device memory, by [Device.Import], and returns the key for it. Only the processes with the given numbers may; if none
// is given, all of the same user, and root's. Nothing is copied: they see what this process writes. It ends with [Buffer.Unshare], or when the buffer is freed.
func (b *Buffer) Share(with ...int) (Key, error) {
	const api = "aclrtIpcMemGetExportKey"
	if p := b.problem(b.d.r); p != "" {
		return "", b.d.r.refuse(api, "devPtr", p, core.Gone, b.addr)
	}
	list, err := pids("aclrtIpcMemSetImportPid", with)
	if err != nil {
		return "", err
	}
	flags := uint64(0)
	if len(list) == 0 {
		flags = 1 // no list
	}
	text := make([]byte, keyRoom)
	if err := b.d.t.IpcMemGetExportKey(b.addr, uint64(b.n), first(text), keyRoom, flags); err != nil {
		return "", b.d.answer(err)
	}
	k := keyOf(text)
	for some := range slices.Chunk(list, mostNamed) {
		if err := b.d.t.IpcMemSetImportPid(first(text), first(some), uint64(len(some))); err != nil {
			_ = b.Unshare(k)
			return "", b.d.answer(err)
		}
	}
	return k, nil
}

// Unshare makes a key that Share gave good for nothing. Who has imported it keeps what it has; if that is this process, it has to be freed before.
func (b *Buffer) Unshare(k Key) error {
	im := &b.d.r.imports
	im.mu.Lock() // so that nobody imports it meanwhile
	defer im.mu.Unlock()
	if im.has(b.d.r, k) {
		return misuse("aclrtIpcMemClose", "key", "is imported in this process, too; free that buffer before")
	}
	return b.d.answer(b.d.t.IpcMemClose(first(k.cKey())))
}

// imports are the keys that are imported, each once: C closes by key, imports before exports, and could not tell two apart.
type imports struct {
	mu   sync.Mutex
	have map[Key]*Buffer // guarded by mu; nil: being imported
}

// has tells whether a key is imported, or is being. mu is held.
func (im *imports) has(r *Runtime, k Key) bool {
	maps.DeleteFunc(im.have, func(_ Key, b *Buffer) bool { return b != nil && b.problem(r) != "" }) // they were freed
	_, has := im.have[k]
	return has
}

// begin notes that a key is being imported; false if it is imported already.
func (im *imports) begin(r *Runtime, k Key) bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.has(r, k) {
		return false
	}
	if im.have == nil {
		im.have = map[Key]*Buffer{}
	}
	im.have[k] = nil
	return true
}

// end notes how that ended; b is nil if there is nothing.
func (im *imports) end(k Key, b *Buffer) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if b != nil {
		im.have[k] = b
	} else {
		delete(im.have, k)
	}
}

// Import opens the memory of another process that the key names: n bytes from its beginning. Free closes it; it should be closed before
// the other process frees it. A key can be imported once at a time.
func (d *Device) Import(k Key, n int) (*Buffer, error) {
	const api = "aclrtIpcMemImportByKey"
	if !d.r.imports.begin(d.r, k) {
		return nil, misuse(api, "key", "is imported already; free the first one before, or use it")
	}
	b, err := d.importKey(api, k, n)
	d.r.imports.end(k, b)
	return b, err
}

// importKey is Import of a key that is not imported. It may take seconds, if the other process is stopped.
func (d *Device) importKey(api string, k Key, n int) (*Buffer, error) {
	var addr core.Addr
	if err := d.t.IpcMemImportByKey(&addr, first(k.cKey()), 1); err != nil { // 1: with peer access, if it is another device's
		return nil, d.answer(err)
	}
	b := &Buffer{d: d, addr: addr, n: n, device: true, goes: true, foreign: true}
	b.free = func(t *core.Thread, _ core.Addr) *core.Error { return t.IpcMemClose(first(k.cKey())) }
	if room := d.r.rt.Driver().Locate(addr).Room; n <= 0 || uint64(n) > room {
		_ = b.Free()
		return nil, misuse(api, "n", fmt.Sprintf("is %d; the memory has %d bytes", n, room))
	}
	return b, nil
}

// Share lets other processes have the notify, by [Device.ImportNotify], as [Buffer.Share] does with memory; once for each notify. Others may record
// it; waiting is for streams of its own device.
func (n *Notify) Share(with ...int) (Key, error) {
	list, err := pids("aclrtNotifySetImportPid", with)
	if err != nil {
		return "", err
	}
	flags := uint64(0)
	if len(list) == 0 {
		flags = 2 // no list
	}
	text := make([]byte, keyRoom)
	if err := n.d.t.NotifyGetExportKey(n.h, first(text), keyRoom, flags); err != nil {
		return "", n.d.answer(err)
	}
	if len(list) > 0 {
		if err := n.d.t.NotifySetImportPid(n.h, first(list), uint64(len(list))); err != nil {
			return "", n.d.answer(err)
		}
	}
	return keyOf(text), nil
}

// ImportNotify opens the notify of another process that the key names.
func (d *Device) ImportNotify(k Key) (*Notify, error) {
	n := &Notify{d: d}
	if err := d.t.NotifyImportByKey(&n.h, first(k.cKey()), 2); err != nil { // 2: with peer access, if it is another device's
		return nil, d.answer(err)
	}
	return n, nil
}
