package ropeway_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"ropeway"
	"ropeway/internal/finding"
)

// found keeps the findings of a runtime, which come as JSON.
type found struct {
	t  testing.TB
	mu sync.Mutex
	l  []finding.Finding
}

func (f *found) add(b []byte) {
	var one finding.Finding
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&one); err != nil {
		f.t.Errorf("%v in %s", err, b)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.l = append(f.l, one)
}

func (f *found) list() []finding.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]finding.Finding(nil), f.l...)
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
	keep      bool // nothing is given back at the end
}

// sync synchronises where no mistake is made.
func (p *goProgram) sync() {
	p.t.Helper()
	if p.fixed {
		ok(p.t, p.s.Synchronize(ctx))
	}
}

// end gives everything back.
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
			ok(p.t, b.Free())
		}
	}
	ok(p.t, p.d.Close())
}

// TestCheck runs Go programs with one mistake each, which is found with the line of this file, and without it, which is silent.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		rule, name string
		call       string // of the offence
		run        func(p *goProgram)
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
			p.wrong = p.submitted // who wrote is not known
			p.sync()
			b[100]++
		}},
		{"host-read-in-flight", "Device.Copy of what is coming", "Device.Copy", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.At(0, 64), p.host.At(0, 64)))
			p.sync()
			p.wrong = line() + 1
			ok(p.t, p.d.Copy(p.host.At(1024, 64), p.mem.At(0, 64)))
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
			ok(p.t, p.other.Fill(p.mem.At(64, 64), 7))
			ok(p.t, p.s.Synchronize(ctx))
			ok(p.t, p.other.Synchronize(ctx))
		}},
		{"free-in-flight", "a buffer", "Buffer.Free", func(p *goProgram) {
			p.submitted = line() + 1
			ok(p.t, p.s.Copy(p.mem.All(), p.host.All()))
			p.sync()
			p.wrong = line() + 1
			ok(p.t, p.host.Free())
			p.host = nil
		}},
		{"double-free", "a buffer", "Buffer.Free", func(p *goProgram) {
			b := p.mem
			p.mem = nil
			ok(p.t, b.Free())
			if !p.fixed {
				p.wrong = line() + 1
				want(p.t, b.Free(), ropeway.ErrRTParamInvalid, "aclrtFree", "devPtr")
			}
		}},
		{"use-after-free", "a buffer", "Stream.Copy", func(p *goProgram) {
			b := p.mem
			p.mem = nil
			if p.fixed {
				ok(p.t, p.s.Copy(b.All(), p.host.All()))
				ok(p.t, p.s.Synchronize(ctx))
			}
			ok(p.t, b.Free())
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
			if err := p.s.Copy(p.mem.At(4096-64, n), p.host.At(0, 64)); (err == nil) != p.fixed {
				p.t.Errorf("the copy gives %v", err)
			}
		}},
		{"out-of-bounds", "a span that is too short", "Stream.Copy", func(p *goProgram) {
			n := 128
			if p.fixed {
				n = 64
			}
			p.wrong = line() + 1
			if err := p.s.Copy(p.mem.At(0, 64), p.host.At(0, n)); (err == nil) != p.fixed {
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
		{"pageable-async", "an ordinary slice", "Stream.Copy", func(p *goProgram) {
			src := p.host.At(0, 64)
			if !p.fixed {
				src = ropeway.Host(make([]byte, 64))
			}
			p.wrong = line() + 1
			ok(p.t, p.s.Copy(p.mem.At(0, 64), src))
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
			t.Run(tt.rule+"/"+tt.name+"/"+name, func(t *testing.T) {
				f := &found{t: t}
				rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithCheck("1", f.add))
				ok(t, err)
				p := &goProgram{t: t, rt: rt, fixed: fixed, d: get(rt.Device(0))(t)}
				p.s, p.other = get(p.d.NewStream())(t), get(p.d.NewStream())(t)
				p.mem, p.host = get(p.d.Alloc(4096))(t), get(p.d.AllocHost(4096))(t)
				ok(t, p.d.Fill(p.mem.All(), 1))
				tt.run(p)
				p.end()
				ok(t, rt.Close())
				list := f.list()
				if fixed {
					for _, x := range list {
						t.Errorf("found %s", finding.Layout{}.Text(&x))
					}
					return
				}
				if len(list) != 1 || list[0].Rule != tt.rule {
					for _, x := range list {
						t.Logf("found %s", finding.Layout{}.Text(&x))
					}
					t.Fatalf("%d findings, want one of %s", len(list), tt.rule)
				}
				x := list[0]
				inLine := func(what string, s finding.Site, want int) {
					t.Helper()
					if want == 0 {
						return
					}
					if len(s.Stack) == 0 || filepath.Base(s.Stack[0].File) != "check_test.go" || s.Stack[0].Line < want || s.Stack[0].Line > want+1 {
						t.Errorf("%s: not in line %d: %s", what, want, finding.Layout{}.Text(&x))
					}
				}
				inLine("the mistake", x.Offence, p.wrong)
				if x.Offence.Call != tt.call {
					t.Errorf("the call is %q, want %q", x.Offence.Call, tt.call)
				}
				if p.submitted != 0 {
					inLine("the other", x.Others[0], p.submitted)
				}
				if text := x.Summary + x.Advice; strings.Contains(text, "aclrt") || strings.Contains(text, "aclFinalize") {
					t.Errorf("names of C in: %s", finding.Layout{}.Text(&x))
				}
			})
		}
	}
}

// careless leaves a copy behind that nobody waits for, and everything it has.
func careless(t *testing.T, rt *ropeway.Runtime) {
	t.Helper()
	d := get(rt.Device(0))(t)
	ok(t, d.DefaultStream().Copy(get(d.Alloc(64))(t).All(), get(d.AllocHost(64))(t).All()))
	ok(t, rt.Close())
}

// TestWithCheckIsOff proves that an empty text, or a rule that is left out, finds nothing, whatever the environment says.
func TestWithCheckIsOff(t *testing.T) {
	t.Setenv("ROPEWAY_CHECK", "1")
	for _, how := range []string{"", "no=unsynchronised-exit"} {
		f := &found{t: t}
		var log bytes.Buffer
		careless(t, get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithCheck(how, f.add), ropeway.WithLog(&log)))(t))
		if len(f.list()) != 0 || log.Len() != 0 {
			t.Errorf("%q: found %v, printed %s", how, f.list(), &log)
		}
	}
}

// TestCheckCloseFrees proves that what Close of the device or of the runtime frees is no leak.
func TestCheckCloseFrees(t *testing.T) {
	for _, closeDevice := range []bool{false, true} {
		f := &found{t: t}
		rt := get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithCheck("1", f.add)))(t)
		d := get(rt.Device(0))(t)
		mem, host, s := get(d.Alloc(64))(t), get(d.AllocHost(64))(t), get(d.NewStream())(t)
		get(d.Register(make([]byte, 4096)))(t)
		get(d.NewEvent())(t)
		get(d.NewNotify())(t)
		get(get(d.NewPool(ropeway.PoolOptions{}))(t).Alloc(s, 64))(t)
		get(d.NewMemory(2 << 20))(t)
		get(d.Reserve(2 << 20))(t)
		ok(t, s.Copy(mem.All(), host.All()))
		ok(t, s.Synchronize(ctx))
		if closeDevice {
			ok(t, d.Close())
		}
		ok(t, rt.Close())
		for _, x := range f.list() {
			t.Errorf("found %s", finding.Layout{}.Text(&x))
		}
	}
}

// TestCheckNamesExist proves that what findings call a function in a Go program is a method of this package.
func TestCheckNamesExist(t *testing.T) {
	types := map[string]any{}
	for _, v := range []any{&ropeway.Runtime{}, &ropeway.Device{}, &ropeway.Stream{}, &ropeway.Buffer{}, &ropeway.Event{}, &ropeway.Notify{},
		&ropeway.Pool{}, &ropeway.Memory{}, &ropeway.Range{}, &ropeway.Descriptor{}} {
		types[reflect.TypeOf(v).Elem().Name()] = v
	}
	for _, name := range finding.GoNames() {
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

func TestWithCheckRefuses(t *testing.T) {
	for _, how := range []string{"seed=x", "2", "no=nonsense", "depth=0"} {
		rt, err := ropeway.Open(ropeway.WithDevices(1), ropeway.WithCheck(how, nil))
		if err == nil {
			rt.Close()
			t.Errorf("%q is taken", how)
		}
	}
}

// TestCheckFromTheEnvironment proves that ROPEWAY_CHECK checks a Go program too: findings are printed where warnings go, with
// the line of the program.
func TestCheckFromTheEnvironment(t *testing.T) {
	t.Setenv("ROPEWAY_CHECK", "seed=3")
	var log bytes.Buffer
	rt := get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithLog(&log)))(t)
	careless(t, rt)
	for _, part := range []string{"unsynchronised-exit: the runtime is closed, and Stream.Copy (task 1 of stream 0) was never synchronised",
		"check_test.go:", "Synchronise every stream (Device.Synchronize) before Runtime.Close", "seed 3", "1 finding\n"} {
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
	rt = get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithLog(&log)))(t)
	careless(t, rt)
	if log.Len() != 0 {
		t.Errorf("switched off it prints %s", &log)
	}
}

// TestCheckFunctions proves that a function that a stream calls may use the buffers of its stream: what is queued before it is
// complete, what is queued behind it waits for it.
func TestCheckFunctions(t *testing.T) {
	f := &found{t: t}
	rt := get(ropeway.Open(ropeway.WithDevices(1), ropeway.WithDeviceMemory(64<<20), ropeway.WithCheck("1", f.add)))(t)
	d := get(rt.Device(0))(t)
	mem, host, s := get(d.Alloc(64))(t), get(d.AllocHost(64))(t), get(d.NewStream())(t)
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
	ok(t, mem.Free())
	ok(t, host.Free())
	ok(t, d.Close())
	ok(t, rt.Close())
	for _, x := range f.list() {
		t.Errorf("found %s", finding.Layout{}.Text(&x))
	}
}
