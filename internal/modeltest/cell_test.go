package modeltest

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ropeway/internal/abi"
	"ropeway/internal/core"
	corememory "ropeway/internal/core/memory"
	"ropeway/internal/core/signal"
	"ropeway/internal/core/transfer"
	"ropeway/internal/driver/soft"
	"ropeway/internal/product"
)

// Random programs whose streams are ordered by notifies, count notifies and values alone. A program is a list of steps,
// each on a stream, and the model carries them out one after the other. A step that touches what a step of another
// stream touched before it waits for a signal of that step. Which stream is submitted to first is drawn: a wait may
// well come before the record that lets it go. No program can come to a halt, because signals only go forward in the
// list.

// cellStep fills the beginning of a buffer, or copies that of another one to it.
type cellStep struct {
	stream   int
	clock    []int // how many steps of each stream are over when it is, for sure
	from, to int   // buffers; from < 0 is a fill
	value    byte
	size     int

	waits, records []*cellSignal
}

// cellSignal is a record of one step and the wait of another.
type cellSignal struct {
	way      cellWay
	from, to int         // streams
	step     *cellStep   // that records
	cell     core.Handle // byNotify, byCount
	word     core.Addr   // byValue
	count    uint32      // byCount, byValue: what the cell holds once it is recorded
}

type cellWay int

const (
	byNotify cellWay = iota
	byCount
	byValue
)

const (
	cellBytes = 96 << 10 // of a buffer: more than a submitter copies itself
	geq       = 0        // condition of a value wait
)

// cellWorld is a runtime of a product that has all kinds of cells.
type cellWorld struct {
	rt      *core.Runtime
	threads [2]*core.Thread // of device 0 and 1
}

// cellProgram is one program. Its even streams are on device 0, where the buffers are, the odd ones on device 1.
type cellProgram struct {
	*cellWorld
	streams  []core.Handle
	buffers  []core.Addr
	want     [][]byte
	words    core.Addr              // one for each stream, which alone writes it
	notifies []core.Handle          // all of them
	counts   map[[2]int]core.Handle // by streams, from and to
}

func (p *cellProgram) thread(stream int) *core.Thread { return p.threads[stream%2] }

func TestCells(t *testing.T) {
	prod, err := product.Find("950", "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := soft.New(soft.Options{Devices: 2, Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := &cellWorld{rt: core.New(core.Options{Driver: d, Product: prod})}
	defer func() {
		if err := w.rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range w.threads {
		th := w.rt.NewThread(uint32(i + 1))
		w.threads[i] = th
		if err := th.SetDevice(int32(i)); err != nil {
			t.Fatal(err)
		}
		if err := corememory.DeviceEnablePeerAccess(th, int32(1-i), 0); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, w.run)
}

func (w *cellWorld) run(t *rapid.T) {
	p := &cellProgram{cellWorld: w, counts: map[[2]int]core.Handle{}}
	p.setUp(t)
	var steps []cellStep
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		steps = append(steps, p.step(t))
	}
	order(t, steps)
	p.name(t, steps)
	p.submit(t, steps)
	p.finish(t)
}

func (p *cellProgram) setUp(t *rapid.T) {
	n := rapid.IntRange(2, 6).Draw(t, "streams")
	p.streams = make([]core.Handle, n)
	for i := range p.streams {
		must(t, p.thread(i).CreateStream(&p.streams[i]))
	}
	p.words = p.zeroes(t, uint64(8*n))
	for range rapid.IntRange(1, 4).Draw(t, "buffers") {
		p.buffers = append(p.buffers, p.zeroes(t, cellBytes))
		p.want = append(p.want, make([]byte, cellBytes))
	}
}

// zeroes is n bytes of device 0.
func (p *cellProgram) zeroes(t *rapid.T, n uint64) (b core.Addr) {
	must(t, corememory.Malloc(p.threads[0], &b, n, abi.MemMallocHugeFirst))
	must(t, transfer.Memset(p.threads[0], b, n, 0, n))
	return b
}

// step draws a step and carries it out in the model.
func (p *cellProgram) step(t *rapid.T) cellStep {
	s := cellStep{
		stream: rapid.IntRange(0, len(p.streams)-1).Draw(t, "stream"),
		from:   rapid.IntRange(-1, len(p.buffers)-1).Draw(t, "from"),
		to:     rapid.IntRange(0, len(p.buffers)-1).Draw(t, "to"),
		value:  rapid.Byte().Draw(t, "value"),
		size:   rapid.SampledFrom([]int{8, 4096, cellBytes}).Draw(t, "size"),
	}
	if s.from == s.to {
		s.from = -1
	}
	data := bytes.Repeat([]byte{s.value}, s.size)
	if s.from >= 0 {
		data = p.want[s.from][:s.size]
	}
	copy(p.want[s.to], data)
	return s
}

// order draws signals between steps of different streams that touch the same buffer: the last that wrote it comes
// before those that read or write it, and those that have read it since come before the next that writes it.
func order(t *rapid.T, steps []cellStep) {
	type uses struct {
		written bool
		writer  int
		readers []int
	}
	touched := map[int]*uses{}
	for i := range steps {
		s := &steps[i]
		seen := map[int]bool{}
		after := func(j int) {
			if steps[j].stream != s.stream && !seen[j] {
				seen[j] = true
				g := &cellSignal{way: cellWay(rapid.IntRange(int(byNotify), int(byValue)).Draw(t, "way")),
					from: steps[j].stream, to: s.stream, step: &steps[j]}
				steps[j].records, s.waits = append(steps[j].records, g), append(s.waits, g)
			}
		}
		of := func(b int) *uses {
			if touched[b] == nil {
				touched[b] = &uses{}
			}
			if touched[b].written {
				after(touched[b].writer)
			}
			return touched[b]
		}
		if s.from >= 0 {
			u := of(s.from)
			u.readers = append(u.readers, i)
		}
		for _, j := range of(s.to).readers {
			after(j)
		}
		touched[s.to] = &uses{written: true, writer: i}
	}
}

// name gives signals their cells. Count notifies and words grow with each record. A notify is used again between the
// same two ends once the stream that records knows that the last wait is over: a record before that would be lost.
func (p *cellProgram) name(t *rapid.T, steps []cellStep) {
	type used struct {
		cell core.Handle
		wait int // the step, among those of its stream, that waited
	}
	idle := make([][]used, len(p.streams)) // by the stream that has waited
	counted, written := map[core.Handle]uint32{}, map[int]uint32{}
	last := make([][]int, len(p.streams)) // clocks
	for i := range last {
		last[i] = make([]int, len(p.streams))
	}
	for i := range steps {
		s := &steps[i]
		s.clock = slices.Clone(last[s.stream])
		s.clock[s.stream]++
		for _, g := range s.waits {
			for k, n := range g.step.clock {
				s.clock[k] = max(s.clock[k], n)
			}
			if g.way == byNotify {
				idle[g.to] = append(idle[g.to], used{g.cell, s.clock[g.to]})
			}
		}
		last[s.stream] = s.clock
		for _, g := range s.records {
			switch g.way {
			case byNotify:
				if k := slices.IndexFunc(idle[g.to], func(u used) bool { return s.clock[g.to] >= u.wait }); k >= 0 {
					g.cell = idle[g.to][k].cell
					idle[g.to] = slices.Delete(idle[g.to], k, k+1)
					continue
				}
				must(t, signal.CreateNotify(p.thread(g.to), &g.cell, abi.NotifyDefault))
				p.notifies = append(p.notifies, g.cell)
			case byCount:
				pair := [2]int{g.from, g.to}
				if p.counts[pair] == 0 {
					var n core.Handle
					must(t, signal.CntNotifyCreate(p.thread(g.to), &n, 0))
					p.counts[pair] = n
				}
				g.cell = p.counts[pair]
				counted[g.cell]++
				g.count = counted[g.cell]
			case byValue:
				written[g.from]++
				g.word, g.count = p.words+core.Addr(8*g.from), written[g.from]
			}
		}
	}
}

// submit queues the steps of each stream in their order, and the streams in any.
func (p *cellProgram) submit(t *rapid.T, steps []cellStep) {
	lists := make([][]*cellStep, len(p.streams))
	for i := range steps {
		s := &steps[i]
		lists[s.stream] = append(lists[s.stream], s)
	}
	for range steps {
		i := rapid.IntRange(0, len(lists)-1).Draw(t, "next")
		for len(lists[i]) == 0 {
			i = (i + 1) % len(lists)
		}
		p.put(t, lists[i][0])
		lists[i] = lists[i][1:]
	}
}

// put queues a step.
func (p *cellProgram) put(t *rapid.T, s *cellStep) {
	th, stream, n := p.thread(s.stream), p.streams[s.stream], uint64(s.size)
	for _, g := range s.waits {
		switch g.way {
		case byNotify:
			must(t, signal.WaitAndResetNotify(th, g.cell, stream, 0))
		case byCount:
			must(t, signal.CntNotifyWaitWithTimeout(th, g.cell, stream,
				&abi.CntNotifyWaitInfo{Mode: abi.CntNotifyWaitBiggerOrEqualMode, Value: g.count}))
		case byValue:
			must(t, signal.ValueWait(th, g.word, uint64(g.count), geq, stream))
		}
	}
	if s.from < 0 {
		must(t, transfer.MemsetAsync(th, p.buffers[s.to], n, int32(s.value), n, stream))
	} else {
		must(t, transfer.MemcpyAsync(th, p.buffers[s.to], n, p.buffers[s.from], n, abi.MemcpyDeviceToDevice, stream))
	}
	for _, g := range s.records {
		switch g.way {
		case byNotify:
			must(t, signal.RecordNotify(th, g.cell, stream))
		case byCount:
			must(t, signal.CntNotifyRecord(th, g.cell, stream,
				&abi.CntNotifyRecordInfo{Mode: abi.CntNotifyRecordAddMode, Value: 1}))
		case byValue:
			must(t, signal.ValueWrite(th, g.word, uint64(g.count), 0, stream))
		}
	}
}

// finish waits for the program, compares what it left with the model, and releases everything.
func (p *cellProgram) finish(t *rapid.T) {
	const hang = 20_000 // ms
	for i, s := range p.streams {
		must(t, p.thread(i).SynchronizeStreamWithTimeout(s, hang))
	}
	th, got := p.threads[0], make([]byte, cellBytes)
	for i, b := range p.buffers {
		must(t, transfer.Memcpy(th, core.AddrOf(got), cellBytes, b, cellBytes, abi.MemcpyDeviceToHost))
		if !bytes.Equal(got, p.want[i]) {
			t.Fatalf("buffer %d differs from the model", i)
		}
		must(t, corememory.Free(th, b))
	}
	must(t, corememory.Free(th, p.words))
	for i, s := range p.streams {
		must(t, p.thread(i).DestroyStream(s))
	}
	for _, n := range p.notifies {
		must(t, signal.DestroyNotify(th, n))
	}
	for _, n := range p.counts {
		must(t, signal.CntNotifyDestroy(th, n))
	}
}
