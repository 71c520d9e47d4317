package conformance

import (
	"os"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
)

func pointerOf(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

func init() {
	var key [keyLen]byte
	k := &key[0]
	prove("aclrtIpcMemSetAttr", "not-offered", func(e *env) *core.Error {
		return memory.IpcMemSetAttr(unshared(e, "950").th, k, 0,
			1)
	})
	prove("aclrtIpcMemSetAttr", "link-unavailable", func(e *env) *core.Error {
		needsShare(e)
		e = e.on(machine{product: "950"})
		e.want(memory.IpcMemSetAttr(e.th, k, 0, 0), abi.ErrRTLinkTypeNotSupported)
		return memory.IpcMemSetAttr(e.th, k, 0, 1)
	})
	prove("aclrtIpcMemSetAttr", "driver-refuses", func(e *env) *core.Error {
		needsShare(e)
		for _, name := range []string{"950", "A3"} {
			o := e.on(machine{product: name})
			for _, bad := range append(badLength, noKey...) {
				o.want(memory.IpcMemSetAttr(o.th, cstr(bad), 0, 3), abi.ErrRTParamInvalid)
			}
		}
		a := e.on(machine{product: "A3"})
		key, _ := openKey(a, 64)
		for _, ub := range []uint64{2, 3} {
			a.want(memory.IpcMemSetAttr(a.th, key, 0, ub), abi.ErrRTParamInvalid)
		}
		// the exporter chooses
		return blamed(e, "key", memory.IpcMemSetAttr(e.on(machine{product: "A3"}).th, key, 0, 1))
	})
	behaves("aclrtIpcMemSetAttr", func(e *env) {
		a := e.on(machine{product: "A3"})
		key, _ := openKey(a, 64)
		a.ok(memory.IpcMemSetAttr(a.th, key, 0, 1))
		a.ok(memory.IpcMemSetAttr(a.th, key, 0, 0))
		a.ok(memory.IpcMemClose(a.th, key)) // the attribute does not keep the key
		a.want(memory.IpcMemSetAttr(a.th, key, 0, 0), abi.ErrRTParamInvalid)

		// A 950 keeps it in the importing process until the last import is closed.
		n := e.on(machine{product: "950"})
		key, _ = openKey(n, 64)
		o := e.on(machine{product: "950"})
		o.ok(memory.IpcMemSetAttr(o.th, key, 0, 3))
		imported(o, key, 0)
		imported(o, key, 0)
		for range 2 {
			o.ok(memory.IpcMemClose(o.th, key))
		}
		o.want(memory.IpcMemClose(o.th, key), abi.ErrRTParamInvalid)
	})

	pids := []int32{int32(os.Getpid()), 1}
	list := func(sdid uint32, pid *int32, n uint64) abi.ServerPid {
		return abi.ServerPid{Sdid: sdid, Pid: uintptr(unsafe.Pointer(pid)), Num: n}
	}
	prove("aclrtIpcMemImportPidInterServer", "entry-pid-null", blames("serverPids", func(e *env) *core.Error {
		return memory.IpcMemImportPidInterServer(unshared(e, "A3").stranger(), k, &abi.ServerPid{}, 1)
	}))
	prove("aclrtIpcMemImportPidInterServer", "entry-not-offered", func(e *env) *core.Error {
		s, far := list(0, &pids[0], 2), list(1<<22, &pids[0], 1)
		for _, name := range []string{"950", "A2"} { // without links between servers
			o := e.on(machine{product: name})
			key := exported(o, o.device(64), 64, 0)
			o.want(memory.IpcMemImportPidInterServer(o.th, key, &far, 1), abi.ErrRTFeatureNotSupport)
		}
		return memory.IpcMemImportPidInterServer(unshared(e, "A3").stranger(), k, &s, 1)
	})
	prove("aclrtIpcMemImportPidInterServer", "entry-refused", func(e *env) *core.Error {
		key := exported(e, e.device(64), 64, 0)
		good, far := list(3, &pids[0], 2), list(4, &pids[0], 99)
		err := memory.IpcMemImportPidInterServer(e.th, cstr(""), &[]abi.ServerPid{far, good}[0], 2)
		e.want(blamed(e, "serverPids", err), abi.ErrRTInvalidHandle)
		is(e, "index", err.Index, 0)
		o := e.on(machine{})
		o.want(memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0), abi.ErrRTDrvInternalError)
		err = memory.IpcMemImportPidInterServer(e.th, key, &[]abi.ServerPid{good, far}[0], 2)
		imported(o, key, 0) // entries before the one that failed stay
		is(e, "index", err.Index, 1)
		return err
	})
	prove("aclrtIpcMemImportPidInterServer", "entry-count", blames("serverPids", func(e *env) *core.Error {
		needsShare(e)
		none, many := list(0, &pids[0], 0), list(0, &pids[0], 32)
		e.want(memory.IpcMemImportPidInterServer(e.th, cstr(""), &none, 1), abi.ErrRTParamInvalid)
		return memory.IpcMemImportPidInterServer(e.th, cstr(""), &many, 1)
	}))
	prove("aclrtIpcMemImportPidInterServer", "key-length", blames("key", func(e *env) *core.Error {
		needsShare(e)
		good := list(0, &pids[0], 2)
		return lastOf(e, abi.ErrRTParamInvalid, badLength, func(key string) *core.Error {
			return memory.IpcMemImportPidInterServer(e.th, cstr(key), &good, 1)
		})
	}))
	prove("aclrtIpcMemImportPidInterServer", "not-exported", blames("key", func(e *env) *core.Error {
		key, good := exported(e, e.device(64), 64, 0), list(0, &pids[0], 2)
		e.want(memory.IpcMemImportPidInterServer(e.th, cstr("no key"), &good, 1), abi.ErrRTDrvInternalError)
		o := e.on(machine{})
		return memory.IpcMemImportPidInterServer(o.th, key, &good, 1)
	}))
	prove("aclrtIpcMemImportPidInterServer", "exported-for-all", func(e *env) *core.Error {
		key, _ := openKey(e, 64)
		zero := list(0, new(int32), 1)
		return memory.IpcMemImportPidInterServer(e.th, key, &zero, 1)
	})
	prove("aclrtIpcMemImportPidInterServer", "pids", func(e *env) *core.Error {
		zero := list(0, new(int32), 1)
		return memory.IpcMemImportPidInterServer(e.th, exported(e, e.device(64), 64, 0), &zero, 1)
	})
	behaves("aclrtIpcMemImportPidInterServer", func(e *env) {
		for _, name := range []string{"A3", "950", "A2"} { // no product is checked
			a := e.on(machine{product: name})
			key := exported(a, a.device(64), 64, 0)
			s := list(0, &pids[1], 1)
			a.ok(memory.IpcMemImportPidInterServer(a.stranger(), key, &s, 1))
			o := e.on(machine{product: name})
			o.want(memory.IpcMemImportByKey(o.th, new(core.Addr), key, 0), abi.ErrRTDrvInternalError)
			s = list(0, &pids[0], 2)
			a.ok(memory.IpcMemImportPidInterServer(a.stranger(), key, &s, 1))
			imported(o, key, 0)
		}
	})
}
