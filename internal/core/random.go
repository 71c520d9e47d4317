package core

import (
	"encoding/binary"
	"fmt"

	"ropeway/internal/abi"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/random"
)

// randomTypes are the types that random numbers have.
var randomTypes = map[abi.DataType]random.Type{
	abi.DataTypeInt32:   random.Int32,
	abi.DataTypeInt64:   random.Int64,
	abi.DataTypeUint32:  random.Uint32,
	abi.DataTypeUint64:  random.Uint64,
	abi.DataTypeBF16:    random.BFloat16,
	abi.DataTypeFloat16: random.Float16,
	abi.DataTypeFloat:   random.Float32,
}

// parameter is a number that a task of random numbers needs: it is given, or lies in memory when the task runs.
type parameter struct {
	value uint64
	addr  Addr // 0: it is given
	size  uint64
}

// randomTask is random numbers on their way.
type randomTask struct {
	numbers             random.Numbers // without parameters
	a, b, seed, count   parameter
	result, counterAddr Addr
}

// RandomNumAsync is aclrtRandomNumAsync: numbers are drawn from a seed and the counter that lies in memory, which is moved on by what they take. The
// structure is read during the call, and not changed.
func (t *Thread) RandomNumAsync(taskInfo *abi.RandomNumTaskInfo, stream Handle, reserve Addr) *Error {
	const api = "aclrtRandomNumAsync"
	if err := t.checkRandomNumAsync(taskInfo, stream, reserve); err != nil {
		return err
	}
	typ, ok := randomTypes[taskInfo.DataType]
	if !ok {
		return invalid(api, "taskInfo", "random numbers are no %v", taskInfo.DataType)
	}
	if !t.rt.prod.Random {
		return unsupported(api, "", "%s makes no random numbers; A2 and A3 do", t.rt.prod.Name).quiet()
	}
	s, err := t.stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if reserve != 0 {
		return refused(api, "reserve", "%#x is reserved and must be NULL", reserve)
	}
	c := t.current()
	if c == nil {
		return noContext(api)
	}
	if s, err = c.on(api, s); err != nil {
		return err
	}
	draws, bytes, err := t.randomTask(api, c.dev, taskInfo, typ)
	if err != nil {
		return err
	}
	if err := s.admit(api); err != nil {
		return err
	}
	rt, dropped := t.rt, s.dropped()
	return s.launch(api, t, task{op: driver.Op{Kind: driver.OpWork, Dst: draws.result, N: bytes, Work: func() error {
		return rt.draw(draws, dropped)
	}}, kind: observe.Random})
}

// randomTask looks at what is asked for. bytes is how large the result is, as far as that is known before it runs.
func (t *Thread) randomTask(api string, d *Device, info *abi.RandomNumTaskInfo, typ random.Type) (draws randomTask, bytes uint64, err *Error) {
	f := info.RandomNumFuncParaInfo
	of := uint64(typ.Size())
	draws = randomTask{numbers: random.Numbers{Type: typ}, result: info.RandomResultAddr, counterAddr: info.RandomCounterAddr}
	var a, b *abi.RandomParaInfo
	switch f.FuncType {
	case abi.RandomNumFuncTypeDropoutBitmask:
		draws.numbers.Kind = random.Dropout
		a = &f.ParamInfo.DropoutBitmaskInfo().DropoutRation
	case abi.RandomNumFuncTypeUniformDis:
		draws.numbers.Kind = random.Uniform
		a, b = &f.ParamInfo.UniformDisInfo().Min, &f.ParamInfo.UniformDisInfo().Max
	case abi.RandomNumFuncTypeNormalDis, abi.RandomNumFuncTypeTruncatedNormalDis:
		draws.numbers.Kind = random.Normal
		if f.FuncType == abi.RandomNumFuncTypeTruncatedNormalDis {
			draws.numbers.Kind = random.Truncated
		}
		a, b = &f.ParamInfo.NormalDisInfo().Mean, &f.ParamInfo.NormalDisInfo().Stddev
	default:
		return draws, 0, refused(api, "taskInfo", "%v is no kind of random numbers", f.FuncType)
	}
	switch {
	case !draws.numbers.Kind.Fits(typ):
		return draws, 0, refused(api, "taskInfo", "%v makes no %v", f.FuncType, info.DataType)
	case draws.counterAddr == 0:
		return draws, 0, refused(api, "taskInfo", "randomCounterAddr is NULL")
	case draws.result == 0:
		return draws, 0, refused(api, "taskInfo", "randomResultAddr is NULL")
	}
	for _, p := range [...]struct {
		name  string
		from  *abi.RandomParaInfo
		to    *parameter
		sizes [2]uint64
	}{
		{"the first parameter", a, &draws.a, [2]uint64{of, of}}, {"the second parameter", b, &draws.b, [2]uint64{of, of}},
		{"randomSeed", &info.RandomSeed, &draws.seed, [2]uint64{8, 4}}, {"randomNum", &info.RandomNum, &draws.count, [2]uint64{8, 4}},
	} {
		if p.from == nil {
			continue
		}
		if *p.to, err = t.parameter(api, d, p.name, p.from, p.sizes); err != nil {
			return draws, 0, err
		}
	}
	if bytes, err = t.randomRoom(api, d, &draws); err != nil {
		return draws, 0, err
	}
	return draws, bytes, nil
}

// parameter reads one, which has one of two sizes.
func (t *Thread) parameter(api string, d *Device, name string, p *abi.RandomParaInfo, sizes [2]uint64) (parameter, *Error) {
	size := uint64(p.Size)
	value := binary.LittleEndian.Uint64(p.ValueOrAddr[:])
	switch {
	case size != sizes[0] && size != sizes[1]:
		return parameter{}, refused(api, "taskInfo", "%s has %d bytes, not %d", name, size, sizes[0])
	case p.IsAddr == 0 && size < 8:
		return parameter{value: value & (1<<(8*size) - 1), size: size}, nil
	case p.IsAddr == 0:
		return parameter{value: value, size: size}, nil
	case p.IsAddr != 1:
		return parameter{}, refused(api, "taskInfo", "isAddr of %s is %d, neither 0 nor 1", name, p.IsAddr)
	case value == 0:
		return parameter{}, refused(api, "taskInfo", "the address of %s is NULL", name)
	}
	return parameter{addr: Addr(value), size: size}, t.reachable(api, "taskInfo", d, Addr(value), size)
}

// randomRoom checks what is known of the parameters now, and that there is memory for counter and result.
func (t *Thread) randomRoom(api string, d *Device, draws *randomTask) (bytes uint64, err *Error) {
	if err := t.reachable(api, "taskInfo", d, draws.counterAddr, random.CounterBytes); err != nil {
		return 0, err
	}
	if draws.a.addr == 0 && draws.b.addr == 0 {
		if e := draws.with(draws.a.value, draws.b.value).Check(); e != nil {
			return 0, refused(api, "taskInfo", "%v", e)
		}
	}
	if draws.count.addr != 0 {
		return 0, t.reachable(api, "taskInfo", d, draws.result, 1) // how many there are turns out when it runs
	}
	bytes, ok := draws.numbers.Bytes(draws.count.value)
	if draws.count.value == 0 || !ok {
		return 0, refused(api, "taskInfo", "randomNum is %d", draws.count.value)
	}
	return bytes, t.reachable(api, "taskInfo", d, draws.result, bytes)
}

// with is the numbers with their parameters.
func (r *randomTask) with(a, b uint64) random.Numbers {
	n := r.numbers
	n.A, n.B = a, b
	return n
}

// draw makes the numbers and moves the counter on.
func (rt *Runtime) draw(draws randomTask, dropped func() bool) error {
	h := hand{sight: rt.sight()}
	var at random.Counter
	err := guarded(func() error {
		for _, p := range []*parameter{&draws.a, &draws.b, &draws.seed, &draws.count} {
			if err := p.load(&h); err != nil {
				return err
			}
		}
		counter, err := h.see(0, draws.counterAddr, random.CounterBytes)
		if err == nil {
			at = random.ReadCounter(counter)
		}
		return err
	})
	if err != nil {
		return err
	}
	n, count := draws.with(draws.a.value, draws.b.value), draws.count.value
	if err := n.Check(); err != nil {
		return fmt.Errorf("random numbers: %w", err)
	}
	if _, ok := n.Bytes(count); !ok {
		return fmt.Errorf("%w: %d random numbers", driver.ErrFault, count)
	}
	step, _ := n.Bytes(random.Step)
	err = rt.compute(count/random.Step+min(count%random.Step, 1), false, dropped, func(h *hand, i uint64) error {
		m := min(count-i*random.Step, random.Step)
		bytes, _ := n.Bytes(m)
		dst := draws.result + Addr(i*step)
		piece, err := h.see(0, dst, bytes)
		if err != nil {
			return err
		}
		n.Fill(piece, draws.seed.value, at.Add(i*n.Blocks(random.Step)), m)
		return h.change(dst, piece)
	})
	if err != nil {
		return err
	}
	return guarded(func() error {
		counter, err := h.see(0, draws.counterAddr, random.CounterBytes)
		if err != nil {
			return err
		}
		at.Add(n.Blocks(count)).Write(counter)
		return h.change(draws.counterAddr, counter)
	})
}

// load reads a parameter that lies in memory.
func (p *parameter) load(h *hand) error {
	if p.addr == 0 {
		return nil
	}
	b, err := h.see(0, p.addr, p.size)
	if err != nil {
		return err
	}
	var all [8]byte
	copy(all[:], b)
	p.value = binary.LittleEndian.Uint64(all[:])
	return nil
}
