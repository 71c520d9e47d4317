package apitest

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"ropeway"
	"ropeway/check"
	"ropeway/internal/abi"
)

// found keeps the findings of a runtime.
type found struct {
	mu sync.Mutex
	l  []check.Finding
}

func (f *found) add(one check.Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.l = append(f.l, one)
}

func (f *found) list() []check.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]check.Finding(nil), f.l...)
}

// checked is an option to check with all rules but some.
func (f *found) checked(off ...check.Rule) ropeway.Option {
	return check.With(check.Options{OnFinding: f.add, Off: off})
}

// line is the line of the test that calls it.
func line() int {
	_, _, n, _ := runtime.Caller(1)
	return n
}

// goProgram is a checked Go program: what it has, and where it made its mistake.
type goProgram struct {
	t         *testing.T
	rt        *ropeway.Runtime
	d         *ropeway.Device
	s, other  *ropeway.Stream
	mem, host *ropeway.Buffer
	fixed     bool
	wrong     int  // line of the mistake
	submitted int  // line of what it collides with
	keep      bool // nothing is freed at the end
}

// sync synchronises where no mistake is made.
func (p *goProgram) sync() {
	p.t.Helper()
	if p.fixed {
		ok(p.t, p.s.Synchronize(ctx))
	}
}

// end releases everything.
func (p *goProgram) end() {
	p.t.Helper()
	if p.keep {
		return
	}
	ok(p.t, p.d.Synchronize(ctx))
	ok(p.t, p.s.Close())
	ok(p.t, p.other.Close())
	for _, b := range []*ropeway.Buffer{p.mem, p.host} {
		if b != nil {
			ok(p.t, b.Close())
		}
	}
	ok(p.t, p.d.Close())
}

// TestCheck runs Go programs with one mistake each, which is found with the line of this file, and without it, which
// is silent.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		rule check.Rule
		name string
		call string // of the offence
		run  func(p *goProgram)
	}{
		{"host-read-in-flight", "Bytes before the copy is complete", "Buffer.Bytes", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.host.All(), p.mem.All()))
			p.sync()
			p.wrong = line() + 1
			p.host.Bytes()
		}},
		{"host-write-in-flight", "through a slice from before", "Stream.Copy", func(p *goProgram) {
			b := p.host.Bytes()
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.All(), p.host.All()))
			p.wrong = p.submitted // the writer is not known
			p.sync()
			b[100]++
		}},
		{"host-read-in-flight", "Device.Copy of what is coming", "Device.Copy", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.Range(0, 64), p.host.Range(0, 64)))
			p.sync()
			p.wrong = line() + 1
			ok(p.t, p.d.Copy(p.host.Range(1024, 64), p.mem.Range(0, 64)))
		}},
		{"stream-race", "two streams, no event", "Stream.Fill", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.All(), p.host.All()))
			if p.fixed {
				e := get(p.d.NewEvent())(p.t)
				ok(p.t, p.s.Record(e))
				ok(p.t, p.other.Wait(e))
				defer func() { ok(p.t, e.Close()) }()
			}
			p.wrong = line() + 1
			ok(p.t, p.other.Fill(p.mem.Range(64, 64), 7))
			ok(p.t, p.s.Synchronize(ctx))
			ok(p.t, p.other.Synchronize(ctx))
		}},
		{"free-in-flight", "a buffer", "Buffer.Close", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.All(), p.host.All()))
			p.sync()
			p.wrong = line() + 1
			ok(p.t, p.host.Close())
			p.host = nil
		}},
		{"double-free", "a buffer", "Buffer.Close", func(p *goProgram) {
			b := p.mem
			p.mem = nil
			ok(p.t, b.Close())
			if !p.fixed {
				p.wrong = line() + 1
				want(p.t, b.Close(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
			}
		}},
		{"use-after-free", "a buffer", "Stream.Copy", func(p *goProgram) {
			b := p.mem
			p.mem = nil
			if p.fixed {
				ok(p.t, p.s.Copy(b.All(), p.host.All()))
				ok(p.t, p.s.Synchronize(ctx))
			}
			ok(p.t, b.Close())
			if !p.fixed {
				p.wrong = line() + 1
				want(p.t, p.s.Copy(b.All(), p.host.All()), ropeway.ErrRTParamInvalid, "aclrtMemcpyAsync", "dst")
			}
		}},
		{"use-after-free", "a stream", "Stream.Copy", func(p *goProgram) {
			s := get(p.d.NewStream())(p.t)
			if p.fixed {
				ok(p.t, s.Copy(p.mem.All(), p.host.All()))
				ok(p.t, s.Synchronize(ctx))
			}
			ok(p.t, s.Close())
			if !p.fixed {
				p.wrong = line() + 1
				if s.Copy(p.mem.All(), p.host.All()) == nil {
					p.t.Error("a closed stream takes a copy")
				}
			}
		}},
		{"out-of-bounds", "a span", "Stream.Copy", func(p *goProgram) {
			n := 65
			if p.fixed {
				n = 64
			}
			p.wrong = line() + 1
			if err := p.s.Copy(p.mem.Range(4096-64, n), p.host.Range(0, 64)); (err == nil) != p.fixed {
				p.t.Errorf("the copy gives %v", err)
			}
		}},
		{"out-of-bounds", "a span that is too short", "Stream.Copy", func(p *goProgram) {
			n := 128
			if p.fixed {
				n = 64
			}
			p.wrong = line() + 1
			if err := p.s.Copy(p.mem.Range(0, 64), p.host.Range(0, n)); (err == nil) != p.fixed {
				p.t.Errorf("the copy gives %v", err)
			}
		}},
		{"out-of-bounds", "rows", "Stream.Copy2D", func(p *goProgram) {
			rows := 5
			if p.fixed {
				rows = 4
			}
			p.wrong = line() + 1
			if err := p.s.Copy2D(p.mem.All(), 1024, p.host.All(), 64, 64, rows); (err == nil) != p.fixed {
				p.t.Errorf("the copy gives %v", err)
			}
		}},
		{"unsynchronised-exit", "Close of the runtime", "Runtime.Close", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.All(), p.host.All()))
			p.sync()
			p.keep = !p.fixed
		}},
	} {
		for _, fixed := range []bool{false, true} {
			name := map[bool]string{false: "wrong", true: "right"}[fixed]
			t.Run(string(tt.rule)+"/"+tt.name+"/"+name, func(t *testing.T) {
				f := &found{}
				rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), f.checked())
				ok(t, err)
				p := &goProgram{t: t, rt: rt, fixed: fixed, d: get(rt.Device(0))(t)}
				p.s, p.other = get(p.d.NewStream())(t), get(p.d.NewStream())(t)
				p.mem, p.host = get(p.d.Alloc(4096))(t), get(p.d.AllocPinned(4096))(t)
				ok(t, p.d.Fill(p.mem.All(), 1))
				tt.run(p)
				p.end()
				ok(t, rt.Close())
				list := f.list()
				if fixed {
					for _, x := range list {
						t.Errorf("found %v", x)
					}
					return
				}
				if len(list) != 1 || list[0].Rule != tt.rule {
					for _, x := range list {
						t.Logf("found %v", x)
					}
					t.Fatalf("%d findings, want one of %s", len(list), tt.rule)
				}
				x := list[0]
				inLine := func(what string, s check.Site, want int) {
					t.Helper()
					if want == 0 {
						return
					}
					if len(s.Stack) == 0 || filepath.Base(s.Stack[0].File) != "check_test.go" ||
						s.Stack[0].Line < want || s.Stack[0].Line > want+1 {
						t.Errorf("%s: not in line %d: %v", what, want, x)
					}
				}
				inLine("the mistake", x.Offence, p.wrong)
				if x.Offence.Call != tt.call {
					t.Errorf("the call is %q, want %q", x.Offence.Call, tt.call)
				}
				if p.submitted != 0 {
					inLine("the other", x.Others[0], p.submitted)
				}
				if text := x.Summary + x.Advice; strings.Contains(text, "aclrt") || strings.Contains(text,
					"aclFinalize") {
					t.Errorf("names of C in: %s", x.String())
				}
			})
		}
	}
}

// careless leaves a copy that nothing waits for, and everything it has.
func careless(t *testing.T, rt *ropeway.Runtime) {
	t.Helper()
	d := get(rt.Device(0))(t)
	ok(t, d.DefaultStream().Copy(get(d.Alloc(64))(t).All(), get(d.AllocPinned(64))(t).All()))
	ok(t, rt.Close())
}

// TestCheckIsOff: without the checker, or without a rule, nothing is found, whatever the environment says.
func TestCheckIsOff(t *testing.T) {
	t.Setenv("ROPEWAY_CHECK", "1")
	f := &found{}
	for name, option := range map[string]ropeway.Option{
		"without": check.Without(), "off": f.checked("unsynchronised-exit"),
		"others": check.With(check.Options{Rules: []check.Rule{"stream-race"}, OnFinding: f.add}),
	} {
		var log bytes.Buffer
		careless(t, get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), option,
			ropeway.WithLogger(logTo(&log))))(t))
		if len(f.list()) != 0 || log.Len() != 0 {
			t.Errorf("%s: found %v, printed %s", name, f.list(), &log)
		}
	}
}

// TestCheckCloseFrees proves that what Close of the device or of the runtime frees is no leak.
func TestCheckCloseFrees(t *testing.T) {
	for _, closeDevice := range []bool{false, true} {
		f := &found{}
		rt := get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), f.checked()))(t)
		d := get(rt.Device(0))(t)
		mem, host, s := get(d.Alloc(64))(t), get(d.AllocPinned(64))(t), get(d.NewStream())(t)
		get(d.Register(make([]byte, 4096)))(t)
		get(d.NewEvent())(t)
		get(d.NewNotify())(t)
		get(get(d.NewPool(ropeway.PoolOptions{}))(t).Alloc(s, 64))(t)
		get(d.AllocPhysical(2 << 20))(t)
		get(d.Reserve(2 << 20))(t)
		ok(t, s.Copy(mem.All(), host.All()))
		ok(t, s.Synchronize(ctx))
		if closeDevice {
			ok(t, d.Close())
		}
		ok(t, rt.Close())
		for _, x := range f.list() {
			t.Errorf("found %v", x)
		}
	}
}

// TestCheckAdvice proves that advice is in the words of Go: what it names can be called, and helps.
func TestCheckAdvice(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		run        func(d *ropeway.Device, s *ropeway.Stream, host, mem *ropeway.Buffer)
	}{
		{"a stream with work", "Call Stream.Synchronize first if the work is wanted.",
			func(d *ropeway.Device, s *ropeway.Stream, host, mem *ropeway.Buffer) {
				ok(t, s.Copy(mem.All(), host.All()))
				s.Close() //nolint:errcheck // it says that work is dropped
			}},
		{"a stream of a closed device", "Close the device after the last use of what was made on it.",
			func(d *ropeway.Device, s *ropeway.Stream, host, mem *ropeway.Buffer) {
				ok(t, d.Close())
				s.Synchronize(ctx) //nolint:errcheck // the stream is gone
			}},
		{"a stream closed after its device",
			"Close it before its device: Device.Close and Runtime.Close take what was made there.",
			func(d *ropeway.Device, s *ropeway.Stream, host, mem *ropeway.Buffer) {
				ok(t, d.Close())
				s.Close() //nolint:errcheck // the stream is gone
			}},
	} {
		f := &found{}
		d := device(t, ropeway.WithDevices(1), f.checked("leak"))
		s, host, mem := get(d.NewStream())(t), get(d.AllocPinned(64))(t), get(d.Alloc(64))(t)
		tt.run(d, s, host, mem)
		if list := f.list(); len(list) == 0 || list[0].Advice != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, list, tt.want)
		}
	}
}

// TestCheckNamesExist proves that what findings call a function in a Go program is a method of this package.
func TestCheckNamesExist(t *testing.T) {
	types := map[string]any{}
	for _, v := range []any{&ropeway.Runtime{}, &ropeway.Device{}, &ropeway.Stream{}, &ropeway.Buffer{},
		&ropeway.Event{}, &ropeway.Notify{}, &ropeway.Graph{},
		&ropeway.Pool{}, &ropeway.Physical{}, &ropeway.Reservation{}, &ropeway.Descriptor{}} {
		types[reflect.TypeOf(v).Elem().Name()] = v
	}
	for _, name := range abi.GoNames() {
		typ, method, _ := strings.Cut(name, ".")
		v, known := types[typ]
		if !known {
			t.Errorf("%s: no type %s", name, typ)
			continue
		}
		if _, has := reflect.TypeOf(v).MethodByName(method); !has {
			t.Errorf("there is no method %s", name)
		}
	}
}

// logTo logs warnings as text.
func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// TestCheckRefuses: a rule that there is not is an error of Open, and every rule that there is says what it finds.
func TestCheckRefuses(t *testing.T) {
	for _, o := range []check.Options{{Rules: []check.Rule{"nonsense"}}, {Off: []check.Rule{"nonsense"}}} {
		rt, err := ropeway.Open(ropeway.WithDevices(1), check.With(o))
		if err == nil {
			rt.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%v gives %v", o, err)
		}
	}
	for _, r := range check.Rules() {
		if r.Catches() == "" {
			t.Errorf("%s catches nothing", r)
		}
	}
	if check.Rule("nonsense").Catches() != "" || len(check.Rules()) < 10 {
		t.Errorf("rules %v", check.Rules())
	}
}

// TestCheckFromTheEnvironment proves that ROPEWAY_CHECK checks a Go program too: findings are printed where warnings
// go, with the line of the program.
func TestCheckFromTheEnvironment(t *testing.T) {
	t.Setenv("ROPEWAY_CHECK", "seed=3")
	var log bytes.Buffer
	rt := get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20),
		ropeway.WithLogger(logTo(&log))))(t)
	careless(t, rt)
	for _, part := range []string{"unsynchronised-exit: the runtime is closed, and Stream.Copy (task 1 of stream 0) " +
		"was never synchronised",
		"check_test.go:", "Synchronise every stream (Device.Synchronize) before Runtime.Close", "seed 3", "1 finding"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("no %q in %s", part, &log)
		}
	}

	t.Setenv("ROPEWAY_CHECK", "seed=x")
	if rt, err := ropeway.Open(ropeway.WithDevices(1)); err == nil || !strings.Contains(err.Error(), "ROPEWAY_CHECK") {
		if err == nil {
			rt.Close()
		}
		t.Errorf("a bad variable gives %v", err)
	}
	t.Setenv("ROPEWAY_CHECK", "0")
	log.Reset()
	rt = get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithLogger(logTo(&log))))(t)
	careless(t, rt)
	if log.Len() != 0 {
		t.Errorf("switched off it prints %s", &log)
	}
}

// TestCheckFunctions proves that a function that a stream calls may use the buffers of its stream: what is queued
// before it is complete, what is queued after it waits for it.
func TestCheckFunctions(t *testing.T) {
	f := &found{}
	rt := get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), f.checked()))(t)
	d := get(rt.Device(0))(t)
	mem, host, s := get(d.Alloc(64))(t), get(d.AllocPinned(64))(t), get(d.NewStream())(t)
	ok(t, s.Fill(mem.All(), 7))
	ok(t, s.Copy(host.All(), mem.All()))
	var sum int
	ok(t, s.Call(func() {
		for _, b := range host.Bytes() {
			sum += int(b)
		}
	}))
	ok(t, s.Fill(mem.All(), 9))
	ok(t, s.Copy(host.All(), mem.All()))
	ok(t, s.Call(func() { host.Bytes()[0]++ }))
	ok(t, s.Copy(mem.All(), host.All()))
	ok(t, s.Synchronize(ctx))
	if sum != 7*64 {
		t.Errorf("the function saw %d", sum)
	}
	ok(t, s.Close())
	ok(t, mem.Close())
	ok(t, host.Close())
	ok(t, d.Close())
	ok(t, rt.Close())
	for _, x := range f.list() {
		t.Errorf("found %v", x)
	}
}
