package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeway"
	"ropeway/internal/product"
	"ropeway/internal/testenv"
	"ropeway/internal/ui"
)

// names of all rows, in their order.
var names = []string{
	"host to device, pageable",
	"host to device, pinned",
	"device to host, pageable",
	"device to host, pinned",
	"within a device",
	"device 0 to device 1",
	"batch of 4096 x 4 KiB, scattered",
	"batch of 4096 x 256 B, scattered",
	"2-D, 3 KiB of every 4 KiB",
	"by descriptor, within a device",
}

func TestDemo(t *testing.T) {
	text := good(t, "demo", "--quick")
	plain(t, text)
	contains(t, text, "A2 (Ascend910B1), 2 soft devices, 16 MiB a copy", "OPERATION", "GB/s", "VS COPY()",
		"VS COPY(): times as fast as Go's copy()",
		"order    stream 2 waits for stream 1's event", "16 MiB verified",
		"mistake  16 MiB into 8 MiB: refused, 107000 ACL_ERROR_RT_PARAM_INVALID",
		"aclrtMemcpy: count: 16777216 bytes do not fit into destMax, 8388608",
		"every byte right", "try      ropeway info", "ropeway demo --product 310P", "ropeway demo --size 1GiB")
	rest := text
	for _, name := range names {
		_, after, found := strings.Cut(rest, "\n"+name)
		if !found {
			t.Fatalf("no row %q, or not in its place:\n%s", name, text)
		}
		line, _, _ := strings.Cut(after, "\n")
		if !strings.HasSuffix(line, "x  ok") {
			t.Errorf("%s: %q was not verified", name, line)
		}
		rest = after
	}
}

func TestDemoJSON(t *testing.T) {
	for _, name := range product.Names() {
		if testing.Short() && name != "A2" && name != "310" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p, err := product.Find(name, "")
			if err != nil {
				t.Fatal(err)
			}
			var r demoReport
			parse(t, good(t, "demo", "--quick", "--size", "1MB", "--product", name, "--json"), &r)
			if r.Product != name || r.Size != 1e6 || r.Devices != 2 || r.Driver != "soft" || r.Verified == 0 ||
				r.Seconds <= 0 {
				t.Errorf("%+v", r)
			}
			if len(r.Copies) != len(names) {
				t.Fatalf("%d rows", len(r.Copies))
			}
			has := map[string]bool{"device 0 to device 1": p.Peer, "by descriptor, within a device": p.DescSize > 0,
				"batch of 4096 x 4 KiB, scattered": p.Batch, "batch of 4096 x 256 B, scattered": p.Batch}
			for i, c := range r.Copies {
				want, some := has[c.Name]
				if c.Name != names[i] || c.Verified != (want || !some) || c.Verified != (c.Skipped == "") {
					t.Errorf("%+v", c)
				}
				if c.Verified && (c.Bytes <= 0 || c.Seconds <= 0 || c.GBPerSecond <= 0 || c.VsCopy <= 0 ||
					math.IsInf(c.VsCopy, 0)) {
					t.Errorf("%+v", c)
				}
			}
			if o := r.Order; !o.Verified || o.ConsumedSeconds < o.ProducedSeconds ||
				o.ProducedSeconds < slow.Seconds() {
				t.Errorf("%+v", o)
			}
			if m := r.Mistake; m.Code != 107000 || m.API != "aclrtMemcpy" || m.Text == "" {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestDemoSkips(t *testing.T) {
	text := good(t, "demo", "--quick", "--size", "64KiB", "--product", "310", "--devices", "1")
	plain(t, text)
	contains(t, text, "310 (Ascend310), 1 soft device, 64 KiB a copy",
		"device 0 to device 1                      -  needs two devices\n",
		"batch of 4096 x 4 KiB, scattered          -  not on the 310 (207000)\n",
		"by descriptor, within a device            -  not on the 310 (207000)\n")
	text = good(t, "demo", "--quick", "--size", "4KiB", "--product", "310B")
	plain(t, text)
	contains(t, text, "device 0 to device 1                      -  not on the 310B (207000)\n")
}

// direct runs a demo that flags cannot ask for.
func direct(t *testing.T, ctx context.Context, out, errs *bytes.Buffer, change func(*demoConfig)) error {
	t.Helper()
	p, err := product.Find("", "")
	if err != nil {
		t.Fatal(err)
	}
	c := demoConfig{product: p, devices: 2, size: 1 << 20, reps: 1}
	change(&c)
	a := &app{name: "ropeway", stdout: out, stderr: errs, lookup: env(nil)}
	return a.runDemo(ctx, c, false)
}

// TestDemoMismatch proves, for each operation, that a wrong byte is seen and named.
func TestDemoMismatch(t *testing.T) {
	for i, name := range append(names[:len(names):len(names)], "two streams") {
		if testing.Short() && i > 0 {
			break
		}
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			at := 0
			err := direct(t, t.Context(), &out, &errs, func(c *demoConfig) {
				c.read = func(op string, b []byte) {
					if op == name {
						at = len(b) - 1
						b[at] ^= 0x10
					}
				}
			})
			var m *mismatch
			var f *failure
			if !errors.As(err, &m) || m.off != at || m.got^m.want != 0x10 {
				t.Fatalf("byte %d was changed, got %v", at, err)
			}
			if !errors.As(err, &f) || f.next == "" || !strings.HasPrefix(err.Error(), name+": byte ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDemoHalves proves that a demo that does not fit becomes a smaller one.
func TestDemoHalves(t *testing.T) {
	testenv.Long(t, "it takes long")
	var out, errs bytes.Buffer
	err := direct(t, t.Context(), &out, &errs, func(c *demoConfig) { c.size, c.memory = 128<<20, 160<<20 })
	if err != nil {
		t.Fatal(err)
	}
	plain(t, out.String())
	contains(t, out.String(), "no room for copies of 128 MiB (207001), 64 MiB instead\n", "64 MiB a copy",
		"every byte right")

	out.Reset()
	err = direct(t, t.Context(), &out, &errs, func(c *demoConfig) { c.size, c.memory = 1<<20, 64<<20 })
	var f *failure
	if !errors.Is(err, ropeway.ErrRTMemoryAllocation) || !errors.As(err, &f) || !strings.Contains(f.next, "--size") {
		t.Errorf("a demo that cannot fit: %v", err)
	}

	out.Reset()
	err = direct(t, t.Context(), &out, &errs, func(c *demoConfig) { c.size, c.memory = math.MaxInt, 128<<20 })
	if err != nil {
		t.Fatal(err)
	}
	contains(t, out.String(), "no room for copies of 8388608 TiB (207001)", "every byte right")
}

// TestDemoInterrupt ends a demo at many moments.
func TestDemoInterrupt(t *testing.T) {
	for i := range 8 {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Duration(i)*25*time.Millisecond, func() { cancel(interrupted(syscall.SIGINT)) })
		stdout, stderr, code := callIn(ctx, "demo", "--quick")
		if code == exitOK && strings.Contains(stdout, "every byte right") {
			continue // it was faster
		}
		if code != 130 || stderr != "ropeway: interrupted\n" {
			t.Errorf("exit code %d, stderr %q", code, stderr)
		}
	}
}

// TestDemoTerminal looks at what a terminal shows: the same rows, coloured, and no trace of the bar.
func TestDemoTerminal(t *testing.T) {
	var out bytes.Buffer
	p, err := product.Find("", "")
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{ctx: t.Context(), out: &ui.Output{W: &out, Live: true, Color: true}, log: &out,
		demoConfig: demoConfig{product: p, devices: 2, size: 1 << 20, reps: 1}}
	if err := d.run(); err != nil {
		t.Fatal(err)
	}
	d.end("ropeway")
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	contains(t, out.String(), "\x1b[32mok\x1b[0m", "\x1b[1mOPERATION", "allocating memory", "100%")
	for _, line := range strings.Split(out.String(), "\n") {
		if i := strings.LastIndex(line, "\r"); i >= 0 && strings.Contains(line[i:], "%") {
			t.Errorf("the bar is left on the screen: %q", line[i:])
		}
	}
}
