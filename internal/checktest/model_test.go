package checktest

import "slices"

// model is what is in the memory of a correct program: its steps one after the other. Conflicting accesses of a correct
// program are ordered as its steps are, so there is one right answer for every byte.
type model struct {
	p    *program
	mem  [][]byte
	seen map[seen][]byte // what a function or the host must read; what a buffer holds when it is freed
}

// seen names a look at memory: a step and which of its touches; -1 for the whole buffer.
type seen struct{ step, touch int }

// modelOf runs p in the model.
func modelOf(p *program) map[seen][]byte {
	m := &model{p: p, seen: map[seen][]byte{}}
	for _, b := range p.buffers {
		m.mem = append(m.mem, make([]byte, b.size))
	}
	for i := range p.steps {
		m.step(i)
	}
	return m.seen
}

func (m *model) step(i int) {
	s := &m.p.steps[i]
	switch s.op {
	case setDescriptor:
	case fillAsync, fillNow, wordsAsync, wordsNow:
		for k := range s.n {
			m.mem[s.buf][s.off+k] = byte(s.value)
			if s.op == wordsAsync || s.op == wordsNow {
				m.mem[s.buf][s.off+k] = byte(s.value >> (k % 4 * 8))
			}
		}
	case free:
		if m.p.buffers[s.buf].place != table {
			m.seen[seen{i, -1}] = m.mem[s.buf]
		}
	default:
		for _, v := range s.moves {
			for r := range max(1, v.rows) {
				copy(m.mem[v.dst][v.to+r*v.dpitch:][:v.n], m.mem[v.src][v.from+r*v.spitch:][:v.n])
			}
		}
	}
	for k, t := range s.touches {
		at := m.mem[t.buf][t.off:][:t.n]
		if t.write {
			t.fill(at)
		} else {
			m.seen[seen{i, k}] = slices.Clone(at)
		}
	}
}

// fill is what the program writes.
func (t *touch) fill(at []byte) {
	for i := range at {
		at[i] = t.value + byte(i)
	}
}
