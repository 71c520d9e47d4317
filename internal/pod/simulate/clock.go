package main

import (
	"container/heap"
	"time"
)

// clock runs events in the order of their times; those of one time in the order in which they were planned.
type clock struct {
	now    time.Duration
	events events
	last   uint64 // number of the event that was planned last
}

type event struct {
	at     time.Duration
	number uint64
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*e = old[:len(old)-1]
	return x
}

// after plans do.
func (c *clock) after(d time.Duration, do func()) {
	c.last++
	heap.Push(&c.events, event{c.now + d, c.last, do})
}

// run lets time pass until nothing is planned any more, or until a time, if it is not 0.
func (c *clock) run(until time.Duration) {
	for len(c.events) > 0 {
		if until != 0 && c.events[0].at > until {
			c.now = until
			return
		}
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
}

// machine has cores, which take jobs in the order in which they came.
type machine struct {
	c     *clock
	idle  int
	queue []job
	busy  time.Duration // of all cores together
}

type job struct {
	d    time.Duration
	then func()
}

// work takes processor time, and then calls then.
func (m *machine) work(d time.Duration, then func()) {
	m.queue = append(m.queue, job{d, then})
	m.next()
}

func (m *machine) next() {
	for m.idle > 0 && len(m.queue) > 0 {
		j := m.queue[0]
		m.queue = m.queue[1:]
		m.idle--
		m.busy += j.d
		m.c.after(j.d, func() {
			m.idle++
			j.then()
			m.next()
		})
	}
}
