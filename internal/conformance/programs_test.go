package conformance

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/launch"
	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/kernel"
	"ropeway/internal/product"
	"ropeway/internal/randprog"
	"ropeway/internal/testenv"
)

// TestRandomPrograms runs random programs, some of whose tasks fail. Every byte and every code must be that of the
// model, none may hang, and no object, goroutine, file or mapping may be left. capi/test runs such programs through the
// C library, as long as one wants.
func TestRandomPrograms(t *testing.T) {
	if !coretest.OnGPU {
		defer leavesNothing(t)()
	}
	n := 200
	if testing.Short() {
		n = 40
	}
	seeds := testenv.Rand(t)(0)
	for range n {
		seed := seeds.Uint64()
		p := randprog.Generate(seed, 20+int(seed%500), true)
		if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { runProgram(t, p) }) {
			return
		}
	}
}

// leavesNothing returns a function that fails the test if the process has other goroutines, files or mappings of
// devices than now.
func leavesNothing(t *testing.T) func() {
	t.Helper()
	mappings := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		testenv.OK(t, err)
		return strings.Count(string(text), "ropeway")
	}
	goroutines, files, mapped := goleak.IgnoreCurrent(), coretest.OpenFiles(t), mappings()
	return func() {
		t.Helper()
		goleak.VerifyNone(t, goroutines)
		if n := coretest.OpenFiles(t); n != files {
			t.Errorf("%d files are open, %d were before", n, files)
		}
		if n := mappings(); n != mapped {
			t.Errorf("%d mappings of devices, %d were before", n, mapped)
		}
	}
}

// patience is how long a program may go on without a call that returns.
const patience = time.Minute

// reporter is the id of the thread that processes reports.
const reporter = 99

// interpreter runs a random program through the core.
type interpreter struct {
	*testing.T
	p      *randprog.Program
	rt     *core.Runtime
	faults *faulty.Driver
	slots  []uint64

	mu       sync.Mutex
	moved    *sync.Cond
	returned []int // guarded by mu; lines of each thread
	failed   bool  // guarded by mu

	// Pageable memory by address; guarded by mu. It is mapped, as C's is: of memory of Go's the race detector would
	// report copies that only aclrtValueWrite and aclrtValueWait order, for it looks at no atomic operation on mapped
	// memory, where their values are.
	blocks map[uint64][]byte
}

func runProgram(t *testing.T, p *randprog.Program) {
	prod, err := product.Find(p.Product, "")
	testenv.OK(t, err)
	in := &interpreter{T: t, p: p, slots: make([]uint64, p.Slots), returned: make([]int, p.Threads),
		blocks: map[uint64][]byte{}}
	in.moved = sync.NewCond(&in.mu)
	in.faults = faulty.Wrap(coretest.Open(t, soft.Options{Devices: p.Devices, Memory: 512 << 20}))
	in.rt = core.New(core.Options{Driver: in.faults, Product: prod})
	dog := time.AfterFunc(patience, in.giveUp)
	defer dog.Stop()
	lines := make([][]string, p.Threads)
	for _, l := range p.Lines {
		lines[l.Thread] = append(lines[l.Thread], l.Text)
	}
	stop := make(chan struct{})
	var threads, reports sync.WaitGroup
	reports.Go(func() {
		th := in.rt.NewThread(0)
		defer th.Close()
		th.SetPthread(reporter)
		for {
			select {
			case <-stop:
				return
			default:
				if th.ProcessReport(20) != nil {
					time.Sleep(time.Millisecond) // no stream has subscribed
				}
			}
		}
	})
	for me, list := range lines {
		threads.Go(func() {
			th := in.rt.NewThread(uint32(me + 1))
			defer th.Close()
			var kept [][]uint64 // a host function reads its argument when it runs
			for _, text := range list {
				if !in.line(th, me, text, &kept) {
					break
				}
				dog.Reset(patience)
			}
			runtime.KeepAlive(kept)
		})
	}
	threads.Wait()
	close(stop)
	reports.Wait()
	if err := in.rt.Close(); err != nil {
		t.Error(err)
	}
	if left := in.rt.Live(); !t.Failed() && left != (core.Live{}) {
		t.Errorf("left after Close: %+v", left)
	}
}

// giveUp ends the process, for a call that hangs cannot be ended.
func (in *interpreter) giveUp() {
	in.mu.Lock()
	fmt.Fprintln(os.Stderr, in.p.Stuck(in.returned))
	buf := make([]byte, 1<<20)
	os.Stderr.Write(buf[:runtime.Stack(buf, true)]) //nolint:errcheck // the end is near
	panic("a program hangs")
}

// line runs a line of a thread, and reports whether the thread is to go on. Arrays of the line are added to kept.
func (in *interpreter) line(th *core.Thread, me int, text string, kept *[][]uint64) bool {
	call, wants, checks := strings.Cut(text, " = ")
	words := strings.Fields(call)
	until := words[0] == "until"
	var last uint64
	if until {
		last, words = numeral(words[1]), words[2:]
	}
	var args []uint64
	var status *int32
	for rest := words[1:]; len(rest) > 0; {
		var v uint64
		v, rest = in.argument(rest, kept)
		args = append(args, v)
		if until {
			status = pointer[int32](v)
		}
	}
	err := in.call(th, words[0], args)
	for ; until && err == nil && *status != int32(last); err = in.call(th, words[0], args) {
		runtime.Gosched()
	}
	if want := abi.Code(numeral(wants)); codeOf(err) != want && !(checks && wants == "*") {
		in.Errorf("thread %d, line %d: %s\nreturned %v, want %d", me, in.returned[me]+1, text, err, want)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.returned[me]++
	in.failed = in.failed || in.Failed()
	in.moved.Broadcast()
	return !in.failed
}

// argument returns the value of the first of words, and the words after it. kept gets the arrays it points to.
func (in *interpreter) argument(words []string, kept *[][]uint64) (v uint64, rest []string) {
	w, rest := words[0], words[1:]
	switch w[0] {
	case '#':
		slot, offset, _ := strings.Cut(w[1:], "+")
		return in.slots[numeral(slot)] + numeral(offset), rest
	case '&':
		return address(&in.slots[numeral(w[1:])]), rest
	case '[':
		var list []uint64
		for rest[0] != "]" {
			v, rest = in.argument(rest, kept)
			list = append(list, v)
		}
		*kept = append(*kept, list)
		return address(&list[0]), rest[1:]
	case '"':
		list := make([]uint64, len(w)/8+1)
		copy(bytes(core.Addr(address(&list[0])), uint64(len(w))), w[1:len(w)-1])
		*kept = append(*kept, list)
		return address(&list[0]), rest
	case '@': // a host function, or the thread that processes reports
		return reporter, rest
	}
	return numeral(w), rest
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func numeral(text string) uint64 {
	n, _ := strconv.ParseUint(text, 0, 64) //nolint:errcheck // "" and "*" are 0
	return n
}

// call calls a function of the core, or of the language of programs.
func (in *interpreter) call(th *core.Thread, name string, a []uint64) *core.Error {
	switch name {
	case "after":
		in.mu.Lock()
		defer in.mu.Unlock()
		for in.returned[a[0]] < int(a[1]) && !in.failed {
			in.moved.Wait()
		}
	case "set":
		*pointer[uint64](a[0]) = a[1]
	case "malloc":
		b, err := unix.Mmap(-1, 0, int(a[1]), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		testenv.OK(in, err)
		*pointer[uint64](a[0]) = address(&b[0])
		in.mu.Lock()
		defer in.mu.Unlock()
		in.blocks[address(&b[0])] = b
	case "free":
		in.mu.Lock()
		defer in.mu.Unlock()
		unix.Munmap(in.blocks[a[0]]) //nolint:errcheck // it was mapped
		delete(in.blocks, a[0])
	case "write":
		randprog.Pattern(bytes(core.Addr(a[0]), a[1]), a[2])
	case "check":
		if randprog.Hash(bytes(core.Addr(a[0]), a[1])) != a[2] {
			return core.Fail(name, 1, "", "the bytes are wrong")
		}
	case "load":
		image := mixKernel()
		return launch.BinaryLoadFromData(th, core.Addr(address(&image[0])), uint64(len(image)), nil,
			pointer[core.Handle](a[0]))
	case "fail":
		err := error(driver.ErrFault)
		if a[0] != uint64(abi.ErrRTSysDma) {
			err = faulty.Code(abi.Code(a[0]))
		}
		in.faults.Fail(faulty.Task, 1, err)
	case "aclrtLaunchHostFunc":
		return th.LaunchHostFunc(core.Handle(a[0]), randomHostFunc, core.Addr(a[2]))
	case "aclrtLaunchCallback":
		return th.LaunchCallback(randomHostFunc, core.Addr(a[1]), abi.CallbackBlockType(a[2]), core.Handle(a[3]))
	default:
		return ruleCalls[name](th, a)
	}
	return nil
}

func randomHostFunc(p core.Addr) {
	a := core.Array(core.Pointer[uint64](p), 4)
	if a[0] == 0 {
		time.Sleep(time.Duration(a[2]) * time.Microsecond)
		return
	}
	for i, b := range bytes(core.Addr(a[1]), a[2]) {
		bytes(core.Addr(a[1]), a[2])[i] = b + byte(a[3])
	}
}

// mixKernel is a binary with the kernel mix for the devices that the tests run on: see drivertest.Kernels.
var mixKernel = sync.OnceValue(func() []byte {
	if coretest.OnGPU {
		return []byte(drivertest.PTX)
	}
	return kernel.Functions(map[string]kernel.Func{"mix": func(b *kernel.Block) error {
		arg := func(i int) uint64 {
			return binary.LittleEndian.Uint64(bytes(core.Addr(b.Args)+core.Addr(8*i), 8))
		}
		to, from := bytes(core.Addr(arg(0)), arg(2)), bytes(core.Addr(arg(1)), arg(2))
		for i := int(b.Index); i < len(to); i += int(b.Num) {
			to[i] += from[i]*byte(arg(3)) + byte(i)
		}
		return nil
	}})
})
