package far

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/soft"
	"ropeway/internal/pod"
	"ropeway/internal/testenv"
)

// transport is the transport of the pods. With auto, memory is mapped and not copied over a link, and copies fail only
// after the end of the link was noticed.
var transport = pod.TransportTCP

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const extent = 2 << 20

// podFile writes the file of a pod whose servers are all this machine.
func podFile(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("key: key\ntransport: %s\nservers:\n", transport)
	for i := range n {
		text += fmt.Sprintf("- {id: %d, address: 127.0.0.1}\n", i)
	}
	for name, text := range map[string]string{"key": "0123456789abcdef0123456789abcdef", "pod.yaml": text} {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return filepath.Join(dir, "pod.yaml")
}

// open returns the driver of a server.
func open(t testing.TB, file string, id int) *Driver {
	t.Helper()
	c, err := pod.Read(file, fmt.Sprint(id))
	testenv.OK(t, err)
	n, err := pod.New(c)
	testenv.OK(t, err)
	below, err := soft.New(soft.Options{Devices: 2, Memory: 1 << 30})
	testenv.OK(t, err)
	d, err := New(below, n)
	testenv.OK(t, err)
	return d
}

// TestDriver runs the driver suite on the driver in front of the software device.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) driver.Driver { return open(t, podFile(t, 1), 0) })
}

// sink records failures.
type sink struct{ errs chan error }

func (s sink) TaskFailed(_ driver.Tag, err error) { s.errs <- err }

// bench is two servers, a and b: a has memory that b has mapped.
type bench struct {
	testing.TB
	a, b  *Driver
	mem   driver.Memory // of a
	own   uintptr       // its address on a
	x     driver.FarExport
	far   driver.Memory // the same memory, imported by b
	at    uintptr       // its address on b
	dev   driver.Device // of b
	q     driver.Queue  // of dev
	sink  sink
	pin   uintptr // pinned memory of b, size bytes
	local uintptr // memory of dev, size bytes
}

const size = 2 * extent

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		testenv.OK(t, err)
		return v
	}
}

func (b *bench) ok(err error) {
	b.Helper()
	testenv.OK(b, err)
}

func setUp(t testing.TB) *bench {
	t.Helper()
	file := podFile(t, 2)
	b := &bench{TB: t, a: open(t, file, 0), b: open(t, file, 1), sink: sink{make(chan error, 100)}}
	address, memory := must[uintptr](t), must[driver.Memory](t)
	ownDev := must[driver.Device](t)(b.a.Open(0))
	b.mem = memory(b.a.Create(0, size, driver.PageHugeFirst))
	b.own = address(b.a.Reserve(size, 0))
	b.ok(b.a.Map(b.own, b.mem))
	b.x = must[driver.FarExport](t)(b.a.ExportFar(b.mem, b.mem.Size(), true))
	b.dev = must[driver.Device](t)(b.b.Open(1))
	h := b.x.Handle()
	b.far = memory(b.b.ImportFar(h[:], 1))
	b.at = address(b.b.Reserve(2*size, 0))
	b.ok(b.b.Map(b.at, b.far))
	b.q = b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.sink.TaskFailed}})
	b.pin = address(b.b.AllocHost(size))
	b.local = address(b.dev.Alloc(size, driver.PageHugeFirst))
	t.Cleanup(func() {
		b.q.Close()
		b.ok(b.dev.Close())
		b.ok(b.b.Close())
		b.ok(ownDev.Close())
		b.ok(b.a.Close())
	})
	return b
}

// their returns the bytes of a's memory, and pinned those of b's pinned memory.
func (b *bench) their() []byte  { return must[[]byte](b)(b.a.viewer.View(b.own, size)) }
func (b *bench) pinned() []byte { return must[[]byte](b)(b.b.viewer.View(b.pin, size)) }
func (b *bench) onDev() []byte  { return must[[]byte](b)(b.b.viewer.View(b.local, size)) }

// wait waits for the queue, and returns its failure.
func (b *bench) wait() error {
	b.Helper()
	if !b.q.Wait(2*time.Minute, nil) {
		b.Fatal("the queue does not come to its end")
	}
	select {
	case err := <-b.sink.errs:
		return err
	default:
		return nil
	}
}

func (b *bench) random() []byte {
	r := testenv.Rand(b)(0)
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// TestCopies proves that every form of copy and fill works on memory of another server, in both directions: over a
// link, and if it is mapped.
func TestCopies(t *testing.T) {
	for _, way := range []pod.Transport{pod.TransportAuto, pod.TransportTCP} {
		transport = way
		t.Run(string(way), testCopies)
	}
}

func testCopies(t *testing.T) {
	b := setUp(t)
	want := b.random()
	if l := b.b.Locate(b.at + 5); l != (driver.Location{Place: driver.OnDevice, Device: 1, Room: size - 5}) {
		t.Errorf("the address is %+v", l)
	}
	same := func(name string, got, want []byte) {
		t.Helper()
		if err := b.wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", name)
		}
		clear(b.their())
	}
	copy(b.pinned(), want)
	b.q.Copy(b.at, b.pin, size, driver.Tag{})
	same("H2D", b.their(), want)

	b.q.Copy(b.at+100, b.pin, 64, driver.Tag{})
	b.q.Copy(b.local, b.at+100, 64, driver.Tag{}) // in order
	same("small, and back", b.onDev()[:64], want[:64])

	copy(b.onDev(), want)
	b.q.Submit(driver.Op{Kind: driver.OpCopy, Dst: b.at, Src: b.local, N: size})
	same("D2D to it", b.their(), want)

	copy(b.their(), want)
	clear(b.pinned())
	b.q.Submit(driver.Op{Kind: driver.OpCopy, Dst: b.pin, Src: b.at, N: size})
	same("D2H", b.pinned(), want)

	copy(b.their(), want)
	clear(b.onDev())
	b.q.Submit(driver.Op{Kind: driver.OpCopy, Dst: b.local, Src: b.at, N: size})
	same("D2D from it", b.onDev(), want)

	b.q.Submit(driver.Op{Kind: driver.OpCopy2D, Dst: b.at + 3, Src: b.pin, N: 10, Height: 100, DstPitch: 64,
		SrcPitch: 16})
	image := make([]byte, size)
	for i := range 100 {
		copy(image[3+64*i:], want[16*i:16*i+10])
	}
	same("2-D", b.their(), image)

	segs := driver.NewSegments()
	clear(b.onDev())
	image = make([]byte, size)
	for i := range 1000 { // to the other server, and between local places
		segs.Add(b.at+uintptr(i*1000), b.pin+uintptr(i*777), 500)
		copy(image[i*1000:], want[i*777:i*777+500])
	}
	segs.Add(b.local, b.pin, 4096)
	b.q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	same("batch", b.their(), image)
	if !bytes.Equal(b.onDev()[:4096], want[:4096]) {
		t.Error("the local part of a batch was not copied")
	}

	b.q.Submit(driver.Op{Kind: driver.OpFill, Dst: b.at + 1, N: extent, Width: 1, Value: 0xa5})
	image = make([]byte, size)
	copy(image[1:], bytes.Repeat([]byte{0xa5}, extent))
	same("fill of bytes", b.their(), image)
	b.q.Submit(driver.Op{Kind: driver.OpFill, Dst: b.at + 401, N: 13, Width: 1, Value: 0x5a})
	image = make([]byte, size)
	copy(image[401:], bytes.Repeat([]byte{0x5a}, 13))
	same("a small fill", b.their(), image)
	b.q.Submit(driver.Op{Kind: driver.OpFill, Dst: b.at, N: 1000, Width: 4, Value: 0x01020304})
	image = make([]byte, size)
	copy(image, bytes.Repeat([]byte{4, 3, 2, 1}, 1000))
	same("fill of words", b.their(), image)

	// A descriptor in device memory, and cells.
	desc := b.onDev()[:64]
	clear(desc)
	copy(b.onDev()[4096:], want[:100])
	binary.LittleEndian.PutUint32(desc[driver.Desc64.Length:], 100)
	binary.LittleEndian.PutUint64(desc[driver.Desc64.Src:], uint64(b.local+4096))
	binary.LittleEndian.PutUint64(desc[driver.Desc64.Dst:], uint64(b.at+9))
	b.q.Submit(driver.Op{Kind: driver.OpDesc, Src: b.local, N: 64, Layout: driver.Desc64, Device: 1})
	image = make([]byte, size)
	copy(image[9:], want[:100])
	same("descriptor", b.their(), image)
	binary.LittleEndian.PutUint64(desc, uint64(b.at))
	binary.LittleEndian.PutUint64(desc[8:], uint64(b.local+4000))
	b.q.Submit(driver.Op{Kind: driver.OpOffset, Dst: b.local, Src: b.local + 8, N: 50, DstPitch: 7, SrcPitch: 96,
		Device: 1})
	image = make([]byte, size)
	copy(image[7:], want[:50])
	same("offsets", b.their(), image)

	copy(b.their(), desc[:16]) // the cells may be on the other server, too
	b.q.Submit(driver.Op{Kind: driver.OpOffset, Dst: b.at, Src: b.at + 8, N: 50, DstPitch: 16, SrcPitch: 96,
		Device: 1})
	image = make([]byte, size)
	copy(image, desc[:16])
	copy(image[16:], want[:50])
	same("offsets in cells of the other server", b.their(), image)

	pageable := bytes.Clone(want)
	b.ok(b.b.Run(driver.Op{Kind: driver.OpCopy, Dst: b.at, Src: addressOf(pageable), N: size}))
	same("synchronous", b.their(), want)
}

// TestAcross proves copies between memory of two other servers, or of one server twice, and across the border of two
// mappings.
func TestAcross(t *testing.T) {
	b := setUp(t)
	want := b.random()
	copy(b.their(), want)
	h := b.x.Handle()
	again := must[driver.Memory](t)(b.b.ImportFar(h[:], 1))
	b.ok(b.b.Map(b.at+size, again))
	if l := b.b.Locate(b.at); l.Room != 2*size {
		t.Errorf("two mappings that touch have room for %d", l.Room)
	}
	b.q.Copy(b.at+size, b.at+extent, extent, driver.Tag{})
	if err := b.wait(); err != nil || !bytes.Equal(b.their()[:extent], want[extent:]) {
		t.Errorf("between two imports: %v", err)
	}
	b.q.Copy(b.pin, b.at+size-100, 200, driver.Tag{})
	if err := b.wait(); err != nil || !bytes.Equal(b.pinned()[:100], want[size-100:]) ||
		!bytes.Equal(b.pinned()[100:200], want[extent:extent+100]) {
		t.Errorf("across a border: %v", err)
	}
	b.ok(b.b.Unmap(b.at + size))
	b.ok(again.Free())
}

// TestFreeLast: freeing the last import of a server, which ends the link to it, succeeds.
func TestFreeLast(t *testing.T) {
	b := setUp(t)
	b.ok(b.b.Unmap(b.at))
	b.ok(b.far.Free())
	h := b.x.Handle()
	for range 50 {
		b.ok(must[driver.Memory](t)(b.b.ImportFar(h[:], 1)).Free())
	}
}

// TestLife proves the results of maps and releases in various orders.
func TestLife(t *testing.T) {
	b := setUp(t)
	if err := b.b.Map(b.at, b.far); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("mapped where something is: %v", err)
	}
	other := must[driver.Memory](t)(b.b.Create(1, extent, driver.PageHugeFirst))
	if err := b.b.Map(b.at+extent, other); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("local memory mapped where something is: %v", err)
	}
	b.ok(b.b.Map(b.at+size, other))
	if err := b.b.Map(b.at+size, b.far); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("mapped where local memory is: %v", err)
	}
	for _, at := range []uintptr{b.at + 4*extent, 0} {
		if err := b.b.Map(at, b.far); !errors.Is(err, driver.ErrFault) {
			t.Errorf("mapped at %#x: %v", at, err)
		}
	}
	if err := b.b.Release(b.at); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("addresses in use were released: %v", err)
	}
	if _, err := b.b.Share(b.far); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("an import was shared: %v", err)
	}
	epoch := b.b.Epoch().Load()
	b.ok(b.far.Free())
	b.x.Withdraw()
	b.q.Copy(b.at, b.pin, 10, driver.Tag{})
	if err := b.wait(); err != nil {
		t.Errorf("memory that is mapped goes when it is freed: %v", err)
	}
	if err := b.far.Free(); !errors.Is(err, driver.ErrNotAllocated) {
		t.Errorf("freed twice: %v", err)
	}
	b.ok(b.b.Unmap(b.at))
	if b.b.Epoch().Load() == epoch {
		t.Error("nobody learns that memory went")
	}
	if l := b.b.Locate(b.at); l.Place != driver.Nowhere {
		t.Errorf("afterwards there is %+v", l)
	}
	if err := b.b.Map(b.at, b.far); !errors.Is(err, driver.ErrNotAllocated) {
		t.Errorf("freed memory was mapped: %v", err)
	}
	b.ok(b.b.Unmap(b.at + size))
	b.ok(other.Free())
	b.ok(b.b.Release(b.at))
	testenv.Eventually(t, "the owner closes it", func() bool { n, _ := b.a.node.Exports(); return n == 0 })
	h := b.x.Handle()
	if _, err := b.b.ImportFar(h[:], 1); !errors.Is(err, driver.ErrNotAllocated) {
		t.Errorf("imported afterwards: %v", err)
	}
}

// TestOwnerGone proves that copies with a server that has ended fail, that other queues continue, and that mappings can
// be released.
func TestOwnerGone(t *testing.T) {
	b := setUp(t)
	b.a.node.Close()
	b.q.Copy(b.at, b.pin, size, driver.Tag{})
	other := b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: b.sink.TaskFailed}})
	defer other.Close()
	other.Copy(b.local, b.pin, size, driver.Tag{})
	if !other.Wait(2*time.Minute, nil) {
		t.Error("another queue waits, too")
	}
	if err := b.wait(); !errors.Is(err, driver.ErrLost) {
		t.Errorf("the copy ended with %v", err)
	}
	b.ok(b.b.Unmap(b.at))
	if err := b.far.Free(); !errors.Is(err, driver.ErrLost) {
		t.Errorf("freed: %v", err)
	}
	h := b.x.Handle()
	if _, err := b.b.ImportFar(h[:], 1); !errors.Is(err, driver.ErrLost) {
		t.Errorf("imported: %v", err)
	}
}
