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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestHops proves the table of docs/architecture.md with what a small copy calls, and the list of what a
// synchronisation calls: it runs both instruction by instruction, and sees which functions are entered. A copy takes at
// most ten to where its bytes are, a synchronisation twelve.
func TestHops(t *testing.T) {
	if os.Getenv("ROPEWAY_TEST_DRIVER") == "cuda" {
		t.Skip("the table is that of the software device")
	}
	copied, over := hopsOfPage(t)
	if len(copied.there) > 10 || len(over.there) > 12 {
		t.Errorf("%d steps for a copy, %d for a synchronisation", len(copied.there), len(over.there))
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
	copied.compare(t, p.step())
	over.compare(t, p.step())
	if err := syscall.PtraceDetach(p.pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
}

// hops are the functions that a call enters.
type hops struct{ there, back []string }

// compare fails if other functions were entered.
func (h hops) compare(t *testing.T, entered []string) {
	t.Helper()
	var got []string
	for _, name := range entered {
		last := ""
		if len(got) > 0 {
			last = got[len(got)-1]
		}
		switch hop := hopName(name); {
		case hop == "" || hop == last: // entered again, on a larger stack
		case hop == "memmove" && last != "Driver.copyNow": // of the runtime
		default:
			got = append(got, hop)
		}
	}
	if want := slices.Concat(h.there, h.back); !slices.Equal(got, want) {
		t.Errorf("entered:\n%s\nwhere docs/architecture.md has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// hopName is a function as the page calls it; "" if it does not count.
func hopName(symbol string) string {
	if symbol == "runtime.memmove" {
		return "memmove"
	}
	ours := strings.HasPrefix(symbol, "main.") || strings.HasPrefix(symbol, "ropeway/")
	c := !strings.Contains(symbol, ".") && strings.HasPrefix(symbol, "acl")
	if !ours && !c || strings.Contains(symbol, ".deferwrap") {
		return ""
	}
	pkg, name, _ := strings.Cut(symbol[strings.LastIndex(symbol, "/")+1:], ".")
	switch {
	case c:
		return symbol
	case strings.HasPrefix(name, "(*"): // methods without their package: types are said to be exported
		name = strings.NewReplacer("(*", "", ")", "").Replace(name)
		return strings.ToUpper(name[:1]) + name[1:]
	case pkg == "transfer":
		return pkg + "." + name
	}
	return name
}

// hopsOfPage reads what docs/architecture.md has.
func hopsOfPage(t *testing.T) (copied, over hops) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("What a small copy calls"))
	text, _, _ = bytes.Cut(text, []byte("\n## "))
	table, after, _ := bytes.Cut(text, []byte("On the way back:"))
	back, sync, _ := bytes.Cut(after, []byte("\n\n"))
	back, _, _ = bytes.Cut(back, []byte(". All but"))
	sync, syncBack, _ := bytes.Cut(sync, []byte("On the way back:"))
	for _, m := range regexp.MustCompile("(?m)^\\| [0-9]+ \\| `([^`]+)`").FindAllSubmatch(table, -1) {
		copied.there = append(copied.there, string(m[1]))
	}
	copied.back = quoted(back)
	if len(copied.there) < 4 {
		t.Fatal("the page has no table")
	}
	for _, name := range copied.there[:4] {
		over.there = append(over.there, strings.Replace(name, "aclrtMemcpyAsync", "aclrtSynchronizeStream", 1))
	}
	over.there = append(over.there, quoted(sync)[1:]...)
	over.back = quoted(syncBack)
	return copied, over
}

// quoted is what a text has between backticks.
func quoted(text []byte) (list []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(text, -1) {
		list = append(list, string(m[1]))
	}
	return list
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
		if err := syscall.PtraceCont(p.pid, int(signal)); err != nil {
			p.Fatal(err)
		}
	}
}

// step runs the process to its next signal to itself, and lists the functions that it enters. Other signals wait: they
// would be functions that are entered.
func (p *stepped) step() (entered []string) {
	p.Helper()
	const most = 1 << 20
	for range most {
		if err := syscall.PtraceSingleStep(p.pid); err != nil {
			p.Fatal(err)
		}
		if p.stop() == hopSignal {
			return entered
		}
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(p.pid, &regs); err != nil {
			p.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]string{}
	for _, name := range []string{"libascendcl.so", "libropeway_core.so"} {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]uint64{}
	dynamic, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, 0))
	if err != nil {
		t.Fatal(err)
	}
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
