package check

import (
	"strings"
	"testing"

	"ropeway/internal/driver"
)

// unload calls Unloading as aclrtBinaryUnLoad does for the binary of the kernel launched last.
func (p *program) unload() {
	p.c.mu.Lock()
	var list []driver.Module
	for m := range p.c.ledger.modules {
		list = append(list, m)
	}
	p.c.mu.Unlock()
	p.Unloading(list, nil)
}

// TestUnload: a binary must not be unloaded before its kernels are known to be complete.
func TestUnload(t *testing.T) {
	for _, wrong := range []bool{true, false} {
		for _, ran := range []bool{true, false} {
			p := begin(t)
			f, s, dev := p.kernel("void k(int *p) { p[0] = 5; }"), p.stream(), p.dev(64)
			p.launch(f, s, dev)
			if ran {
				p.c.Quiesce()
			}
			if !wrong {
				p.ok(p.SynchronizeStream(s))
			}
			p.unload()
			p.ok(p.SynchronizeStream(s))
			if !wrong {
				p.silent()
			} else if d := p.only("free-in-flight"); !strings.Contains(d.Summary, "is unloaded while kernel k of ") {
				t.Errorf("%s", d.Summary)
			}
		}
	}
}

// TestUnloadUnderModel: a model must not run kernels of an unloaded binary.
func TestUnloadUnderModel(t *testing.T) {
	p := begin(t)
	f, s, dev := p.kernel("void k(int *p) { p[0] = 5; }"), p.stream(), p.dev(64)
	p.capture(s, relaxed)
	p.launch(f, s, dev)
	m := p.model(s)
	p.execute(m, s)
	p.ok(p.SynchronizeStream(s))
	p.unload()
	p.silent()
	p.execute(m, s)
	p.ok(p.SynchronizeStream(s))
	d := p.only("use-after-free")
	if !strings.Contains(d.Summary, "runs after its binary was unloaded") || d.Others[0].Role != "unloaded" {
		t.Errorf("%s", show(d))
	}
}
