package pod

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ropeway/internal/testenv"
)

// stormRounds returns the number of rounds: POD_ROUNDS, or a few.
func stormRounds(t *testing.T) int {
	text := os.Getenv("POD_ROUNDS")
	if text == "" {
		return 12
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("POD_ROUNDS=%q is no number of rounds", text)
	}
	return n
}

// TestStorm proves that surviving servers continue whatever happens to others at any moment: copies end, memory that a
// dead process had open is released, servers that return are used again, and nothing leaks. Each round does one thing
// to the owner or to one of two users while both copy: it kills it, stops it for longer than the timeout, or, with
// namespaces, cuts the link. The other user survives all rounds.
func TestStorm(t *testing.T) {
	for _, encryption := range []string{"tls", "none"} {
		t.Run(encryption, func(t *testing.T) {
			storm(t, "timeout: 300ms\nconnections: 3\nencryption: "+encryption+"\n", stormRounds(t)/2)
		})
	}
}

func storm(t *testing.T, more string, rounds int) {
	file := podFile(t, 3, more)
	start := func(i int) *server { return launch(t, file, i) }
	net, err := tryJoin(t)
	if err != nil {
		t.Logf("no namespaces, so no link is cut: %v", err)
	} else {
		file = podOn(t, net, more)
		start = func(i int) *server { return net.in(t, file, min(i, 1)) } // users are on the same server
	}
	rnd := testenv.Rand(t)(0)
	owner := start(0)
	users := []*server{start(1), start(2)}
	h := owner.Does("export %d", 8<<20)
	var done [4]int
	last := -1
	for round := range rounds {
		for i, u := range users {
			u.again("import " + h)
			u.again(fmt.Sprint("write ", round%200))
			if a := owner.Ask("has %d", round%200); a != "ok" {
				t.Fatalf("round %d, user %d: %s; done: %v, last %d", round, i, a, done, last)
			}
		}
		for _, u := range users {
			u.Send("loop")
			if l := u.Line(); l != "looping" {
				t.Fatalf("round %d: %s", round, l)
			}
		}
		time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond) // any moment
		what := rnd.IntN(len(done))
		if what == 3 && net == nil {
			what = 2
		}
		done[what]++
		last = what
		switch what {
		case 0: // the owner is killed, and another one takes its place
			owner.Kill()
			owner = start(0)
			h = owner.Does("export %d", 8<<20)
		case 1: // a user is killed
			users[1].Kill()
			owner.Signal(syscall.SIGSTOP) // ends the loop of the other user
			ended(t, users[0])
			owner.Signal(syscall.SIGCONT)
			users[1] = start(2)
		case 2: // the owner is stopped
			owner.Signal(syscall.SIGSTOP)
		case 3: // the link is cut
			ip(t, "-n", net.names[0], "link", "set", net.devices[0], "down")
		}
		if what != 1 {
			for _, u := range users {
				ended(t, u)
			}
		}
		switch what {
		case 2:
			owner.Signal(syscall.SIGCONT)
		case 3:
			ip(t, "-n", net.names[0], "link", "set", net.devices[0], "up")
		}
		for _, u := range users {
			if a := u.Ask("close"); !strings.HasPrefix(a, "ok") && !strings.HasPrefix(a, "error") {
				t.Fatalf("round %d: %s", round, a)
			}
		}
		owner.soon("1 0", "exports")
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		users[0].settles(round)
		owner.settles(round)
	}
	t.Logf("%d rounds: killed owners %d, killed users %d, stopped %d, cut %d", rounds, done[0], done[1], done[2],
		done[3])
}

// again repeats a command until it works: a server may just have returned.
func (s *server) again(command string) {
	s.T.Helper()
	a := ""
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if a = s.Ask("%s", command); strings.HasPrefix(a, "ok") {
			return
		}
	}
	s.T.Fatalf("%s: %s", command, a)
}

// settles fails if a server holds clearly more descriptors, goroutines or memory than in its first rounds.
func (s *server) settles(round int) {
	s.T.Helper()
	var now [3]int
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		fmt.Sscan(s.Does("held"), &now[0], &now[1], &now[2])
		if s.rounds++; s.rounds <= 3 {
			for i := range now {
				s.held[i] = max(s.held[i], now[i])
			}
			return
		}
		if now[0] <= s.held[0]+2 && now[1] <= s.held[1]+4 && now[2] <= s.held[2]+64<<10 {
			return
		}
	}
	s.T.Fatalf("round %d: %d descriptors, %d goroutines, %d KiB; before it had %v",
		round, now[0], now[1], now[2], s.held)
}
