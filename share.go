package ropeway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
)

// Key names memory, a notify or an event of one process for others. It is a short text without spaces, for a pipe, a
// file or a command line. A process that has the key, and is allowed to, can open the object.
type Key string

// keyRoom is the size of a key in C, with its terminator.
const keyRoom = 65

// cKey returns the key as a C string.
func (k Key) cKey() []byte { return append([]byte(k), 0) }

func keyOf(text []byte) Key {
	text, _, _ = bytes.Cut(text, []byte{0})
	return Key(text)
}

// pids converts a white list to C's type.
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

// mostNamed is the most processes for a call of aclrtIpcMemSetImportPid.
const mostNamed = 31

// Share lets other processes open device memory, by [Device.Import], and returns the key for it. Only the processes
// with the given numbers may open it; if none is given, all processes of the same user and of root. Nothing is
// copied: they share the bytes. Sharing ends with [Buffer.Unshare], or when the buffer is closed.
func (b *Buffer) Share(with ...int) (Key, error) {
	list, err := pids("aclrtIpcMemSetImportPid", with)
	if err != nil {
		return "", err
	}
	text, k, err := b.export(len(list) > 0)
	if err != nil {
		return "", err
	}
	for some := range slices.Chunk(list, mostNamed) {
		if err := memory.IpcMemSetImportPid(b.d.t, first(text), first(some), uint64(len(some))); err != nil {
			_ = b.Unshare(k)
			return "", b.d.result(err)
		}
	}
	return k, nil
}

// export returns a key of the memory, also as a C string. If list, only named processes may use it.
func (b *Buffer) export(list bool) (text []byte, k Key, err error) {
	const api = "aclrtIpcMemGetExportKey"
	if p := b.problem(b.d.r); p != "" {
		return nil, "", b.d.r.refuse(api, "devPtr", p, core.Gone, b.addr)
	}
	flags := uint64(0)
	if !list {
		flags = 1
	}
	text = make([]byte, keyRoom)
	if err := memory.IpcMemGetExportKey(b.d.t, b.addr, uint64(b.n), first(text), keyRoom, flags); err != nil {
		return nil, "", b.d.result(err)
	}
	return text, keyOf(text), nil
}

// Unshare makes a key of Share invalid. Processes that have imported it keep the memory; if this process has imported
// it, that buffer must be closed before.
func (b *Buffer) Unshare(k Key) error {
	im := &b.d.r.imports
	im.mu.Lock() // so that it is not imported at the same time
	defer im.mu.Unlock()
	if im.has(b.d.r, k) {
		return misuse("aclrtIpcMemClose", "key", "is imported in this process, too; close that buffer before")
	}
	return b.d.result(memory.IpcMemClose(b.d.t, first(k.cKey())))
}

// imports are the imported keys, each at most once: C closes by key, imports before exports, and could not
// distinguish two imports.
type imports struct {
	mu   sync.Mutex
	have map[Key]*Buffer // guarded by mu; nil: being imported
}

// has reports whether a key is imported, or is being. mu is held.
func (im *imports) has(r *Runtime, k Key) bool {
	maps.DeleteFunc(im.have, func(_ Key, b *Buffer) bool { return b != nil && b.problem(r) != "" }) // remove closed
	// ones
	_, has := im.have[k]
	return has
}

// begin records that a key is being imported; false if it is imported already.
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

// end records the result of the import; b is nil if it failed.
func (im *imports) end(k Key, b *Buffer) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if b != nil {
		im.have[k] = b
	} else {
		delete(im.have, k)
	}
}

// importing calls open, which makes a request to another process and may take seconds if that is stopped. If ctx ends
// first, its error is returned, and a late result is closed.
func importing[T io.Closer](ctx context.Context, open func() (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return open()
	}
	type result struct {
		v   T
		err error
	}
	results := make(chan result, 1)
	go func() {
		v, err := open()
		results <- result{v, err}
	}()
	select {
	case a := <-results:
		return a.v, a.err
	case <-ctx.Done():
		go func() {
			if a := <-results; a.err == nil {
				a.v.Close() //nolint:errcheck // the program did not get it
			}
		}()
		return none, ctx.Err()
	}
}

// Import opens the first n bytes of another process's memory by its key. It should be closed before the other process
// closes the memory. A key can be imported only once at a time. If ctx ends before the other process has replied, its
// error is returned.
func (d *Device) Import(ctx context.Context, k Key, n int) (*Buffer, error) {
	const api = "aclrtIpcMemImportByKey"
	return importing(ctx, func() (*Buffer, error) {
		if !d.r.imports.begin(d.r, k) {
			return nil, misuse(api, "key", "is imported already; close the first one before, or use it")
		}
		b, err := d.importKey(api, k, n)
		d.r.imports.end(k, b)
		return b, err
	})
}

// importKey is Import of a key that is not imported. It may take seconds, if the other process is stopped.
func (d *Device) importKey(api string, k Key, n int) (*Buffer, error) {
	var addr core.Addr
	const peer = 1 // with peer access, if another device has it
	if err := memory.IpcMemImportByKey(d.t, &addr, first(k.cKey()), peer); err != nil {
		return nil, d.result(err)
	}
	b := &Buffer{d: d, addr: addr, n: n, device: true, goes: true, foreign: true}
	b.free = func(t *core.Thread, _ core.Addr) *core.Error { return memory.IpcMemClose(t, first(k.cKey())) }
	if room := d.r.rt.Driver.Locate(addr).Room; n <= 0 || uint64(n) > room {
		_ = b.Close()
		return nil, misuse(api, "n", fmt.Sprintf("is %d; the memory has %d bytes", n, room))
	}
	return b, nil
}

// Share lets other processes open the notify, by [Device.ImportNotify], as [Buffer.Share] does for memory. It may be
// called once for each notify. Other processes may record it; only streams of its own device may wait for it.
func (n *Notify) Share(with ...int) (Key, error) {
	list, err := pids("aclrtNotifySetImportPid", with)
	if err != nil {
		return "", err
	}
	k, err := n.export(len(list) > 0)
	if err != nil || len(list) == 0 {
		return k, err
	}
	if err := signal.NotifySetImportPid(n.d.t, n.h, first(list), uint64(len(list))); err != nil {
		return "", n.d.result(err)
	}
	return k, nil
}

// export returns the key of the notify. If list, only named processes may use it.
func (n *Notify) export(list bool) (Key, error) {
	flags := uint64(0)
	if !list {
		flags = 2
	}
	text := make([]byte, keyRoom)
	if err := signal.NotifyGetExportKey(n.d.t, n.h, first(text), keyRoom, flags); err != nil {
		return "", n.d.result(err)
	}
	return keyOf(text), nil
}

// ImportNotify opens another process's notify by its key. If ctx ends before that process has replied, its error is
// returned.
func (d *Device) ImportNotify(ctx context.Context, k Key) (*Notify, error) {
	return importing(ctx, func() (*Notify, error) {
		n := &Notify{d: d}
		const peer = 2 // with peer access, if another device has it
		if err := signal.NotifyImportByKey(d.t, &n.h, first(k.cKey()), peer); err != nil {
			return nil, d.result(err)
		}
		return n, nil
	})
}
