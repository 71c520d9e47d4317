package check

import (
	"testing"
	"time"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/transfer"
)

// awaits is a kernel that waits for a word of host memory to change, and then writes n bytes.
const awaits = `void k(volatile int *go, volatile char *to, long n) {
	while (!*go) {}
	for (int i = 0; i < n; i++) to[i] = 1;
}`

// TestCopyBesideKernel: a synchronous copy during the run of a kernel is compared with the kernel's accesses when it
// ends; a word is left out, because the kernel may poll it.
func TestCopyBesideKernel(t *testing.T) {
	for _, n := range []uint64{64, 8} {
		for _, beside := range []core.Addr{0, 4096} {
			p := begin(t, func(o *Options) { o.Patience = time.Millisecond })
			f, s := p.kernel(awaits), p.stream()
			signal, host, dev, other := p.pinned(64), p.pinned(64), p.raw(n), p.dev(8192)
			if beside != 0 {
				other += beside
			} else {
				other = dev
			}
			p.ok(transfer.Memset(p.Thread, dev, n, 0, n))
			p.launch(f, s, signal, dev, core.Addr(n))
			p.ok(transfer.Memcpy(p.Thread, host, n, other, n, abi.MemcpyDeviceToHost))
			core.Array(core.Pointer[byte](signal), 1)[0] = 1
			p.ok(p.SynchronizeStream(s))
			if n == 8 || beside != 0 {
				p.silent()
			} else {
				p.only("host-read-in-flight")
			}
		}
	}
}

// TestCopyAfterKernel: copies are correct beside the bytes of a kernel, of memory that it only reads, and after a
// synchronisation.
func TestCopyAfterKernel(t *testing.T) {
	p := begin(t)
	f, s := p.kernel(declared), p.stream()
	to, from, host := p.dev(8192), p.dev(8192), p.pinned(8192)
	p.launch(f, s, to, from, 4096)
	p.ok(transfer.Memcpy(p.Thread, host, 4096, to+4096, 4096, abi.MemcpyDeviceToHost))
	p.ok(transfer.Memcpy(p.Thread, host, 8192, from, 8192, abi.MemcpyDeviceToHost))
	p.ok(p.SynchronizeStream(s))
	p.ok(transfer.Memcpy(p.Thread, host, 8192, to, 8192, abi.MemcpyDeviceToHost))
	p.silent()
}
