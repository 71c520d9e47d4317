package memory

// freeOver records that a stream has reached a free of b, or dropped it.
func (b *poolBlock) freeOver() {
	b.over.Add(1)
	if b.waiting.Load() == 0 {
		return
	}
	var wakes []func()
	b.gatesMu.Lock()
	for _, g := range b.gates {
		wakes = append(wakes, g.wake)
	}
	b.gatesMu.Unlock()
	for _, wake := range wakes {
		wake()
	}
}

// freedGate is a driver.Gate that opens when the first after frees of a block are over.
type freedGate struct {
	b     *poolBlock
	after uint32
	wake  func() // guarded by b.gatesMu; nil: not in the list
}

func (g *freedGate) open() bool { return int32(g.b.over.Load()-g.after) >= 0 }

// Pass implements driver.Gate. It adds the gate to the list before it checks again, so that a later free finds the gate
// there.
func (g *freedGate) Pass(wake func()) bool {
	if g.open() {
		g.Leave()
		return true
	}
	b := g.b
	b.gatesMu.Lock()
	if g.wake == nil {
		b.gates = append(b.gates, g)
		b.waiting.Add(1)
	}
	g.wake = wake
	b.gatesMu.Unlock()
	if !g.open() {
		return false
	}
	g.Leave()
	return true
}

// Leave implements driver.Gate.
func (g *freedGate) Leave() {
	b := g.b
	b.gatesMu.Lock()
	defer b.gatesMu.Unlock()
	for i, o := range b.gates {
		if o == g {
			b.gates = append(b.gates[:i], b.gates[i+1:]...)
			b.waiting.Add(-1)
			g.wake = nil
			return
		}
	}
}
