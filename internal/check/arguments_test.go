package check

import (
	"strings"
	"testing"

	"ropeway/internal/core"
	"ropeway/internal/core/launch"
	"ropeway/internal/core/memory"
	"ropeway/internal/core/transfer"
	"ropeway/internal/finding"
)

// TestKernelArguments: arguments in device memory are read when the kernel runs, and are in flight until then.
func TestKernelArguments(t *testing.T) {
	const size = 24
	for _, tt := range []struct {
		name, rule string
		does       func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr)
		want       string // in the summary
	}{
		{"right", "", func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
			launch(args, size)
			p.ok(p.SynchronizeDevice())
			p.ok(memory.Free(p.Thread, p.gone(args)))
		}, ""},
		{"freed before", "use-after-free",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
				p.ok(memory.Free(p.Thread, p.gone(args)))
				launch(args, size)
			}, "kernel k is given arguments in device memory that was freed"},
		{"freed while queued", "free-in-flight",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
				launch(args, size)
				p.ok(memory.Free(p.Thread, p.gone(args)))
			}, "that a pending kernel k of "},
		{"too long", "out-of-bounds",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) { launch(args, 128) },
			"64 bytes past the end of 64 bytes of device memory would be read"},
		{"written on another stream", "stream-race",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
				p.up(args, host, size, p.stream())
				launch(args, size)
			}, "24 bytes"},
		{"overwritten while queued", "host-write-in-flight",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
				launch(args, size)
				p.ok(transfer.Memset(p.Thread, args, 64, 0, 64))
			}, "writes 24 bytes that a pending kernel k of "},
		{"never written", "uninitialised-read",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
				launch(p.raw(64), size)
			},
			"24 bytes of device memory are read as arguments of kernel k that were never written"},
		{"on the host", "wrong-direction",
			func(p *program, launch func(at core.Addr, size uint64), args, host core.Addr) {
				launch(p.mapped(4096), size)
			},
			"kernel k is given arguments in host memory that is neither pinned nor registered"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := begin(t)
			f, s := p.kernel("void k(char *p, long n) {}"), p.stream()
			args, host := p.raw(64), p.pinned(64)
			p.ok(transfer.Memset(p.Thread, args, 64, 0, 64))
			tt.does(p, func(at core.Addr, size uint64) {
				p.ok(launch.LaunchKernel(p.Thread, f, 1, at, size, s))
			}, args, host)
			p.SynchronizeDevice() //nolint:errcheck // some kernels fail
			if tt.rule == "" {
				p.silent()
			} else if d := p.only(tt.rule); !strings.Contains(d.Summary, tt.want) {
				t.Errorf("%q, want %q", d.Summary, tt.want)
			}
		})
	}
}

// TestKernelGivenHost: a kernel must not be given addresses of ordinary host memory, but may be given those of pinned
// and registered memory; numbers do not count as addresses.
func TestKernelGivenHost(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(char *p, long n) {}"), p.stream()
	_, alias := p.twofold(4096)
	p.launch(f, s, p.pinned(64), alias, 4096, 4096<<32|4096, 1<<46)
	p.ok(p.SynchronizeStream(s))
	p.silent()
	p.launch(f, s, p.mapped(4096)+16, 1)
	p.ok(p.SynchronizeStream(s))
	d := p.only("wrong-direction")
	const want = "kernel k is given host memory that is neither pinned nor registered, which a device does not reach"
	if d.Summary != want || d.Severity != finding.Warning {
		t.Errorf("%s: %q", d.Severity, d.Summary)
	}
}

// TestKernelBlocks: the number of blocks has 16 bits on the way to a device.
func TestKernelBlocks(t *testing.T) {
	p := begin(t)
	f, s := p.kernel("void k(void) {}"), p.stream()
	for _, blocks := range []uint32{65535, 65536} {
		p.silent()
		p.ok(launch.LaunchKernelWithHostArgs(p.Thread, f, blocks, s, nil, core.AddrOf(make([]byte, 8)), 8, nil, 0))
		p.ok(p.SynchronizeStream(s))
	}
	d := p.only("out-of-bounds")
	if d.Severity != finding.Warning || !strings.Contains(d.Summary, "kernel k runs with 0 blocks") {
		t.Errorf("%s: %s", d.Severity, d.Summary)
	}
}

// TestArgumentsWithoutContext: arguments are finalized by a thread that has a context.
func TestArgumentsWithoutContext(t *testing.T) {
	p := begin(t)
	f := p.kernel("void k(void) {}")
	bare := p.rt.NewThread(9)
	var args core.Handle
	p.ok(launch.KernelArgsInit(bare, f, &args))
	err := launch.KernelArgsFinalize(bare, args)
	if err == nil {
		t.Fatal("they are finalized without a context")
	}
	bare.Done(err)
	p.only("wrong-context")
}
