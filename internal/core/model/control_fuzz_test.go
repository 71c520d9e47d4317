package model_test

import (
	"math/rand/v2"
	"testing"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/core/coretest"
	"ropeway/internal/core/model"
	"ropeway/internal/core/transfer"
)

// step is a task, or a condition task with its sub-models.
type step struct {
	doing
	typ    abi.MdlRICondTaskType
	kids   [][]step // none: it is no condition
	cond   int
	assign bool // executions begin with value; else a byte of memory is copied before the task
	value  uint32
	from   int
}

// block reads steps; conds counts conditions.
func (r *reader) block(depth int, conds *int) (list []step) {
	for range r.next(6) {
		if depth == 0 || r.next(3) > 0 || *conds >= 10 {
			list = append(list, step{doing: r.doing()})
			continue
		}
		s := step{cond: *conds, assign: r.next(3) == 0, value: uint32(r.next(4)), from: 4 * r.next(cellsLen/4)}
		*conds++
		n := 1
		switch s.typ = abi.MdlRICondTaskType(r.next(3)); s.typ {
		case abi.ModelRiCondTypeIf:
			n += r.next(2)
		case abi.ModelRiCondTypeSwitch:
			n += r.next(3)
		}
		for range n {
			s.kids = append(s.kids, r.block(depth-1, conds))
		}
		list = append(list, s)
	}
	return list
}

// interpret does the steps. values are those of the conditions, which stay from one execution to the next.
func (m *machine) interpret(list []step, values []uint64) {
	for i := range list {
		s := &list[i]
		if s.kids == nil {
			m.do(s.doing)
			continue
		}
		v := &values[s.cond]
		if !s.assign {
			*v = *v&^0xFF | uint64(m.mem[s.from])
		}
		switch s.typ {
		case abi.ModelRiCondTypeIf:
			if *v != 0 {
				m.interpret(s.kids[0], values)
			} else if len(s.kids) > 1 {
				m.interpret(s.kids[1], values)
			}
		case abi.ModelRiCondTypeWhile:
			for *v != 0 && m.step() {
				m.interpret(s.kids[0], values)
				*v = *v&^0xFFFFFFFF | uint64(uint32(*v)-1)
			}
		default:
			if *v < uint64(len(s.kids)) {
				m.interpret(s.kids[*v], values)
			}
		}
	}
}

// assigned finds the values that executions begin with.
func assigned(list []step, values []uint64) {
	for i := range list {
		if s := &list[i]; s.kids != nil {
			if s.assign {
				values[s.cond] = uint64(s.value)
			}
			for _, kid := range s.kids {
				assigned(kid, values)
			}
		}
	}
}

// captureSteps captures the steps into m, on the stream of their depth.
func (c *cells) captureSteps(m core.Handle, list []step, depth int) {
	s := c.extra[depth]
	for i := range list {
		v := &list[i]
		if v.kids == nil {
			c.submit(v.doing, s)
			continue
		}
		var flag abi.MdlRICondHandleFlag
		if v.assign {
			flag = abi.ModelRiCondHandleAssignDefault
		}
		h, value := newCondition(c.tb, c.th, m, v.value, flag)
		if !v.assign {
			from := c.at + core.Addr(v.from)
			coretest.OK(c.tb, transfer.MemcpyAsync(c.th, value, 1, from, 1, abi.MemcpyDeviceToDevice, s))
		}
		for k, sub := range addBranches(c.tb, c.th, h, s, v.typ, len(v.kids)) {
			deeper := c.extra[depth+1]
			coretest.OK(c.tb, model.MdlRICaptureToModelRIBegin(c.th, deeper, sub, relaxed))
			c.captureSteps(sub, v.kids[k], depth+1)
			if v.typ == abi.ModelRiCondTypeWhile {
				c.decrement(value, deeper)
			}
			coretest.OK(c.tb, model.MdlRICaptureEnd(c.th, deeper, nil))
		}
	}
}

// conditions compares a program with condition tasks with the interpreter; false if it is not tried.
func (c *cells) conditions(t testing.TB, data []byte) bool {
	c.tb = t
	count := 0
	list := (&reader{data}).block(3, &count)
	values := make([]uint64, count)
	ref := newMachine()
	c.load(&ref)
	var results []machine
	for range 2 {
		assigned(list, values)
		if ref.interpret(list, values); ref.fails {
			return false
		}
		results = append(results, ref)
	}
	coretest.OK(t, model.MdlRICaptureBegin(c.th, c.extra[0], relaxed))
	var h core.Handle
	coretest.OK(t, model.MdlRICaptureGetInfo(c.th, c.extra[0], nil, &h))
	c.captureSteps(h, list, 0)
	coretest.OK(t, model.MdlRICaptureEnd(c.th, c.extra[0], &h))
	for run := range results {
		c.compare(t, h, &results[run], abi.Success, run)
	}
	coretest.OK(t, model.MdlRIDestroy(c.th, h))
	return true
}

// FuzzConditions: programs with conditions, nested up to three deep, leave the bytes that the interpreter leaves, in
// two executions.
func FuzzConditions(f *testing.F) {
	_, th := coretest.NewProcess(f, 64<<20)
	c := newCells(f, th)
	f.Add([]byte("a branch in a loop, and a loop in a branch, and whatever else there may be"))
	f.Fuzz(func(t *testing.T, data []byte) { c.conditions(t, data) })
}

// place is a task of a stream, or where it goes on.
type place struct {
	doing
	kind  int // 0 doing, 1 label, 2 jump, 3 switch of streams
	label int
	src   int // index of a jump, or the left side of a comparison
	right int
	cond  abi.Condition
	wide  bool // the comparison is of 8 bytes
	to    int  // stream
}

// line is a stream: places, and which stream it starts at its end.
type line struct {
	places []place
	then   int // -1: none
}

const mostLabels = 4

// lines reads streams. The last one has nothing but the end of the model. labels is how many there are.
func (r *reader) lines() (list []line, labels int) {
	n := 2 + r.next(3)
	for i := range n - 1 {
		l := line{then: r.next(n+1) - 1}
		for range r.next(7) {
			p := place{kind: max(0, r.next(7)-3)}
			switch p.kind {
			case 0:
				p.doing = r.doing()
			case 1:
				if labels == mostLabels {
					continue
				}
				p.label = labels
				labels++
			case 2:
				p.src = 4 * r.next(cellsLen/4)
			case 3:
				p.src, p.right, p.wide = 8*r.next(cellsLen/8), 8*r.next(cellsLen/8), r.next(2) == 1
				p.cond, p.to = abi.Condition(r.next(6)), r.next(n)
			}
			l.places = append(l.places, p)
		}
		if i == 0 && len(l.places) == 0 && l.then < 0 {
			l.then = n - 1
		}
		list = append(list, l)
	}
	return append(list, line{then: -1}), labels
}

// walk runs the streams, one at a time, and reports whether the end was reached.
func (m *machine) walk(list []line, labels map[int][2]int) (ended bool) {
	at, i := 0, 0
	for m.step() {
		if at == len(list)-1 {
			return true
		}
		if i == len(list[at].places) {
			if at, i = list[at].then, 0; at < 0 {
				return false
			}
			continue
		}
		p := &list[at].places[i]
		i++
		switch p.kind {
		case 0:
			m.do(p.doing)
		case 2:
			if len(labels) > 0 {
				to := labels[int(min(uint64(m.word32(p.src)), uint64(len(labels)-1)))]
				at, i = to[0], to[1]
			}
		case 3:
			left, right := int64(m.word64(p.src)), int64(m.word64(p.right))
			if !p.wide {
				left, right = int64(int32(left)), int64(int32(right))
			}
			if [...]bool{left == right, left != right, left > right, left >= right, left < right,
				left <= right}[p.cond] {
				at, i = p.to, 0
			}
		}
	}
	return false
}

// jumps compares streams with labels, switches and starts of each other with the interpreter; false if they are not
// tried.
func (c *cells) jumps(t testing.TB, data []byte) bool {
	c.tb = t
	list, count := (&reader{data}).lines()
	where := map[int][2]int{}
	for s := range list {
		for i, p := range list[s].places {
			if p.kind == 1 {
				where[p.label] = [2]int{s, i}
			}
		}
	}
	ref := newMachine()
	c.load(&ref)
	var results []machine
	var codes []abi.Code
	for range 2 {
		code := abi.Success
		if !ref.walk(list, where) {
			code = abi.ErrRTModelExecute
		}
		if ref.fails {
			return false
		}
		results, codes = append(results, ref), append(codes, code)
	}
	b := &builder{stage: c.stage}
	coretest.OK(t, model.MdlRIBuildBegin(c.th, &b.m, 0))
	for i := range list {
		b.bind([]uint32{0, streamDefault}[min(i, 1)])
	}
	var labels []core.Handle
	var all core.Handle
	if count > 0 {
		labels, all = b.list(count)
	}
	for s := range list {
		on := b.streams[s]
		for _, p := range list[s].places {
			src, right := c.at+core.Addr(p.src), c.at+core.Addr(p.right)
			switch p.kind {
			case 0:
				c.submit(p.doing, on)
			case 1:
				b.set(labels[p.label], on)
			case 2:
				if count > 0 {
					b.jump(src, count-1, all, on)
				}
			case 3:
				typ := abi.SwitchInt32
				if p.wide {
					typ = abi.SwitchInt64
				}
				coretest.OK(t, model.SwitchStream(c.th, src, p.cond, right, typ, b.streams[p.to], 0, on))
			}
		}
		switch then := list[s].then; {
		case s == len(list)-1:
			coretest.OK(t, model.MdlRIEndTask(c.th, b.m, on))
		case then >= 0:
			coretest.OK(t, model.ActiveStream(c.th, b.streams[then], on))
		}
	}
	coretest.OK(t, model.MdlRIBuildEnd(c.th, b.m, 0))
	for run := range results {
		c.compare(t, b.m, &results[run], codes[run], run)
	}
	b.end()
	return true
}

// FuzzJumps: streams that jump to labels and start each other leave the bytes that the interpreter leaves, and fail if
// they do not reach the end.
func FuzzJumps(f *testing.F) {
	_, th := coretest.NewProcess(f, 64<<20)
	c := newCells(f, th)
	f.Add([]byte("here and there, back and forth, until a number is what another one is"))
	f.Fuzz(func(t *testing.T, data []byte) { c.jumps(t, data) })
}

// TestControlFlow tries programs of random bytes, the same each time, and most of them can be.
func TestControlFlow(t *testing.T) {
	_, th := coretest.NewProcess(t, 64<<20)
	c := newCells(t, th)
	for name, try := range map[string]func(testing.TB, []byte) bool{"conditions": c.conditions, "jumps": c.jumps} {
		r := rand.New(rand.NewPCG(17, 3))
		tried := 0
		for range 300 {
			data := make([]byte, 20+r.IntN(200))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			if try(t, data) {
				tried++
			}
		}
		if tried < 100 {
			t.Errorf("%s: %d of 300 programs were tried", name, tried)
		}
	}
}
