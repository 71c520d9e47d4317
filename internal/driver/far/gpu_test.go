package far

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"ropeway/internal/driver"
	"ropeway/internal/driver/cuda"
	"ropeway/internal/driver/cuda/imitation"
	"ropeway/internal/driver/soft"
	"ropeway/internal/graph"
	"ropeway/internal/pod"
	"ropeway/internal/testenv"
)

// TestImitation runs the tests of GPUs on the imitation of CUDA.
func TestImitation(t *testing.T) {
	imitation.Rerun(t, []string{"ROPEWAY_TEST_IMITATION=1"}, "-test.run=^TestGPU")
}

// machine is a server with a device.
type machine struct {
	testing.TB
	*Driver
	dev driver.Device
}

func newMachine(t testing.TB, file string, id int, gpu bool) *machine {
	t.Helper()
	n := must[*pod.Node](t)(pod.New(must[*pod.Config](t)(pod.Read(file, fmt.Sprint(id)))))
	var below driver.Driver
	if gpu {
		below = must[*cuda.Driver](t)(cuda.New(cuda.Options{Devices: 1}))
	} else {
		below = must[*soft.Driver](t)(soft.New(soft.Options{Devices: 1, Memory: 1 << 30}))
	}
	m := &machine{TB: t, Driver: must[*Driver](t)(New(below, n))}
	m.dev = must[driver.Device](t)(m.Open(0))
	t.Cleanup(func() {
		m.ok(m.dev.Close())
		m.ok(m.Driver.Close())
	})
	return m
}

func (m *machine) ok(err error) {
	m.Helper()
	testenv.OK(m, err)
}

// copied returns bytes of the machine's own memory.
func (m *machine) copied(at uintptr, n int) []byte {
	b := newBuffer(uint64(n))
	m.ok(m.Driver.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: addressOf(b), Src: at, N: uint64(n)}))
	return b
}

func (m *machine) write(at uintptr, b []byte) {
	b = append(newBuffer(uint64(len(b)))[:0], b...)
	m.ok(m.Driver.Driver.Run(driver.Op{Kind: driver.OpCopy, Dst: at, Src: addressOf(b), N: uint64(len(b))}))
	runtime.KeepAlive(b)
}

// TestGPUCopies proves copies to and from memory of another server with device memory of a GPU on either side or on
// both: single, 2-D, batch and descriptor copies, fills, a program, and synchronous copies.
func TestGPUCopies(t *testing.T) {
	if os.Getenv("ROPEWAY_TEST_IMITATION") == "" {
		t.Skip("runs on the imitation: TestImitation")
	}
	for _, gpus := range [][2]bool{{true, false}, {false, true}, {true, true}} {
		t.Run(fmt.Sprintf("owner %v, importer %v", gpus[0], gpus[1]), func(t *testing.T) { gpuCopies(t, gpus) })
	}
}

func gpuCopies(t *testing.T, gpus [2]bool) {
	file := podFile(t, 2)
	a, b := newMachine(t, file, 0, gpus[0]), newMachine(t, file, 1, gpus[1])
	address, memory := must[uintptr](t), must[driver.Memory](t)
	mem := memory(a.Create(0, size, driver.PageHugeFirst))
	own := address(a.Reserve(size, 0))
	a.ok(a.Map(own, mem))
	x := must[driver.FarExport](t)(a.ExportFar(mem, mem.Size(), true))
	h := x.Handle()
	far := memory(b.ImportFar(h[:], 0))
	at := address(b.Reserve(size, 0))
	b.ok(b.Map(at, far))
	pin, local := address(b.AllocHost(size)), address(b.dev.Alloc(size, driver.PageHugeFirst))
	s := sink{make(chan error, 100)}
	q := b.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: s.TaskFailed}})
	defer q.Close()
	wait := func(name string) {
		t.Helper()
		if !q.Wait(2*time.Minute, nil) || len(s.errs) > 0 {
			t.Fatalf("%s: %v", name, <-s.errs)
		}
	}
	same := func(name string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Errorf("%s: other bytes", name)
		}
	}
	r := testenv.Rand(t)(0)
	want := make([]byte, size)
	for i := range want {
		want[i] = byte(r.Uint32())
	}
	b.write(local, want)
	q.Copy(at, local, size, driver.Tag{})
	wait("D2D to it")
	same("D2D to it", a.copied(own, size), want)
	q.Copy(pin, at, size, driver.Tag{})
	wait("D2H")
	same("D2H", b.copied(pin, size), want)
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: local, N: size, Width: 1}) // in order with the copies
	q.Copy(local, at+3, 1001, driver.Tag{})
	wait("D2D from it")
	same("D2D from it", b.copied(local, 1002), append(bytes.Clone(want[3:1004]), 0))

	segs := driver.NewSegments()
	image := make([]byte, size)
	a.write(own, image)
	for i := range 100 {
		segs.Add(at+uintptr(i*1000), pin+uintptr(i*777), 500)
		copy(image[i*1000:], want[i*777:i*777+500])
	}
	segs.Add(local, pin, 4096)
	q.Submit(driver.Op{Kind: driver.OpBatch, Segs: segs})
	q.Submit(driver.Op{Kind: driver.OpCopy2D, Dst: at + 200_000, Src: pin, N: 10, Height: 50, DstPitch: 64,
		SrcPitch: 16})
	for i := range 50 {
		copy(image[200_000+64*i:], want[16*i:16*i+10])
	}
	q.Submit(driver.Op{Kind: driver.OpFill, Dst: at + 300_001, N: 77, Width: 1, Value: 0xa5})
	copy(image[300_001:], bytes.Repeat([]byte{0xa5}, 77))
	wait("batch, 2-D, fill")
	same("batch, 2-D, fill", a.copied(own, size), image)
	same("the local part of a batch", b.copied(local, 4096), want[:4096])

	desc := make([]byte, 64)
	binary.LittleEndian.PutUint32(desc[driver.Desc64.Length:], 100)
	binary.LittleEndian.PutUint64(desc[driver.Desc64.Src:], uint64(local+8))
	binary.LittleEndian.PutUint64(desc[driver.Desc64.Dst:], uint64(at+9))
	b.write(local+8192, desc)
	q.Submit(driver.Op{Kind: driver.OpDesc, Src: local + 8192, N: 64, Layout: driver.Desc64})
	wait("descriptor")
	same("descriptor", a.copied(own+9, 100), want[8:108])

	g := graph.New([]graph.Task{
		{Op: &driver.Op{Kind: driver.OpCopy, Dst: local, Src: pin + 5000, N: 3000}},
		{Op: &driver.Op{Kind: driver.OpCopy, Dst: at, Src: local, N: 3000}},
		{Op: &driver.Op{Kind: driver.OpCopy, Dst: local + 10_000, Src: at, N: 3000}},
		{Op: &driver.Op{Kind: driver.OpCopy, Dst: local, Src: pin, N: 3000}},
	}, nil)
	q.Submit(driver.Op{Kind: driver.OpProgram, Program: g.Program()})
	wait("a program")
	same("a program, there", a.copied(own, 3000), want[5000:8000])
	same("a program, and back", b.copied(local+10_000, 3000), want[5000:8000])
	same("a program, at its end", b.copied(local, 3000), want[:3000])

	pageable := append(newBuffer(5000)[:0], want[:5000]...)
	b.ok(b.Run(driver.Op{Kind: driver.OpCopy, Dst: at + 7, Src: addressOf(pageable), N: 5000}))
	clear(pageable)
	b.ok(b.Run(driver.Op{Kind: driver.OpCopy, Dst: addressOf(pageable), Src: at + 7, N: 5000}))
	same("synchronous", pageable, want[:5000])

	a.ok(mem.Free()) // its mapping and importers keep it
	x.Withdraw()
	a.ok(a.Unmap(own))
	q.Copy(at, local, 100, driver.Tag{})
	q.Copy(pin, at, 100, driver.Tag{})
	wait("after its owner has freed it")
	same("after its owner has freed it", b.copied(pin, 100), want[:100])
	b.ok(b.Unmap(at))
	b.ok(far.Free())
}
