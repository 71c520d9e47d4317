package main

import (
	"slices"
	"time"
)

// fail lets servers fail for some hours. Their processes import again when they are back, and so do those that had
// imported from them, at the next copy that they want to make.
func (s *sim) fail() {
	s.hours = true
	end := s.c.now + time.Duration(s.p.Hours*float64(time.Hour))
	busy := s.busy()
	var next func()
	plan := func() {
		mean := float64(s.p.MTBF) / float64(len(s.servers))
		s.c.after(time.Duration(s.rnd.ExpFloat64()*mean), next)
	}
	next = func() {
		s.crash(s.servers[s.rnd.IntN(len(s.servers))])
		plan()
	}
	plan()
	s.c.run(end)
	s.r.Spent = s.busy() - busy
	slices.Sort(s.r.Noticed)
	slices.Sort(s.r.Again)
}

// busy is the processor time that all machines have spent.
func (s *sim) busy() (d time.Duration) {
	seen := map[*machine]bool{}
	for _, v := range s.servers {
		if !seen[v.m] {
			seen[v.m] = true
			d += v.m.busy
		}
	}
	return d
}

// crash ends a server, which returns later.
func (s *sim) crash(v *server) {
	if !v.up {
		return
	}
	s.r.Failures++
	v.up, v.dead = false, s.rnd.Float64() < s.p.Dead
	v.life++
	users := v.users
	v.users = nil
	for _, o := range v.wants { // its own links go with it
		if i := slices.Index(o.users, v); i >= 0 {
			o.users = slices.Delete(o.users, i, i+1)
		}
	}
	clear(v.waiting)
	for _, u := range users {
		s.r.Broken++
		after := s.notice(v)
		life := u.life
		s.c.after(after, func() {
			if u.up && u.life == life {
				s.r.Noticed = append(s.r.Noticed, after)
				s.retry(u, v)
			}
		})
	}
	s.c.after(s.p.Return, func() {
		v.up, v.dead, v.back = true, false, s.c.now
		s.start(v, 0)
	})
}

// notice is after which time an importer knows that an owner is gone. The kernel of a machine that lives says so at
// once. Of one that does not, the next copy finds out, after the timeout; or TCP does, by three keep-alives
// (pod.keepAlive).
func (s *sim) notice(v *server) time.Duration {
	if !v.dead {
		return s.p.RTT / 2
	}
	copies := time.Duration(s.rnd.Float64()*float64(s.p.CopyEach)) + s.p.Timeout
	idle := max(s.p.Timeout/2, time.Second) + 3*max(s.p.Timeout/4, time.Second)
	return min(copies, idle)
}

// retry has u import again from an owner that is gone, whenever it wants to copy.
func (s *sim) retry(u, o *server) {
	if u.waiting[o] {
		return
	}
	u.waiting[o] = true
	life := u.life
	wait := time.Duration(s.rnd.Float64() * float64(s.p.CopyEach))
	s.c.after(wait, func() {
		if u.life != life {
			return
		}
		s.link(u, o, func(ok bool) {
			if u.life != life {
				return
			}
			delete(u.waiting, o)
			if !ok {
				s.retry(u, o)
				return
			}
			s.r.Again = append(s.r.Again, s.c.now-o.back)
		})
	})
}
