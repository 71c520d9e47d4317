package signal

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ropeway/internal/core"
	"ropeway/internal/core/memory"
	"ropeway/internal/driver"
	"ropeway/internal/observe"
)

// values holds the waits of streams for words of device memory. A store by aclrtValueWrite in this process checks the
// waits for its word at once. All other changes (a copy, another process) are noticed by polling: 20 µs after a wait
// has begun, then at growing intervals, at most a millisecond. There is no polling without waits.
type values struct {
	waiting atomic.Int32 // number of waits in the map

	mu      sync.Mutex
	waits   map[core.Addr][]*valueWait // guarded by mu; blocking waits, in the order of their turn
	looking bool                       // guarded by mu; a goroutine polls
	fresh   bool                       // guarded by mu; there is a wait that it has not checked
	orders  map[core.Addr]wordOrder    // guarded by mu; used with a checker
	// guarded by mu; number of orders at which those of freed memory are removed
	sweepAt int
}

const (
	firstLook = 20 * time.Microsecond
	longLook  = time.Millisecond
)

// valueWait is a wait for a word: the gate of a queue.
type valueWait struct {
	rt    *core.Runtime
	v     *values
	words driver.WordAccess
	addr  core.Addr
	given uint64
	met   func(word, given uint64) bool
	// All of these are immutable.

	wake   func() // guarded by v.mu
	listed bool   // guarded by v.mu
	passed bool   // guarded by v.mu
	err    error  // guarded by v.mu until it has passed; set if the memory was freed
}

// Conditions of aclrtValueWait, by flag.
var valueConditions = [...]func(word, given uint64) bool{
	func(word, given uint64) bool { return int64(word-given) >= 0 },
	func(word, given uint64) bool { return word == given },
	func(word, given uint64) bool { return word&given != 0 },
	func(word, given uint64) bool { return ^(word | given) != 0 },
}

// try checks the word. values.mu is held.
func (w *valueWait) try() bool {
	word, err := w.words.Load(w.addr)
	if err != nil {
		w.err = err
		return true
	}
	return w.met(word, w.given)
}

// Pass implements driver.Gate.
func (w *valueWait) Pass(wake func()) bool {
	v := w.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if w.passed {
		return true
	}
	if w.listed { // a store to the word wakes it
		w.wake = wake
		return false
	}
	v.waiting.Add(1) // before the word is read: a store that does not see this count is seen by try
	if w.try() {
		v.waiting.Add(-1)
		w.passed = true
		return true
	}
	w.wake, w.listed = wake, true
	if v.waits == nil {
		v.waits = map[core.Addr][]*valueWait{}
	}
	v.waits[w.addr] = append(v.waits[w.addr], w)
	v.fresh = true
	if !v.looking {
		v.looking = true
		go v.look()
	}
	return false
}

// Leave implements driver.Gate.
func (w *valueWait) Leave() {
	v := w.v
	v.mu.Lock()
	defer v.mu.Unlock()
	if w.listed {
		w.listed = false
		v.put(w.addr, slices.DeleteFunc(v.waits[w.addr], func(o *valueWait) bool { return o == w }))
		v.waiting.Add(-1)
	}
}

// Foreign reports whether another process may have opened the gate: see core.ForeignGate. Once any memory is shared,
// any word may be.
func (w *valueWait) Foreign() bool { return memory.Shares(w.rt) }

// Err returns the error of a wait that has passed.
func (w *valueWait) Err() error { return w.err } // lockcheck: it has passed

// put sets the waits for a word. mu is held.
func (v *values) put(addr core.Addr, list []*valueWait) {
	if len(list) == 0 {
		delete(v.waits, addr)
	} else {
		v.waits[addr] = list
	}
}

// endMet ends the waits for a word that are met, and returns the functions to call for them after mu is released. mu is
// held.
func (v *values) endMet(addr core.Addr) (gone []func()) {
	v.put(addr, slices.DeleteFunc(v.waits[addr], func(w *valueWait) bool {
		if !w.try() {
			return false
		}
		w.listed, w.passed = false, true
		v.waiting.Add(-1)
		gone = append(gone, w.wake)
		return true
	}))
	return gone
}

// store writes a word, once, and ends the waits that it meets.
func (v *values) store(words driver.WordAccess, addr core.Addr, value uint64) error {
	stored := v.waiting.Load() == 0
	if stored {
		if err := words.Store(addr, value); err != nil || v.waiting.Load() == 0 {
			return err
		}
	}
	v.mu.Lock()
	var err error
	if !stored {
		err = words.Store(addr, value) // with mu held, so that waits see each of several stores
	}
	gone := v.endMet(addr)
	v.mu.Unlock()
	wake(gone)
	return err
}

// look polls for changes until there are no waits.
func (v *values) look() {
	pause := firstLook
	for {
		time.Sleep(pause)
		v.mu.Lock()
		var gone []func()
		for addr := range v.waits {
			gone = append(gone, v.endMet(addr)...)
		}
		pause = min(2*pause, longLook)
		if v.fresh {
			v.fresh, pause = false, firstLook
		}
		v.looking = len(v.waits) > 0
		more := v.looking
		v.mu.Unlock()
		wake(gone)
		if !more {
			return
		}
	}
}

// wordOrder is the order of a word, valid while its allocation exists.
type wordOrder struct {
	allocation uint64 // id of the allocation
	order      *core.Order
}

// valueOrder returns the order between stores and waits of a word; nil without a checker.
func valueOrder(rt *core.Runtime, addr core.Addr) *core.Order {
	if !rt.Checked() {
		return nil
	}
	v := &signalsOf(rt).values
	id := rt.Driver.Describe(addr).ID
	v.mu.Lock()
	defer v.mu.Unlock()
	o, ok := v.orders[addr]
	if ok && o.allocation == id {
		return o.order
	}
	if len(v.orders) >= v.sweepAt { // when the number has doubled since the last time
		maps.DeleteFunc(v.orders,
			func(at core.Addr, o wordOrder) bool { return rt.Driver.Describe(at).ID != o.allocation })
		v.sweepAt = max(64, 2*len(v.orders))
	}
	if v.orders == nil {
		v.orders = map[core.Addr]wordOrder{}
	}
	o = wordOrder{id, new(core.Order)}
	v.orders[addr] = o
	return o.order
}

// ValueWrite is aclrtValueWrite: it stores 64 bits in device memory, in the order of the stream.
func ValueWrite(t *core.Thread, devAddr core.Addr, value uint64, flag uint32, stream core.Handle) *core.Error {
	const api = "aclrtValueWrite"
	s, err := checkValueWrite(t, devAddr, value, flag, stream)
	if err != nil {
		return err
	}
	words, s, err := valueCall(t, api, devAddr, s)
	if err != nil {
		return err
	}
	s.Put(api, t, core.Task{Op: valueWrite(t.Runtime, words, devAddr, value), Kind: observe.ValueWrite,
		About: uint64(devAddr), Order: valueOrder(t.Runtime, devAddr),
		Value: core.ValueParams{Addr: devAddr, Value: value, Flag: flag}})
	return nil
}

// valueWrite returns the operation of a value write.
func valueWrite(rt *core.Runtime, words driver.WordAccess, addr core.Addr, value uint64) driver.Op {
	if f, far := farWord(rt, addr); far {
		return driver.Op{Kind: driver.OpWaitCond, Gate: f.StoreWord(addr, value), Dst: addr, N: 8}
	}
	v := &signalsOf(rt).values
	return driver.Op{Kind: driver.OpCompute, Dst: addr, N: 8,
		Work: func() error { return v.store(words, addr, value) }}
}

// farWord returns the fabric to a word of another server; false if it is not one.
func farWord(rt *core.Runtime, addr core.Addr) (driver.Fabric, bool) {
	f := rt.Caps.Fabric
	return f, f != nil && f.IsFar(addr)
}

// valueWaitOp returns the operation of a value wait.
func valueWaitOp(rt *core.Runtime, words driver.WordAccess, addr core.Addr, value uint64, flag uint32) driver.Op {
	if f, far := farWord(rt, addr); far {
		met := valueConditions[flag]
		gate := f.AwaitWord(addr, func(word uint64) bool { return met(word, value) })
		return driver.Op{Kind: driver.OpWaitCond, Gate: gate, Src: addr, N: 8}
	}
	w := &valueWait{rt: rt, v: &signalsOf(rt).values, words: words, addr: addr, given: value,
		met: valueConditions[flag]}
	return driver.Op{Kind: driver.OpWaitCond, Gate: w, Src: addr, N: 8}
}

// WriteTask returns a value write that replaces a task of a model.
func WriteTask(rt *core.Runtime, api string, p core.ValueParams) (driver.Op, *core.Order, *core.Error) {
	words, err := wordsOf(rt, api)
	if err != nil {
		return driver.Op{}, nil, err
	}
	return valueWrite(rt, words, p.Addr, p.Value), valueOrder(rt, p.Addr), nil
}

// WaitTask returns a value wait that replaces a task of a model.
func WaitTask(rt *core.Runtime, api string, p core.ValueParams) (driver.Op, *core.Order, *core.Error) {
	words, err := wordsOf(rt, api)
	if err != nil {
		return driver.Op{}, nil, err
	}
	if p.Flag >= uint32(len(valueConditions)) {
		return driver.Op{}, nil, core.Refused(api, "params", "flag is %d, not 0 to %d", p.Flag, len(valueConditions)-1)
	}
	return valueWaitOp(rt, words, p.Addr, p.Value, p.Flag), valueOrder(rt, p.Addr), nil
}

// wordsOf returns the driver's access to single words of device memory, or an error without it.
func wordsOf(rt *core.Runtime, api string) (driver.WordAccess, *core.Error) {
	words := rt.Caps.Words
	if words == nil {
		return nil, core.Unsupported(api, "", "the driver %s cannot change single words of device memory",
			rt.Driver.Name())
	}
	return words, nil
}

// Renew returns a new gate for the same wait, for the next run of a model.
func (w *valueWait) Renew() driver.Gate {
	return &valueWait{rt: w.rt, v: w.v, words: w.words, addr: w.addr, given: w.given, met: w.met}
}

// ValueWait is aclrtValueWait: the stream waits, the host does not. The wait fails if the memory is freed.
func ValueWait(t *core.Thread, devAddr core.Addr, value uint64, flag uint32, stream core.Handle) *core.Error {
	const api = "aclrtValueWait"
	s, err := checkValueWait(t, devAddr, value, flag, stream)
	if err != nil {
		return err
	}
	words, s, err := valueCall(t, api, devAddr, s)
	if err != nil {
		return err
	}
	op := valueWaitOp(t.Runtime, words, devAddr, value, flag)
	s.Put(api, t, core.Task{Op: op, Kind: observe.ValueWait, About: uint64(devAddr),
		Order: valueOrder(t.Runtime, devAddr), Value: core.ValueParams{Addr: devAddr, Value: value, Flag: flag}})
	return nil
}

// valueCall makes the checks of both calls for the memory and the stream; s is nil for the default stream.
func valueCall(t *core.Thread, api string, devAddr core.Addr, s *core.Stream) (driver.WordAccess, *core.Stream,
	*core.Error) {
	words, err := wordsOf(t.Runtime, api)
	if err != nil {
		return nil, nil, err
	}
	l, err := t.Runtime.Locate(api, "devAddr", devAddr, 8)
	if err != nil {
		return nil, nil, err
	}
	if l.Place != driver.OnDevice {
		return nil, nil, core.Refused(api, "devAddr", "%#x is not device memory", devAddr).Because(core.WrongDirection,
			devAddr)
	}
	if s, err = t.StreamOfCurrent(api, s); err != nil {
		return nil, nil, err
	}
	if err := t.Runtime.PeerDenied(api, "devAddr", s.Context.Device, devAddr, l); err != nil {
		return nil, nil, err
	}
	if err := s.Admit(api); err != nil {
		return nil, nil, err
	}
	if t.Runtime.Strict && devAddr%8 != 0 {
		return nil, nil, core.Refused(api, "devAddr", "%#x is not a multiple of 8", devAddr).Because(core.Misaligned,
			devAddr)
	}
	return words, s, nil
}
