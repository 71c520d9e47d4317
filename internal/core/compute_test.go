package core_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// plain is a driver that has nothing but what every driver has.
type plain struct{ driver.Driver }

func (d plain) Caps() driver.Caps { return driver.Caps{Base: d} }

// onPlain is a runtime on a driver that shows no memory.
func onPlain(t *testing.T) *core.Thread {
	t.Helper()
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 256 << 20})
	testenv.OK(t, err)
	rt := core.New(core.Options{Driver: plain{d}, Product: p})
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	th := rt.NewThread(1)
	must(t, th.SetDevice(0))
	return th
}

// upload makes device memory that holds b.
func upload(t *testing.T, th *core.Thread, b []byte) (p core.Addr) {
	t.Helper()
	must(t, memory.Malloc(th, &p, uint64(len(b)), abi.MemMallocHugeFirst))
	must(t, transfer.Memcpy(th, p, uint64(len(b)), core.AddrOf(b), uint64(len(b)), abi.MemcpyHostToDevice))
	return p
}

// download is n bytes of device memory.
func download(t *testing.T, th *core.Thread, p core.Addr, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	must(t, transfer.Memcpy(th, core.AddrOf(b), uint64(n), p, uint64(n), abi.MemcpyDeviceToHost))
	return b
}

// TestComputeWithoutView proves that tasks compute the same where the driver does not show its memory: overlapping
// sums, and random numbers.
func TestComputeWithoutView(t *testing.T) {
	_, shown := newRuntime(t, "A2")
	hidden := onPlain(t)
	old := make([]byte, 300<<10)
	rand.NewChaCha8([32]byte{1}).Read(old)
	for _, shift := range []int{-70 << 10, -4, 0, 8, 64 << 10, 100 << 10} {
		var results [2][]byte
		for i, th := range []*core.Thread{shown, hidden} {
			p := upload(t, th, old)
			dst, src, n := core.Addr(0), core.Addr(0), uint64(len(old))
			if shift > 0 {
				dst, n = core.Addr(shift), n-uint64(shift)
			} else {
				src, n = core.Addr(-shift), n-uint64(-shift)
			}
			must(t, transfer.ReduceAsync(th, p+dst, p+src, n, abi.MemcpySdmaAutomaticSum, abi.DataTypeInt16, 0, 0))
			must(t, th.SynchronizeStream(0))
			results[i] = download(t, th, p, len(old))
		}
		if !bytes.Equal(results[0], results[1]) {
			t.Errorf("shifted by %d the sums differ", shift)
		}
	}
	var results [2][]byte
	const count = 100_001
	for i, th := range []*core.Thread{shown, hidden} {
		result, counter := upload(t, th, make([]byte, 4*count)), upload(t, th, make([]byte, 16))
		params := upload(t, th, append(binary.LittleEndian.AppendUint64(nil, 99),
			binary.LittleEndian.AppendUint64(nil, count)...))
		info := &abi.RandomNumTaskInfo{DataType: abi.DataTypeInt32, RandomResultAddr: result,
			RandomCounterAddr: counter}
		at := func(p core.Addr) (r abi.RandomParaInfo) {
			binary.LittleEndian.PutUint64(r.ValueOrAddr[:], uint64(p))
			r.IsAddr, r.Size = 1, 8
			return r
		}
		info.RandomSeed, info.RandomNum = at(params), at(params+8)
		f := &info.RandomNumFuncParaInfo
		f.FuncType = abi.RandomNumFuncTypeUniformDis
		f.ParamInfo.UniformDisInfo().Min.Size, f.ParamInfo.UniformDisInfo().Max.Size = 4, 4
		f.ParamInfo.UniformDisInfo().Max.ValueOrAddr[2] = 1
		must(t, transfer.RandomNumAsync(th, info, 0, 0))
		must(t, th.SynchronizeStream(0))
		results[i] = append(download(t, th, result, 4*count), download(t, th, counter, 16)...)
	}
	if !bytes.Equal(results[0], results[1]) || bytes.Equal(results[0], make([]byte, len(results[0]))) {
		t.Error("the numbers differ, or there are none")
	}
	if err := memory.MemAllocManaged(hidden, new(core.Addr), 1, abi.MemAttachGlobal); err == nil ||
		err.Code != abi.ErrRTFeatureNotSupport {
		t.Errorf("managed memory of a driver that has none: %v", err)
	}
}

// TestSymbolsTogether has many threads use variables for the first time, on several devices, while others reset one:
// each sees the initial value, or finds that its device is gone.
func TestSymbolsTogether(t *testing.T) {
	rt, _ := newRuntime(t, "A2")
	init := bytes.Repeat([]byte{0xab}, 1000)
	names := make([]byte, 20)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			th := rt.NewThread(uint32(10 + i))
			defer th.Close()
			for round := range 40 {
				if err := th.SetDevice(int32(i % 2)); err != nil {
					t.Error(err)
					return
				}
				name := core.AddrOf(names[(round*7+i)%len(names):])
				if err := transfer.DefineSymbol(rt, name, 1000, init); err != nil {
					t.Error(err)
				}
				b := make([]byte, 1000)
				if err := transfer.MemcpyFromSymbol(th, core.AddrOf(b), 1000, name, 1000, 0,
					abi.MemcpyDefault); err != nil {
					t.Error(err)
				} else if !bytes.Equal(b, init) {
					t.Error("not the initial value")
				}
				if err := th.ResetDevice(int32(i % 2)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestAllocatorsTogether registers and asks from many threads; what is registered is always whole.
func TestAllocatorsTogether(t *testing.T) {
	rt, th := newRuntime(t, "A2")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			th := rt.NewThread(uint32(10 + i))
			desc := memory.AllocatorCreateDesc(th)
			v := core.Addr(i + 1)
			for _, set := range []func(core.Handle, core.Addr) *core.Error{func(desc core.Handle,
				allocator core.Addr) *core.Error {
				return memory.AllocatorSetObjToDesc(th, desc, allocator)
			}, func(desc core.Handle, fn core.Addr) *core.Error {
				return memory.AllocatorSetAllocFuncToDesc(th, desc, fn)
			}, func(desc core.Handle, fn core.Addr) *core.Error {
				return memory.AllocatorSetFreeFuncToDesc(th, desc, fn)
			}, func(desc core.Handle, fn core.Addr) *core.Error {
				return memory.AllocatorSetGetAddrFromBlockFuncToDesc(th, desc, fn)
			}} {
				if err := set(desc, v); err != nil {
					t.Error(err)
				}
			}
			for range 500 {
				if err := memory.AllocatorRegister(th, 7, desc); err != nil {
					t.Error(err)
				}
				var h core.Handle
				var obj, alloc, free, address core.Addr
				if err := memory.AllocatorGetByStream(th, 7, &h, &obj, &alloc, &free, nil, &address); err == nil &&
					(obj != alloc || alloc != free || free != address) {
					t.Error("a mixture of two allocators")
				}
			}
			if err := memory.AllocatorDestroyDesc(th, desc); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, memory.AllocatorUnregister(th, 7))
}

// TestManagedTogether allocates, advises, prefetches, asks and frees from many threads.
func TestManagedTogether(t *testing.T) {
	rt, _ := newRuntime(t, "A2")
	const page = 2 << 20
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			th := rt.NewThread(uint32(10 + i))
			check := func(err *core.Error) {
				if err != nil {
					t.Error(err)
				}
			}
			check(th.SetDevice(int32(i % 2)))
			var s core.Handle
			check(th.CreateStream(&s))
			for round := range 50 {
				var p core.Addr
				check(memory.MemAllocManaged(th, &p, 2*page, abi.MemAttachGlobal))
				if t.Failed() {
					return
				}
				view(p, 8)[round%8] = byte(round)
				to := abi.MemManagedLocation{Type: abi.MemManagedLocationTypeDevice, ID: int32(round % 2)}
				check(memory.MemManagedAdvise(th, p+page, 1, abi.MemAdviseSetPreferredLocation, to))
				check(memory.MemManagedPrefetchAsync(th, p, 2*page, to, 0, s))
				check(transfer.MemsetAsync(th, p, 2*page, int32(i), 2*page, s))
				check(th.SynchronizeStream(s))
				b := make([]byte, 4)
				for attr, want := range map[abi.MemManagedRangeAttribute]int32{
					abi.MemRangeAttributeLastPrefetchLocation: to.ID,
					abi.MemRangeAttributePreferredLocation:    -2,
				} {
					check(memory.MemManagedGetAttr(th, attr, p, 2*page, core.AddrOf(b), 4))
					if got := int32(binary.LittleEndian.Uint32(b)); got != want {
						t.Errorf("%v is %d, want %d", attr, got, want)
					}
				}
				if view(p, 2*page)[2*page-1] != byte(i) {
					t.Error("not filled")
				}
				check(memory.Free(th, p))
			}
		})
	}
	wg.Wait()
}

// kindsSeen is a tracer that keeps what tasks are.
type kindsSeen struct {
	counted
	seen []string
}

func (k *kindsSeen) Submitted(t observe.Task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = append(k.seen, fmt.Sprintf("%v %d %v", t.Kind, t.Bytes, t.Memory))
}

func (k *kindsSeen) Ran(int32, uint32, int64, int64, observe.Result) {}

// TestComputingIsObserved proves what a tracer receives about tasks that compute, and about managed memory.
func TestComputingIsObserved(t *testing.T) {
	p, err := product.Find("A2", "")
	testenv.OK(t, err)
	d, err := soft.New(soft.Options{Devices: 1, Memory: 64 << 20})
	testenv.OK(t, err)
	k := &kindsSeen{}
	rt := core.New(core.Options{Driver: d, Product: p, Probe: core.Probe{Trace: k}})
	th := rt.NewThread(1)
	must(t, th.SetDevice(0))
	var m, dev core.Addr
	must(t, memory.MemAllocManaged(th, &m, 1, abi.MemAttachGlobal))
	must(t, memory.Malloc(th, &dev, 4096, abi.MemMallocHugeFirst))
	must(t, transfer.ReduceAsync(th, dev, m, 64, abi.MemcpySdmaAutomaticMax, abi.DataTypeInt8, 0, 0))
	must(t, memory.MemManagedPrefetchAsync(th, m, 4096, abi.MemManagedLocation{Type: abi.MemManagedLocationTypeHost}, 0,
		0))
	must(t, transfer.MemcpyAsync(th, dev, 32, m, 32, abi.MemcpyHostToDevice, 0))
	must(t, th.SynchronizeStream(0))
	want := []string{"reduce 64 ", "prefetch 0 ", "copy 32 managed"}
	if fmt.Sprint(k.seen) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", k.seen, want)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}
