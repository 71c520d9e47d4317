package launch_test

import (
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/core/transfer"
	"ropeway/internal/kernel/kerneltest"
	"ropeway/internal/testenv"
)

// meta is a section of meta data with parameters of 8, 8 and 4 bytes.
const source = kerneltest.Source + `
void endless(void) { for (;;) ; }
void last(uint32_t *p) { size_t n; const unsigned char *a = ropeway_args(&n); p[0] = n; p[1] = a[n - 1]; p[2]++; }
void patient(volatile uint32_t *p) { while (!*p) ; }
void count(uint32_t *p, uint64_t n, uint64_t same) { p[n != p[0] || (uint32_t)same != n]++; }
void mix_mix_aic(uint32_t *p) { __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST); ropeway_block_barrier(); }
void mix_mix_aiv(uint32_t *p) { __atomic_fetch_add(p, 256, __ATOMIC_SEQ_CST); ropeway_block_barrier(); }
__attribute__((section(".ascend.meta.set"), used)) static const unsigned char meta[] = {
	16,0,12,0, 2,0,0,0, 12,0,0,0,0,0,0,0,
	17,0,36,0, 0,0,0,0, 0,0,0,0, 0,0,0,0, 8,0,0,0, 8,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
	17,0,36,0, 1,0,0,0, 1,0,0,0, 8,0,0,0, 4,0,0,0, 4,0,0,0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,
	12,0,4,0, 3,0,0,0 };
void set(uint32_t *p, uint32_t v) { __atomic_fetch_add(p, v * (1 + ropeway_thread_idx(0)), __ATOMIC_SEQ_CST); }
`

// bench is a machine with the kernels of source.
type bench struct {
	*coretest.Machine
	bin core.Handle
}

func newBench(t *testing.T, name string) *bench {
	t.Helper()
	kerneltest.Support(t)
	b := &bench{Machine: coretest.NewMachine(t, name, "")}
	b.bin = b.load(kerneltest.Compile(t, source))
	return b
}

func (b *bench) load(image []byte) (h core.Handle) {
	b.Helper()
	b.OK(launch.BinaryLoadFromData(b.Th, core.AddrOf(image), uint64(len(image)), nil, &h))
	return h
}

func text(s string) *byte { return &append([]byte(s), 0)[0] }

func (b *bench) function(name string) (f core.Handle) {
	b.Helper()
	b.OK(launch.BinaryGetFunction(b.Th, b.bin, text(name), &f))
	return f
}

// words is device memory with the same number in all words.
func (b *bench) words(n uint64, value uint32) (p core.Addr) {
	b.Helper()
	b.OK(memory.Malloc(b.Th, &p, 4*n, abi.MemMallocHugeFirst))
	b.OK(transfer.MemsetD32(b.Th, p, 4*n, value, n))
	return p
}

func (b *bench) read(p core.Addr, n uint64) []uint32 {
	b.Helper()
	out := make([]uint32, n)
	b.OK(transfer.Memcpy(b.Th, core.Addr(unsafe.Pointer(&out[0])), 4*n, p, 4*n, abi.MemcpyDeviceToHost))
	return out
}

func host(args ...uint64) []byte {
	var b []byte
	for _, a := range args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

func (b *bench) host(name string, blocks uint32, s core.Handle, args ...uint64) *core.Error {
	b.Helper()
	a := host(append(args, 0)...)
	return launch.LaunchKernelWithHostArgs(b.Th, b.function(name), blocks, s, nil, core.AddrOf(a), uint64(len(a)), nil,
		0)
}

// TestForms: every form of a launch gives the kernel the same arguments.
func TestForms(t *testing.T) {
	b := newBench(t, "A2")
	const n = 1000
	x, y, s := b.words(n, 2), b.words(n, 5), b.Stream(b.Th)
	b.OK(b.host("add_7", 9, s, uint64(x), uint64(y), n)) // 7

	args := b.words(6, 0)
	list := host(uint64(x), uint64(y), n)
	b.OK(transfer.Memcpy(b.Th, args, 24, core.AddrOf(list), 24, abi.MemcpyHostToDevice))
	var byEntry core.Handle
	b.OK(launch.BinaryGetFunctionByEntry(b.Th, b.bin, 7, &byEntry))
	if byEntry != b.function("add_7") {
		t.Error("a kernel has two handles")
	}
	b.OK(launch.LaunchKernel(b.Th, byEntry, 3, args, 24, s))        // 9
	b.OK(launch.LaunchKernelV2(b.Th, byEntry, 3, args, 24, nil, s)) // 11

	var h, p core.Handle
	b.OK(launch.KernelArgsInit(b.Th, byEntry, &h))
	for _, a := range []uint64{uint64(x), uint64(y), n} {
		v := host(a)
		b.OK(launch.KernelArgsAppend(b.Th, h, core.AddrOf(v), 8, &p))
	}
	b.OK(launch.KernelArgsFinalize(b.Th, h))
	for range 2 { // 15
		b.OK(launch.LaunchKernelWithConfig(b.Th, byEntry, 4, s, nil, h, 0))
	}
	b.OK(b.Th.SynchronizeStream(s))
	for i, w := range b.read(y, n) {
		if w != 15 {
			t.Fatalf("element %d is %d, want 15", i, w)
		}
	}
}

// TestBlocksAreCut: the device sees the low 16 bits of the number of blocks. If they are 0, no block runs.
func TestBlocksAreCut(t *testing.T) {
	b := newBench(t, "A2")
	for blocks, want := range map[uint32]uint32{1 << 16: 5, 1<<16 + 1: 15, 0xFFFF0000: 5} {
		p := b.words(1, 5)
		b.OK(b.host("times", blocks, 0, uint64(p), 1))
		b.OK(b.Th.SynchronizeStream(0))
		if got := b.read(p, 1)[0]; got != want {
			t.Errorf("%#x blocks: %d, want %d", blocks, got, want)
		}
	}
}

// TestPlaceholders: data of placeholders travels with the arguments; the caller's buffer gets the addresses.
func TestPlaceholders(t *testing.T) {
	b := newBench(t, "A2")
	p, s := b.words(1, 0), b.Stream(b.Th)
	args := append(host(uint64(p), 0), 10, 0, 0, 0, 20, 0, 0, 0)
	ph := []abi.PlaceHolderInfo{{AddrOffset: 8, DataOffset: 16}}
	b.OK(launch.LaunchKernelWithHostArgs(b.Th, b.function("tiled"), 1, s, nil, core.AddrOf(args), uint64(len(args)),
		&ph[0], 1))
	if binary.LittleEndian.Uint64(args[8:]) == 0 {
		t.Error("the address was not written into the caller's buffer")
	}
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 30 {
		t.Errorf("%d, want 30", got)
	}
	var h, first, hole core.Handle
	var room core.Addr
	b.OK(launch.KernelArgsInit(b.Th, b.function("tiled"), &h))
	v := host(uint64(p))
	b.OK(launch.KernelArgsAppend(b.Th, h, core.AddrOf(v), 8, &first))
	b.OK(launch.KernelArgsAppendPlaceHolder(b.Th, h, &hole))
	b.OK(launch.KernelArgsGetPlaceHolderBuffer(b.Th, h, hole, 8, &room))
	copy(core.Array(core.Pointer[byte](room), 8), []byte{1, 0, 0, 0, 2, 0, 0, 0})
	b.OK(launch.KernelArgsFinalize(b.Th, h))
	b.OK(launch.LaunchKernelWithConfig(b.Th, b.function("tiled"), 1, s, nil, h, 0))
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 3 {
		t.Errorf("%d, want 3", got)
	}
}

// TestLargeArguments: arguments may be of any size, copied or in device memory, with and without registered memory
// that they lead to.
func TestLargeArguments(t *testing.T) {
	b := newBench(t, "A2")
	const size = 17 << 20
	own := make([]byte, 8<<10) // its address on the device is another one
	own = own[-uintptr(core.AddrOf(own))%4096:][:4096]
	var alias core.Addr
	for _, registered := range []bool{false, true} {
		if registered {
			b.OK(memory.HostRegister(b.Th, core.AddrOf(own), 4096, abi.HostRegisterMapped, &alias))
		}
		for target, read := range map[core.Addr]func(p core.Addr) []uint32{
			b.words(3, 0): func(p core.Addr) []uint32 { return b.read(p, 3) },
			alias: func(core.Addr) []uint32 {
				return []uint32{binary.LittleEndian.Uint32(own), binary.LittleEndian.Uint32(own[4:]),
					binary.LittleEndian.Uint32(own[8:])}
			},
		} {
			if target == 0 {
				continue
			}
			args := make([]byte, size)
			binary.LittleEndian.PutUint64(args, uint64(target))
			args[size-1] = 9
			b.OK(launch.LaunchKernelWithHostArgs(b.Th, b.function("last"), 1, 0, nil, core.AddrOf(args), size, nil, 0))
			b.OK(b.Th.SynchronizeStream(0))
			var dev core.Addr
			b.OK(memory.Malloc(b.Th, &dev, size, abi.MemMallocHugeFirst))
			b.OK(transfer.Memcpy(b.Th, dev, size, core.AddrOf(args), size, abi.MemcpyHostToDevice))
			b.OK(launch.LaunchKernel(b.Th, b.function("last"), 1, dev, size, 0))
			b.OK(b.Th.SynchronizeStream(0))
			b.OK(memory.Free(b.Th, dev))
			if got := read(target); !slices.Equal(got, []uint32{size, 9, 2}) {
				t.Errorf("registered %v: the kernels saw %v, want %v", registered, got, []uint32{size, 9, 2})
			}
		}
	}
	b.OK(memory.HostUnregister(b.Th, core.AddrOf(own)))
}

// TestArgsArray: parameters are read as the meta data say, also by a symbol that compiled code registered; a SIMT
// launch calls every thread.
func TestArgsArray(t *testing.T) {
	b := newBench(t, "950")
	p, s := b.words(1, 100), b.Stream(b.Th)
	addr, value := host(uint64(p)), host(7)
	args := []core.Addr{core.AddrOf(addr), core.AddrOf(value)}
	f := b.function("set")
	b.OK(launch.LaunchKernelWithArgsArray(b.Th, core.Addr(f), 2, s, nil, &args[0]))
	symbol := host(0)
	b.OK(launch.RegisterFuncSymbol(b.Th, b.bin, core.AddrOf(symbol), text("set"), 0))
	b.OK(launch.LaunchKernelWithArgsArray(b.Th, core.AddrOf(symbol), 1, s, nil, &args[0]))
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 121 {
		t.Errorf("%d, want 121", got)
	}
	one := abi.Dim3{X: 1, Y: 1, Z: 1}
	err := launch.LaunchSIMTKernelWithArgsArray(b.Th, core.Addr(f), one, one, 1<<20, 0, nil, &args[0])
	if b.Want(err, abi.ErrRTParamInvalid); err.Arg != "dynUbufSize" {
		t.Errorf("a block with too much memory: %v, which does not name dynUbufSize", err)
	}
	b.OK(launch.LaunchSIMTKernelWithArgsArray(b.Th, core.Addr(f), abi.Dim3{X: 2, Y: 1, Z: 1},
		abi.Dim3{X: 3, Y: 1, Z: 1}, 0, s, nil, &args[0]))
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 121+2*(7+14+21) {
		t.Errorf("%d, want %d", got, 121+2*(7+14+21))
	}
	var n, offset, size uint64
	b.OK(launch.FunctionGetParamCount(b.Th, f, &n))
	b.OK(launch.FunctionGetParamInfo(b.Th, f, 1, &offset, &size))
	if n != 2 || offset != 8 || size != 4 {
		t.Errorf("%d parameters, the second at %d with %d bytes", n, offset, size)
	}
}

// TestMix: both halves of a mix kernel run at the same time.
func TestMix(t *testing.T) {
	b := newBench(t, "A2")
	p, s := b.words(1, 0), b.Stream(b.Th)
	b.OK(b.host("mix", 4, s, uint64(p)))
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 4*257 {
		t.Errorf("%#x, want %#x", got, 4*257)
	}
}

// TestGlobals: variables of a binary are one for each device, and copies reach them.
func TestGlobals(t *testing.T) {
	b := newBench(t, "A2")
	var addr core.Addr
	var size uint64
	b.OK(launch.BinaryGetGlobal(b.Th, b.bin, text("scale"), &addr, &size))
	if size != 4 || b.read(addr, 1)[0] != 3 {
		t.Errorf("%d bytes, value %d", size, b.read(addr, 1)[0])
	}
	b.OK(transfer.MemsetD32(b.Th, addr, 4, 10, 1))
	p, s := b.words(1, 4), b.Stream(b.Th)
	b.OK(b.host("times", 1, s, uint64(p), 1))
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 40 {
		t.Errorf("%d, want 40", got)
	}
	other := b.NewThread(1)
	var there core.Addr
	b.OK(launch.BinaryGetGlobal(other, b.bin, text("scale"), &there, nil))
	if there == addr || b.read(there, 1)[0] != 3 {
		t.Error("two devices share a variable")
	}
}

// TestFails: a kernel that fails ends with its code, the callbacks know which it was, and the stream goes on.
func TestFails(t *testing.T) {
	b := newBench(t, "A2")
	s, f := b.Stream(b.Th), b.function("wild")
	var codes []uint32
	var function, ofBinary core.Handle
	b.OK(b.Th.SetExceptionInfoCallback(core.Func[core.ExceptionFunc]{Key: 1, Call: func(info core.Addr) {
		codes = append(codes, b.Th.GetErrorCodeFromExceptionInfo(info))
		b.OK(b.Th.GetFuncHandleFromExceptionInfo(info, &function))
	}}))
	b.OK(launch.BinarySetExceptionCallback(b.Th, b.bin, func(info, data core.Addr) {
		if data == 77 {
			b.OK(b.Th.GetFuncHandleFromExceptionInfo(info, &ofBinary))
		}
	}, 77))
	b.OK(b.host("wild", 1, s, 64))
	err := b.Th.SynchronizeStream(s)
	b.Want(err, abi.ErrRTAicoreException)
	if !strings.Contains(err.Text, "kernel wild, failed") {
		t.Errorf("the kernel is not named: %q", err.Text)
	}
	if !slices.Equal(codes, []uint32{uint32(abi.ErrRTAicoreException)}) || function != f || ofBinary != f {
		t.Errorf("codes %v of %#x and %#x, want %#x", codes, function, ofBinary, f)
	}
	b.OK(process.SetOpExecuteTimeOutWithMs(b.Th, 20))
	b.OK(b.host("endless", 2, s))
	b.Want(b.Th.SynchronizeStream(s), abi.ErrRTAicoreTimeout)
	p := b.words(1, 4)
	b.OK(b.host("times", 1, s, uint64(p), 1))
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 12 {
		t.Errorf("after failures: %d, want 12", got)
	}
}

// TestLife: handles die with their binary, launches that are queued do not; after a reset one lookup is needed.
func TestLife(t *testing.T) {
	b := newBench(t, "A2")
	f, s := b.function("times"), b.Stream(b.Th)
	p := b.words(1, 4)
	args := host(uint64(p), 1)
	gate := make(chan struct{})
	b.OK(b.Th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
	b.OK(launch.LaunchKernelWithHostArgs(b.Th, f, 1, s, nil, core.AddrOf(args), 16, nil, 0))
	b.OK(launch.BinaryUnLoad(b.Th, b.bin))
	close(gate)
	b.OK(b.Th.SynchronizeStream(s))
	if got := b.read(p, 1)[0]; got != 12 {
		t.Errorf("a launch of a binary that was unloaded meanwhile: %d, want 12", got)
	}
	b.Want(launch.LaunchKernelWithHostArgs(b.Th, f, 1, s, nil, core.AddrOf(args), 16, nil, 0), abi.ErrRTInvalidHandle)
	b.Want(launch.BinaryUnLoad(b.Th, b.bin), abi.ErrRTInvalidHandle)

	b.bin = b.load(kerneltest.Compile(t, source))
	f = b.function("times")
	b.OK(b.Th.ResetDevice(0))
	b.OK(b.Th.SetDevice(0))
	err := launch.LaunchKernelWithHostArgs(b.Th, f, 1, 0, nil, core.AddrOf(args), 16, nil, 0)
	b.Want(err, abi.ErrRTInvalidHandle)
	if !err.Quiet {
		t.Error("it is recorded as last error")
	}
	if b.function("times") != f {
		t.Error("the handle has changed")
	}
	p = b.words(1, 4)
	args = host(uint64(p), 1)
	b.OK(launch.LaunchKernelWithHostArgs(b.Th, f, 1, 0, nil, core.AddrOf(args), 16, nil, 0))
	b.OK(b.Th.SynchronizeStream(0))
	if got := b.read(p, 1)[0]; got != 12 {
		t.Errorf("%d, want 12", got)
	}
}

// TestThreadsBuilder: a builder goes with its thread, and parameters with what started it over.
func TestThreadsBuilder(t *testing.T) {
	b := newBench(t, "A2")
	th := b.NewThread(0)
	f := b.function("times")
	var h, p core.Handle
	b.OK(launch.KernelArgsInit(th, f, &h))
	v := host(1)
	b.OK(launch.KernelArgsAppend(th, h, core.AddrOf(v), 8, &p))
	b.OK(launch.KernelArgsInit(th, f, &h))
	b.Want(launch.KernelArgsParaUpdate(th, h, p, core.AddrOf(v), 8), abi.ErrRTInvalidHandle)
	th.Close()
	b.Want(launch.KernelArgsFinalize(b.Th, h), abi.ErrRTInvalidHandle)
}

// TestLengthTooLarge: memory is taken for the bytes of a binary that are there, whatever length the program gives.
func TestLengthTooLarge(t *testing.T) {
	b := newBench(t, "A2")
	page, err := syscall.Mmap(-1, 0, 8192, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	testenv.OK(t, err)
	defer syscall.Munmap(page) //nolint:errcheck // ours
	testenv.OK(t, syscall.Mprotect(page[4096:], syscall.PROT_NONE))
	data := core.AddrOf(page)
	for name, load := range map[string]func(n uint64) *core.Error{
		"aclrtBinaryLoadFromData": func(n uint64) *core.Error {
			var h core.Handle
			return launch.BinaryLoadFromData(b.Th, data, n, nil, &h)
		},
		"aclrtBinaryLoad": func(n uint64) *core.Error {
			var h core.Handle
			return launch.BinaryLoad(b.Th, launch.CreateBinary(b.Th, data, n), &h)
		},
	} {
		b.Want(load(1<<30+1), abi.ErrRTParamInvalid)
		b.Want(load(1<<40), abi.ErrRTParamInvalid)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if recover() == nil {
					t.Errorf("%s: 1 GiB is read where a page is", name)
				}
			}()
			load(1 << 30) //nolint:errcheck // it panics
		}()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

// TestDeviceFile: only a regular file is read for a binary.
func TestDeviceFile(t *testing.T) {
	b := newBench(t, "A2")
	var h core.Handle
	b.Want(launch.BinaryLoadFromFile(b.Th, text("/dev/zero"), nil, &h), abi.ErrRTParamInvalid)
}
