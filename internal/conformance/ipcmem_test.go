package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// Two runtimes in this process are two processes to the API: each has a driver and a broker of its own. That they
// have one pid is what white lists see of them. Real processes are in internal/ipctest.

const keyLen = 65

// noIPC are machines without IPC memory.
var noIPC = []machine{{product: "310B"}, {product: "310B", form: "RC"}, {product: "310P", form: "RC"}, {product: "310"}}

// onAll makes sure that a call ends with code on every machine, and is how it ended on the last.
func onAll(e *env, machines []machine, code abi.Code, call func(e *env) *core.Error) (err *core.Error) {
	e.Helper()
	for _, m := range machines {
		err = call(e.on(m))
		e.want(err, code)
	}
	return err
}

// needsShare skips a test where the driver cannot share memory.
func needsShare(e *env) {
	e.Helper()
	if e.faults.Caps().Share == nil {
		e.Skip("the driver does not share memory between processes")
	}
}

// exported is a key of n bytes at p.
func exported(e *env, p core.Addr, n, flags uint64) *byte {
	e.Helper()
	needsShare(e)
	key := make([]byte, keyLen)
	e.ok(memory.IpcMemGetExportKey(e.th, p, n, &key[0], keyLen, flags))
	return &key[0]
}

// openKey is a key of new memory that everybody may import, and the memory.
func openKey(e *env, n uint64) (*byte, core.Addr) {
	e.Helper()
	p := e.device(n)
	return exported(e, p, n, 1), p
}

// imported is where a key was imported.
func imported(e *env, key *byte, flags uint64) core.Addr {
	e.Helper()
	var p core.Addr
	e.ok(memory.IpcMemImportByKey(e.th, &p, key, flags))
	return p
}

// closed proves that p, where something was imported, is no device memory any more. CUDA gives such addresses out
// again, for host memory of the driver's own too; elsewhere nothing is there.
func closed(e *env, p core.Addr) {
	e.Helper()
	e.at(p, abi.MemLocationTypeUnregistered, 0, smallPage)
	if !onGPU {
		e.want(transfer.Memset(e.th, p, 64, 1, 64), abi.ErrRTParamInvalid)
	}
}

// sets and has write and compare device memory through a synchronous copy.
func sets(e *env, p core.Addr, n uint64, value byte) {
	e.Helper()
	e.ok(transfer.Memset(e.th, p, n, int32(value), n))
}

func has(e *env, p core.Addr, n uint64, value byte) {
	e.Helper()
	b := make([]byte, n)
	e.ok(transfer.Memcpy(e.th, core.AddrOf(b), n, p, n, abi.MemcpyDeviceToHost))
	for i, got := range b {
		if got != value {
			e.Fatalf("byte %d is %d, want %d", i, got, value)
		}
	}
}

// plain is a driver that can do nothing but what every driver can.
type plain struct{ driver.Driver }

func (d plain) Caps() driver.Caps { return driver.Caps{Base: d} }

// unshared is a runtime over a driver that can do nothing but what every driver can.
func unshared(e *env, name string) *env {
	e.Helper()
	p, err := product.Find(name, "")
	testenv.OK(e, err)
	o := e.on(machine{product: name, bare: true})
	// o's first runtime is closed with the test
	o.rt = core.New(core.Options{Driver: plain{o.faults}, Product: p})
	e.Cleanup(func() { o.th.ResetDevice(0) })
	o.th = o.rt.NewThread(1)
	o.ok(o.th.SetDevice(0))
	return o
}

// Text that cannot be a key by its length, text that is none, and a key of nobody.
var (
	badLength = []string{"", strings.Repeat("k", 65), strings.Repeat("k", 200)}
	noKey     = []string{"rw-", strings.Repeat("k", 64)}
	nobodys   = "rw-12345-" + strings.Repeat("0", 48)
)

func init() {
	var key [keyLen]byte
	k := &key[0]
	prove("aclrtIpcMemGetExportKey", "no-ipc-memory", func(e *env) *core.Error {
		return onAll(e, noIPC, abi.ErrRTFeatureNotSupport,
			func(e *env) *core.Error { return memory.IpcMemGetExportKey(e.th, 8, 8, k, keyLen, 0) })
	})
	prove("aclrtIpcMemGetExportKey", "driver-refuses-range", func(e *env) *core.Error {
		needsShare(e)
		p := e.device(8192)
		gone := e.device(4096)
		e.ok(memory.Free(e.th, gone))
		for name, at := range map[string]core.Addr{"pinned": e.pinned(4096), "pageable": e.pageable(4096),
			"freed": gone, "inside a page": p + 64} {
			if err := memory.IpcMemGetExportKey(e.th, at, 64, k, keyLen, 1); codeOf(err) != abi.ErrRTParamInvalid ||
				err.Arg != "devPtr" {
				e.Errorf("%s: %v", name, err)
			}
		}
		shared, _ := openKey(e, 4096)
		o := e.on(machine{})
		o.want(memory.IpcMemGetExportKey(o.th, imported(o, shared, 0), 64, k, keyLen, 1), abi.ErrRTParamInvalid)
		e.want(memory.IpcMemGetExportKey(e.th, p, 1<<40, k, keyLen, 1), abi.ErrRTParamInvalid)
		key[20] = 7
		err := memory.IpcMemGetExportKey(e.th, p, 8192, k, 20, 1)
		if key[20] != 7 {
			e.Error("a key was written past its end")
		}
		return blamed(e, "len", err)
	})
	prove("aclrtIpcMemGetExportKey", "list-stays-on", func(e *env) *core.Error {
		o := unshared(e, "A2")
		return memory.IpcMemGetExportKey(o.th, o.device(64), 64, k, keyLen, 1)
	})
	behaves("aclrtIpcMemGetExportKey", func(e *env) {
		const n = 3 << 20
		p := e.device(n)
		sets(e, p, n, 1)
		a, b := exported(e, p, n, 1), exported(e, p, n, 0) // one for everybody, one with a list
		if text(a) == text(b) || len(text(a)) >= keyLen {
			e.Errorf("keys %q and %q", text(a), text(b))
		}
		o := e.on(machine{})
		q := imported(o, a, 0)
		has(o, q, n, 1)
		o.want(memory.IpcMemImportByKey(o.th, new(core.Addr), b, 0), abi.ErrRTDrvInternalError)

		inner := exported(e, p+8192, 4096, 1) // inside an allocation, from a page on
		sets(e, p+8192, 1, 9)
		r := imported(o, inner, 0)
		has(o, r, 1, 9)
		has(o, r+1, 100, 1)

		small := e.device(100)
		sets(e, small, 100, 4)
		has(o, imported(o, exported(e, small, 100, 1), 0), 100, 4)

		// A key goes with the memory.
		e.ok(memory.Free(e.th, p))
		for _, key := range []*byte{a, b, inner} {
			o.want(memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0), abi.ErrRTDrvInternalError)
			e.want(memory.IpcMemClose(e.th, key), abi.ErrRTParamInvalid)
		}
		has(o, q+4096, 100, 1) // what was imported stays
		fresh := e.device(n)
		sets(e, fresh, n, 8)
		has(o, q+4096, 100, 1) // and is not what comes to its place
	})

	pid := int32(os.Getpid())
	prove("aclrtIpcMemSetImportPid", "no-ipc-memory", func(e *env) *core.Error {
		return onAll(e, noIPC, abi.ErrRTFeatureNotSupport,
			func(e *env) *core.Error { return memory.IpcMemSetImportPid(e.th, k, &pid, 1) })
	})
	many := make([]int32, 32*1024+31)
	for i := range many {
		many[i] = 1<<30 + int32(i) // processes that do not run
	}
	prove("aclrtIpcMemSetImportPid", "key-length", func(e *env) *core.Error {
		return lastOf(e, abi.ErrRTParamInvalid, badLength,
			func(key string) *core.Error { return memory.IpcMemSetImportPid(e.th, cstr(key), &pid, 31) })
	})
	prove("aclrtIpcMemSetImportPid", "not-exported", func(e *env) *core.Error {
		for _, key := range append(noKey, nobodys) {
			e.want(memory.IpcMemSetImportPid(e.th, cstr(key), &pid, 1), abi.ErrRTDrvInternalError)
		}
		key, _ := openKey(e, 64)
		return memory.IpcMemSetImportPid(e.on(machine{}).th, key, &pid, 1) // it is not that one's
	})
	prove("aclrtIpcMemSetImportPid", "exported-for-all", func(e *env) *core.Error {
		key, _ := openKey(e, 64)
		return memory.IpcMemSetImportPid(e.th, key, new(int32), 1)
	})
	prove("aclrtIpcMemSetImportPid", "pids", func(e *env) *core.Error {
		key := exported(e, e.device(64), 64, 0)
		for i := 0; i < 32*1024; i += 16 {
			e.ok(memory.IpcMemSetImportPid(e.th, key, &many[i], 16))
		}
		e.ok(memory.IpcMemSetImportPid(e.th, key, &many[0], 16)) // the same once more
		e.want(memory.IpcMemSetImportPid(e.th, key, &many[32*1024], 1), abi.ErrRTDrvInternalError)
		return memory.IpcMemSetImportPid(e.th, exported(e, e.device(64), 64, 0), &make([]int32, 3)[0], 3)
	})
	behaves("aclrtIpcMemSetImportPid", func(e *env) {
		key := exported(e, e.device(64), 64, 0)
		o := e.on(machine{})
		err := memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0)
		e.want(err, abi.ErrRTDrvInternalError)
		for _, word := range []string{fmt.Sprint("process ", os.Getpid()), "aclrtIpcMemSetImportPid"} {
			if !strings.Contains(err.Error(), word) {
				e.Errorf("%v does not say %q", err, word)
			}
		}
		pids := []int32{1, 1 << 30, 0, pid, pid} // the second is nobody's
		e.ok(memory.IpcMemSetImportPid(e.th, key, &pids[0], 3))
		o.want(memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0), abi.ErrRTDrvInternalError)
		e.ok(memory.IpcMemSetImportPid(e.th, key, &pids[0], 1<<32+5))
		imported(o, key, 0)
	})

	prove("aclrtIpcMemImportByKey", "no-ipc-memory", func(e *env) *core.Error {
		return onAll(e, noIPC, abi.ErrRTFeatureNotSupport,
			func(e *env) *core.Error { return memory.IpcMemImportByKey(e.th, new(core.Addr), k, 1) })
	})
	prove("aclrtIpcMemImportByKey", "device-unknown", func(e *env) *core.Error {
		return memory.IpcMemImportByKey(unshared(e, "A2").th, new(core.Addr), k, 1)
	})
	prove("aclrtIpcMemImportByKey", "not-a-key", func(e *env) *core.Error {
		needsShare(e)
		for _, key := range badLength {
			e.want(memory.IpcMemImportByKey(e.th, new(core.Addr), cstr(key), 1), abi.ErrRTParamInvalid)
		}
		return lastOf(e, abi.ErrRTParamInvalid, append(noKey, badLength...), func(key string) *core.Error {
			return memory.IpcMemImportByKey(e.th, new(core.Addr), cstr(key), 0)
		})
	})
	prove("aclrtIpcMemImportByKey", "no-exporter", func(e *env) *core.Error {
		needsShare(e)
		p := core.Addr(7)
		for _, key := range append(noKey, nobodys) {
			e.want(memory.IpcMemImportByKey(e.th, &p, cstr(key), 1), abi.ErrRTDrvInternalError)
		}
		e.want(memory.IpcMemImportByKey(e.th, &p, cstr(nobodys), 0), abi.ErrRTDrvInternalError)
		key, _ := openKey(e, 64)
		guess := text(key)[:56] + "0"
		if guess == text(key) {
			guess = guess[:56] + "1"
		}
		e.want(memory.IpcMemImportByKey(e.th, &p, cstr(guess), 1), abi.ErrRTDrvInternalError)
		e.ok(memory.IpcMemClose(e.th, key))
		err := memory.IpcMemImportByKey(e.on(machine{}).th, &p, key, 0)
		is(e, "untouched output", p, 7)
		return err
	})
	prove("aclrtIpcMemImportByKey", "not-listed", func(e *env) *core.Error {
		p := core.Addr(7)
		err := memory.IpcMemImportByKey(e.on(machine{}).th, &p, exported(e, e.device(64), 64, 0), 0)
		is(e, "untouched output", p, 7)
		return err
	})
	prove("aclrtIpcMemImportByKey", "imported-elsewhere", func(e *env) *core.Error {
		key, _ := openKey(e, 64)
		o := e.on(machine{})
		imported(o, key, 0)
		o.ok(o.th.SetDevice(1))
		return memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0)
	})
	behaves("aclrtIpcMemImportByKey", importBehaviour)

	prove("aclrtIpcMemClose", "no-ipc-memory", func(e *env) *core.Error {
		return onAll(e, noIPC, abi.ErrRTFeatureNotSupport,
			func(e *env) *core.Error { return memory.IpcMemClose(e.stranger(), k) })
	})
	prove("aclrtIpcMemClose", "attribute-set", func(e *env) *core.Error {
		e = e.on(machine{product: "950"})
		key, _ := openKey(e, 64)
		o := e.on(machine{product: "950"})
		o.want(memory.IpcMemClose(o.th, key), abi.ErrRTParamInvalid)
		o.ok(memory.IpcMemSetAttr(o.th, key, 0, 2))
		err := memory.IpcMemClose(o.th, key)
		o.want(memory.IpcMemClose(o.th, key), abi.ErrRTParamInvalid) // it is forgotten
		imported(o, key, 0)                                          // and the export is untouched
		return err
	})
	prove("aclrtIpcMemClose", "imported", func(e *env) *core.Error {
		key, _ := openKey(e, 4096)
		o := e.on(machine{})
		first, second := imported(o, key, 0), imported(o, key, 0)
		is(e, "the second address", second, first)
		err := memory.IpcMemClose(o.th, key)
		has(o, first, 64, 0)
		o.ok(memory.IpcMemClose(o.th, key))
		o.at(first, abi.MemLocationTypeUnregistered, 0, smallPage)
		return err
	})
	prove("aclrtIpcMemClose", "key-unknown", func(e *env) *core.Error {
		for _, key := range append(badLength, noKey...) {
			e.want(memory.IpcMemClose(e.th, cstr(key)), abi.ErrRTParamInvalid)
		}
		key, _ := openKey(e, 64)
		return memory.IpcMemClose(e.on(machine{}).th, key)
	})
	behaves("aclrtIpcMemClose", func(e *env) {
		key, p := openKey(e, 4096)
		sets(e, p, 4096, 6)
		o := e.on(machine{})
		list := []core.Addr{imported(o, key, 0), imported(o, key, 0), imported(o, key, 0)}
		for i, q := range list { // it goes with the last
			is(o, "the address", q, list[0])
			o.ok(memory.IpcMemClose(o.th, key))
			if i < len(list)-1 {
				has(o, q, 64, 6)
			} else {
				closed(o, q)
			}
		}
		o.want(memory.IpcMemClose(o.th, key), abi.ErrRTParamInvalid)

		// A process that exports and imports closes the imports first, then the export.
		q := imported(e, key, 0)
		e.ok(memory.IpcMemClose(e.th, key))
		closed(e, q)
		q = imported(o, key, 0)
		e.ok(memory.IpcMemClose(e.th, key))
		o.want(memory.IpcMemImportByKey(o.th, &q, key, 0), abi.ErrRTDrvInternalError)
		has(o, q, 64, 6) // importers should have closed before; what they have stays
		e.want(memory.IpcMemClose(e.th, key), abi.ErrRTParamInvalid)
		has(e, p, 64, 6) // the memory itself stays
	})
}

func importBehaviour(e *env) {
	const n = 4 << 20
	key, p := openKey(e, n)
	o := e.on(machine{})
	q, r := imported(o, key, 0), imported(o, key, 0)
	is(e, "the address of a second import", r, q)
	// No copy: each sees what the other writes.
	sets(e, p, n, 1)
	has(o, q, n, 1)
	sets(o, q, n/2, 2)
	has(e, p, n/2, 2)
	has(o, r, n/2, 2)
	o.at(q, abi.MemLocationTypeDevice, 0, hugePage)

	// It is device memory: asynchronous copies, batches, within bounds.
	s := o.stream()
	h := o.pinned(64)
	bytes(h, 64)[0] = 77
	o.ok(transfer.MemcpyAsync(o.th, q+100, 64, h, 64, abi.MemcpyHostToDevice, s))
	o.ok(transfer.MemsetAsync(o.th, q+200, 64, 5, 64, s))
	o.ok(o.th.SynchronizeStream(s))
	has(e, p+100, 1, 77)
	has(e, p+200, 64, 5)
	// it ends with the pages of what was exported
	o.want(transfer.MemsetAsync(o.th, q, 2*n, 5, 2*n, s), abi.ErrRTParamInvalid)
	err := memory.Free(o.th, q)
	o.want(err, abi.ErrRTParamInvalid)
	if !strings.Contains(err.Error(), "aclrtIpcMemClose") {
		e.Errorf("%v does not say how to close it", err)
	}

	// Memory of another device is a peer's.
	e.ok(e.th.SetDevice(2))
	far, fp := openKey(e, 4096)
	sets(e, fp, 4096, 3)
	q = imported(o, far, 0)
	o.at(q, abi.MemLocationTypeDevice, 2, smallPage)
	here := o.device(4096)
	o.want(transfer.MemcpyAsync(o.th, here, 64, q, 64, abi.MemcpyDeviceToDevice, s), abi.ErrRTParamInvalid)
	q = imported(o, far, 1)
	is(e, "peer access", peerStatus(o, 0, 2), 1)
	o.ok(transfer.MemcpyAsync(o.th, here, 4096, q, 4096, abi.MemcpyDeviceToDevice, s))
	o.ok(o.th.SynchronizeStream(s))
	has(o, here, 4096, 3)

	// Also if the other device is not visible.
	v := e.on(visible("0,1"))
	q = imported(v, far, 1)
	there := v.device(64)
	t := v.stream()
	v.ok(transfer.MemcpyAsync(v.th, there, 64, q, 64, abi.MemcpyDeviceToDevice, t))
	v.ok(v.th.SynchronizeStream(t))
	has(v, there, 64, 3)

	// A machine with fewer devices does not have it.
	few := e.on(machine{devices: 1})
	few.want(memory.IpcMemImportByKey(few.th, &q, far, 0), abi.ErrRTDrvInternalError)
}

// TestImportedBatch proves that a batch goes into memory of another process.
func TestImportedBatch(t *testing.T) {
	e := newEnv(t, machine{})
	key, p := openKey(e, 4096)
	o := e.on(machine{})
	q, h := imported(o, key, 0), o.pinned(64)
	copy(bytes(h, 64), strings.Repeat("b", 64))
	dst, src, size := []core.Addr{q, q + 2048}, []core.Addr{h, h}, []uint64{64, 64}
	attr := abi.MemcpyBatchAttr{DstLoc: abi.MemLocation{Type: abi.MemLocationTypeDevice}}
	var index, failed uint64
	o.ok(transfer.MemcpyBatch(o.th, &dst[0], &size[0], &src[0], &size[0], 2, &attr, &index, 1, &failed))
	has(e, p, 64, 'b')
	has(e, p+2048, 64, 'b')
	has(e, p+64, 64, 0)
}

// TestImportedValueWait proves that a stream waits for a value that another process writes, by a task and by a copy.
func TestImportedValueWait(t *testing.T) {
	countsOnHaste(t)
	e := newEnv(t, machine{})
	key, p := openKey(e, 4096)
	o := e.on(machine{})
	q, s, r := imported(o, key, 0), e.stream(), o.stream()
	e.ok(signal.ValueWait(e.th, p, 1, 0, s)) // at least 1
	e.ok(transfer.MemsetAsync(e.th, p+64, 8, 7, 8, s))
	o.ok(signal.ValueWrite(o.th, q, 1, 0, r))
	e.ok(e.th.SynchronizeStream(s))
	has(o, q+64, 8, 7)
	e.ok(signal.ValueWait(e.th, p+8, 2, 0, s))
	sets(o, q+8, 8, 2)
	e.ok(e.th.SynchronizeStream(s))
}

// TestImportsEnd proves that imports go with the device they were made on, exports with theirs, and both with
// aclFinalize.
func TestImportsEnd(t *testing.T) {
	e := newEnv(t, machine{})
	key, p := openKey(e, 4096)
	o := e.on(machine{})
	q := imported(o, key, 0)
	o.ok(o.th.ResetDevice(0))
	o.ok(o.th.SetDevice(0))
	o.at(q, abi.MemLocationTypeUnregistered, 0, smallPage)
	o.want(memory.IpcMemClose(o.th, key), abi.ErrRTParamInvalid)

	q = imported(o, key, 0)
	sets(e, p, 4096, 5)
	e.ok(e.th.ResetDevice(0))
	e.ok(e.th.SetDevice(0))
	o.want(memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0), abi.ErrRTDrvInternalError)
	has(o, q, 4096, 5)

	o.ok(process.Init(o.th, nil))
	mine, _ := openKey(o, 64)
	o.ok(process.Finalize(o.th))
	o.at(q, abi.MemLocationTypeUnregistered, 0, smallPage)
	e.want(memory.IpcMemImportByKey(e.th, &q, mine, 0), abi.ErrRTDrvInternalError)
	o.want(memory.IpcMemClose(o.th, mine), abi.ErrRTParamInvalid)
}

// text is a key as a Go string.
func text(key *byte) string {
	s := string(bytes(core.Addr(pointerOf(key)), keyLen))
	s, _, _ = strings.Cut(s, "\x00")
	return s
}
