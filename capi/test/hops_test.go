//go:build linux && amd64

package capitest

import (
	"bytes"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ropeway/internal/testenv"
)

// TestHops runs a small copy like the one before it, and a synchronisation when everything has run, instruction by
// instruction, and counts the functions that they enter. A copy enters at most ten up to the one that moves its bytes,
// and three on the way back; a synchronisation fourteen. Functions that the compiler inlines do not count, nor do those
// of the Go runtime. The fewest of three rounds count: the runtime may have the thread do something else in one.
func TestHops(t *testing.T) {
	if os.Getenv("ROPEWAY_TEST_DRIVER") == "cuda" {
		t.Skip("the limits are those of the software device")
	}
	program := compile(t, []string{"hops.c"})
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(program)
	cmd.Env = append(cleanEnv(), "GOGC=off") // no stack is made smaller meanwhile, which takes many steps
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("no process can be traced here: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it is still there
	p := &stepped{T: t, pid: cmd.Process.Pid}
	p.stop() // the program was loaded
	p.toSignal()
	p.functions = functions(t, p.pid, filepath.Join(toolkit(t), "lib64"))
	var copied, over []string
	for round := range 3 {
		if c := hops(p.step()); round == 0 || len(c) < len(copied) {
			copied = c
		}
		if o := hops(p.step()); round == 0 || len(o) < len(over) {
			over = o
		}
	}
	moved := slices.Index(copied, "runtime.memmove") + 1
	if moved == 0 || moved > 10 || len(copied) > 13 {
		t.Errorf("%d functions until bytes move, and %d in all:\n%s", moved, len(copied), strings.Join(copied, "\n"))
	}
	if len(over) < 4 || len(over) > 14 {
		t.Errorf("a synchronisation enters %d functions:\n%s", len(over), strings.Join(over, "\n"))
	}
	testenv.OK(t, syscall.PtraceDetach(p.pid))
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
}

// hops returns the functions of entered that count: those of ropeway, and the last memmove, which moves the bytes of a
// copy; others move a stack that grows, and the function is entered again.
func hops(entered []string) (counted []string) {
	for i, symbol := range entered {
		c := !strings.Contains(symbol, ".") && strings.HasPrefix(symbol, "acl")
		ours := strings.HasPrefix(symbol, "main.") || strings.HasPrefix(symbol, "ropeway/")
		moves := symbol == "runtime.memmove" && !slices.Contains(entered[i+1:], symbol)
		if (c || ours || moves) && !strings.Contains(symbol, ".deferwrap") {
			counted = append(counted, symbol)
		}
	}
	return slices.Compact(counted)
}

// stepped is a process that is run step by step. It sends itself hopSignal between the parts.
type stepped struct {
	*testing.T
	pid       int
	functions map[uint64]string // by where they begin
}

const hopSignal = syscall.SIGUSR1

// stop waits until the process stops, and returns by which signal.
func (p *stepped) stop() syscall.Signal {
	p.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.pid, &status, 0, nil); err != nil || !status.Stopped() {
		p.Fatalf("the process has not stopped: %v, %#x", err, status)
	}
	return status.StopSignal()
}

// toSignal lets the process run to its next signal to itself. Other signals are passed on.
func (p *stepped) toSignal() {
	p.Helper()
	for signal := syscall.Signal(0); signal != hopSignal; signal = p.stop() {
		testenv.OK(p, syscall.PtraceCont(p.pid, int(signal)))
	}
}

// step runs the process to its next signal to itself, and lists the functions that it enters. Other signals wait: they
// would be functions that are entered.
func (p *stepped) step() (entered []string) {
	p.Helper()
	const most = 1 << 20
	for range most {
		testenv.OK(p, syscall.PtraceSingleStep(p.pid))
		if p.stop() == hopSignal {
			return entered
		}
		var regs syscall.PtraceRegs
		testenv.OK(p, syscall.PtraceGetRegs(p.pid, &regs))
		if name, ok := p.functions[regs.Rip]; ok {
			entered = append(entered, name)
		}
	}
	p.Fatal("there is no end to it")
	return nil
}

// functions are those of the libraries of the toolkit, by where they begin in a process.
func functions(t *testing.T, pid int, dir string) map[uint64]string {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	testenv.OK(t, err)
	all := map[uint64]string{}
	for _, name := range []string{"libascendcl.so", "libropeway_core.so"} {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		testenv.OK(t, err)
		var base uint64
		for line := range strings.Lines(string(maps)) {
			if strings.HasSuffix(strings.TrimSpace(line), path) {
				fmt.Sscanf(line, "%x-", &base)
				break
			}
		}
		if base == 0 {
			t.Fatalf("%s is not loaded", path)
		}
		for name, at := range symbols(t, path) {
			all[base+at] = name
		}
	}
	return all
}

// symbols are the functions of a library, by where they begin: those that are exported, and all that are Go's.
func symbols(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(path)
	testenv.OK(t, err)
	defer f.Close()
	all := map[string]uint64{}
	dynamic, err := f.DynamicSymbols()
	testenv.OK(t, err)
	for _, s := range dynamic {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value != 0 {
			all[s.Name] = s.Value
		}
	}
	section := f.Section(".gopclntab")
	if section == nil {
		return all
	}
	data, err := section.Data()
	testenv.OK(t, err)
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, 0))
	testenv.OK(t, err)
	// The table counts from where Go's code begins. Functions that are exported to C have both places.
	var begin uint64
	for _, fn := range table.Funcs {
		if at, ok := all[fn.Name]; ok {
			begin = at - fn.Entry
		}
	}
	for _, fn := range table.Funcs {
		all[fn.Name] = begin + fn.Entry
	}
	return all
}
