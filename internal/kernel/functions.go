package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Func is a kernel that is a function of this process. It is called once for each block, on several goroutines at a
// time; an error makes the kernel fail.
type Func func(b *Block) error

// Block is a call of a Func.
type Block struct {
	Index, Num uint32
	Sub        uint32 // in a mix kernel
	Args       uintptr
	Size       uint64

	run *functionRun
}

// Watched reports whether Touch has an effect.
func (b *Block) Watched() bool { return b.run.call.Watch }

// Touch reports that the block reads or writes memory.
func (b *Block) Touch(addr uintptr, n uint64, write bool) {
	if b.Watched() && n > 0 {
		b.run.touch(Touch{addr, n, write})
	}
}

// An image of functions is a magic text and the number of a set of them.
const functionsMagic = "ropeway functions\x00"

// functionSets are the functions that images name, by number.
var functionSets struct {
	sync.Mutex
	last uint64                     // guarded by Mutex
	all  map[uint64]map[string]Func // guarded by Mutex
}

// Functions returns a binary of functions of this process. It can be loaded until Forget.
func Functions(list map[string]Func) (image []byte) {
	s := &functionSets
	s.Lock()
	defer s.Unlock()
	if s.all == nil {
		s.all = map[uint64]map[string]Func{}
	}
	s.last++
	s.all[s.last] = maps.Clone(list)
	return binary.LittleEndian.AppendUint64([]byte(functionsMagic), s.last)
}

// Forget drops the functions of a binary from Functions; loaded copies stay. It has no effect on other binaries.
func Forget(image []byte) {
	if FormatOf(image) == InProcess {
		functionSets.Lock()
		defer functionSets.Unlock()
		delete(functionSets.all, setOf(image))
	}
}

// IsFunctions reports whether a binary is functions of this process: see Functions.
func IsFunctions(image []byte) bool {
	return len(image) == len(functionsMagic)+8 && bytes.HasPrefix(image, []byte(functionsMagic))
}

func setOf(image []byte) uint64 { return binary.LittleEndian.Uint64(image[len(functionsMagic):]) }

// functionsOf returns the functions that an image names.
func functionsOf(image []byte) (map[string]Func, error) {
	functionSets.Lock()
	defer functionSets.Unlock()
	if list := functionSets.all[setOf(image)]; list != nil {
		return list, nil
	}
	return nil, errors.New("the functions are of another process, or their binary was unloaded")
}

// readFunctions adds a kernel for each function.
func (t *Table) readFunctions(image []byte, o Options) error {
	list, err := functionsOf(image)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name == "" || len(name) > longestName || list[name] == nil {
			return fmt.Errorf("%q is no kernel: it needs a name and a function", name)
		}
		t.byName[name] = newKernel(name, name, 0, whole, meta{}, o, true)
	}
	t.number()
	return nil
}

// inProcess implements CPU for functions of this process.
type inProcess struct{}

// Load implements CPU.
func (inProcess) Load(_ string, image []byte) (SharedObject, error) {
	list, err := functionsOf(image)
	if err != nil {
		return nil, err
	}
	o := &functions{byName: map[string]uintptr{}}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		o.list = append(o.list, list[name])
		o.byName[name] = uintptr(len(o.list)) // 0 is none
	}
	return o, nil
}

// NewRun implements CPU.
func (inProcess) NewRun() Run { return new(functionRun) }

// functions implements SharedObject. The garbage collector frees it.
type functions struct {
	list   []Func             // immutable
	byName map[string]uintptr // immutable; index in list; 0 is unused
}

// Symbol implements SharedObject. The result is only valid in Call.Code.
func (o *functions) Symbol(name string) (uintptr, error) {
	if n := o.byName[name]; n != 0 {
		return n, nil
	}
	return 0, fmt.Errorf("there is no function %q", name)
}

func (o *functions) Hold()    {}
func (o *functions) Release() {}
func (o *functions) Close()   {}

// functionRun implements Run. Functions are not interrupted: a launch that is stopped ends when those that run return.
type functionRun struct {
	o    *functions // of the current launch, like call and next
	call Call
	next atomic.Uint64 // index of the next call
	end  atomic.Bool   // no more calls: one failed, or the launch was stopped

	mu    sync.Mutex
	turn  uint64 // guarded by mu; number of launches begun
	live  bool   // guarded by mu
	fault *Fault // guarded by mu; the first one

	touched []Touch // guarded by mu
	lost    bool    // guarded by mu; touches were dropped for lack of room
}

func (r *functionRun) touch(t Touch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.touched, t) {
		return
	}
	if r.lost = r.lost || len(r.touched) == MostTouches; !r.lost {
		r.touched = append(r.touched, t)
	}
}

// Touched implements Run.
func (r *functionRun) Touched() (list []Touch, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.touched), !r.lost
}

// Begin implements Run.
func (r *functionRun) Begin(o SharedObject, c *Call) (turn uint64) {
	r.o, r.call = o.(*functions), *c
	r.next.Store(0)
	r.end.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	r.live, r.fault, r.touched, r.lost = true, nil, r.touched[:0], false
	return r.turn
}

// Work implements Run.
func (r *functionRun) Work(s *Share) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for !r.end.Load() {
		i := r.next.Add(1) - 1
		if i >= r.call.Calls() {
			return
		}
		s.Made(r.call.block(i))
		r.one(i)
	}
}

// one makes the i-th call of the launch.
func (r *functionRun) one(i uint64) {
	c := &r.call
	of := uint64(c.Per[0] + c.Per[1])
	b := Block{Index: c.block(i), Num: c.Blocks, Sub: uint32(i % of), Args: c.Args, Size: c.Size,
		run: r}
	code := c.Code[0]
	if b.Sub >= c.Per[0] {
		code, b.Sub = c.Code[1], b.Sub-c.Per[0]
	}
	defer func() {
		if p := recover(); p != nil {
			r.fail(panicked(b.Index, p))
		}
	}()
	if err := r.o.list[code-1](&b); err != nil {
		r.fail(&Fault{Block: b.Index, Err: err})
	}
}

// panicked returns the fault of a function that has panicked.
func panicked(block uint32, p any) *Fault {
	if a, ok := p.(interface{ Addr() uintptr }); ok {
		return &Fault{Block: block, Signal: syscall.SIGSEGV, Address: uint64(a.Addr())}
	}
	if e, ok := p.(runtime.Error); ok && strings.Contains(e.Error(), "nil pointer") { // any address of the first page
		return &Fault{Block: block, Signal: syscall.SIGSEGV}
	}
	return &Fault{Block: block, Err: fmt.Errorf("panic: %v", p)}
}

func (r *functionRun) fail(f *Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil {
		r.fault = f
	}
	r.end.Store(true)
}

// Together implements Run.
func (r *functionRun) Together(work func()) {
	var wg sync.WaitGroup
	for range min(r.call.Calls(), MostTogether) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// Stop implements Run.
func (r *functionRun) Stop(turn uint64, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.live || r.turn != turn {
		return
	}
	if r.fault == nil {
		r.fault = &Fault{Late: late}
	}
	r.end.Store(true)
}

// End implements Run.
func (r *functionRun) End() *Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live, r.o = false, nil
	return r.fault
}
