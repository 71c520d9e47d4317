package check

import (
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
)

// TestCallbackBeside: a stream does not wait for a function without blocking. A copy after the function is in flight
// for it, even if the stream was synchronised; a copy before it is not. There is no mistake if the program submits the
// copy after the function is over, or if the stream waits for the function.
func TestCallbackBeside(t *testing.T) {
	for _, tt := range []struct {
		name   string
		block  abi.CallbackBlockType
		copies bool // after the function
		wrong  bool
	}{
		{"a copy behind it", abi.CallbackNoBlock, true, true},
		{"a copy before it", abi.CallbackNoBlock, false, false},
		{"it is waited for", abi.CallbackBlock, true, false},
	} {
		p := begin(t)
		s, host, dev := p.stream(), p.pinned(64), p.dev(64)
		id := p.reporter(s)
		p.down(host, dev, 64, s)
		may, over := make(chan struct{}), make(chan struct{})
		p.ok(p.LaunchCallback(func(core.Addr) {
			if tt.block == abi.CallbackNoBlock {
				<-may
			}
			p.c.Judge(p.rt.NewThread(uint32(id)), host, 8, false)
			close(over)
		}, 0, tt.block, s))
		if tt.copies {
			p.down(host, dev, 64, s)
		}
		p.ok(p.SynchronizeStream(s))
		close(may)
		<-over
		p.down(host, dev, 64, s) // after the function
		p.ok(p.SynchronizeStream(s))
		if !tt.wrong {
			for _, f := range p.findings() {
				t.Errorf("%s: %s", tt.name, show(f))
			}
		} else if f := p.only("host-read-in-flight"); f.Others[0].Task != 3 {
			t.Errorf("%s: %s", tt.name, show(f))
		}
	}
}
