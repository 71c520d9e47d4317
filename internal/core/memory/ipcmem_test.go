//go:build linux

package memory

import (
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/driver"
	"ropeway/internal/share"
	"ropeway/internal/testenv"
)

// exportAll is memory of n bytes and a key for everybody.
func exportAll(t testing.TB, th *core.Thread, n uint64) (core.Addr, *byte) {
	t.Helper()
	var p core.Addr
	key := make([]byte, keyRoom)
	if err := Malloc(th, &p, n, abi.MemMallocHugeFirst); err != nil {
		t.Fatal(err)
	}
	if err := IpcMemGetExportKey(th, p, n, &key[0], keyRoom, 1); err != nil {
		t.Fatal(err)
	}
	return p, &key[0]
}

func memfd(t testing.TB, size int64, seals int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("ipcmem-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	testenv.OK(t, err)
	f := os.NewFile(uintptr(fd), "ipcmem-test")
	testenv.OK(t, f.Truncate(size))
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		t.Fatal(err)
	}
	return f
}

// A process that gives its key away on purpose, with a file that could do harm, is refused: what can be truncated kills
// a process that touches it.
func TestImportRefusesBadFiles(t *testing.T) {
	rt, th := coretest.NewProcess(t, 64<<20)
	const n = 2 << 20
	const fixed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	device := func(s *driver.Shared) { s.Device = 2 }
	for name, tt := range map[string]struct {
		file   func() *os.File
		change func(*driver.Shared)
		item   func(*share.Item)
	}{
		"can be truncated":  {file: func() *os.File { return memfd(t, n, unix.F_SEAL_GROW) }},
		"no seals":          {file: func() *os.File { return memfd(t, n, 0) }},
		"too short":         {file: func() *os.File { return memfd(t, n/2, fixed) }},
		"empty":             {file: func() *os.File { return memfd(t, 0, fixed) }},
		"not of pages":      {file: func() *os.File { return memfd(t, n+5, fixed) }},
		"a directory":       {file: func() *os.File { f, _ := os.Open("/"); return f }},
		"a device":          {file: func() *os.File { f, _ := os.OpenFile("/dev/zero", os.O_RDWR, 0); return f }},
		"a pipe":            {file: func() *os.File { r, w, _ := os.Pipe(); w.Close(); return r }},
		"read-only":         {file: func() *os.File { f, _ := os.Open("/proc/self/exe"); return f }},
		"offset at the end": {change: func(s *driver.Shared) { s.Offset = n }},
		"offset wraps":      {change: func(s *driver.Shared) { s.Offset = ^uint64(0) }},
		"size wraps":        {change: func(s *driver.Shared) { s.Offset, s.Size = 4096, ^uint64(0)-4095 }},
		"no such device":    {change: device},
		"negative device":   {change: func(s *driver.Shared) { s.Device = -7 }},
		"on the host":       {change: func(s *driver.Shared) { s.Device = driver.OnHost }},
		"no such page":      {change: func(s *driver.Shared) { s.Page = 77 }},
		"no note":           {item: func(it *share.Item) { it.Note = nil }},
		"half a note":       {item: func(it *share.Item) { it.Note = it.Note[:10] }},
		"another driver":    {item: func(it *share.Item) { it.Note = append([]byte("x"), it.Note...) }},
		"no file":           {item: func(it *share.Item) { it.Close() }},
		"two files":         {item: func(it *share.Item) { it.Files = append(it.Files, memfd(t, n, fixed)) }},
	} {
		if tt.file == nil {
			tt.file = func() *os.File { return memfd(t, n, fixed) }
		}
		s := &driver.Shared{File: tt.file(), Size: n}
		if tt.change != nil {
			tt.change(s)
		}
		it := itemOf(rt, share.Allocation, s)
		if tt.item != nil {
			tt.item(&it)
		}
		var fake share.Broker
		k, err := fake.Export(it, share.Options{Open: true})
		testenv.OK(t, err)
		key := append([]byte(k.Text()), 0)
		p := core.Addr(7)
		if err := IpcMemImportByKey(th, &p, &key[0], 0); err == nil || err.Code != abi.ErrRTDrvInternalError || p != 7 {
			t.Errorf("%s: %v", name, err)
		}
		fake.Close()
	}
	if mine := files(t); mine > 0 {
		t.Errorf("%d of the files are still open", mine)
	}
}

// files counts the open files of these tests.
func files(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	testenv.OK(t, err)
	n := 0
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.Contains(to, "ipcmem-test") {
			n++
		}
	}
	return n
}

// Threads that export, import, close, free and reset at once get codes; what is left in the end is nothing.
func TestSharingHammer(t *testing.T) {
	rt, _ := coretest.NewProcess(t, 64<<20)
	other, oth := coretest.NewProcess(t, 64<<20)
	_, stay := exportAll(t, oth, 4096)
	var wg sync.WaitGroup
	for i := range uint32(4) {
		wg.Go(func() {
			th := rt.NewThread(10 + i)
			for j := range 40 {
				if th.SetDevice(int32(i%2)) != nil {
					t.Error("no device")
					return
				}
				var p, q core.Addr
				key := make([]byte, keyRoom)
				Malloc(th, &p, 4096, abi.MemMallocHugeFirst)
				IpcMemGetExportKey(th, p, 4096, &key[0], keyRoom, 1)
				IpcMemImportByKey(th, &q, &key[0], 0)
				IpcMemImportByKey(th, &q, stay, 0)
				th.Runtime.Driver.Run(driver.Op{Kind: driver.OpFill, Dst: q, N: 64, Width: 1,
					Value: 1}) //nolint:errcheck // another thread may have reset the device
				switch j % 4 {
				case 0:
					Free(th, p)
				case 1:
					IpcMemClose(th, &key[0])
					IpcMemClose(th, &key[0])
				case 2:
					th.ResetDevice(int32(i % 2))
				}
				IpcMemClose(th, stay)
			}
			th.ResetDeviceForce(int32(i % 2))
		})
	}
	wg.Wait()
	for i := range int32(2) {
		rt.NewThread(1).ResetDeviceForce(i)
	}
	if n := rt.Broker.Count(); n != 0 || len(memoryOf(rt).ipc.exports) != 0 || len(memoryOf(rt).ipc.imports) != 0 {
		t.Errorf("%d keys, %d exports and %d imports are left", n, len(memoryOf(rt).ipc.exports),
			len(memoryOf(rt).ipc.imports))
	}
	if other.Broker.Count() != 1 {
		t.Error("the other process lost its export")
	}
}

// Importing 1 GiB takes no longer than mapping it.
func BenchmarkImport1GiB(b *testing.B) {
	const n = 1 << 30
	_, th := coretest.NewProcess(b, 3*n)
	_, key := exportAll(b, th, n)
	rt, other := coretest.NewProcess(b, 3*n)
	b.Run("import", func(b *testing.B) {
		for b.Loop() {
			var p core.Addr
			if err := IpcMemImportByKey(other, &p, key, 0); err != nil {
				b.Fatal(err)
			}
			if err := IpcMemClose(other, key); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("map", func(b *testing.B) {
		m := rt.Caps.Map
		for b.Loop() {
			p, err := m.Reserve(n, 0)
			if err != nil {
				b.Fatal(err)
			}
			mem, err := m.Create(0, n, driver.PageHugeFirst)
			if err != nil {
				b.Fatal(err)
			}
			if err := m.Map(p, mem); err != nil {
				b.Fatal(err)
			}
			m.Unmap(p)
			mem.Free()
			m.Release(p)
		}
	})
	b.Run("mmap", func(b *testing.B) {
		f := memfd(b, n, 0)
		defer f.Close()
		for b.Loop() {
			p, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				b.Fatal(err)
			}
			unix.Munmap(p)
		}
	})
}
