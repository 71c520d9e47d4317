//go:build linux

package memory

import (
	"fmt"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/share"
	"ropeway/internal/testenv"
)

// hookDriver calls freed when device memory was freed, before the call that freed it goes on: what another thread may
// do there.
type hookDriver struct {
	driver.Driver
	freed func()
}

func (d *hookDriver) Open(i int) (driver.Device, error) {
	dev, err := d.Driver.Open(i)
	return hookDevice{dev, d}, err
}

type hookDevice struct {
	driver.Device
	of *hookDriver
}

func (d hookDevice) Free(p uintptr) error {
	err := d.Device.Free(p)
	if d.of.freed != nil {
		d.of.freed()
	}
	return err
}

// processOf is a runtime of a product with device 0 set.
func runtimeOf(t testing.TB, name string) (*core.Runtime, *core.Thread, *hookDriver) {
	t.Helper()
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	p, err := product.Find(name, "")
	testenv.OK(t, err)
	hook := &hookDriver{Driver: d}
	rt := core.New(core.Options{Driver: hook, Product: p})
	t.Cleanup(func() {
		hook.freed = nil
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	th := rt.NewThread(1)
	coretest.OK(t, th.SetDevice(0))
	return rt, th, hook
}

// Freeing memory ends its keys, and not those of memory that another thread has got at the same address meanwhile.
func TestKeysOfReusedAddress(t *testing.T) {
	rt, th, hook := runtimeOf(t, "A2")
	const n = 2 << 20
	p, old := exportAll(t, th, n)
	var q core.Addr
	var young *byte
	hook.freed = func() {
		hook.freed = nil
		q, young = exportAll(t, rt.ThreadIn(th.Current().Handle), n)
	}
	coretest.OK(t, Free(th, p))
	if q != p {
		t.Fatalf("memory is at %#x; the test is about %#x", q, p)
	}
	if err := IpcMemClose(th, old); err == nil {
		t.Error("the key of freed memory is still good")
	}
	var in core.Addr
	coretest.OK(t, IpcMemImportByKey(th, &in, young, 0))
	coretest.OK(t, IpcMemClose(th, young)) // the import
	coretest.OK(t, IpcMemClose(th, young)) // the export
	coretest.OK(t, Free(th, q))
}

// Memory that goes while it is being exported gets no key, also if there is other memory at its address by then.
func TestExportOfMemoryThatWent(t *testing.T) {
	rt, th, _ := runtimeOf(t, "A2")
	const n = 2 << 20
	var p, q core.Addr
	coretest.OK(t, Malloc(th, &p, n, abi.MemMallocHugeFirst))
	from, err := exportable(rt, "test", p, n)
	coretest.OK(t, err)
	if !from.stays(rt) {
		t.Error("memory that is there is said to have gone")
	}
	coretest.OK(t, Free(th, p))
	coretest.OK(t, Malloc(th, &q, n, abi.MemMallocHugeFirst))
	if q != p {
		t.Fatalf("memory is at %#x; the test is about %#x", q, p)
	}
	if from.stays(rt) {
		t.Error("memory that was freed is taken for what is there now")
	}
}

// Memory of a pool has keys only while the program has it.
func TestKeysOfPoolMemory(t *testing.T) {
	rt, th, _ := runtimeOf(t, "A2")
	const n = 2 << 20
	var pool, s core.Handle
	coretest.OK(t, MemPoolCreate(th, &pool,
		&abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: 16 << 20}))
	coretest.OK(t, th.CreateStream(&s))
	free := map[string]func(core.Addr) *core.Error{
		"aclrtFree":             func(devPtr core.Addr) *core.Error { return Free(th, devPtr) },
		"aclrtMemPoolFreeAsync": func(p core.Addr) *core.Error { return MemPoolFreeAsync(th, p, s) },
	}
	for name, free := range free {
		var p core.Addr
		key := make([]byte, keyRoom)
		coretest.OK(t, MemPoolMallocAsync(th, &p, n, pool, s))
		from, err := exportable(rt, "test", p, n)
		coretest.OK(t, err)
		coretest.OK(t, free(p))
		if err := IpcMemGetExportKey(th, p, n, &key[0], keyRoom, 1); err == nil || err.Code != abi.ErrRTParamInvalid {
			t.Errorf("%s: exporting what was freed: %v", name, err)
		}
		if from.stays(rt) {
			t.Errorf("%s: memory that is freed while it is exported keeps its key", name)
		}
		coretest.OK(t, MemPoolMallocAsync(th, &p, n, pool, s))
		coretest.OK(t, IpcMemGetExportKey(th, p, n, &key[0], keyRoom, 1))
		coretest.OK(t, free(p))
		if err := IpcMemClose(th, &key[0]); err == nil {
			t.Errorf("%s: the key is still good", name)
		}
	}
	if n := rt.Broker.Count(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// A process that exports a key and has chosen a link for it ends the export with one call; an attribute alone is
// forgotten by one.
func TestCloseExportWithLink(t *testing.T) {
	rt, th, _ := runtimeOf(t, "950")
	_, key := exportAll(t, th, 4096)
	coretest.OK(t, IpcMemSetAttr(th, key, abi.IpcMemAttrAccessLink, 2))
	coretest.OK(t, IpcMemClose(th, key))
	if rt.Broker.Count() != 0 {
		t.Error("the key is still good")
	}
	// by now a key that this process only knows by name
	coretest.OK(t, IpcMemSetAttr(th, key, abi.IpcMemAttrAccessLink, 2))
	coretest.OK(t, IpcMemClose(th, key))
	if err := IpcMemClose(th, key); err == nil {
		t.Error("closed once more")
	}
}

// Freeing mapped memory says what takes it back.
func TestFreeOfMapping(t *testing.T) {
	_, th, _ := runtimeOf(t, "A2")
	const n = 2 << 20
	for location, free := range map[abi.MemLocationType]func(core.Addr) *core.Error{
		abi.MemLocationTypeDevice: func(devPtr core.Addr) *core.Error { return Free(th, devPtr) },
		abi.MemLocationTypeHost:   func(hostPtr core.Addr) *core.Error { return FreeHost(th, hostPtr) },
	} {
		prop := &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge, Location: abi.MemLocation{Type: location}}
		if location == abi.MemLocationTypeHost {
			prop.MemAttr = abi.MemAttrDDRMemHuge
		}
		var at core.Addr
		var h core.Handle
		coretest.OK(t, ReserveMemAddress(th, &at, n, 0, 0, 0))
		coretest.OK(t, MallocPhysical(th, &h, n, prop, 0))
		coretest.OK(t, MapMem(th, at, n, 0, h, 0))
		err := free(at)
		if err == nil || err.Code != abi.ErrRTParamInvalid || !strings.Contains(err.Error(), "aclrtUnmapMem") {
			t.Errorf("location %v: %v", location, err)
		}
		coretest.OK(t, UnmapMem(th, at))
		coretest.OK(t, FreePhysical(th, h))
		coretest.OK(t, ReleaseMemAddress(th, at))
	}
}

// A refusal says what would help: where there is no white list, one is needed.
func TestSharingAdvice(t *testing.T) {
	for cause, advised := range map[error]bool{share.ErrNotAllowed: true, share.ErrOtherUser: false} {
		err := ShareError("aclrtIpcMemImportByKey", "key", fmt.Errorf("%w: process 7", cause))
		if err.Code != abi.ErrRTDrvInternalError || !strings.Contains(err.Text, "aclrtIpcMemSetImportPid") ||
			strings.Contains(err.Text, "export without a white list") != advised ||
			strings.Contains(err.Text, "export it with a white list") == advised {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
