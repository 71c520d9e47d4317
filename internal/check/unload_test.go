package check

import (
	"strings"
	"testing"

	"ropeway/internal/driver"
)

// unload is what aclrtBinaryUnLoad reports of the binary of the kernel that was launched last.
func (p *program) unload() {
	p.c.mu.Lock()
	var list []driver.Module
	for m := range p.c.modules {
		list = append(list, m)
	}
	p.c.mu.Unlock()
	p.Unloading(list)
}

// TestUnload: a binary is unloaded when its kernels are known to be complete.
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
			} else if d := p.only("free-in-flight"); !strings.Contains(d.Summary, "is unloaded, and kernel k of ") {
				t.Errorf("%s", d.Summary)
			}
		}
	}
}

// TestUnloadUnderModel: a model does not run kernels of a binary that was unloaded.
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
