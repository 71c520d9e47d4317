package cuda

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/driver/cuda/libcuda"
	"ropeway/internal/driver/hostqueue"
	"ropeway/internal/testenv"
)

// extent is what places and sizes of mapped memory are multiples of.
const extent = 2 << 20

func (b *bed) ok(err error) {
	b.Helper()
	testenv.OK(b, err)
}

func (b *bed) refused(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// mapped returns n bytes of memory of a device, mapped 2 MiB after the start of a reservation.
func (b *bed) mapped(device int, n uint64) (uintptr, driver.Memory) {
	b.Helper()
	addr, err := b.d.Reserve(n+2*extent, 0)
	b.ok(err)
	m, err := b.d.Create(device, n, driver.PageHugeFirst)
	b.ok(err)
	b.ok(b.d.Map(addr+extent, m))
	return addr + extent, m
}

// TestOldLibrary proves that a libcuda without virtual and managed memory is detected, and that everything else works.
func TestOldLibrary(t *testing.T) {
	b := newBed(t, 1)
	_, err := b.d.Reserve(extent, 0)
	b.refused("reserve", err, driver.ErrUnsupported)
	_, err = b.d.Reserve(extent, 16<<40)
	b.refused("reserve at a place", err, driver.ErrUnsupported)
	for _, device := range []int{0, driver.OnHost} {
		_, err = b.d.Create(device, extent, driver.PageHugeFirst)
		b.refused("create", err, driver.ErrUnsupported)
	}
	_, err = b.d.AllocManaged(extent, 0)
	b.refused("managed memory", err, driver.ErrUnsupported)
	b.write(b.dev[0], []byte("text"))
	if got := b.read(b.dev[0], 4); string(got) != "text" {
		t.Errorf("%q", got)
	}
}

// imitated is a bed with two devices on the imitation, on one GPU or on two.
func imitated(t *testing.T) *bed {
	t.Helper()
	if !imitation.Here() {
		t.Skip("TestMapperOnImitation runs it")
	}
	return newBedOf(t, openTwo(t), nil)
}

// TestMapperOnImitation runs the tests of this file that need a libcuda with virtual memory.
func TestMapperOnImitation(t *testing.T) {
	t.Parallel()
	const tests = "-test.run=^Test(NoHostMemory|UnmapUnderWork|Import.*|MapOverGone|MapTakes|MapperHammer)$"
	for _, gpus := range []string{"1", "2"} {
		imitation.Rerun(t, []string{"FAKE_CUDA_GPUS=" + gpus}, tests)
	}
	imitation.Rerun(t, []string{"FAKE_CUDA_GPUS=2"}, "-test.run=^TestManagedLost$")
}

// noHost is a libcuda whose memory is all on GPUs.
type noHost struct{ libcuda.API }

func (l noHost) MemCreate(n uint64, at libcuda.Place) (uint64, libcuda.Result) {
	if at == libcuda.HostPlace {
		return 0, 1
	}
	return l.API.MemCreate(n, at)
}

// TestNoHostMemory proves that a libcuda whose memory is all on GPUs is found out.
func TestNoHostMemory(t *testing.T) {
	b := imitated(t)
	lib, err := libcuda.Load()
	b.ok(err)
	d, err := start(noHost{lib}, Options{})
	b.ok(err)
	b = newBedOf(t, d, nil)
	_, err = b.d.Create(driver.OnHost, extent, driver.PageHugeFirst)
	b.refused("create on the host", err, driver.ErrUnsupported)
	b.mapped(0, extent)
}

// TestMapTakes proves that memory to be mapped counts as memory of its device, and of no other on its GPU.
func TestMapTakes(t *testing.T) {
	b := imitated(t)
	other, _ := b.devs[0].Memory()
	before, _ := b.devs[1].Memory()
	m, err := b.d.Create(1, extent, driver.PageNormal)
	b.ok(err)
	if free, _ := b.devs[1].Memory(); free != before-extent {
		t.Errorf("it takes %d bytes", before-free)
	}
	if free, _ := b.devs[0].Memory(); free != other {
		t.Errorf("it takes %d bytes of another device", other-free)
	}
	b.ok(m.Free())
	b.alloc(0, other)
	_, err = b.d.Create(0, extent, driver.PageNormal)
	b.refused("memory of a device that is full", err, driver.ErrNoMemory)
}

// TestUnmapUnderWork proves that memory goes only when the stream is done with it: a GPU would be lost otherwise.
func TestUnmapUnderWork(t *testing.T) {
	b := imitated(t)
	q := b.queue(0)
	for range 20 {
		addr, m := b.mapped(0, 2*extent)
		for i := range 50 {
			q.Copy(addr+uintptr(i), b.dev[1], bedBytes, driver.Tag{})
			segs := driver.NewSegments()
			for k := range 500 {
				segs.Add(addr+uintptr(k*600), b.pinned+uintptr(k), 500)
			}
			q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
		}
		b.ok(m.Free())
		b.ok(b.d.Unmap(addr))
		b.ok(b.d.Release(addr - extent))
	}
	b.sync(q)
	for i := range b.devs {
		b.ok(b.devs[i].Healthy())
	}
	b.quiet()
}

// TestImportTranslated proves that every operation works on memory that CUDA has mapped at another address.
func TestImportTranslated(t *testing.T) {
	b := imitated(t)
	src := b.alloc(0, bedBytes)
	sh, err := b.d.ShareAt(src)
	b.ok(err)
	m, err := b.d.Import(sh)
	b.ok(err)
	at, err := b.d.Reserve(extent, 0)
	b.ok(err)
	b.ok(b.d.Map(at, m))
	if at == src {
		t.Fatal("it was not translated")
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), bedBytes/16)
	q := b.queue(0)
	b.write(b.dev[0], data)
	q.Copy(at, b.dev[0], bedBytes/2, driver.Tag{})
	segs := driver.NewSegments()
	for i := range bedBytes / 64 {
		segs.Add(at+bedBytes/2+uintptr(i*32), b.dev[0]+bedBytes/2+uintptr(i*32), 32)
	}
	q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	b.sync(q)
	b.quiet()
	for what, from := range map[string]uintptr{"imported": at, "exported": src} {
		if !bytes.Equal(b.read(from, bedBytes), data) {
			t.Errorf("%s memory holds something else", what)
		}
	}
	// An offset copy whose cells have its address: only the host can translate that.
	cells := b.alloc(0, 16)
	b.ok(b.d.Store(cells, uint64(at)))
	b.ok(b.d.Store(cells+8, uint64(b.dev[0])))
	b.ok(b.d.Store(at+4096, 0))
	q.Submit(driver.Op{Kind: driver.OpOffset, Dst: cells + 8, Src: cells, N: 16, DstPitch: 0, SrcPitch: 4096})
	b.sync(q)
	b.quiet()
	if got := b.read(b.dev[0], 16); !bytes.Equal(got, append(make([]byte, 8), "89abcdef"...)) {
		t.Errorf("%q", got)
	}
	// The exporter goes first; the bytes stay.
	b.ok(b.devs[0].Free(src))
	if got := b.read(at+16, 16); string(got) != "0123456789abcdef" {
		t.Errorf("%q", got)
	}
	_, err = b.d.Import(sh)
	b.refused("import of what was freed", err, driver.ErrFault)
	b.ok(b.d.Unmap(at))
	b.ok(m.Free())
	b.ok(b.d.Release(at))
}

// TestImportOwner proves that closing a device frees its imports, and then exported memory that they kept.
func TestImportOwner(t *testing.T) {
	b := imitated(t)
	sh, err := b.d.ShareAt(b.dev[0])
	b.ok(err)
	m, err := b.d.Import(sh)
	b.ok(err)
	at, err := b.d.Reserve(extent, 0)
	b.ok(err)
	b.ok(b.d.Map(at, m))
	b.ok(b.devs[0].Close())
	if l := b.d.Locate(at); l.Place != driver.Nowhere {
		t.Errorf("%+v", l)
	}
	b.open(0)
	b.ok(b.d.Unmap(at))
	b.ok(m.Free())
	b.ok(b.d.Release(at))
	bad := *sh
	bad.Note = append([]byte{^sh.Note[0]}, sh.Note[1:]...) // another process's, which this libcuda does not open
	_, err = b.d.Import(&bad)
	b.refused("a handle of nobody", err, driver.ErrFault)
}

// TestImportsApart proves that memory which CUDA has mapped at another address is never one range with adjacent
// mappings.
func TestImportsApart(t *testing.T) {
	b := imitated(t)
	at, err := b.d.Reserve(3*extent, 0)
	b.ok(err)
	own, err := b.d.Create(0, extent, driver.PageHugeFirst)
	b.ok(err)
	for i := range 2 {
		p := b.alloc(0, extent)
		b.write(p, []byte{byte(i + 1)})
		sh, err := b.d.ShareAt(p)
		b.ok(err)
		m, err := b.d.Import(sh)
		b.ok(err)
		b.ok(b.d.Map(at+uintptr(2*i*extent), m))
	}
	b.ok(b.d.Map(at+extent, own))
	for i := range uintptr(3) {
		if room := b.d.Locate(at + i*extent).Room; room != extent {
			t.Errorf("part %d has %d bytes of room", i, room)
		}
	}
	if got := append(b.read(at, 1), b.read(at+2*extent, 1)...); got[0] != 1 || got[1] != 2 {
		t.Errorf("%v", got)
	}
	q := b.queue(0)
	q.Copy(b.dev[0], at+extent-8, 16, driver.Tag{})
	b.sync(q)
	if f := <-b.sink; !errors.Is(f.err, driver.ErrFault) {
		t.Errorf("over the border: %v", f.err)
	}
}

// TestMapOverGone proves that a new mapping replaces one whose device was closed.
func TestMapOverGone(t *testing.T) {
	b := imitated(t)
	at, m := b.mapped(0, 2*extent)
	b.ok(b.devs[0].Close())
	b.open(0)
	b.refused("map of what is gone", b.d.Map(at, m), driver.ErrClosed)
	fresh, err := b.d.Create(0, extent, driver.PageHugeFirst)
	b.ok(err)
	b.ok(b.d.Map(at+extent, fresh))
	b.refused("unmap of what is forgotten", b.d.Unmap(at), driver.ErrNotAllocated)
	b.ok(b.d.Unmap(at + extent))
	b.ok(b.d.Release(at - extent))
	b.ok(m.Free())
	b.ok(fresh.Free())
}

// TestManagedLost proves that managed memory of a lost GPU can be freed, and that memory of others stays.
func TestManagedLost(t *testing.T) {
	b := imitated(t)
	var at [2]uintptr
	for i := range at {
		var err error
		at[i], err = b.d.AllocManaged(extent, i)
		b.ok(err)
	}
	q := b.queue(0)
	q.Submit(launchOp(b.launchOf(b.load(0), "trap", 1), 1))
	b.sync(q)
	b.devs[0].Close() //nolint:errcheck // it is lost
	b.refused("free on a lost GPU", b.d.FreeManaged(at[0]), driver.ErrLost)
	if l := b.d.Locate(at[0]); l.Place == driver.Managed {
		t.Errorf("%+v", l)
	}
	b.write(at[1], []byte("text"))
	b.ok(b.d.FreeManaged(at[1]))
	_, err := b.d.AllocManaged(9<<30, 1)
	b.refused("more than there is", err, driver.ErrNoMemory)
}

// once is a gate that counts calls of Pass.
type once struct{ asked, left int }

func (g *once) Pass(func()) bool { g.asked++; return false }
func (g *once) Leave()           { g.left++ }

// TestGateAsked proves that an idle queue asks a gate before Submit returns, so that the gate misses no later event.
func TestGateAsked(t *testing.T) {
	b := newBed(t, 1)
	q, g := b.queue(0), new(once)
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g})
	q.Mu.Lock()
	asked, parked := g.asked, q.State() == hostqueue.Parked
	q.Mu.Unlock()
	if asked != 1 || !parked || !q.Stalled() {
		t.Errorf("asked %d times, parked: %v", asked, parked)
	}
	q.Drop()
	b.sync(q)
	if g.left != 1 {
		t.Errorf("left %d times", g.left)
	}
}

// TestMapperHammer proves that mappings and imports may be removed at any time: tasks that need them fail, the GPU
// stays healthy, and no goroutine waits for ever.
func TestMapperHammer(t *testing.T) {
	b := imitated(t)
	at, err := b.d.Reserve(8*extent, 0)
	b.ok(err)
	var changers, users sync.WaitGroup
	var over atomic.Bool
	good := func(what string, err error, also ...error) {
		for _, e := range also {
			if errors.Is(err, e) {
				return
			}
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	sink := faultsOnly{t}
	for i := range 2 {
		changers.Go(func() { // maps and unmaps in a part of its own
			place := at + uintptr(i*4*extent)
			for n := range 150 {
				m, err := b.d.Create((i+n)%2, 2*extent, driver.PageHugeFirst)
				good("create", err)
				good("map", b.d.Map(place+uintptr(n%3)*extent, m))
				good("free", m.Free())
				good("unmap", b.d.Unmap(place+uintptr(n%3)*extent))
			}
		})
		users.Go(func() { // copies to and fro
			q := b.devs[i].NewQueue(driver.QueueOptions{Events: driver.Events{Failed: sink.TaskFailed}}).(*queue)
			for n := 0; !over.Load(); n++ {
				q.Copy(at+uintptr(n*4099)%(7*extent), b.pinned, 4000, driver.Tag{})
				segs := driver.NewSegments()
				for k := range 200 {
					segs.Add(b.dev[i]+uintptr(k*100), at+uintptr((n+k)*65_521)%(7*extent), 90)
				}
				q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
				if n%16 == 0 {
					b.sync(q)
				}
			}
			b.sync(q)
		})
	}
	users.Go(func() { // words
		for n := 0; !over.Load(); n++ {
			addr := at + uintptr(n*4096)%(8*extent)
			_, err := b.d.Load(addr)
			good("load", err, driver.ErrFault)
			good("store", b.d.Store(addr, uint64(n)), driver.ErrFault)
		}
	})
	changers.Go(func() { // shares and imports
		place, err := b.d.Reserve(extent, 0)
		good("reserve", err)
		for range 100 {
			p, err := b.devs[0].Alloc(5000, driver.PageNormal)
			good("alloc", err)
			sh, err := b.d.ShareAt(p)
			good("share", err)
			m, err := b.d.Import(sh)
			good("import", err)
			good("map", b.d.Map(place, m))
			good("free", b.devs[0].Free(p))
			good("store", b.d.Store(place+8, 5))
			good("unmap", b.d.Unmap(place))
			good("free", m.Free())
		}
		good("release", b.d.Release(place))
	})
	changers.Wait()
	over.Store(true)
	users.Wait()
	for _, v := range b.devs {
		b.ok(v.Healthy())
	}
	b.ok(b.d.Release(at))
}

// faultsOnly receives failures of tasks whose memory may be unmapped, and fails the test for any other error.
type faultsOnly struct{ *testing.T }

func (f faultsOnly) TaskFailed(_ driver.Tag, err error) {
	if !errors.Is(err, driver.ErrFault) {
		f.Errorf("a task failed: %v", err)
	}
}
