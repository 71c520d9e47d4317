package soft

import (
	"cmp"
	"slices"
	"sync"
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// coreLog is an observer that records the work of cores. Its clock counts its calls.
type coreLog struct {
	mu   sync.Mutex
	now  int64
	work map[uint32][]driver.CoreWork // guarded by mu; by task
	ran  map[uint32][2]int64          // guarded by mu
}

func (l *coreLog) Now() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	return l.now
}

func (l *coreLog) Ran(tag driver.Tag, began, ended int64, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran[tag.Task] = [2]int64{began, ended}
}

func (l *coreLog) Worked(tag driver.Tag, w driver.CoreWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.work[tag.Task] = append(l.work[tag.Task], w)
}

// TestCores: an observer receives one report for each core that ran blocks of a kernel, with their number and times. A
// core does one thing at a time, within the times of the task.
func TestCores(t *testing.T) {
	b := newKernelBench(t, Options{})
	o := &coreLog{work: map[uint32][]driver.CoreWork{}, ran: map[uint32][2]int64{}}
	opts := driver.QueueOptions{Events: driver.Events{
		Now: o.Now, Ran: o.Ran, Worked: o.Worked, Failed: b.log.TaskFailed,
	}}
	q, other := b.dev.NewQueue(opts), b.dev.NewQueue(opts)
	code, err := b.m.Code("nothing")
	testenv.OK(t, err)
	meet, err := b.m.Code("meet")
	testenv.OK(t, err)
	const launches = 200
	blocks := func(i uint32) uint32 { return []uint32{1, 2, 7, 300}[i%4] }
	for i := uint32(1); i <= launches; i++ {
		l := &driver.Launch{Module: b.m, Code: [2]uintptr{code}, Per: [2]uint32{1}, Blocks: blocks(i), First: 5}
		[]driver.Queue{q, other}[i%2].Submit(driver.Op{Kind: driver.OpLaunch, Launch: l, Tag: driver.Tag{Task: i}})
	}
	args, err := b.dev.Alloc(64, driver.PageNormal)
	testenv.OK(t, err)
	word, err := b.dev.Alloc(64, driver.PageNormal)
	testenv.OK(t, err)
	for _, op := range []driver.Op{
		{Kind: driver.OpFill, Dst: word, N: 64, Width: 1}, {Kind: driver.OpFill, Dst: args, N: 64, Width: 1},
	} {
		testenv.OK(t, b.d.Run(op))
	}
	at, err := b.d.resolve(args, 8, false)
	testenv.OK(t, err)
	copy(bytesAt(at, 8), []byte{byte(word), byte(word >> 8), byte(word >> 16), byte(word >> 24), byte(word >> 32),
		byte(word >> 40), byte(word >> 48), byte(word >> 56)})
	q.Submit(driver.Op{Kind: driver.OpLaunch, Tag: driver.Tag{Task: launches + 1}, Launch: &driver.Launch{
		Module: b.m, Code: [2]uintptr{meet}, Per: [2]uint32{1}, Blocks: 6, Together: true, Args: args, Size: 8,
	}})
	for _, q := range []driver.Queue{q, other} {
		q.Wait(0, nil)
		q.Close()
	}
	select {
	case err := <-b.log.failed:
		t.Fatal(err)
	default:
	}

	byCore := map[int][]driver.CoreWork{}
	for i := uint32(1); i <= launches+1; i++ {
		want, most := blocks(i), b.d.pool.max
		if i == launches+1 {
			want, most = 6, 6
			if len(o.work[i]) != 6 {
				t.Errorf("6 blocks at the same time are on %d cores", len(o.work[i]))
			}
		}
		var sum uint32
		for _, w := range o.work[i] {
			sum += w.Blocks
			if w.Began < o.ran[i][0] || w.Ended > o.ran[i][1] || w.Began >= w.Ended {
				t.Errorf("launch %d ran in %v, a core of it in %d to %d", i, o.ran[i], w.Began, w.Ended)
			}
			if i <= launches && (w.First < 5 || w.First >= 5+want) {
				t.Errorf("launch %d has no block %d", i, w.First)
			}
			byCore[w.Core] = append(byCore[w.Core], w)
		}
		if sum != want || len(o.work[i]) > most {
			t.Errorf("launch %d: %d blocks on %d cores, want %d on %d at most", i, sum, len(o.work[i]), want, most)
		}
	}
	if len(byCore) > b.d.pool.max+6 {
		t.Errorf("%d cores", len(byCore))
	}
	for core, list := range byCore {
		slices.SortFunc(list, func(a, b driver.CoreWork) int { return cmp.Compare(a.Began, b.Began) })
		for i := 1; i < len(list); i++ {
			if list[i].Began < list[i-1].Ended {
				t.Fatalf("core %d does two things at a time: %+v and %+v", core, list[i-1], list[i])
			}
		}
	}
}

// TestCoresUnwatched: without such an observer a launch keeps no state for reports.
func TestCoresUnwatched(t *testing.T) {
	b := newKernelBench(t, Options{})
	b.launch("nothing", 9, nil)
	b.q.Wait(0, nil)
	if l := b.q.(*queue).launch.Load(); l == nil || l.watched != nil || b.d.kernels.cores.used != nil {
		t.Error("cores are watched for nobody")
	}
}
