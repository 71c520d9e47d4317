// Package drivertest is the conformance suite that every driver passes.
//
// It uses a driver only through its interface. On real hardware the host cannot read device memory, so all results are
// checked through copies to pinned memory. Every test has a watchdog: a hang ends the test binary with the stacks of
// all goroutines.
package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

type test struct {
	name string
	test func(*env)
}

// everyDriver lists the tests that each driver must pass.
var everyDriver = []test{
	{"Name", testName},
	{"DeviceMemory", testDeviceMemory},
	{"PinnedMemory", testPinnedMemory},
	{"RegisteredMemory", testRegisteredMemory},
	{"PageableMemory", testPageableMemory},
	{"DevicesApart", testDevicesApart},
	{"DeviceClose", testDeviceClose},
	{"LocateAllocatesNothing", testLocateAllocs},
	{"Epoch", testEpoch},
	{"Shut", testShut},
	{"Close", testClose},

	{"Copy", testCopy},
	{"CopyOverlap", testCopyOverlap},
	{"CopyHuge", testCopyHuge},
	{"Copy2D", testCopy2D},
	{"Batch", testBatch},
	{"Fill", testFill},
	{"Program", testProgram},
	{"ProgramFails", testProgramFails},
	{"ProgramDropped", testProgramDropped},
	{"ProgramAllocatesNothing", testProgramAllocs},
	{"Desc", testDesc},
	{"Offset", testOffset},
	{"IndirectFaults", testIndirectFaults},
	{"EveryKindInOrder", testEveryKindInOrder},
	{"RunFaults", testRunFaults},
	{"RunPageable", testRunPageable},

	{"FlagFromHost", testFlagFromHost},
	{"FlagFromQueue", testFlagFromQueue},
	{"FlagWait", testFlagWait},
	{"Await", testAwait},
	{"AwaitTimeout", testAwaitTimeout},
	{"AwaitInTime", testAwaitInTime},
	{"Abandoned", testAbandoned},
	{"CrossQueue", testCrossQueue},

	{"Call", testCall},
	{"Post", testPost},
	{"Done", testDone},
	{"Wait", testWait},
	{"WaitLargeCopy", testWaitLargeCopy},
	{"Drop", testDrop},
	{"DropRunningCopy", testDropRunningCopy},
	{"Failures", testFailures},
	{"Reentrant", testReentrant},
	{"MemoryGone", testMemoryGone},
	{"ManyQueues", testManyQueues},
	{"CopyAllocatesNothing", testCopyAllocs},
	{"Observer", testObserver},

	{"Gate", testGate},
	{"GateTimeout", testGateTimeout},
	{"GateDrop", testGateDrop},
	{"Work", testWork},
}

// Run runs the suite on a driver. open returns a new driver for each test, which the suite closes. except names tests
// that the driver need not pass.
func Run(t *testing.T, open func(t *testing.T) driver.Driver, except ...string) {
	for _, tt := range append(slices.Clone(everyDriver), offeredBy(t, open)...) {
		if slices.Contains(except, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			Watch(t, 10*time.Minute)
			tt.test(setup(t, open))
		})
	}
	t.Run("NoLeak", func(t *testing.T) {
		Watch(t, 10*time.Minute)
		testNoLeak(t, open)
	})
}

// Watch ends the test binary with the stacks of all goroutines if t takes longer than d.
func Watch(t testing.TB, d time.Duration) {
	name := t.Name()
	timer := time.AfterFunc(d, func() {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("%s hangs: not over after %v\n%s", name, d, stacks))
	})
	t.Cleanup(func() { timer.Stop() })
}

// env is an open driver with one open device.
type env struct {
	*testing.T
	d     driver.Driver
	dev   driver.Device
	stage memory // pinned buffer of write and read
}

const stageBytes = 8 << 20

func setup(t *testing.T, open func(t *testing.T) driver.Driver) *env {
	t.Helper()
	d := open(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Driver.Close: %v", err)
		}
	})
	if d.Devices() < 1 {
		t.Fatal("no device")
	}
	dev, err := d.Open(0)
	testenv.OK(t, err)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("Device.Close: %v", err)
		}
	})
	return &env{T: t, d: d, dev: dev}
}

// memory is a range of some kind.
type memory struct {
	addr uintptr
	n    int
	host []byte // the bytes, for the host; nil for device memory
}

func (m memory) end() uintptr { return m.addr + uintptr(m.n) }

// device allocates device memory.
func (e *env) device(n int) memory {
	e.Helper()
	addr, err := e.dev.Alloc(uint64(n), driver.PageHugeFirst)
	testenv.OK(e, err)
	return memory{addr: addr, n: n}
}

// pinned allocates pinned host memory.
func (e *env) pinned(n int) memory {
	e.Helper()
	addr, err := e.d.AllocHost(uint64(n))
	testenv.OK(e, err)
	return memory{addr, n, hostBytes(addr, n)}
}

// mapped maps ordinary host memory, which is pageable until it is registered.
func (e *env) mapped(n int) memory {
	e.Helper()
	b, err := unix.Mmap(-1, 0, (n+4095)&^4095, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(e, err)
	m := memory{addressOf(b), n, b[:n]}
	e.Cleanup(func() { unmap(m) }) // fails if the test has done it already
	return m
}

// unmap undoes mapped.
func unmap(m memory) error { return unix.Munmap(m.host[:(m.n+4095)&^4095]) }

// remote is mapped for memory that the test unmaps. It lies at an address that the kernel does not choose by itself, so
// that a late task finds no memory there instead of a new mapping. The caller must call drop.
func (e *env) remote(n int) memory {
	e.Helper()
	near := e.mapped(n)
	p, err := unix.MmapPtr(-1, 0, pointerTo(near.addr-64<<30), uintptr(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	testenv.OK(e, err)
	return memory{uintptr(p), n, hostBytes(uintptr(p), n)}
}

// drop undoes remote.
func drop(m memory) error { return unix.MunmapPtr(pointerTo(m.addr), uintptr(m.n)) }

// registered registers ordinary host memory; alias is its device address.
func (e *env) registered(n int) (host, alias memory) {
	e.Helper()
	return e.register(e.mapped(n))
}

// register registers m; alias is its device address.
func (e *env) register(m memory) (host, alias memory) {
	e.Helper()
	a, err := e.d.Register(m.addr, uint64(m.n), true, 0)
	testenv.OK(e, err)
	e.Cleanup(func() { e.d.Unregister(m.addr) }) // fails if the test has done it already
	return m, memory{addr: a, n: m.n}
}

// write copies b to addr, in any kind of memory.
func (e *env) write(addr uintptr, b []byte) {
	e.Helper()
	e.staged(len(b), func(off, n int) driver.Op {
		copy(e.stage.host, b[off:off+n])
		return driver.Op{Kind: driver.OpCopy, Dst: addr + uintptr(off), Src: e.stage.addr, N: uint64(n)}
	}, func(off, n int) {})
}

// read returns the n bytes at addr.
func (e *env) read(addr uintptr, n int) []byte {
	e.Helper()
	b := make([]byte, n)
	e.staged(n, func(off, n int) driver.Op {
		return driver.Op{Kind: driver.OpCopy, Dst: e.stage.addr, Src: addr + uintptr(off), N: uint64(n)}
	}, func(off, n int) { copy(b[off:off+n], e.stage.host) })
	return b
}

func (e *env) staged(n int, op func(off, n int) driver.Op, after func(off, n int)) {
	e.Helper()
	if e.stage.n == 0 {
		e.stage = e.pinned(stageBytes)
	}
	for off := 0; off < n; off += stageBytes {
		m := min(n-off, stageBytes)
		testenv.OK(e, e.d.Run(op(off, m)))
		after(off, m)
	}
}

// holds fails the test unless the bytes at addr are want.
func (e *env) holds(what string, addr uintptr, want []byte) {
	e.Helper()
	got := e.read(addr, len(want))
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			e.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i])
		}
	}
}

// refused fails the test unless err wraps want.
func (e *env) refused(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("%s: got error %v, want %v", what, err, want)
	}
}

// run carries op out with Run and fails the test if that fails.
func (e *env) run(op driver.Op) {
	e.Helper()
	testenv.OK(e, e.d.Run(op))
}

// failure is a call of Events.Failed.
type failure struct {
	tag driver.Tag
	err error
}

// queue is a queue of the driver that records its failures.
type queue struct {
	driver.Queue
	e *env

	mu     sync.Mutex
	failed []failure // guarded by mu
}

func (e *env) queue() *queue {
	q := &queue{e: e}
	q.Queue = e.dev.NewQueue(driver.QueueOptions{Events: driver.Events{Failed: q.TaskFailed}})
	return q
}

// TaskFailed implements Events.Failed.
func (q *queue) TaskFailed(tag driver.Tag, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed = append(q.failed, failure{tag, err})
}

// failures returns the failures since the last call.
func (q *queue) failures() []failure {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.failed
	q.failed = nil
	return f
}

// sync waits for all that was submitted.
func (q *queue) sync() {
	q.e.Helper()
	if !q.Wait(0, nil) {
		q.e.Fatal("Wait without a limit returned false")
	}
	if !q.Idle() {
		q.e.Fatal("not idle after Wait")
	}
}

// finish is sync, and fails the test if a task has failed.
func (q *queue) finish() {
	q.e.Helper()
	q.sync()
	if f := q.failures(); len(f) > 0 {
		q.e.Fatalf("%d tasks failed, first %v: %v", len(f), f[0].tag, f[0].err)
	}
}

// fails is sync, and fails the test unless exactly the given task has failed, with want.
func (q *queue) fails(what string, tag driver.Tag, want error) {
	q.e.Helper()
	q.sync()
	f := q.failures()
	if len(f) != 1 || f[0].tag != tag || !errors.Is(f[0].err, want) {
		q.e.Fatalf("%s: failed %v, want only %v with %v", what, f, tag, want)
	}
}

// block keeps q from running anything submitted later until the function returned is called.
func (q *queue) block() (release func()) {
	f := q.e.d.NewFlag()
	q.Submit(driver.Op{Kind: driver.OpAwait, Flag: f})
	return f.Set
}

// loop is a cyclic source of noise. Its length is not a multiple of any size in which an engine divides memory.
var loop = sync.OnceValue(func() []byte {
	b := make([]byte, 4<<20+12347)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
})

// noise returns n bytes that differ with seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, 0, n)
	for at := int(seed * 1_000_003 % uint64(len(loop()))); len(b) < n; at = 0 {
		b = append(b, loop()[at:min(len(loop()), at+n-len(b))]...)
	}
	return b
}

// painted returns n bytes of v.
func painted(n int, v byte) []byte { return bytes.Repeat([]byte{v}, n) }

const canary = 0xA5

// tag returns the i-th of many different tags.
func tag(i int) driver.Tag { return driver.Tag{Task: uint32(i), Thread: uint32(1000 + i)} }

func testName(e *env) {
	name := e.d.Name()
	if name == "" || name != string(bytes.ToLower([]byte(name))) {
		e.Fatalf("name is %q, want it lower-case", name)
	}
	testenv.OK(e, e.dev.Healthy())
	for _, i := range []int{-1, e.d.Devices()} {
		if _, err := e.d.Open(i); err == nil {
			e.Fatalf("device %d of %d could be opened", i, e.d.Devices())
		}
	}
}
