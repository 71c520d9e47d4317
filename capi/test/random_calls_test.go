package capitest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ropeway/internal/randprog"
	"ropeway/internal/testenv"
	"ropeway/spec/table"
)

// left are functions that callProgram leaves out: they end the library, wait for what no other call does, jump, which
// may loop for ever, or run code of their arguments.
var left = map[string]bool{
	"aclInit": true, "aclAppLog": true, "aclFinalize": true, "aclFinalizeReference": true,
	"aclrtStreamWaitEvent": true, "aclrtValueWait": true, "aclrtCmoWaitBarrier": true, "rtNotifyWait": true,
	"aclrtTaskUpdateAsync": true, "aclrtSwitchStream": true, "aclrtSwitchLabelByIndex": true, "aclrtStreamStop": true,
	"aclmdlRIAddCondTask": true,
	"aclrtRandomNumAsync": true, "aclrtSetStreamAttribute": true, "aclrtSubscribeHostFunc": true,
	"aclrtLaunchHostFunc": true, "aclrtLaunchCallback": true, "aclrtSubscribeReport": true,
	"aclrtApiInjectionSetFunc":            true, // sets code of its arguments
	"aclrtApiInjectionGetFunc":            true, // the shim reads and writes its arguments, where no fault is caught
	"aclrtCntNotifyWaitWithTimeout":       true, // the limit is in a structure
	"aclrtSynchronizeEvent":               true, // a record on a persistent stream runs in no model
	"aclmdlRIGetTasksByStream":            true, // fills a list of any length
	"aclrtKernelArgsGetPlaceHolderBuffer": true, // memory of the runtime, which calls would overrun
}

func callable(f *table.Function) bool {
	return f.Status == table.Core && !left[f.Name] && !strings.HasPrefix(f.Name, "aclrtAllocator")
}

// callProgram returns a program of n calls of any functions by several threads. Its results do not matter: a crash or a
// hang is a fault. Arguments are handles and memory of other calls, in use or freed, or any number.
func callProgram(seed uint64, t *table.Table, threads, n int) *randprog.Program {
	c := &caller{Rand: rand.New(rand.NewPCG(seed, 2)), table: t, slots: map[string]int{}}
	c.p = &randprog.Program{Seed: seed, Devices: 2, Threads: threads, Slots: 1}
	c.p.Product = pick(c.Rand, []string{"A2", "A3", "950"})
	var list []*table.Function
	for _, f := range t.Functions {
		if callable(f) {
			list = append(list, f)
		}
	}
	makes := slices.DeleteFunc(slices.Clone(list), func(f *table.Function) bool {
		return !slices.ContainsFunc(f.C.Params, func(p table.Param) bool {
			return c.isHandle(p.Type.Base) && p.Type.Pointers == 1
		})
	})
	for thread := range threads {
		c.add(thread, "aclrtSetDevice %d", thread%2)
		c.add(thread, "idle %s", c.handle("aclrtBinHandle", "&"))
		for range handles {
			c.add(thread, `aclrtBinaryGetFunction %s "idle" %s`, c.handle("aclrtBinHandle", "#"),
				c.handle("aclrtFuncHandle", "&"))
			c.add(thread, "aclrtMalloc %s %d 0", c.handle("void", "&"), 4096<<c.IntN(10))
			c.add(thread, "aclrtCreateStream %s", c.handle("aclrtStream", "&"))
		}
	}
	for range n {
		f := pick(c.Rand, list)
		if c.IntN(3) == 0 {
			f = pick(c.Rand, makes)
		}
		var args []string
		for i := range f.C.Params {
			args = append(args, c.argument(f, &f.C.Params[i]))
		}
		c.add(c.IntN(threads), "%s %s", f.Name, strings.Join(args, " "))
	}
	return c.p
}

// handles is how many handles of a type the threads share.
const handles = 4

type caller struct {
	*rand.Rand
	p     *randprog.Program
	table *table.Table
	slots map[string]int // first slot of each type of handles
}

func (c *caller) add(thread int, format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...)) + " = *"
	c.p.Lines = append(c.p.Lines, randprog.Line{Thread: thread, Text: text})
}

func (c *caller) isHandle(base string) bool {
	kind, _ := c.table.KindOf(base)
	return kind == table.HandleType || base == "aclmdlRICondHandle" || base == "aclrtDrvMemHandle"
}

// handle returns a reference, "#" or "&", to a slot of a type; "void" is memory.
func (c *caller) handle(base, sign string) string {
	first, ok := c.slots[base]
	if !ok {
		first = c.p.Slots
		c.p.Slots += handles
		c.slots[base] = first
	}
	return fmt.Sprint(sign, first+c.IntN(handles))
}

// edge returns the address of n bytes before a page that is not there.
func (c *caller) edge() string { return fmt.Sprint("@e", pick(c.Rand, []int{8, 64, 64, 512, 4096, 4})) }

// argument draws a value for a parameter, mostly one that it may have.
func (c *caller) argument(f *table.Function, p *table.Param) string {
	kind, _ := c.table.KindOf(p.Type.Base)
	name := strings.ToLower(p.Name)
	function := p.Type.Func != nil || kind == table.FuncType
	if wild := c.IntN(40); wild < 3 && !function && !strings.Contains(name, "timeout") {
		return []string{"0", "@g", pick(c.Rand, []string{"1", "18446744073709551615"})}[wild]
	}
	switch {
	case function:
		return pick(c.Rand, []string{"@n", "@n", "@n", "0"})
	case c.isHandle(p.Type.Base) && p.Type.Pointers == 0:
		if c.IntN(12) == 0 {
			return pick(c.Rand, []string{"0", c.handle("void", "#"), c.handle("aclrtEvent", "#")})
		}
		return c.handle(p.Type.Base, "#")
	case c.isHandle(p.Type.Base) && p.Type.Pointers == 1 && !p.Type.Const:
		return c.handle(p.Type.Base, "&")
	case p.Type.Base == "void" && p.Type.Pointers == 2 && !p.Type.Const:
		return c.handle("void", "&")
	case p.Type.Base == "void" && p.Type.Pointers == 1:
		switch c.IntN(6) {
		case 0:
			return c.edge()
		case 1:
			return c.handle("void", "#") + fmt.Sprint("+", c.IntN(70_000))
		}
		return c.handle("void", "#")
	case p.Type.Base == "char" && p.Type.Const:
		return pick(c.Rand, []string{`"idle"`, `"none"`, `""`, `"/dev/null"`, `"/nonexistent/x"`, "@e1"})
	case p.Type.Pointers > 0 && p.Type.Const && c.IntN(2) == 0:
		return c.list()
	case p.Type.Pointers > 0:
		return c.edge()
	case strings.Contains(name, "timeout"):
		return "1"
	case strings.Contains(name, "threadid"):
		return "@r"
	case f.Name == "aclrtSetDevice" || strings.Contains(name, "device"):
		return fmt.Sprint(c.IntN(3))
	case kind == table.EnumType:
		return fmt.Sprint(c.IntN(6))
	}
	large := "4294967295"
	if p.Type.Base == "size_t" || p.Type.Base == "uint64_t" {
		large = "268435456" // memory of 4 GiB takes long to fill
	}
	return pick(c.Rand, []string{"0", "1", "1", "2", "3", "4", "8", "16", "32", "64", "100", "4096", "65536", "2097152",
		large, "1099511627776", "18446744073709551615"})
}

// list returns an array of words, some of them handles or addresses.
func (c *caller) list() string {
	words := make([]string, 16)
	for i := range words {
		switch c.IntN(4) {
		case 0:
			words[i] = c.handle("void", "#")
		case 1:
			words[i] = fmt.Sprint(1 + c.IntN(300))
		default:
			words[i] = fmt.Sprint(c.IntN(2))
		}
	}
	return "[ " + strings.Join(words, " ") + " ]"
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// TestCalls proves that random calls reach all functions that may be called at random.
func TestCalls(t *testing.T) {
	all, err := table.Load()
	testenv.OK(t, err)
	seen := map[string]bool{}
	for seed := range uint64(20) {
		for _, l := range callProgram(seed, all, 4, 1000).Lines {
			name, _, _ := strings.Cut(l.Text, " ")
			seen[name] = true
		}
	}
	for _, f := range all.Functions {
		if want := callable(f); want != seen[f.Name] {
			t.Errorf("%s is called: %v", f.Name, !want)
		}
	}
}
