package conformance

import (
	"math"
	"strings"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
)

// Proofs of notifies that processes share. Here one process is both; capi/test has several.

const openToAll = abi.NotifyExportFlagDisablePidValidation

// withoutSharing runs f for products whose notifies stay in their process.
func withoutSharing(e *env, f func(o *env) *core.Error) *core.Error {
	e.Helper()
	return f(e.on(machine{product: "310B"}))
}

func init() {
	proveExport()
	proveWhiteList()
	proveImport()
	proveServers()
}

func proveExport() {
	var k key
	prove("aclrtNotifyGetExportKey", "exported-already", func(e *env) *core.Error {
		n := notify(e)
		imported := imports(e, export(e, n, openToAll))
		e.want(signal.NotifyGetExportKey(e.th, imported, &k[0], 65, openToAll), abi.ErrRTInternalError)
		return signal.NotifyGetExportKey(e.th, n, &k[0], 1, openToAll)
	})
	prove("aclrtNotifyGetExportKey", "driver-refuses", func(e *env) (err *core.Error) {
		n := notify(e)
		for _, length := range []uint64{1, 16, 64, 1<<32 + 64} {
			err = signal.NotifyGetExportKey(e.th, n, &k[0], length, 0)
			e.want(err, abi.ErrRTParamInvalid)
		}
		export(e, n, 0) // it was not exported
		return err
	})
	behaves("aclrtNotifyGetExportKey", func(e *env) {
		n := notify(e)
		var wide [100]byte
		e.ok(signal.NotifyGetExportKey(e.stranger(), n, &wide[0], uint64(len(wide)), openToAll)) // without a context
		if text, rest, _ := strings.Cut(string(wide[:]), "\x00"); len(text) > 64 || strings.Trim(rest, "\x00") != "" {
			e.Errorf("the key is %q", wide)
		}
		other := export(e, notify(e), openToAll)
		if other == key(wide[:65]) {
			e.Error("two notifies have one key")
		}
	})
}

func proveWhiteList() {
	pid := func() *int32 { p := self; return &p }
	prove("aclrtNotifySetImportPid", "not-exported", func(e *env) *core.Error {
		n := notify(e)
		e.want(e.blames("notify", signal.NotifySetImportPid(e.th, n, pid(), 1)), abi.ErrRTParamInvalid) // not exported
		imported := imports(e, export(e, n, openToAll))
		e.want(e.blames("notify", signal.NotifySetImportPid(e.th, imported, pid(), 1)), abi.ErrRTParamInvalid)
		nobody := []int32{self, math.MaxInt32}
		err := e.blames("pid", signal.NotifySetImportPid(e.th, n, &nobody[0], 2))
		e.want(err, abi.ErrRTParamInvalid)
		return err
	})
	behaves("aclrtNotifySetImportPid", func(e *env) {
		n := notify(e)
		k := export(e, n, abi.NotifyExportFlagDefault)
		var h core.Handle
		e.want(signal.NotifyImportByKey(e.th, &h, &k[0], 0), abi.ErrRTNoPermission)
		e.ok(signal.NotifySetImportPid(e.th, n, pid(), 1))
		set(e, imports(e, k), 0)
		waitFor(e, n, 0)
		e.passes(0)
	})
}

func proveImport() {
	text := func(s string) *byte { return &append([]byte(s), 0)[0] }
	prove("aclrtNotifyImportByKey", "key-unknown", func(e *env) *core.Error {
		n := notify(e)
		k := export(e, n, openToAll)
		h := garbage
		guessed := k
		guessed[20] ^= 1
		for _, bad := range []string{"", "x", strings.Repeat("k", 64), strings.Repeat("k", 500), string(guessed[:])} {
			e.want(signal.NotifyImportByKey(e.th, &h, text(bad), 0), abi.ErrRTParamInvalid)
		}
		closed := export(e, notify(e), 0)
		e.want(signal.NotifyImportByKey(e.th, &h, &closed[0], 0), abi.ErrRTNoPermission) // not on the white list
		e.ok(signal.DestroyNotify(e.th, n))
		err := signal.NotifyImportByKey(e.th, &h, &k[0], 0) // the key went with the notify
		e.want(err, abi.ErrRTParamInvalid)
		if h != garbage {
			e.Error("the handle was written")
		}
		return err
	})
	behaves("aclrtNotifyImportByKey", importedNotify)
}

// importedNotify is what an imported notify does: it is the exporter's, under another handle.
func importedNotify(e *env) {
	n := notify(e)
	set(e, n, 0) // what was recorded before the export counts
	e.ok(e.th.SynchronizeStream(0))
	k := export(e, n, openToAll)
	a, b := imports(e, k), imports(e, k)
	waitFor(e, a, 0)
	e.passes(0)
	s := e.stream()
	for _, pair := range [][2]core.Handle{{n, a}, {a, n}, {a, b}} {
		waitFor(e, pair[0], s)
		e.held(s)
		set(e, pair[1], 0)
		e.passes(s)
	}
	var id, same uint32
	e.ok(signal.GetNotifyId(e.th, n, &id))
	e.ok(signal.GetNotifyId(e.th, a, &same))
	if id != same {
		e.Errorf("ids %d and %d", id, same)
	}
	waitFor(e, a, s)
	e.ok(signal.DestroyNotify(e.th, n)) // importers keep it
	e.held(s)
	set(e, b, 0)
	e.passes(s)
	e.ok(signal.DestroyNotify(e.th, a))
	set(e, b, 0)
	waitFor(e, b, s)
	e.passes(s)

	th, _ := threadOn(e, 1) // flag 2 enables access between the devices
	k = export(e, notify(e), openToAll)
	var h core.Handle
	var status int32
	e.ok(signal.NotifyImportByKey(th, &h, &k[0], abi.NotifyImportFlagDefault))
	e.ok(memory.DevicePeerAccessStatus(th, 1, 0, &status))
	if status != 0 {
		e.Error("access was enabled without the flag")
	}
	e.ok(signal.NotifyImportByKey(th, &h, &k[0], abi.NotifyImportFlagEnablePeerAccess))
	e.ok(memory.DevicePeerAccessStatus(th, 1, 0, &status))
	if status != 1 {
		e.Error("access was not enabled")
	}
}

func proveServers() {
	one := func() *abi.ServerPid { return &abi.ServerPid{Pid: 0x1000, Num: 1} } // the list is not read
	call := func(o *env, n core.Handle, list *abi.ServerPid, num uint64) *core.Error {
		return signal.NotifySetImportPidInterServer(o.stranger(), n, list, num)
	}
	prove("aclrtNotifySetImportPidInterServer", "entry-pid-null", func(e *env) *core.Error {
		list := []abi.ServerPid{*one(), {Num: 2}, {}}
		err := call(e, notify(e), &list[0], 3)
		if err.Index != 1 {
			e.Errorf("element %d is blamed", err.Index)
		}
		return withoutSharing(e, func(o *env) *core.Error { return call(o, notify(o), &list[1], 1) })
	})
	prove("aclrtNotifySetImportPidInterServer", "entry-count", func(e *env) *core.Error {
		bad := one()
		bad.Num = 2
		return withoutSharing(e, func(o *env) *core.Error { return call(o, notify(o), bad, 1) })
	})
	prove("aclrtNotifySetImportPidInterServer", "entry-not-offered", func(e *env) *core.Error {
		o := e.on(machine{product: "A3"})
		n := notify(o)
		export(o, n, 0)
		e.want(call(o, n, one(), 1), abi.ErrRTFeatureNotSupport)
		return call(e, notify(e), one(), 1)
	})
	behaves("aclrtNotifySetImportPidInterServer", func(e *env) {
		n := notify(e) // it is refused, and changes nothing
		k := export(e, n, 0)
		e.want(call(e, n, one(), 1), abi.ErrRTFeatureNotSupport)
		var h core.Handle
		e.want(signal.NotifyImportByKey(e.th, &h, &k[0], 0), abi.ErrRTNoPermission)
	})
}
