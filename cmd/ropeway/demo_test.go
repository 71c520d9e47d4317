package main

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/product"
	"ropeway/internal/setup"
	"ropeway/internal/testenv"
	"ropeway/internal/ui"
)

// demoRows are the kinds of copies, in their order.
var demoRows = []string{
	"host to device, pinned", "host to device, pageable", "device to host, pinned", "device to host, pageable",
	"within a device", "device 0 to device 1", "host to device, batch of 4 KiB", "host to device, batch of 256 B",
}

// TestDemo: a finding and bytes that were compared come before any speed, in lines that fit, and every copy is right.
func TestDemo(t *testing.T) {
	text := good(t, "demo", "--quick")
	plain(t, text)
	rest := text
	for _, want := range append([]string{
		"A race: ", "  error: stream-race: Stream.Copy (task 2 of stream 2) reads 16777216 bytes", "(*demo).handOver",
		"what to do: Record an event", "\nCorrected, with an event between them: no findings.", "16 MiB verified",
		"16 MiB into 8 MiB: refused", "107000 ACL_ERROR_RT_PARAM_INVALID: aclrtMemcpy: count: 16777216",
		"Copies of 16 MiB, A2", "GB/s\n",
	}, append(demoRows, "compared, every byte right", "ropeway bench")...) {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q, or not in its place:\n%s", want, text)
		}
		rest = after
	}
	if strings.Count(text, "  ok\n") != len(demoRows) || strings.Contains(text, "#1") {
		t.Errorf("not every copy is right, or there are outer frames:\n%s", text)
	}
}

func TestDemoSkips(t *testing.T) {
	text := good(t, "demo", "--quick", "--size", "64KiB", "--product", "310", "--devices", "1")
	plain(t, text)
	contains(t, text, "Copies of 64 KiB, 310", "\n  device 0 to device 1: needs 2 devices\n",
		"\n  host to device, batch of 4 KiB: not on the 310 (207000)\n")
}

// TestDemoHalves proves that a demo that does not fit becomes a smaller one.
func TestDemoHalves(t *testing.T) {
	t.Setenv(setup.EnvDeviceMemory, "256M")
	text := good(t, "demo", "--quick", "--size", "256MiB")
	plain(t, text)
	contains(t, text, "Copies of 32 MiB, ", "There is no room for copies of 256 MiB here.\n", "every byte right")
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
	testenv.OK(t, err)
	d := &demo{ctx: t.Context(), out: &ui.Output{W: &out, Live: true, Color: true}, log: &out, product: p, devices: 2,
		size: 1 << 20}
	testenv.OK(t, d.showCopies())
	contains(t, out.String(), "\x1b[32mok\x1b[0m", "\x1b[1mCopies of 1 MiB, A2", "100%")
	for _, line := range strings.Split(out.String(), "\n") {
		if i := strings.LastIndex(line, "\r"); i >= 0 && strings.Contains(line[i:], "%") {
			t.Errorf("the bar is left on the screen: %q", line[i:])
		}
	}
}
