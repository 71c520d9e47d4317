package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Params are what a pod is like. Times are those of one import from a process that there is no link to yet.
type Params struct {
	Servers int  // with one process each
	PerPod  int  // servers of a pod; imports do not leave it
	Imports int  // processes that each imports from; all others of its pod if it is more
	Hub     bool // all import from one process of their pod instead
	Shared  int  // machines that the servers are on; 0: each has its own
	Cores   int  // of a machine

	RTT      time.Duration // of the network
	Importer time.Duration // processor time at the importer: a worker, TLS
	Owner    time.Duration // and at the owner
	Besides  time.Duration // at both, for which nothing waits: memory is collected, engines look for work
	Most     int           // links that an owner takes

	Timeout  time.Duration // of the pod
	CopyEach time.Duration // time between two copies of a process with one of its owners
	MTBF     time.Duration // of a server
	Dead     float64       // part of failures in which the machine says nothing any more: power, network
	Return   time.Duration // until a server is back
	Hours    float64       // of failures, after the imports
	Seed     uint64
}

// Result is what a simulation says.
type Result struct {
	Links, Refused int
	First          []time.Duration // sorted; when each process had all its imports
	LinksOfOwner   int             // at most

	Failures int
	Broken   int             // links that failed, of importers that live
	Noticed  []time.Duration // sorted; after which their importers knew
	Again    []time.Duration // sorted; from the return of a server until an importer had it again
	Spent    time.Duration   // processor time for links in the hours of failures
}

// server is a process of the pod. Owners and importers are lists of servers.
type server struct {
	m       *machine
	up      bool
	dead    bool // what is sent to it gets no answer
	life    int  // how often it has come back
	wants   []*server
	users   []*server // that have a link to it
	back    time.Duration
	left    int // imports of its start that have not ended
	waiting map[*server]bool
}

// sim is a simulation that runs.
type sim struct {
	p       Params
	c       clock
	rnd     *rand.Rand
	servers []*server
	r       Result
	hours   bool // of failures
}

// Simulate runs a pod: first all imports at once, then failures.
func Simulate(p Params) Result {
	s := &sim{p: p, rnd: rand.New(rand.NewPCG(p.Seed, 0))}
	s.place()
	for _, v := range s.servers {
		v.left = len(v.wants)
		s.start(v, 0)
	}
	s.c.run(0)
	for _, v := range s.servers {
		s.r.LinksOfOwner = max(s.r.LinksOfOwner, len(v.users))
	}
	slices.Sort(s.r.First)
	if p.Hours > 0 {
		s.fail()
	}
	return s.r
}

// place makes servers and says which imports from which.
func (s *sim) place() {
	machines := s.p.Shared
	if machines == 0 {
		machines = s.p.Servers
	}
	list := make([]*machine, machines)
	for i := range list {
		list[i] = &machine{c: &s.c, idle: s.p.Cores}
	}
	for i := range s.p.Servers {
		s.servers = append(s.servers, &server{m: list[i%machines], up: true, waiting: map[*server]bool{}})
	}
	for begin := 0; begin < s.p.Servers; begin += s.p.PerPod {
		pod := s.servers[begin:min(begin+s.p.PerPod, s.p.Servers)]
		for i, v := range pod {
			switch {
			case s.p.Hub && i > 0:
				v.wants = pod[:1]
			case s.p.Hub:
			case s.p.Imports >= len(pod)-1:
				for j := range pod[1:] {
					v.wants = append(v.wants, pod[(i+1+j)%len(pod)])
				}
			default:
				for len(v.wants) < s.p.Imports {
					if o := pod[s.rnd.IntN(len(pod))]; o != v && !slices.Contains(v.wants, o) {
						v.wants = append(v.wants, o)
					}
				}
			}
		}
	}
}

// start imports what v wants, from the i-th on, one after the other.
func (s *sim) start(v *server, i int) {
	if i == len(v.wants) {
		if v.life == 0 {
			s.r.First = append(s.r.First, s.c.now)
		}
		return
	}
	life := v.life
	s.link(v, v.wants[i], func(ok bool) {
		if v.life != life || !v.up {
			return
		}
		if !ok && s.hours {
			s.retry(v, v.wants[i])
		}
		s.start(v, i+1)
	})
}

// link makes a link, as pod.dial and pod.openAt do, and reports whether that was possible: connect, TLS, two workers
// and the first open.
func (s *sim) link(v, o *server, then func(ok bool)) {
	began, vLife, oLife := s.c.now, v.life, o.life
	gone := func() bool { return !v.up || v.life != vLife || !o.up || o.life != oLife }
	end := func(ok bool) {
		if !ok && !o.up && o.dead { // nothing says no
			s.c.after(max(began+s.p.Timeout-s.c.now, 0), func() { then(false) })
			return
		}
		then(ok)
	}
	s.c.after(s.p.RTT, func() { // TCP
		if gone() {
			end(false)
			return
		}
		v.m.work(s.p.Importer/2, func() {
			s.c.after(s.p.RTT, func() { // TLS
				o.m.work(s.p.Owner, func() {
					s.c.after(s.p.RTT, func() { // hello
						v.m.work(s.p.Importer/2, func() {
							s.c.after(s.p.RTT, func() { // open
								switch {
								case gone():
									end(false)
								case len(o.users) >= s.p.Most:
									s.r.Refused++
									end(false)
								default:
									o.users = append(o.users, v)
									s.r.Links++
									v.m.work(s.p.Besides, func() {})
									o.m.work(s.p.Besides, func() {})
									end(true)
								}
							})
						})
					})
				})
			})
		})
	})
}
