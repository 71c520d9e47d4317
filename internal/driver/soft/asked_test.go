package soft

import (
	"testing"

	"ropeway/internal/driver"
	"ropeway/internal/testenv"
)

// slowGate records when it was first asked, by the clock of an observer, and lets the queue pass once it is opened.
type slowGate struct {
	clock *coreLog
	asked int64
	wake  chan func()
	open  chan struct{}
}

func (g *slowGate) Pass(wake func()) bool {
	if g.asked == 0 {
		g.asked = g.clock.Now()
		g.wake <- wake
	}
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

func (g *slowGate) Leave() {}

// TestGateBegins: an observer sees an operation with a gate run from the moment its submitter first asks the gate, as a
// copy to another server begins then.
func TestGateBegins(t *testing.T) {
	d := open(t, Options{Devices: 1, Memory: 1 << 20})
	dev, err := d.Open(0)
	testenv.OK(t, err)
	o := &coreLog{ran: map[uint32][2]int64{}}
	q := dev.NewQueue(driver.QueueOptions{Events: driver.Events{Now: o.Now, Ran: o.Ran, Failed: noSink{t}.TaskFailed}})
	defer q.Close()
	g := &slowGate{clock: o, wake: make(chan func(), 1), open: make(chan struct{})}
	q.Submit(driver.Op{Kind: driver.OpWaitCond, Gate: g, Tag: driver.Tag{Task: 1}})
	q.Submit(driver.Op{Kind: driver.OpFunc, Fn: func() {}, Tag: driver.Tag{Task: 2}})
	close(g.open)
	(<-g.wake)()
	q.Wait(0, nil)
	first, second := o.ran[1], o.ran[2]
	if first[0] == 0 || first[0] > g.asked || first[1] < first[0] || second[0] < first[1] {
		t.Errorf("the gate was asked at %d and ran from %d to %d; the next task from %d", g.asked, first[0], first[1],
			second[0])
	}
}
