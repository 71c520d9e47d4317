package transfer

import (
	"encoding/binary"
	"fmt"
	"sync"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
	"ropeway/internal/random"
)

// randomTypes are the types of random numbers.
var randomTypes = map[abi.DataType]random.Type{
	abi.DataTypeInt32:   random.Int32,
	abi.DataTypeInt64:   random.Int64,
	abi.DataTypeUint32:  random.Uint32,
	abi.DataTypeUint64:  random.Uint64,
	abi.DataTypeBF16:    random.BFloat16,
	abi.DataTypeFloat16: random.Float16,
	abi.DataTypeFloat:   random.Float32,
}

// parameter is a parameter of a task of random numbers: a value, or memory that the task reads when it runs.
type parameter struct {
	value uint64
	addr  core.Addr // 0: value is the parameter
	size  uint64
}

// randomTask is a task of random numbers.
type randomTask struct {
	numbers             random.Numbers // without parameters
	a, b, seed, count   parameter
	result, counterAddr core.Addr
}

// RandomNumAsync is aclrtRandomNumAsync: it draws numbers from a seed and a counter in memory, which it advances. It
// reads the structure during the call, and does not change it.
func RandomNumAsync(t *core.Thread, taskInfo *abi.RandomNumTaskInfo, stream core.Handle,
	reserve core.Addr) *core.Error {
	const api = "aclrtRandomNumAsync"
	if err := checkRandomNumAsync(t, taskInfo, stream, reserve); err != nil {
		return err
	}
	typ, ok := randomTypes[taskInfo.DataType]
	if !ok {
		return core.Invalid(api, "taskInfo", "random numbers are no %v", taskInfo.DataType)
	}
	if !t.Runtime.Product.Random {
		return core.Unsupported(api, "", "%s makes no random numbers; A2 and A3 do",
			t.Runtime.Product.Name).NotRecorded()
	}
	s, err := t.Stream(api, "stream", stream)
	if err != nil {
		return err
	}
	if reserve != 0 {
		return core.Refused(api, "reserve", "%#x is reserved and must be NULL", reserve)
	}
	c := t.Current()
	if c == nil {
		return core.NoCurrentContext(api)
	}
	if s, err = c.On(api, s); err != nil {
		return err
	}
	draws, bytes, err := randomTaskOf(t, api, c.Device, taskInfo, typ)
	if err != nil {
		return err
	}
	if err := s.Admit(api); err != nil {
		return err
	}
	r := &drawing{rt: t.Runtime, dropped: s.Dropped(), draws: draws}
	return s.Launch(api, t, core.Task{Op: driver.Op{Kind: driver.OpCompute, Dst: draws.result, N: bytes,
		Work: r.draw}, Kind: observe.Random, Changes: r})
}

// drawing is a submitted task of random numbers. In a model that is built by hand another task may change it.
type drawing struct {
	rt      *core.Runtime // immutable
	dropped func() bool   // immutable

	mu    sync.Mutex
	draws randomTask // guarded by mu
}

func (r *drawing) draw() error {
	r.mu.Lock()
	draws := r.draws
	r.mu.Unlock()
	return draw(r.rt, draws, r.dropped)
}

// Change implements core.Changer: counter, result, seed and count become those of the aclrtRandomNumTaskInfo at src.
// Their memory is checked when the numbers are drawn.
func (r *drawing) Change(src core.Addr) error {
	own := make([]byte, randomInfoBytes)
	room := core.Pointer[abi.RandomNumTaskInfo](core.AddrOf(own))
	h := hand{sight: sightOf(r.rt)}
	if err := guarded(func() error {
		b, err := h.see(0, src, randomInfoBytes)
		copy(own, b)
		return err
	}); err != nil {
		return err
	}
	fresh := randomTask{result: room.RandomResultAddr, counterAddr: room.RandomCounterAddr}
	var bad [2]string
	fresh.seed, bad[0] = readParameter("randomSeed", &room.RandomSeed, countSizes)
	fresh.count, bad[1] = readParameter("randomNum", &room.RandomNum, countSizes)
	for _, text := range bad {
		if text != "" {
			return fmt.Errorf("random numbers: %s", text)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh.numbers, fresh.a, fresh.b = r.draws.numbers, r.draws.a, r.draws.b
	r.draws = fresh
	return nil
}

// randomTaskOf checks the arguments. bytes is the size of the result, as far as that is known before the task runs.
func randomTaskOf(t *core.Thread, api string, d *core.Device, info *abi.RandomNumTaskInfo,
	typ random.Type) (draws randomTask, bytes uint64, err *core.Error) {
	f := info.RandomNumFuncParaInfo
	of := uint64(typ.Size())
	draws = randomTask{numbers: random.Numbers{Type: typ}, result: info.RandomResultAddr,
		counterAddr: info.RandomCounterAddr}
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
		return draws, 0, core.Refused(api, "taskInfo", "%v is no kind of random numbers", f.FuncType)
	}
	switch {
	case !draws.numbers.Kind.Fits(typ):
		return draws, 0, core.Refused(api, "taskInfo", "%v makes no %v", f.FuncType, info.DataType)
	case draws.counterAddr == 0:
		return draws, 0, core.Refused(api, "taskInfo", "randomCounterAddr is NULL")
	case draws.result == 0:
		return draws, 0, core.Refused(api, "taskInfo", "randomResultAddr is NULL")
	}
	for _, p := range [...]struct {
		name  string
		from  *abi.RandomParaInfo
		to    *parameter
		sizes [2]uint64
	}{
		{"the first parameter", a, &draws.a, [2]uint64{of, of}}, {"the second parameter", b, &draws.b,
			[2]uint64{of, of}},
		{"randomSeed", &info.RandomSeed, &draws.seed, countSizes}, {"randomNum", &info.RandomNum, &draws.count,
			countSizes},
	} {
		if p.from == nil {
			continue
		}
		if *p.to, err = parameterOf(t, api, d, p.name, p.from, p.sizes); err != nil {
			return draws, 0, err
		}
	}
	if bytes, err = randomRoom(t, api, d, &draws); err != nil {
		return draws, 0, err
	}
	return draws, bytes, nil
}

// randomInfoBytes is the size of aclrtRandomNumTaskInfo.
const randomInfoBytes = 104

// countSizes are the sizes of seeds and counts.
var countSizes = [2]uint64{8, 4}

// parameterOf reads a parameter, which has one of two sizes.
func parameterOf(t *core.Thread, api string, d *core.Device, name string, p *abi.RandomParaInfo,
	sizes [2]uint64) (parameter, *core.Error) {
	read, bad := readParameter(name, p, sizes)
	if bad != "" {
		return parameter{}, core.Refused(api, "taskInfo", "%s", bad)
	}
	if read.addr == 0 {
		return read, nil
	}
	return read, reachable(t, api, "taskInfo", d, read.addr, read.size)
}

// readParameter reads a parameter, which has one of two sizes, or returns what is wrong with it.
func readParameter(name string, p *abi.RandomParaInfo, sizes [2]uint64) (read parameter, bad string) {
	size := uint64(p.Size)
	value := binary.LittleEndian.Uint64(p.ValueOrAddr[:])
	switch {
	case size != sizes[0] && size != sizes[1]:
		return read, fmt.Sprintf("%s has %d bytes, not %d", name, size, sizes[0])
	case p.IsAddr == 0 && size < 8:
		return parameter{value: value & (1<<(8*size) - 1), size: size}, ""
	case p.IsAddr == 0:
		return parameter{value: value, size: size}, ""
	case p.IsAddr != 1:
		return read, fmt.Sprintf("isAddr of %s is %d, neither 0 nor 1", name, p.IsAddr)
	case value == 0:
		return read, fmt.Sprintf("the address of %s is NULL", name)
	}
	return parameter{addr: core.Addr(value), size: size}, ""
}

// randomRoom checks the parameters as far as they are known, and the memory of counter and result.
func randomRoom(t *core.Thread, api string, d *core.Device, draws *randomTask) (bytes uint64, err *core.Error) {
	if err := reachable(t, api, "taskInfo", d, draws.counterAddr, random.CounterBytes); err != nil {
		return 0, err
	}
	if draws.a.addr == 0 && draws.b.addr == 0 {
		if e := draws.with(draws.a.value, draws.b.value).Check(); e != nil {
			return 0, core.Refused(api, "taskInfo", "%v", e)
		}
	}
	if draws.count.addr != 0 {
		return 0, reachable(t, api, "taskInfo", d, draws.result, 1) // the count is known only when it runs
	}
	bytes, ok := draws.numbers.Bytes(draws.count.value)
	if draws.count.value == 0 || !ok {
		return 0, core.Refused(api, "taskInfo", "randomNum is %d", draws.count.value)
	}
	return bytes, reachable(t, api, "taskInfo", d, draws.result, bytes)
}

// with returns the numbers with their parameters.
func (r *randomTask) with(a, b uint64) random.Numbers {
	n := r.numbers
	n.A, n.B = a, b
	return n
}

// draw draws the numbers and advances the counter.
func draw(rt *core.Runtime, draws randomTask, dropped func() bool) error {
	h := hand{sight: sightOf(rt)}
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
	err = compute(rt, count/random.Step+min(count%random.Step, 1), false, dropped, func(h *hand, i uint64) error {
		m := min(count-i*random.Step, random.Step)
		bytes, _ := n.Bytes(m)
		dst := draws.result + core.Addr(i*step)
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

// load reads a parameter in memory.
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
