package memcopy

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// faultOf runs f and returns the address of the fault that it ends in. The
// fault must be a recoverable panic, and the stack must unwind to the caller.
func faultOf(t *testing.T, f func()) (addr uintptr) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		t.Helper()
		r := recover()
		e, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok {
			t.Fatalf("panic value %v (%T) is no runtime.Error with Addr", r, r)
		}
		if stack := string(debug.Stack()); !strings.Contains(stack, "memcopy.faultOf") {
			t.Fatalf("the stack does not reach the caller:\n%s", stack)
		}
		addr = e.Addr()
	}()
	f()
	t.Fatal("no fault")
	return 0
}

// holed is a region of 4n bytes in which the bytes [2n, 3n) have prot.
func holed(t *testing.T, n, prot int) (r region, hole uintptr) {
	r = newRegion(t, 4*n)
	protect(t, r.data[2*n:3*n], prot)
	return r, r.addr + uintptr(2*n)
}

func inHole(t *testing.T, what string, got, hole uintptr, n int) {
	t.Helper()
	if got < hole || got >= hole+uintptr(n) {
		t.Errorf("%s: fault at %#x, want one in [%#x, %#x)", what, got, hole, hole+uintptr(n))
	}
}

// TestFaultIsRecoverable puts inaccessible memory at the beginning, in the
// middle and at the end of what each routine touches.
func TestFaultIsRecoverable(t *testing.T) {
	forKernels(t, func(t *testing.T) {
		const hole = 64 << 10
		for _, n := range []int{64, 1000, 4096, 40000, 100001, copyLargeMin + 5, copyStreamMin + 5} {
			span := (max(n, hole) + pageBytes) / pageBytes * pageBytes
			good := newRegion(t, 4*span)
			bad, at := holed(t, span, syscall.PROT_NONE)
			readOnly, roAt := holed(t, span, syscall.PROT_READ)
			for _, shift := range []int{0, 1, n / 2, n - 1} {
				start, roStart := at-uintptr(shift), roAt-uintptr(shift)
				for _, c := range copiers {
					if n < c.min {
						continue
					}
					inHole(t, c.name+" from", faultOf(t, func() { c.f(good.addr, start, uintptr(n)) }), at, span)
					inHole(t, c.name+" to", faultOf(t, func() { c.f(start, good.addr, uintptr(n)) }), at, span)
					inHole(t, c.name+" to read-only", faultOf(t, func() { c.f(roStart, good.addr, uintptr(n)) }), roAt,
						span)
				}
				for _, f := range fillers {
					if n >= f.min {
						inHole(t, f.name, faultOf(t, func() { f.f(start, 0x01010101, uintptr(n)) }), at, span)
						inHole(t, f.name+" zero", faultOf(t, func() { f.f(roStart, 0, uintptr(n)) }), roAt, span)
					}
				}
				inHole(t, "ProbeRead", faultOf(t, func() { ProbeRead(start, uintptr(n)) }), at, span)
				ProbeRead(roStart, uintptr(n))
				if raceGeneric {
					continue
				}
				inHole(t, "ProbeWrite", faultOf(t, func() { ProbeWrite(start, uintptr(n)) }), at, span)
				inHole(t, "ProbeWrite read-only", faultOf(t, func() { ProbeWrite(roStart, uintptr(n)) }), roAt, span)
			}
			copy(bad.data, readOnly.data[:1]) // the memory around the holes still works
		}
	})
}

// TestFaultPastFileEnd has SIGBUS instead of SIGSEGV.
func TestFaultPastFileEnd(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	testenv.OK(t, err)
	defer file.Close()
	testenv.OK(t, file.Truncate(pageBytes))
	mem, err := syscall.Mmap(int(file.Fd()), 0, 64*pageBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	testenv.OK(t, err)
	defer syscall.Munmap(mem)
	good := newRegion(t, len(mem))
	n, addr := uintptr(len(mem)), addrOf(mem)
	past := addr + pageBytes
	inHole(t, "CopyStream from", faultOf(t, func() { CopyStream(good.addr, addr, n) }), past, len(mem))
	inHole(t, "CopyStream to", faultOf(t, func() { CopyStream(addr, good.addr, n) }), past, len(mem))
	inHole(t, "Copy", faultOf(t, func() { Copy(addr, good.addr, n) }), past, len(mem))
	inHole(t, "Fill8", faultOf(t, func() { Fill8(addr, 1, n) }), past, len(mem))
	inHole(t, "ProbeRead", faultOf(t, func() { ProbeRead(addr, n) }), past, len(mem))
	if !raceGeneric {
		inHole(t, "ProbeWrite", faultOf(t, func() { ProbeWrite(addr, n) }), past, len(mem))
	}
}

// TestFaultOutsideAddressSpace has addresses that no mapping can have. The
// kernel does not say which one it was, so only the panic is asked for.
func TestFaultOutsideAddressSpace(t *testing.T) {
	good := newRegion(t, 64*pageBytes)
	for _, addr := range []uintptr{1, 64, 1 << 47, 0xDEAD << 48, ^uintptr(0) - 1<<20} {
		for name, f := range map[string]func(){
			"Copy from":       func() { Copy(good.addr, addr, 64) },
			"Copy to":         func() { Copy(addr, good.addr, 64) },
			"CopyStream from": func() { CopyStream(good.addr, addr, 40<<10) },
			"CopyStream to":   func() { CopyStream(addr, good.addr, 40<<10) },
			"Fill8":           func() { Fill8(addr, 1, 40<<10) },
			"ProbeRead":       func() { ProbeRead(addr, 64) },
		} {
			func() {
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				defer func() {
					if _, ok := recover().(runtime.Error); !ok {
						t.Errorf("%s at %#x: no runtime.Error", name, addr)
					}
				}()
				f()
			}()
		}
	}
}

// TestFaultWhileCollecting unwinds through assembly while the collector scans
// and moves stacks.
func TestFaultWhileCollecting(t *testing.T) {
	const n = 64 << 10
	good := newRegion(t, n)
	_, at := holed(t, n, syscall.PROT_NONE)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range 200 {
		inHole(t, "CopyStream", faultOf(t, func() { grow(32, func() { CopyStream(at-n/2, good.addr, n) }) }), at, n)
	}
	close(stop)
	<-done
}

// grow runs f below depth large frames.
func grow(depth int, f func()) {
	var frame [256]byte
	if depth == 0 {
		f()
		return
	}
	grow(depth-1, f)
	runtime.KeepAlive(&frame)
}
