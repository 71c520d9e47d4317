//go:build linux

package core

import (
	"fmt"
	"strings"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
	"ropeway/internal/share"
)

// hookDriver calls freed when device memory was given back, before who did it goes on: what another thread may do there.
type hookDriver struct {
	driver.Driver
	freed func()
}

func (d *hookDriver) Unwrap() driver.Driver { return d.Driver }

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
func processOf(t testing.TB, name string) (*Runtime, *Thread, *hookDriver) {
	t.Helper()
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := product.Find(name, "")
	if err != nil {
		t.Fatal(err)
	}
	hook := &hookDriver{Driver: d}
	rt := New(Options{Driver: hook, Product: p})
	t.Cleanup(func() {
		hook.freed = nil
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	th := rt.NewThread(1)
	accepted(t, th.SetDevice(0))
	return rt, th, hook
}

// Freeing memory ends its keys, and not those of memory that another thread has got at the same address meanwhile.
func TestKeysOfReusedAddress(t *testing.T) {
	rt, th, hook := processOf(t, "A2")
	const n = 2 << 20
	p, old := exportAll(t, th, n)
	var q Addr
	var young *byte
	hook.freed = func() {
		hook.freed = nil
		q, young = exportAll(t, rt.ThreadIn(th.current().handle), n)
	}
	accepted(t, th.Free(p))
	if q != p {
		t.Fatalf("memory is at %#x; the test is about %#x", q, p)
	}
	if err := th.IpcMemClose(old); err == nil {
		t.Error("the key of freed memory is still good")
	}
	var in Addr
	accepted(t, th.IpcMemImportByKey(&in, young, 0))
	accepted(t, th.IpcMemClose(young)) // the import
	accepted(t, th.IpcMemClose(young)) // the export
	accepted(t, th.Free(q))
}

// Memory that goes while it is being exported gets no key, also if there is other memory at its address by then.
func TestExportOfMemoryThatWent(t *testing.T) {
	rt, th, _ := processOf(t, "A2")
	const n = 2 << 20
	var p, q Addr
	accepted(t, th.Malloc(&p, n, abi.MemMallocHugeFirst))
	from, err := rt.exportable("test", p, n)
	accepted(t, err)
	if !from.stays(rt) {
		t.Error("memory that is there is said to have gone")
	}
	accepted(t, th.Free(p))
	accepted(t, th.Malloc(&q, n, abi.MemMallocHugeFirst))
	if q != p {
		t.Fatalf("memory is at %#x; the test is about %#x", q, p)
	}
	if from.stays(rt) {
		t.Error("memory that was freed is taken for what is there now")
	}
}

// Memory of a pool has keys only while the program has it.
func TestKeysOfPoolMemory(t *testing.T) {
	rt, th, _ := processOf(t, "A2")
	const n = 2 << 20
	var pool, s Handle
	accepted(t, th.MemPoolCreate(&pool, &abi.MemPoolProps{Location: abi.MemLocation{Type: abi.MemLocationTypeDevice}, MaxSize: 16 << 20}))
	accepted(t, th.CreateStream(&s))
	free := map[string]func(Addr) *Error{
		"aclrtFree":             th.Free,
		"aclrtMemPoolFreeAsync": func(p Addr) *Error { return th.MemPoolFreeAsync(p, s) },
	}
	for name, free := range free {
		var p Addr
		key := make([]byte, keyRoom)
		accepted(t, th.MemPoolMallocAsync(&p, n, pool, s))
		from, err := rt.exportable("test", p, n)
		accepted(t, err)
		accepted(t, free(p))
		if err := th.IpcMemGetExportKey(p, n, &key[0], keyRoom, 1); err == nil || err.Code != abi.ErrRTParamInvalid {
			t.Errorf("%s: exporting what was freed: %v", name, err)
		}
		if from.stays(rt) {
			t.Errorf("%s: memory that is freed while it is exported keeps its key", name)
		}
		accepted(t, th.MemPoolMallocAsync(&p, n, pool, s))
		accepted(t, th.IpcMemGetExportKey(p, n, &key[0], keyRoom, 1))
		accepted(t, free(p))
		if err := th.IpcMemClose(&key[0]); err == nil {
			t.Errorf("%s: the key is still good", name)
		}
	}
	if n := rt.broker.Count(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// Who exports a key and has chosen a link for it ends the export with one call; an attribute alone is forgotten by one.
func TestCloseExportWithLink(t *testing.T) {
	rt, th, _ := processOf(t, "950")
	_, key := exportAll(t, th, 4096)
	accepted(t, th.IpcMemSetAttr(key, abi.IpcMemAttrAccessLink, 2))
	accepted(t, th.IpcMemClose(key))
	if rt.broker.Count() != 0 {
		t.Error("the key is still good")
	}
	accepted(t, th.IpcMemSetAttr(key, abi.IpcMemAttrAccessLink, 2)) // by now a key that this process only knows by name
	accepted(t, th.IpcMemClose(key))
	if err := th.IpcMemClose(key); err == nil {
		t.Error("closed once more")
	}
}

// Freeing mapped memory says what takes it back.
func TestFreeOfMapping(t *testing.T) {
	_, th, _ := processOf(t, "A2")
	const n = 2 << 20
	for location, free := range map[abi.MemLocationType]func(Addr) *Error{
		abi.MemLocationTypeDevice: th.Free,
		abi.MemLocationTypeHost:   th.FreeHost,
	} {
		prop := &abi.PhysicalMemProp{MemAttr: abi.MemAttrHBMMemHuge, Location: abi.MemLocation{Type: location}}
		if location == abi.MemLocationTypeHost {
			prop.MemAttr = abi.MemAttrDDRMemHuge
		}
		var at Addr
		var h Handle
		accepted(t, th.ReserveMemAddress(&at, n, 0, 0, 0))
		accepted(t, th.MallocPhysical(&h, n, prop, 0))
		accepted(t, th.MapMem(at, n, 0, h, 0))
		err := free(at)
		if err == nil || err.Code != abi.ErrRTParamInvalid || !strings.Contains(err.Error(), "aclrtUnmapMem") {
			t.Errorf("location %v: %v", location, err)
		}
		accepted(t, th.UnmapMem(at))
		accepted(t, th.FreePhysical(h))
		accepted(t, th.ReleaseMemAddress(at))
	}
}

func accepted(t testing.TB, err *Error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Who was refused is told what would help: where there is no white list, one is needed.
func TestSharingAdvice(t *testing.T) {
	for cause, advised := range map[error]bool{share.ErrNotAllowed: true, share.ErrOtherUser: false} {
		err := sharing("aclrtIpcMemImportByKey", "key", fmt.Errorf("%w: process 7", cause))
		if err.Code != abi.ErrRTDrvInternalError || !strings.Contains(err.Text, "aclrtIpcMemSetImportPid") || strings.Contains(err.Text, "export without a white list") != advised ||
			strings.Contains(err.Text, "export it with a white list") == advised {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
