package soft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ropeway/internal/driver"
	"ropeway/internal/driver/drivertest"
	_ "ropeway/internal/testenv/seeded" // rapid draws from a fixed seed
)

// A program of the model test is a list of operations for several queues, in an order in which they could also run one
// after another. Each queue has memory of its own; queues pass data through slots, handed over by flags.
type program struct {
	steps []step
	want  [modelQueues]modelQueue
	flags []modelFlag
	slots uintptr // bytes of the slot area used
	cells uintptr // bytes of the pinned area used
}

// step is one operation for a queue, or (with a zero Op and wait > 0) a wait of the host.
type step struct {
	queue int
	op    driver.Op
	host  func()
}

// modelQueue is the expected state of a queue and its memory at the end.
type modelQueue struct {
	mem    []byte
	failed []string
	log    []int
}

type modelFlag struct {
	flag driver.Flag
	set  bool
}

const (
	modelQueues = 4
	ownBytes    = 1200 << 10
	slotBytes   = 16 << 20
	cellBytes   = 1 << 20
)

// machine runs programs.
type machine struct {
	d     *Driver
	own   [modelQueues]uintptr // device memory of the queues
	meta  [modelQueues]uintptr // their descriptors and cells
	slots uintptr
	cells uintptr // pinned
	look  uintptr // pinned, to read device memory back
}

func TestEngineModel(t *testing.T) {
	drivertest.Watch(t, 10*time.Minute)
	many(t)
	d := open(t, Options{Devices: 1, Memory: 512 << 20})
	defer d.Close()
	dev, err := d.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m := &machine{d: d}
	must := func(addr uintptr, err error) uintptr {
		if err != nil {
			t.Fatal(err)
		}
		return addr
	}
	for i := range modelQueues {
		m.own[i] = must(dev.Alloc(ownBytes, driver.PageNormal))
		m.meta[i] = must(dev.Alloc(64, driver.PageNormal))
	}
	m.slots = must(dev.Alloc(slotBytes, driver.PageNormal))
	m.cells = must(d.AllocHost(cellBytes))
	m.look = must(d.AllocHost(ownBytes))
	gone := must(dev.Alloc(4096, driver.PageNormal))
	if err := dev.Free(gone); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := m.draw(t, gone)
		m.run(t, dev, p)
	})
}

// draw draws a program and computes its result.
func (m *machine) draw(t *rapid.T, gone uintptr) *program {
	p := new(program)
	for i := range p.want {
		p.want[i].mem = make([]byte, ownBytes)
	}
	id := 0
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		q := rapid.IntRange(0, modelQueues-1).Draw(t, "queue")
		w := &p.want[q]
		size := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 300), rapid.IntRange(64<<10-2, 64<<10+2),
			rapid.IntRange(500<<10, 600<<10))
		n := size.Draw(t, "n")
		at := func(name string, n int) int { return rapid.IntRange(0, ownBytes-n-1).Draw(t, name) }
		id++
		tag := driver.Tag{Task: uint32(id)}
		add := func(q int, op driver.Op) {
			op.Tag = tag
			p.steps = append(p.steps, step{queue: q, op: op})
		}
		switch kind := rapid.SampledFrom([]string{"copy", "copy", "fill", "batch", "2-D", "descriptor", "offset",
			"send", "send", "send",
			"flag", "fail", "bad copy", "post", "call", "late", "wait", "wait a little"}).Draw(t, "kind"); kind {
		case "copy":
			dst, src := at("dst", n), at("src", n)
			copy(w.mem[dst:dst+n], w.mem[src:src+n])
			add(q, driver.Op{Kind: driver.OpCopy, Dst: m.own[q] + uintptr(dst), Src: m.own[q] + uintptr(src),
				N: uint64(n)})
		case "fill":
			dst := at("dst", n)
			if v := uint32(id) * 0x9E3779B1; rapid.Bool().Draw(t, "words") {
				for i := range n / 4 {
					binary.LittleEndian.PutUint32(w.mem[dst+4*i:], v)
				}
				add(q, driver.Op{Kind: driver.OpFill, Dst: m.own[q] + uintptr(dst), N: uint64(n / 4), Width: 4,
					Value: v})
			} else {
				for i := range n {
					w.mem[dst+i] = byte(v)
				}
				add(q, driver.Op{Kind: driver.OpFill, Dst: m.own[q] + uintptr(dst), N: uint64(n), Width: 1, Value: v})
			}
		case "batch": // from the lower half to the upper
			const half = ownBytes / 2
			count := rapid.SampledFrom([]int{1, 3, 256, 257, 1500}).Draw(t, "count")
			each := rapid.IntRange(0, half/count).Draw(t, "each")
			segs := driver.NewSegments()
			for i := range count {
				src, dst := (i*7919)%(half-each+1), half+(count-1-i)*(half/count)
				copy(w.mem[dst:dst+each], w.mem[src:])
				segs.Add(m.own[q]+uintptr(dst), m.own[q]+uintptr(src), uint64(each))
			}
			add(q, driver.Op{Kind: driver.OpBatch, Segs: segs})
		case "2-D":
			const half = ownBytes / 2
			width := rapid.IntRange(1, 5000).Draw(t, "width")
			dp, sp := width+rapid.IntRange(0, 3).Draw(t, "gap"), width+rapid.IntRange(0, 3).Draw(t, "gap")
			height := rapid.IntRange(0, half/max(dp, sp)).Draw(t, "height")
			for y := range height {
				copy(w.mem[half+y*dp:][:width], w.mem[y*sp:])
			}
			add(q, driver.Op{
				Kind: driver.OpCopy2D, Dst: m.own[q] + half, Src: m.own[q], N: uint64(width), Height: uint64(height),
				DstPitch: uint64(dp), SrcPitch: uint64(sp),
			})
		case "descriptor", "offset":
			dst, src := at("dst", n), at("src", n)
			copy(w.mem[dst:dst+n], w.mem[src:src+n])
			to, from := uint64(m.own[q])+uint64(dst), uint64(m.own[q])+uint64(src)
			cell := bytesAt(m.cells+p.cells, 64)
			var op driver.Op
			if kind == "offset" {
				binary.LittleEndian.PutUint64(cell, to-5)
				binary.LittleEndian.PutUint64(cell[8:], from-9)
				op = driver.Op{Kind: driver.OpOffset, Dst: m.meta[q], Src: m.meta[q] + 8, N: uint64(n), DstPitch: 5,
					SrcPitch: 9}
			} else {
				binary.LittleEndian.PutUint32(cell[driver.Desc64.Length:], uint32(n))
				binary.LittleEndian.PutUint64(cell[driver.Desc64.Src:], from)
				binary.LittleEndian.PutUint64(cell[driver.Desc64.Dst:], to)
				op = driver.Op{Kind: driver.OpDesc, Src: m.meta[q], N: 64, Layout: driver.Desc64}
			}
			add(q, driver.Op{Kind: driver.OpCopy, Dst: m.meta[q], Src: m.cells + p.cells, N: 64})
			add(q, op)
			p.cells += 64
		case "send":
			to := rapid.IntRange(0, modelQueues-1).Draw(t, "to")
			if p.slots+uintptr(n) > slotBytes {
				continue
			}
			slot := m.slots + p.slots
			p.slots += uintptr(n)
			src, dst := at("src", n), at("dst", n)
			f := m.d.NewFlag()
			p.flags = append(p.flags, modelFlag{f, true})
			add(q, driver.Op{Kind: driver.OpCopy, Dst: slot, Src: m.own[q] + uintptr(src), N: uint64(n)})
			add(q, driver.Op{Kind: driver.OpSet, Flag: f})
			add(to, driver.Op{Kind: driver.OpAwait, Flag: f, Timeout: time.Duration(rapid.IntRange(0, 1).Draw(t,
				"limit")) * time.Hour})
			add(to, driver.Op{Kind: driver.OpCopy, Dst: m.own[to] + uintptr(dst), Src: slot, N: uint64(n)})
			copy(p.want[to].mem[dst:dst+n], slices.Clone(w.mem[src:src+n]))
		case "flag":
			f := m.d.NewFlag()
			set := false
			for range rapid.IntRange(1, 4).Draw(t, "times") {
				add(q, driver.Op{Kind: driver.OpSet, Flag: f})
				add(q, driver.Op{Kind: driver.OpAwait, Flag: f})
				if set = rapid.Bool().Draw(t, "keep"); !set {
					add(q, driver.Op{Kind: driver.OpClear, Flag: f})
				}
			}
			p.flags = append(p.flags, modelFlag{f, set})
		case "fail":
			add(q, driver.Op{Kind: driver.OpFail, Err: driver.ErrLost})
			w.failed = append(w.failed, failure(tag, driver.ErrLost))
		case "bad copy":
			cell := bytesAt(m.cells+p.cells, 16)
			binary.LittleEndian.PutUint64(cell, uint64(m.own[q]))
			binary.LittleEndian.PutUint64(cell[8:], uint64(gone))
			add(q, driver.Op{Kind: driver.OpCopy, Dst: m.meta[q], Src: m.cells + p.cells, N: 16})
			add(q, driver.Op{Kind: driver.OpOffset, Dst: m.meta[q], Src: m.meta[q] + 8, N: uint64(n + 1)})
			p.cells += 64
			w.failed = append(w.failed, failure(tag, driver.ErrFault))
		case "late":
			add(q, driver.Op{Kind: driver.OpAwait, Flag: m.d.NewFlag(), Timeout: 100 * time.Microsecond})
			w.failed = append(w.failed, failure(tag, driver.ErrTimeout))
		case "post", "call":
			w.log = append(w.log, id)
			op := driver.Op{Kind: driver.OpFunc}
			if kind == "call" {
				op.Kind = driver.OpHostFunc
			}
			add(q, op)
		case "wait":
			p.steps = append(p.steps, step{queue: q, host: func() {}, op: driver.Op{Timeout: 0}})
		case "wait a little":
			p.steps = append(p.steps, step{queue: q, host: func() {}, op: driver.Op{Timeout: 50 * time.Microsecond}})
		}
	}
	return p
}

// failure is a reported failure, made comparable.
func failure(tag driver.Tag, err error) string {
	for _, known := range []error{driver.ErrFault, driver.ErrTimeout, driver.ErrLost} {
		if errors.Is(err, known) {
			err = known
		}
	}
	return fmt.Sprintf("%d: %v", tag.Task, err)
}

// failedTasks holds the failures of a queue, which reports one task at a time.
type failedTasks []string

func (f *failedTasks) TaskFailed(tag driver.Tag, err error) { *f = append(*f, failure(tag, err)) }

// run runs p and compares.
func (m *machine) run(t *rapid.T, dev driver.Device, p *program) {
	var q [modelQueues]driver.Queue
	var failed [modelQueues]failedTasks
	var logs [modelQueues][]int
	var dones atomic.Int64
	for i := range q {
		q[i] = dev.NewQueue(driver.QueueOptions{Priority: i, Events: driver.Events{Failed: failed[i].TaskFailed}})
		if err := m.d.Run(driver.Op{Kind: driver.OpFill, Dst: m.own[i], N: ownBytes, Width: 1}); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(s step) {
		if s.host != nil {
			if !q[s.queue].Wait(s.op.Timeout, nil) && s.op.Timeout == 0 {
				panic("Wait gave up")
			}
			return
		}
		op := s.op
		if op.Kind == driver.OpFunc || op.Kind == driver.OpHostFunc {
			op.Fn = func() { logs[s.queue] = append(logs[s.queue], int(op.Tag.Task)) }
		}
		if op.Kind == driver.OpCopy && op.N%2 == 0 {
			q[s.queue].Copy(op.Dst, op.Src, op.N, op.Tag)
			dones.Add(1)
			return
		}
		op.Done = func() { dones.Add(1) }
		q[s.queue].Submit(op)
	}
	if rapid.Bool().Draw(t, "one submitter") {
		for _, s := range p.steps {
			submit(s)
		}
	} else {
		var wg sync.WaitGroup
		for i := range q {
			wg.Go(func() {
				for _, s := range p.steps {
					if s.queue == i {
						submit(s)
					}
				}
			})
		}
		wg.Wait()
	}
	for i := range q {
		if !q[i].Wait(0, nil) || !q[i].Idle() {
			t.Fatal("Wait gave up")
		}
	}
	ops := 0
	for _, s := range p.steps {
		if s.host == nil {
			ops++
		}
	}
	if int(dones.Load()) != ops {
		t.Fatalf("Done was called %d times for %d operations", dones.Load(), ops)
	}
	for i := range q {
		if err := m.d.Run(driver.Op{Kind: driver.OpCopy, Dst: m.look, Src: m.own[i], N: ownBytes}); err != nil {
			t.Fatal(err)
		}
		if got := bytesAt(m.look, ownBytes); !bytes.Equal(got, p.want[i].mem) {
			at := 0
			for got[at] == p.want[i].mem[at] {
				at++
			}
			t.Fatalf("queue %d: byte %d is %#x, want %#x", i, at, got[at], p.want[i].mem[at])
		}
		if !slices.Equal(failed[i], p.want[i].failed) {
			t.Fatalf("queue %d: failed %v, want %v", i, failed[i], p.want[i].failed)
		}
		if !slices.Equal(logs[i], p.want[i].log) {
			t.Fatalf("queue %d: host functions %v, want %v", i, logs[i], p.want[i].log)
		}
	}
	for i, f := range p.flags {
		if f.flag.IsSet() != f.set || f.flag.Err() != nil {
			t.Fatalf("flag %d: set %v, want %v", i, f.flag.IsSet(), f.set)
		}
	}
}
