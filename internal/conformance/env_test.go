package conformance

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"ropeway/internal/abi"
	checker "ropeway/internal/check"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/process"
	"ropeway/internal/driver/faulty"
	"ropeway/internal/driver/soft"
	"ropeway/internal/observe"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
)

// env is a runtime of its own, on four small software devices or on GPUs, with a thread th that has device 0 set.
type env struct {
	*testing.T
	rt     *core.Runtime
	th     *core.Thread
	faults *faulty.Driver
}

// machine says what an env is like; the zero value is an A2.
type machine struct {
	product string  // as in product.Find, e.g. "310P" or "310B"
	form    string  // "EP" or "RC"
	visible *string // ASCEND_RT_VISIBLE_DEVICES
	home    string  // ASCEND_HOME_PATH
	devices int     // 0: 4
	bare    bool    // no device is set: th has no context
	strict  bool    // what the documents forbid is refused

	tracer observe.Tracer // may be nil
}

// checked makes all tests run under the checker: programs behave there as they do without it.
var checked = os.Getenv("ROPEWAY_TEST_CHECK") != ""

// countsOnHaste marks a test that counts on work that runs although nobody waits for it, or on the order in which the
// driver below is asked. It is skipped under the checker, which holds work back, lets it run before memory goes that
// it uses, and wants every wait, for the order it makes.
func countsOnHaste(t testing.TB) {
	t.Helper()
	if checked {
		t.Skip("it counts on work that runs although nobody waits for it")
	}
}

// newEnv makes an env that is closed when the test ends; where GPUs cannot be that machine, the test is skipped.
func newEnv(t *testing.T, m machine) *env {
	t.Helper()
	onlySoft(t)
	if onGPU && m.form == "RC" {
		t.Skip("not on a GPU: in form RC host and device share their memory, and a GPU has its own")
	}
	return makeEnv(t, m)
}

func makeEnv(t *testing.T, m machine) *env {
	t.Helper()
	p, err := product.Find(m.product, m.form)
	testenv.OK(t, err)
	if m.devices == 0 {
		m.devices = 4
	}
	open := coretest.Open
	if p.RC {
		open = coretest.OpenSoft
	}
	e := &env{T: t, faults: faulty.Wrap(open(t, soft.Options{Devices: m.devices, Memory: 256 << 20, Open: p.RC,
		Guard: checked}))}
	o := core.Options{Driver: e.faults, Product: p, Visible: m.visible, Home: m.home, Strict: m.strict,
		Probe: core.Probe{Trace: m.tracer}, Patience: 50 * time.Millisecond}
	if checked {
		c := checker.New(checker.Options{Driver: e.faults, Seed: 1, Patience: 5 * time.Millisecond})
		o.Driver, o.Probe.Check = c.Driver(), c
	}
	e.rt = core.New(o)
	t.Cleanup(func() {
		if err := e.rt.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	e.th = e.rt.NewThread(1)
	if !m.bare {
		e.ok(e.th.SetDevice(0))
	}
	return e
}

// on is another env: the same test on another machine. Beside GPUs, what is said of form RC is proven on software
// devices.
func (e *env) on(m machine) *env { e.Helper(); return makeEnv(e.T, m) }

// bare is another env whose thread has no context.
func bare(e *env) *env { e.Helper(); return e.on(machine{bare: true}) }

// stranger is a thread of the same process without a context.
func (e *env) stranger() *core.Thread { return e.rt.NewThread(2) }

// ok fails the test if a call did.
func (e *env) ok(err *core.Error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected: %v", err)
	}
}

// want fails the test unless a call ended with code.
func (e *env) want(err *core.Error, code abi.Code) {
	e.Helper()
	if got := codeOf(err); got != code {
		e.Fatalf("got %v (%v), want %v", got, err, code)
	}
}

func codeOf(err *core.Error) abi.Code {
	if err == nil {
		return abi.Success
	}
	return err.Code
}

// device and pinned allocate n bytes; they are freed with the env.
func (e *env) device(n uint64) core.Addr {
	e.Helper()
	var p core.Addr
	e.ok(memory.Malloc(e.th, &p, n, abi.MemMallocHugeFirst))
	return p
}

func (e *env) pinned(n uint64) core.Addr {
	e.Helper()
	var p core.Addr
	e.ok(memory.MallocHost(e.th, &p, n))
	return p
}

// pageable is n bytes of ordinary memory, at a multiple of 64.
func (e *env) pageable(n uint64) core.Addr {
	b := make([]byte, n+64)
	e.Cleanup(func() { _ = b[0] }) // alive as long as the test
	return (core.Addr(unsafe.Pointer(&b[0])) + 63) &^ 63
}

// bytes is pinned or pageable memory at p.
func bytes(p core.Addr, n uint64) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

// stream makes a stream.
func (e *env) stream() core.Handle {
	e.Helper()
	var s core.Handle
	e.ok(e.th.CreateStream(&s))
	return s
}

// blocked makes a stream whose work waits until the function returned is called (which is safe to call twice).
func (e *env) blocked() (core.Handle, func()) {
	e.Helper()
	s := e.stream()
	return s, e.block(s)
}

// block makes what follows on s wait until the function returned is called.
func (e *env) block(s core.Handle) func() {
	e.Helper()
	gate := make(chan struct{})
	e.ok(e.th.LaunchHostFunc(s, func(core.Addr) { <-gate }, 0))
	open := false
	release := func() {
		if !open {
			open = true
			close(gate)
		}
	}
	e.Cleanup(release)
	return release
}

// foreign is a live stream of another context than e.th's.
func (e *env) foreign() core.Handle {
	e.Helper()
	o := e.rt.NewThread(3)
	var c, s core.Handle
	e.ok(o.CreateContext(&c, 0))
	e.ok(o.CreateStream(&s))
	return s
}

const garbage = core.Handle(0x123456789)

// proof makes the call that breaks a rule and returns how it ended. The harness compares the code with the table.
type proof func(e *env) *core.Error

// proofMap has proofs by ruleID.
type proofMap map[string]proof

func (m proofMap) add(function, rule string, p proof) {
	id := ruleID(function, rule)
	if m[id] != nil {
		panic("proven twice: " + id)
	}
	m[id] = p
}

var (
	proofs     = proofMap{}
	beyond     = proofMap{} // of proveMore
	behaviours = map[string]func(e *env){}
)

// prove registers the proof of a rule. Where possible the call also breaks later rules of the function, so that the
// order is proven too.
func prove(function, rule string, p proof) { proofs.add(function, rule, p) }

// proveMore registers what a rule's expression cannot prove: that the rule decides before later ones that have no
// expression, or what a refused call leaves as it was.
func proveMore(function, rule string, p proof) { beyond.add(function, rule, p) }

// expressed are the rules that an expression proves, by ruleID.
var expressed = func() map[string]bool {
	known := map[string]bool{}
	for _, c := range ruleCases {
		known[ruleID(c.function, c.rule)] = true
	}
	return known
}()

// proveAny is prove, or proveMore for a rule with an expression.
func proveAny(function, rule string, p proof) {
	if expressed[ruleID(function, rule)] {
		proveMore(function, rule, p)
	} else {
		prove(function, rule, p)
	}
}

// behaves registers a test of what a function does when no rule applies.
func behaves(function string, f func(e *env)) {
	if behaviours[function] != nil {
		panic("described twice: " + function)
	}
	behaviours[function] = f
}

func ruleID(function, rule string) string { return function + "/" + rule }

// TestRules runs every proof and compares code, last error and message with the table: those that the generator makes
// of a rule's expression (rule_cases_test.go), and those of prove.
func TestRules(t *testing.T) {
	made := map[string][]ruleCase{}
	for _, c := range ruleCases {
		made[ruleID(c.function, c.rule)] = append(made[ruleID(c.function, c.rule)], c)
	}
	w := worlds{t, map[machine]*env{}}
	known := map[string]bool{}
	for _, c := range Cases {
		id := ruleID(c.Func, c.Rule)
		known[id] = true
		p, more, cases := proofs[id], beyond[id], made[id]
		if p != nil && cases != nil {
			t.Errorf("%s is proven by its expression; remove the proof by hand", id)
		}
		if more != nil && cases == nil {
			t.Errorf("%s has no expression; prove it", id)
		}
		if more != nil {
			t.Run(id+"/more", func(t *testing.T) {
				e := newEnv(t, machine{})
				check(t, c, e, more(e))
			})
		}
		switch {
		case cases != nil:
			t.Run(id, func(t *testing.T) {
				for _, k := range cases {
					e := w.at(t, k)
					err := k.run(e)
					check(t, c, e, err)
					if err != nil && k.at != "" && err.Arg != k.at {
						t.Errorf("the message is about %q, the rule about %q: %v", err.Arg, k.at, err)
					}
				}
			})
		case p != nil: // else TestNothingMissing sees to it
			t.Run(id, func(t *testing.T) {
				e := newEnv(t, machine{})
				check(t, c, e, p(e))
			})
		}
	}
	for _, all := range []proofMap{proofs, beyond} {
		for id := range all {
			if !known[id] {
				t.Errorf("%s is proven but not in the table", id)
			}
		}
	}
}

// TestNothingMissing fails when a rule that can apply has no proof, or a function without rules no description.
func TestNothingMissing(t *testing.T) {
	ruled := map[string]bool{}
	for _, c := range Cases {
		ruled[c.Func] = true
		id := ruleID(c.Func, c.Rule)
		if c.Mark != "needs" && c.Mark != "shadowed" && !expressed[id] && proofs[id] == nil {
			t.Errorf("%s: there is no proof that if %s", id, c.If)
		}
	}
	known := map[string]bool{}
	for _, f := range Functions {
		known[f.Name] = f.Status == "core"
		if known[f.Name] && !ruled[f.Name] && behaviours[f.Name] == nil {
			t.Errorf("%s: nothing says what it does", f.Name)
		}
	}
	for name := range behaviours {
		if !known[name] {
			t.Errorf("%s is described and not built", name)
		}
	}
}

// TestGoodCalls makes the call that the cases of a function break: no rule with an expression applies, and it
// succeeds, or ends with the rule that the table says (good: [rule R]).
func TestGoodCalls(t *testing.T) {
	for _, c := range ruleCases {
		if c.rule != "" || ruleCalls[c.function] == nil {
			continue
		}
		t.Run(c.function, func(t *testing.T) {
			e := newEnv(t, machine{product: c.product, form: c.form})
			if err := c.run(e); codeOf(err) != c.code {
				t.Errorf("%v on %s: %v, want %d", c.args, c.product, err, c.code)
			}
		})
	}
}

func check(t *testing.T, c Case, e *env, err *core.Error) {
	t.Helper()
	if codeOf(err) != c.Code {
		t.Fatalf("if %s: got %v, want %d", c.If, err, c.Code)
	}
	if err == nil {
		return
	}
	if err.API != c.Func {
		t.Errorf("the message names %s", err.API)
	}
	if !strings.HasPrefix(err.Error(), c.Func) || err.Text == "" && err.Err == nil {
		t.Errorf("the message says too little: %v", err)
	}
	recorded := c.Code/1000 == 107 || c.Code/1000 == 207 || c.Code/1000 == 507
	th := e.rt.NewThread(9)
	th.Done(err)
	want := abi.Success
	if recorded && !c.Quiet {
		want = c.Code
	}
	if got := process.PeekAtLastError(th, 0); got != want {
		t.Errorf("last error afterwards is %d, want %d", got, want)
	}
}

// TestBehaviour runs every description.
func TestBehaviour(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(behaviours)) {
		t.Run(name, func(t *testing.T) {
			behaviours[name](newEnv(t, machine{}))
		})
	}
}
